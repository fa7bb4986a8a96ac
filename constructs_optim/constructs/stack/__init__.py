"""The foundation of every construct: facts of its stack, Lambda functions, state machines, IAM policies, networks."""
