"""A local cloud: a test ground for deployments, and a way to try the library without an AWS account.

ministack serves S3, IAM, Lambda, Step Functions, CloudFormation and CloudWatch; this package adds SageMaker,
Application Auto Scaling and their CloudFormation types. It passes through the real states and responds with the real
errors. Optimization jobs optimize nothing; endpoints serve a model where that is wanted, and synthetic text otherwise.
It listens on the loopback interface only.
"""
