"""A local cloud, to test deployments and to try the library without an AWS account.

ministack serves S3, IAM, Lambda, Step Functions, CloudFormation and CloudWatch; this package adds SageMaker,
Application Auto Scaling and their CloudFormation types. Resources pass through the real states, and errors are the real
ones. Optimization jobs optimize nothing. Endpoints serve a model or synthetic text. The local cloud listens on the
loopback interface only.
"""
