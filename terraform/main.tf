locals {
  # Terraform has no object without a member, and no union. A key in JSON is text between quotes that nothing escapes, so
  # neither expression finds anything inside of text.
  without_nulls = replace(replace(local.members, "/\"[\\w-]+\":null,/", ""), "/,?\"[\\w-]+\":null/", "")
  declaration   = replace(local.without_nulls, "/\"(${local.alternatives})\":{\"value\":(true|false|\"(?:[^\"\\\\]|\\\\.)*\")}/", "\"$1\":$2")

  template_file = var.template_file != null ? var.template_file : data.external.template[0].result.template
  template      = file(local.template_file)
  resources     = jsondecode(local.template).Resources
  defaults      = { for name, parameter in lookup(jsondecode(local.template), "Parameters", {}) : name => lookup(parameter, "Default", null) }
  # The keys in a bucket that the code has by default end with the names of the files.
  code = { for name in ["CodeKey", "TrainingCodeKey"] : name => basename(local.defaults[name]) if contains(keys(local.defaults), name) }
}

data "aws_region" "current" {}

data "aws_s3_bucket" "code" {
  bucket = var.code_bucket

  lifecycle {
    postcondition {
      condition     = self.bucket_region == data.aws_region.current.region
      error_message = "The bucket ${var.code_bucket} is in ${self.bucket_region}, and the stack in ${data.aws_region.current.region}: Lambda reads code from buckets of its own Region."
    }
  }
}

data "external" "template" {
  count = var.template_file == null ? 1 : 0

  program = concat(var.command, [
    "synth", "-", "--format", "cloudformation", "--json", "--output",
    "${path.root}/.terraform/constructs-optim/${join("-", compact([var.stack, var.region]))}",
  ])
  query = { query = local.declaration }
}

resource "aws_s3_object" "code" {
  for_each = local.code

  bucket = data.aws_s3_bucket.code.bucket
  key    = "${var.stack}/${each.value}"
  source = "${dirname(local.template_file)}/${each.value}"

  # An update that is rolled back needs the code that was there before.
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_s3_object" "template" {
  bucket = data.aws_s3_bucket.code.bucket
  key    = "${var.stack}/${sha256(local.template)}.template.json"
  source = local.template_file

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "this" {
  name = var.stack
  # With the bucket in the path, as certificates are of no bucket with dots in its name.
  template_url = join("/", [
    "https:/", trimprefix(data.aws_s3_bucket.code.bucket_regional_domain_name, "${var.code_bucket}."), var.code_bucket, aws_s3_object.template.key,
  ])
  capabilities = ["CAPABILITY_IAM"]

  parameters = merge(
    var.parameters,
    { for name, object in aws_s3_object.code : name => object.key },
    length(local.code) == 0 ? {} : { CodeBucket = var.code_bucket },
  )

  # Optimization jobs take hours, and a deployment waits for them.
  timeouts {
    create = "24h"
    update = "24h"
    delete = "2h"
  }

  lifecycle {
    precondition {
      condition     = length(setsubtract(keys(var.parameters), keys(local.defaults))) == 0
      error_message = "The template has no parameter ${join(", ", setsubtract(keys(var.parameters), keys(local.defaults)))}; it has ${join(", ", keys(local.defaults))}."
    }
  }
}

# What is deployed, so that a plan shows which of the stack's resources it changes. Of triggers it shows what changes
# alone; `input` would appear as `output` once more, in full.
resource "terraform_data" "deployed" {
  triggers_replace = { for name, resource in local.resources : name => jsonencode(resource) }

  depends_on = [aws_cloudformation_stack.this]
}
