# One endpoint: Llama 3 70B, its weights quantized to INT4 with AWQ, which scales with the requests in flight.

variable "code_bucket" {
  description = "An S3 bucket in the Region of the provider."
  type        = string
}

module "endpoints" {
  source = "../.."

  stack       = "Quickstart"
  code_bucket = var.code_bucket

  declaration = {
    endpoints = {
      Llama70B = {
        model = {
          jumpstart = { model_id = "meta-textgeneration-llama-3-70b-instruct", version = "2.25.0", accept_eula = true }
        }
        techniques    = [{ quantization = "awq" }]
        instance_type = "ml.g5.12xlarge"
        scaling       = { max_capacity = 4, on_concurrency = { target = 8 } }
      }
    }
    outputs = { EndpointName = "$${Llama70B.endpoint_name}" }
  }
}

output "endpoint_name" {
  value = module.endpoints.outputs["Llama70BEndpointName"]
}

output "invoke_policy" {
  value = module.endpoints.outputs["Llama70BInvokePolicy"]
}
