"""AWS CDK constructs that translate a plan into resources, without making decisions of their own."""
