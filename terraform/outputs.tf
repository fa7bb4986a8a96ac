output "outputs" {
  description = "The outputs of the stack by name, which begins with the ID of the endpoint, component or adapter: `Llama70BEndpointName`."
  # The names come from the template, so that a plan knows them before the stack has the values.
  value = { for name in keys(local.sections.Outputs) : name => lookup(aws_cloudformation_stack.this.outputs, name, null) }
}

output "stack_id" {
  description = "The ARN of the stack."
  value       = aws_cloudformation_stack.this.id
}
