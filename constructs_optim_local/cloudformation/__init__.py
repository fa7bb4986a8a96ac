"""The resource types that this package adds to CloudFormation, driven by their real schemas."""
