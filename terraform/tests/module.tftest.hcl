# `terraform test` in terraform/, without an account, credentials or constructs-optim.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_s3_bucket" {
    defaults = {
      bucket_regional_domain_name = "my.code.s3.us-west-2.amazonaws.com"
    }
  }

  mock_resource "aws_cloudformation_stack" {
    defaults = {
      outputs = {
        ChatEndpointName = "chat-1"
        ChatAlarmNames   = "chat-1-ErrorRate,chat-1-Queue"
      }
    }
  }
}

mock_provider "external" {
  mock_data "external" {
    defaults = {
      result = {
        template    = "rendered/Chat.template.json"
        body        = "{\"Parameters\":{\"RoleArn\":{\"Type\":\"String\"}},\"Resources\":{\"A\":{\"Type\":\"AWS::IAM::Role\"},\"B\":{\"Type\":\"Custom::Preflight\"},\"D\":{\"Type\":\"AWS::IAM::Policy\"},\"C\":{\"Type\":\"AWS::IAM::Role\"}},\"Outputs\":{\"ChatEndpointName\":{},\"ChatAlarmNames\":{}}}"
        version     = "0.1.0"
        explanation = "Chat/Chat\n  capacity: 1 instance"
        warnings    = ""
      }
    }
  }
}

variables {
  stack       = "Chat"
  code_bucket = "my.code"
  parameters  = { RoleArn = "arn:aws:iam::111122223333:role/chat" }
}

run "a_declaration_goes_to_the_command_as_it_is" {
  command = plan

  variables {
    declaration = {
      stack = "Chat"
      tags  = { team = "chat" }
      endpoints = {
        Chat  = { alarm = null, artifact_store = "Shared \"store\"", techniques = [{ quantization = "awq" }, { eagle = { training_data = "s3://prompts/" } }], role = "$${RoleArn}" }
        Plain = { inference_component = true, environment = { value = "kept" } }
      }
    }
  }

  assert {
    condition = jsondecode(data.external.template[0].query.query) == {
      schema     = 1
      stack      = "Chat"
      tags       = { team = "chat" }
      parameters = { RoleArn = { type = "String" } }
      endpoints = {
        Chat  = { alarm = null, artifact_store = "Shared \"store\"", techniques = [{ quantization = "awq" }, { eagle = { training_data = "s3://prompts/" } }], role = "$${RoleArn}" }
        Plain = { inference_component = true, environment = { value = "kept" } }
      }
    }
    error_message = data.external.template[0].query.query
  }
}

run "a_sensitive_value" {
  command = plan

  variables {
    declaration = { tags = { team = sensitive("chat") } }
  }

  expect_failures = [data.external.template]
}

