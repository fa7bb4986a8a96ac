locals {
  # The release of the module and of the command.
  version = "0.1.0"

  # Names of parameters are not secret.
  given       = nonsensitive(keys(var.parameters))
  parameters  = { for name in local.given : name => { type = "String" } }
  declaration = merge({ schema = 1, parameters = local.parameters }, var.declaration, { stack = var.stack })
  query       = jsonencode(local.declaration)
  region      = lookup(local.declaration, "region", null)
  account     = lookup(local.declaration, "account", null)

  rendered = var.template_file != null ? {
    template = var.template_file, body = file(var.template_file), warnings = "", explanation = "", version = local.version
  } : data.external.template[0].result
  sections = merge({ Parameters = {}, Outputs = {} }, jsondecode(local.rendered.body))
  defaults = { for name, parameter in local.sections.Parameters : name => lookup(parameter, "Default", null) }

  # Terraform reads the parameter back, and a rollback restores its value, so that the next plan shows the change again.
  # The output makes each change of the template an update.
  hash = sha256(local.rendered.body)
  template = jsonencode(merge(local.sections, {
    Parameters = merge(local.sections.Parameters, { TemplateHash = { Type = "String" } })
    Outputs    = merge(local.sections.Outputs, { TemplateHash = { Value = { Ref = "TemplateHash" } } })
  }))
  template_key = "${var.stack}/${local.hash}.template.json"

  # The default keys of the code end with its files' names, which contain the hash of the content.
  code_files = { for name in ["CodeKey", "TrainingCodeKey"] : name => basename(local.defaults[name]) if contains(keys(local.defaults), name) }
  code_keys  = { for name, file in local.code_files : name => "${var.stack}/${file}" }
  code       = merge(local.code_keys, { for name in ["CodeBucket"] : name => var.code_bucket if contains(keys(local.defaults), name) })

  unknown_parameters = setsubtract(local.given, keys(local.defaults))
  missing_parameters = setsubtract([for name, default in local.defaults : name if default == null], concat(local.given, keys(local.code)))
  # The declared sections, except those that locate a stack, which a template does not have.
  declared = setsubtract(keys(local.declaration), ["schema", "parameters", "stack", "account", "region"])

  types    = { for id, resource in local.sections.Resources : resource.Type => id... }
  services = { for type, ids in local.types : regex("^(.+)::", type)[0] => "${length(ids)} ${regex("[^:]+$", type)}"... }
  explanation = join("\n", concat(
    compact([lookup(local.rendered, "explanation", "")]),
    ["Resources of ${var.stack}: ${length(local.sections.Resources)}"],
    [for service, counts in local.services : "  ${service}: ${join(", ", counts)}"],
  ))
}

data "aws_caller_identity" "current" {}

data "aws_s3_bucket" "code" {
  region = local.region
  bucket = var.code_bucket
}

data "external" "template" {
  count = var.template_file == null ? 1 : 0

  program = concat(var.command, [
    "synth", "-", "--format", "cloudformation", "--json", "--output", "${path.root}/.terraform/constructs-optim",
    # Names that a plan knows.
    "--stack-name", var.stack,
  ])
  query = { query = local.query }

  lifecycle {
    precondition {
      condition     = !issensitive(local.query)
      error_message = "The declaration contains a sensitive value, which everyone who can read the stack could read in its template. Name a secret by its ARN. If the value is not a secret, wrap it in nonsensitive()."
    }
  }
}

check "advice" {
  assert {
    condition     = local.rendered.warnings == ""
    error_message = local.rendered.warnings
  }

  assert {
    condition     = lookup(local.rendered, "version", "") == local.version
    error_message = "constructs-optim ${lookup(local.rendered, "version", "of an earlier release")} renders the template, but the module is of release ${local.version}, so the command may not know what the module passes. Use the same release of both."
  }
}

