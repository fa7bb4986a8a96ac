"""The basis of every construct: its stack's facts, Lambda functions, state machines, IAM policies, and networks."""