run "a_declaration_of_another_stack" {
  command = plan

  variables {
    declaration = { stack = "File" }
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "advice_of_the_command" {
  command = plan

  override_data {
    target = data.external.template
    values = {
      result = {
        template = "rendered/Chat.template.json"
        body     = "{\"Parameters\":{\"RoleArn\":{}},\"Resources\":{}}"
        version  = "0.1.0"
        warnings = "ml.g6e.12xlarge is new"
      }
    }
  }

  expect_failures = [check.advice]
}

run "a_command_of_another_release" {
  command = plan

  override_data {
    target = data.external.template
    values = { result = { template = "rendered/Chat.template.json", body = "{\"Parameters\":{\"RoleArn\":{}},\"Resources\":{}}", version = "0.0.9", warnings = "" } }
  }

  expect_failures = [check.advice]
}

run "a_command_of_a_release_that_does_not_say_which" {
  command = plan

  override_data {
    target = data.external.template
    values = { result = { template = "rendered/Chat.template.json", body = "{\"Parameters\":{\"RoleArn\":{}},\"Resources\":{}}", warnings = "" } }
  }

  expect_failures = [check.advice]
}

run "a_region_is_that_of_all" {
  command = plan

  variables {
    declaration = { region = "eu-west-1" }
  }

  assert {
    condition = toset(["eu-west-1"]) == toset([
      data.aws_s3_bucket.code.region, aws_cloudformation_stack.this.region, aws_s3_object.deployed.region,
      one([for upload in aws_s3_object.upload : upload.region]),
    ])
    error_message = "One of them is elsewhere."
  }
}

run "another_account" {
  command = plan

  variables {
    declaration = { account = "444455556666" }
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "a_first_plan_has_the_names_of_outputs_and_an_explanation_and_no_template" {
  command = plan

  assert {
    condition     = keys(output.outputs) == ["ChatAlarmNames", "ChatEndpointName"]
    error_message = jsonencode(keys(output.outputs))
  }

  assert {
    condition     = terraform_data.explanation.input == "Chat/Chat\n  capacity: 1 instance\nResources of Chat: 4\n  AWS::IAM: 1 Policy, 2 Role\n  Custom: 1 Preflight"
    error_message = terraform_data.explanation.input
  }
}

run "what_is_deployed_is_recorded_to_the_byte" {
  assert {
    condition     = output.outputs == { ChatEndpointName = "chat-1", ChatAlarmNames = "chat-1-ErrorRate,chat-1-Queue" }
    error_message = jsonencode(output.outputs)
  }

  assert {
    condition     = aws_s3_object.deployed.content == data.external.template[0].result.body
    error_message = aws_s3_object.deployed.content
  }
}

run "a_change_of_a_deployed_template_is_in_the_plan" {
  command = plan

  override_data {
    target = data.external.template
    values = {
      result = { template = "rendered/Chat.template.json", body = "{\"Parameters\":{\"RoleArn\":{}},\"Resources\":{\"A\":{\"Type\":\"AWS::CloudWatch::Alarm\",\"Properties\":{\"Threshold\":2}}}}", version = "0.1.0", warnings = "", explanation = "" }
    }
  }

  assert {
    condition     = jsondecode(aws_s3_object.deployed.content).Resources.A.Properties.Threshold == 2
    error_message = aws_s3_object.deployed.content
  }
}

run "a_template_file_needs_no_command" {
  command = plan

  variables {
    template_file = "tests/Chat.template.json"
  }

  assert {
    condition     = length(data.external.template) == 0
    error_message = "The command was run."
  }

  assert {
    condition     = aws_s3_object.upload["Chat/0000.zip"].source == "tests/0000.zip"
    error_message = jsonencode(keys(aws_s3_object.upload))
  }

  assert {
    condition = aws_cloudformation_stack.this.template_url == join("/", [
      "https://s3.us-west-2.amazonaws.com/my.code/Chat", "${filesha256("tests/Chat.template.json")}.template.json",
    ])
    error_message = aws_cloudformation_stack.this.template_url
  }

  assert {
    condition = aws_cloudformation_stack.this.parameters == tomap({
      CodeBucket   = "my.code"
      CodeKey      = "Chat/0000.zip"
      RoleArn      = "arn:aws:iam::111122223333:role/chat"
      TemplateHash = filesha256("tests/Chat.template.json")
    })
    error_message = jsonencode(aws_cloudformation_stack.this.parameters)
  }

  assert {
    condition = nonsensitive(jsondecode(aws_s3_object.upload["Chat/${filesha256("tests/Chat.template.json")}.template.json"].content)) == merge(
      jsondecode(file("tests/Chat.template.json")), {
        Parameters = {
          CodeBucket   = { Type = "String" }
          CodeKey      = { Type = "String", Default = "constructs-optim/0000.zip" }
          RoleArn      = { Type = "String" }
          TemplateHash = { Type = "String" }
        }
        Outputs = {
          ChatEndpointName = { Value = { "Fn::GetAtt" = ["Chat", "EndpointName"] } }
          TemplateHash     = { Value = { Ref = "TemplateHash" } }
        }
      },
    )
    error_message = "The template has further changes."
  }
}

run "a_template_file_of_another_stack" {
  command = plan

  variables {
    stack         = "Search"
    template_file = "tests/Chat.template.json"
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "a_template_file_beside_a_declaration" {
  command = plan

  variables {
    template_file = "tests/Chat.template.json"
    declaration   = { tags = { team = "chat" } }
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "a_parameter_that_the_template_lacks" {
  command = plan

  variables {
    template_file = "tests/Chat.template.json"
    parameters    = { RoleArn = "arn:aws:iam::111122223333:role/chat", Role = "chat" }
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "a_parameter_that_the_template_needs" {
  command = plan

  variables {
    template_file = "tests/Chat.template.json"
    parameters    = {}
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "a_sensitive_parameter" {
  command = plan

  variables {
    parameters = { RoleArn = sensitive("arn:aws:iam::111122223333:role/chat") }
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "sensitive_parameters" {
  command = plan

  variables {
    parameters = sensitive({ RoleArn = "arn:aws:iam::111122223333:role/chat" })
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "a_declaration_that_is_text" {
  command = plan

  variables {
    declaration = "stack: Chat"
  }

  expect_failures = [var.declaration]
}

run "an_empty_command" {
  command = plan

  variables {
    command = []
  }

  expect_failures = [var.command]
}

run "a_template_file_that_is_missing" {
  command = plan

  variables {
    template_file = "tests/Search.template.json"
  }

  expect_failures = [var.template_file]
}

run "a_template_file_that_is_not_json" {
  command = plan

  variables {
    template_file = "main.tf"
  }

  expect_failures = [var.template_file]
}

run "a_code_bucket_that_is_a_url" {
  command = plan

  variables {
    code_bucket = "s3://my.code"
  }

  expect_failures = [var.code_bucket]
}

run "an_unknown_reaction_to_failure" {
  command = plan

  variables {
    on_failure = "rollback"
  }

  expect_failures = [var.on_failure]
}