# One object per key, so that a rolled-back update leaves the objects that the stack uses unchanged.
resource "aws_s3_object" "upload" {
  for_each = merge(
    { for name, key in local.code_keys : key => "${dirname(local.rendered.template)}/${local.code_files[name]}" },
    { (local.template_key) = null },
  )

  region = local.region
  bucket = data.aws_s3_bucket.code.bucket
  key    = each.key
  source = each.value
  # Hidden here, because plans show its changes as those of `deployed`.
  content = each.key == local.template_key ? sensitive(local.template) : null

  # An object has at most 10 tags, but a provider may have more by default, for all resources; sources:
  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html,
  # https://github.com/hashicorp/terraform-provider-aws/issues/19895.
  override_provider {
    default_tags {
      tags = {}
    }
  }

  # A rollback needs the previous code.
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "this" {
  region = local.region
  name   = var.stack
  # No certificate matches a bucket name with dots, so the URL has it in the path.
  template_url = join("/", [
    "https:/", trimprefix(data.aws_s3_bucket.code.bucket_regional_domain_name, "${var.code_bucket}."), var.code_bucket, aws_s3_object.upload[local.template_key].key,
  ])
  capabilities      = ["CAPABILITY_IAM"]
  parameters        = merge(var.parameters, local.code, { TemplateHash = local.hash })
  iam_role_arn      = var.iam_role_arn
  notification_arns = var.notification_arns
  on_failure        = var.on_failure
  tags              = var.stack_tags

  # Optimization jobs take hours, and a deployment waits for them.
  timeouts {
    create = "24h"
    update = "24h"
    delete = "2h"
  }

  lifecycle {
    precondition {
      condition     = lookup(var.declaration, "stack", var.stack) == var.stack
      error_message = "`stack` is ${var.stack}, but `declaration` is for the stack ${lookup(var.declaration, "stack", var.stack)}: give both the same name."
    }

    precondition {
      condition     = local.account == null || local.account == data.aws_caller_identity.current.account_id
      error_message = "The stack is declared for the account ${coalesce(local.account, "-")}, but the provider's credentials belong to ${data.aws_caller_identity.current.account_id}."
    }

    precondition {
      condition     = !issensitive(jsonencode(var.parameters))
      error_message = "`parameters` contains a sensitive value, but everyone who can read the stack can read its parameters. Name a secret by its ARN. If the value is not a secret, wrap it in nonsensitive()."
    }

    precondition {
      condition     = length(local.unknown_parameters) == 0
      error_message = "The template has no parameter ${join(", ", local.unknown_parameters)}; it has ${join(", ", keys(local.defaults))}."
    }

    precondition {
      condition     = length(local.missing_parameters) == 0
      error_message = "The template needs values for ${join(", ", local.missing_parameters)}: set them in `parameters`."
    }

    precondition {
      condition     = var.template_file == null || length(local.declared) == 0
      error_message = "`template_file` replaces the declaration, but you also set ${join(", ", local.declared)}: remove one of them."
    }

    precondition {
      condition     = var.template_file == null || basename(local.rendered.template) == "${var.stack}.template.json"
      error_message = "`stack` is ${var.stack}, but `template_file` is ${local.rendered.template}: the file must be named ${var.stack}.template.json, as `constructs-optim synth` names it."
    }
  }
}

# What the stack has: the first plan shows it instead of the template. It is written after the stack, as `deployed`.
resource "terraform_data" "explanation" {
  input      = local.explanation
  depends_on = [aws_cloudformation_stack.this]
}

# The deployed template, so that a plan shows its changes property by property. It is written after the stack, so a failed
# update keeps the previous template.
resource "aws_s3_object" "deployed" {
  region = local.region
  bucket = data.aws_s3_bucket.code.bucket
  key    = "${var.stack}/deployed.template.json"
  # Unknown until the stack exists, so that the first plan does not print thousands of lines; source:
  # https://developer.hashicorp.com/terraform/language/expressions/references#values-not-yet-known.
  content = aws_cloudformation_stack.this.id == "" ? "" : local.rendered.body

  # As above.
  override_provider {
    default_tags {
      tags = {}
    }
  }
}
