# `terraform test` in terraform/, without an account, credentials or constructs-optim.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "us-west-2" }
  }

  mock_data "aws_s3_bucket" {
    defaults = {
      bucket_region               = "us-west-2"
      bucket_regional_domain_name = "my.code.s3.us-west-2.amazonaws.com"
    }
  }

  mock_resource "aws_cloudformation_stack" {
    defaults = {
      outputs = {
        EndpointName         = "chat-1"
        ChatEndpointName     = "chat-1"
        ChatAlarmNames       = "chat-1-ErrorRate,chat-1-Queue"
        ChatLoraEndpointName = "chat-1"
      }
    }
  }
}

mock_provider "external" {
  mock_data "external" {
    defaults = { result = { template = "tests/endpoint.template.json" } }
  }
}

variables {
  stack       = "Chat"
  code_bucket = "my.code"
  parameters  = { RoleArn = "arn:aws:iam::111122223333:role/chat" }
}

run "what_is_not_set_is_not_declared" {
  command = plan

  variables {
    endpoints = {
      Chat = {
        model          = { s3 = { uri = "s3://models/\"chat\":null,/" } }
        techniques     = [{ quantization = { awq = {} } }, { speculative_decoding = { eagle = { training_data = { value = "s3://prompts/" } } } }]
        artifact_store = { value = "Shared \"store\"" }
        monitoring     = { alarms = { error_rate = { value = false }, latency = { threshold = 2.5 } } }
        environment    = { value = "kept" }
        role           = "$${RoleArn}"
      }
      Plain = { inference_component = { value = true } }
    }
  }

  assert {
    condition = jsondecode(data.external.template[0].query.query) == {
      schema     = 1
      stack      = "Chat"
      parameters = { RoleArn = { type = "String" } }
      endpoints = {
        Chat = {
          model          = { s3 = { uri = "s3://models/\"chat\":null,/" } }
          techniques     = [{ quantization = { awq = {} } }, { speculative_decoding = { eagle = { training_data = "s3://prompts/" } } }]
          artifact_store = "Shared \"store\""
          monitoring     = { alarms = { error_rate = false, latency = { threshold = 2.5 } } }
          environment    = { value = "kept" }
          role           = "$${RoleArn}"
        }
        Plain = { inference_component = true }
      }
    }
    error_message = data.external.template[0].query.query
  }
}

run "a_declaration_takes_the_place_of_variables" {
  command = plan

  variables {
    declaration = { stack = "File", endpoints = { Chat = { alarm = null, scaling = { max_capacity = 2 } } } }
  }

  assert {
    condition = jsondecode(data.external.template[0].query.query) == {
      schema     = 1
      stack      = "Chat"
      parameters = { RoleArn = { type = "String" } }
      endpoints  = { Chat = { scaling = { max_capacity = 2 } } }
    }
    error_message = data.external.template[0].query.query
  }
}

run "the_stack_takes_the_uploaded_template" {
  assert {
    condition = aws_cloudformation_stack.this.template_url == join("/", [
      "https://s3.us-west-2.amazonaws.com/my.code/Chat", "${filesha256("tests/endpoint.template.json")}.template.json",
    ])
    error_message = aws_cloudformation_stack.this.template_url
  }

  assert {
    condition = aws_cloudformation_stack.this.parameters == tomap({
      CodeBucket = "my.code"
      CodeKey    = "Chat/0000.zip"
      RoleArn    = "arn:aws:iam::111122223333:role/chat"
    })
    error_message = jsonencode(aws_cloudformation_stack.this.parameters)
  }

  assert {
    condition     = output.endpoint_names == { Chat = "chat-1", ChatLora = "chat-1" }
    error_message = jsonencode(output.endpoint_names)
  }

  assert {
    condition     = output.alarm_names["Chat"] == tolist(["chat-1-ErrorRate", "chat-1-Queue"])
    error_message = jsonencode(output.alarm_names)
  }
}

run "a_template_file_needs_no_command" {
  command = plan

  variables {
    template_file = "tests/endpoint.template.json"
  }

  assert {
    condition     = length(data.external.template) == 0
    error_message = "The command was run."
  }

  assert {
    condition     = aws_s3_object.code["CodeKey"].source == "tests/0000.zip"
    error_message = aws_s3_object.code["CodeKey"].source
  }
}

run "a_parameter_that_the_template_lacks" {
  command = plan

  variables {
    template_file = "tests/endpoint.template.json"
    parameters    = { Role = "arn:aws:iam::111122223333:role/chat" }
  }

  expect_failures = [aws_cloudformation_stack.this]
}

run "a_bucket_of_another_region" {
  command = plan

  override_data {
    target = data.aws_s3_bucket.code
    values = { bucket_region = "eu-west-1" }
  }

  expect_failures = [data.aws_s3_bucket.code]
}
