variable "code_bucket" {
  description = "The S3 bucket, in the stack's Region, that template and code are uploaded to."
  type        = string
}

variable "declaration" {
  description = <<-EOT
    A declaration as a whole, such as `yamldecode(file("endpoint.yaml"))`, or sections of one, in place of the variables
    for them. The command refuses what it does not know; of the other variables, Terraform drops attributes that their
    types do not have, without a word.
  EOT
  type        = any
  default     = {}
  nullable    = false
}

variable "parameters" {
  description = <<-EOT
    Values of the template's parameters. Text of the declaration names them as `$${Name}`, so that a value that is known
    only after apply, such as the ARN of a role of the same configuration, leaves the plan complete.
  EOT
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "command" {
  description = "The command that renders the template: `[\"uvx\", \"--from\", \"constructs-optim[cli]\", \"constructs-optim\"]` needs no installation."
  type        = list(string)
  default     = ["constructs-optim"]
  nullable    = false
}

variable "template_file" {
  description = "A template that `constructs-optim synth endpoint.yaml --format cloudformation --output FOLDER` has written, with its code beside it, for where Terraform runs without Python. Default: the template is rendered at plan time."
  type        = string
  default     = null
}
