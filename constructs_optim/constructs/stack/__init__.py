"""What every construct builds on: facts of its stack, Lambda functions, state machines, IAM policies, networks."""
