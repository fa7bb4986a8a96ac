"""The properties of custom resources and the inputs of executions."""
