"""A stack as a single CloudFormation template, for accounts and tools without the AWS CDK."""
