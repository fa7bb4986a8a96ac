# Generated from standalone_template/outputs.py: python tooling/terraform_module.py

locals {
  # The names come from the template, so that a plan knows the keys before the stack has the values.
  outputs = { for name in keys(local.sections.Outputs) : name => lookup(aws_cloudformation_stack.this.outputs, name, null) }
  # Each name begins with the ID of its endpoint or component: Llama70BEndpointName.
  by_id = {
    for suffix in ["EndpointName", "EndpointArn", "VariantName", "InferenceComponentName", "InferenceComponentArn", "OpenAiBaseUrl", "InvokePolicy", "DashboardName", "AlarmNames", "ArtifactKeys", "ArtifactStoreBucket"] : suffix => {
      for name, value in local.outputs : trimsuffix(name, suffix) => value if endswith(name, suffix) && name != suffix
    }
  }
}

output "endpoint_names" {
  description = "The endpoint's name in requests, by the ID of the endpoint, component or adapter."
  value       = local.by_id["EndpointName"]
}

output "endpoint_arns" {
  description = "The endpoint's ARN, by the ID of the endpoint, component or adapter."
  value       = local.by_id["EndpointArn"]
}

output "variant_names" {
  description = "The production variant, a dimension of the endpoint's metrics, by the ID of the endpoint, component or adapter."
  value       = local.by_id["VariantName"]
}

output "inference_component_names" {
  description = "The inference component's name in requests, by the ID of the endpoint, component or adapter."
  value       = local.by_id["InferenceComponentName"]
}

output "inference_component_arns" {
  description = "The inference component's ARN, by the ID of the endpoint, component or adapter."
  value       = local.by_id["InferenceComponentArn"]
}

output "openai_base_urls" {
  description = "The base URL for OpenAI clients, by the ID of the endpoint, component or adapter."
  value       = local.by_id["OpenAiBaseUrl"]
}

output "invoke_policies" {
  description = "An IAM policy document that allows requests, by the ID of the endpoint, component or adapter."
  value       = local.by_id["InvokePolicy"]
}

output "dashboard_names" {
  description = "The CloudWatch dashboard, by the ID of the endpoint, component or adapter."
  value       = local.by_id["DashboardName"]
}

output "alarm_names" {
  description = "The CloudWatch alarms, by the ID of the endpoint, component or adapter."
  value       = { for id, text in local.by_id["AlarmNames"] : id => text == null ? [] : split(",", text) }
}

output "artifact_keys" {
  description = "The keys of the served artifacts, one for each instance type, by the ID of the endpoint, component or adapter."
  value       = { for id, text in local.by_id["ArtifactKeys"] : id => text == null ? [] : split(",", text) }
}

output "artifact_store_buckets" {
  description = "The bucket with the artifacts, by the ID of the endpoint, component or adapter."
  value       = local.by_id["ArtifactStoreBucket"]
}

output "outputs" {
  description = "All outputs of the template, by name."
  value       = local.outputs
}

output "stack_id" {
  description = "The ARN of the stack."
  value       = aws_cloudformation_stack.this.id
}
