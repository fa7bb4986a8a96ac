"""A stack as one CloudFormation template, for accounts and tools without the AWS CDK."""
