"""The properties of custom resources and the inputs of executions, validated before anything is done with them."""
