variable "stack" {
  description = "The name of the CloudFormation stack."
  type        = string
}

variable "code_bucket" {
  description = "An S3 bucket in the stack's Region. The module uploads the template and the code of the Lambda functions to it."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.code_bucket))
    error_message = "`code_bucket` must be the name of a bucket, such as `my-code-us-west-2`: no URL, ARN, or folder in a bucket."
  }
}

variable "declaration" {
  description = "What an endpoint file says, such as `yamldecode(file(\"endpoint.yaml\"))`, or the same sections in HCL: `endpoints`, `outputs`, `tags`, `region`. The command validates it and refuses names that it does not know. Omit it with `template_file`."
  type        = any
  default     = {}
  nullable    = false

  validation {
    condition     = can(keys(var.declaration))
    error_message = "`declaration` must be a mapping. For a file, use `yamldecode(file(\"endpoint.yaml\"))`, because its path or its text is no mapping."
  }
}

variable "parameters" {
  description = <<-EOT
    Values of the template's parameters. The declaration refers to them as `$${Name}`. Use parameters for values that
    Terraform knows only after apply, such as the ARN of a role that the same configuration creates.
  EOT
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "command" {
  description = "The command that renders the template. Default: `[\"constructs-optim\"]`. To run it without installing it, use `[\"uvx\", \"--from\", \"constructs-optim[cli]==0.1.0\", \"constructs-optim\"]`."
  type        = list(string)
  default     = ["constructs-optim"]
  nullable    = false

  validation {
    condition     = length(compact(var.command)) > 0
    error_message = "`command` is empty: omit it to run `constructs-optim`, or set a program and its arguments."
  }
}

variable "template_file" {
  description = "The path of `<stack>.template.json`, which `constructs-optim synth endpoint.yaml --format cloudformation --stack-name STACK --output FOLDER` writes together with the code. Use it where Terraform runs without Python. Default: the module renders the template at plan time."
  type        = string
  default     = null

  validation {
    condition     = var.template_file == null || can(jsondecode(file(var.template_file)).Resources)
    error_message = "`template_file` must be the path of a template that `constructs-optim synth --format cloudformation` has written. There is no such file, or it is not a template in JSON."
  }
}

variable "iam_role_arn" {
  description = "The ARN of the IAM role that CloudFormation assumes for the stack. Default: CloudFormation uses your credentials."
  type        = string
  default     = null
}

variable "notification_arns" {
  description = "The ARNs of the SNS topics that receive the stack's events."
  type        = list(string)
  default     = null
}

variable "on_failure" {
  description = "What CloudFormation does if it cannot create the stack: `ROLLBACK` (the default), `DELETE`, or `DO_NOTHING`. Another value replaces the stack."
  type        = string
  default     = null

  validation {
    condition     = contains(["ROLLBACK", "DELETE", "DO_NOTHING"], coalesce(var.on_failure, "ROLLBACK"))
    error_message = "`on_failure` must be ROLLBACK, DELETE or DO_NOTHING."
  }
}

variable "stack_tags" {
  description = "Tags of the CloudFormation stack, which CloudFormation adds to the stack's resources. `tags` of the declaration are part of the template."
  type        = map(string)
  default     = null
}
