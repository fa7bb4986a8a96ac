"""Permissions of the role of SageMaker's benchmark and recommendation jobs.

Source: Amazon SageMaker developer guide, "Security in SageMaker AI inference optimization" (execution roles): the
service assumes the role for "Creating and managing SageMaker AI training jobs, endpoints, and optimization jobs;
Reading model artifacts from Amazon S3; Writing benchmark results; Accessing secrets", and all resources "are created in
your AWS account using your execution role". That a benchmark is a training job which gets the same role: awslabs/
ml-container-creator (its role for benchmarks). That the quota is looked up when a job is submitted: aws-samples/
sagemaker-genai-hosting-examples (gen-ai-inference-recommendations, "IAM Role Requirements").
"""

from __future__ import annotations

from constructs_optim.constructs.stack.permissions import (
    Arn,
    Statement,
    pass_role_statement,
    sub,
)

_SAGEMAKER = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:"
_NAMES = "the service names what its jobs create"


def training_statements() -> list[Statement]:
    """Run the training job that sends the requests, and look up how many instances there may be."""
    return [
        Statement(
            "RunBenchmarks",
            (
                "sagemaker:AddTags",
                "sagemaker:CreateTrainingJob",
                "sagemaker:DescribeTrainingJob",
                "sagemaker:StopTrainingJob",
            ),
            (sub(f"{_SAGEMAKER}training-job/*"),),
            wildcard=_NAMES,
        ),
        Statement(
            "LookUpQuotas",
            ("servicequotas:GetServiceQuota",),
            (sub("arn:${AWS::Partition}:servicequotas:${AWS::Region}:${AWS::AccountId}:sagemaker/*"),),
            wildcard="quotas have codes, and which the service looks up is not documented",
        ),
    ]


def passing_statement(role_arn: Arn) -> Statement:
    """Give the role to what is created with it."""
    return pass_role_statement("PassItself", role_arn)


def trying_statements() -> list[Statement]:
    """Optimize the model, serve it, send it requests, and register what is recommended as a model package."""
    return [
        Statement(
            "OptimizeModel",
            (
                "sagemaker:AddTags",
                "sagemaker:CreateOptimizationJob",
                "sagemaker:DescribeOptimizationJob",
                "sagemaker:StopOptimizationJob",
            ),
            (sub(f"{_SAGEMAKER}optimization-job/*"),),
            wildcard=_NAMES,
        ),
        Statement(
            "TryModel",
            (
                "sagemaker:AddTags",
                *(
                    f"sagemaker:{verb}{kind}"
                    for kind in ("Model", "EndpointConfig", "Endpoint", "InferenceComponent")
                    for verb in ("Create", "Describe", "Delete")
                ),
                "sagemaker:InvokeEndpoint",
                "sagemaker:InvokeEndpointWithResponseStream",
            ),
            tuple(
                sub(f"{_SAGEMAKER}{kind}/*") for kind in ("model", "endpoint-config", "endpoint", "inference-component")
            ),
            wildcard=_NAMES,
        ),
        Statement(
            "RegisterModel",
            (
                "sagemaker:AddTags",
                "sagemaker:CreateModelPackage",
                "sagemaker:CreateModelPackageGroup",
                "sagemaker:DescribeModelPackage",
                "sagemaker:DescribeModelPackageGroup",
            ),
            (sub(f"{_SAGEMAKER}model-package/*"), sub(f"{_SAGEMAKER}model-package-group/*")),
            wildcard=_NAMES,
        ),
    ]
