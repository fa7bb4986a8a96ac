"""Benchmark and recommendation jobs: the workload that they send, and the permissions of their role.

Source: Amazon SageMaker developer guide, "Security in SageMaker AI inference optimization" (execution roles): the
service assumes the role for "Creating and managing SageMaker AI training jobs, endpoints, and optimization jobs;
Reading model artifacts from Amazon S3; Writing benchmark results; Accessing secrets", and all resources "are created in
your AWS account using your execution role". That a benchmark is a training job which gets the same role: awslabs/
ml-container-creator (its role for benchmarks). That the quota is looked up when a job is submitted: aws-samples/
sagemaker-genai-hosting-examples (gen-ai-inference-recommendations, "IAM Role Requirements").
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from aws_cdk import Fn
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.model_source import channel_statements
from constructs_optim.constructs.stack.permissions import Statement, sub
from constructs_optim.constructs.stack.stack_context import StackContext, path_of
from constructs_optim.recipe.evaluation import Workload
from constructs_optim.recipe.evaluation.workload import CHANNEL
from constructs_optim.recipe.keys import sha256

# Letters and digits alone, in lower case: a configuration of another name can be made and never deleted (CloudFormation
# reference, AWS::SageMaker::AIWorkloadConfig).
_NAME_PREFIX, _NAME_DIGITS = "optim", 16


def workload_hash(scope: Construct, workload: Workload) -> str:
    """16 hexadecimal digits that change with all that is sent."""
    sent = StackContext.of(scope).stack.resolve([workload.spec, workload.prompts or ""])
    return sha256(json.dumps(sent, sort_keys=True))[:_NAME_DIGITS]


def workload_config(scope: Construct, workload: Workload, id: str = "Workload") -> sagemaker.CfnAIWorkloadConfig:
    """Declare ``workload`` below ``scope``; an id other than the usual one is part of the name."""
    context = StackContext.of(scope)
    spec = context.stack.resolve(workload.spec)
    # A name of its own for a configuration that differs: what is there is neither changed nor in the way.
    content = [path_of(scope), spec, *([id] if id != "Workload" else [])]
    name = sha256(json.dumps(content, sort_keys=True))[:_NAME_DIGITS]
    stack_digits = Fn.join("", Fn.split("-", context.uuid, 5))
    prompts = workload.prompts
    data = {"channelName": CHANNEL, "dataSource": {"s3DataSource": {"s3Uri": prompts}}}
    inline = workload.spec
    return sagemaker.CfnAIWorkloadConfig(
        scope,
        id,
        ai_workload_config_name=f"{_NAME_PREFIX}{name}{stack_digits}",
        ai_workload_configs={
            "workloadSpec": {
                "inline": json.dumps(inline) if spec == inline else context.stack.to_json_string(inline),
            }
        },
        dataset_config={"inputDataConfig": [data]} if prompts is not None else None,
    )


def workload_config_name(config: sagemaker.CfnAIWorkloadConfig) -> str:
    """The name that jobs know the configuration by (a token)."""
    return Fn.select(1, Fn.split("/", config.ref))


def workload_statements(workload: Workload) -> list[Statement]:
    """What the role of a job needs for ``workload``: its prompts, and the secret with the tokenizer's token."""
    statements = channel_statements(workload.prompts) if workload.prompts is not None else []
    if workload.token_secret_arn is not None:
        statements.append(Statement("ReadToken", ("secretsmanager:GetSecretValue",), (workload.token_secret_arn,)))
    return statements


_BENCHMARKS = (
    (
        "RunBenchmarks",
        ("AddTags", "CreateTrainingJob", "DescribeTrainingJob", "StopTrainingJob"),
        ("training-job",),
    ),
)
_TRIALS = (
    (
        "OptimizeModel",
        ("AddTags", "CreateOptimizationJob", "DescribeOptimizationJob", "StopOptimizationJob"),
        ("optimization-job",),
    ),
    (
        "TryModel",
        (
            "AddTags",
            *(
                f"{verb}{kind}"
                for kind in ("Model", "EndpointConfig", "Endpoint", "InferenceComponent")
                for verb in ("Create", "Describe", "Delete")
            ),
            "InvokeEndpoint",
            "InvokeEndpointWithResponseStream",
        ),
        ("model", "endpoint-config", "endpoint", "inference-component"),
    ),
    (
        "RegisterModel",
        (
            "AddTags",
            "CreateModelPackage",
            "CreateModelPackageGroup",
            "DescribeModelPackage",
            "DescribeModelPackageGroup",
        ),
        ("model-package", "model-package-group"),
    ),
)


def benchmark_statements() -> list[Statement]:
    """Run the training job that sends the requests, and look up how many instances there may be."""
    quotas = Statement(
        "LookUpQuotas",
        ("servicequotas:GetServiceQuota",),
        (sub("arn:${AWS::Partition}:servicequotas:${AWS::Region}:${AWS::AccountId}:sagemaker/*"),),
        wildcard="quotas have codes, and which the service looks up is not documented",
    )
    return [*_of_sagemaker(_BENCHMARKS), quotas]


def trial_statements() -> list[Statement]:
    """Optimize the model, serve it, send it requests, and register what is recommended as a model package."""
    return _of_sagemaker(_TRIALS)


def _of_sagemaker(rows: Iterable[tuple[str, tuple[str, ...], tuple[str, ...]]]) -> list[Statement]:
    """Statements of ids, actions and kinds of resources, of any name."""
    return [
        Statement(
            sid,
            tuple(f"sagemaker:{action}" for action in actions),
            tuple(
                sub(f"arn:${{AWS::Partition}}:sagemaker:${{AWS::Region}}:${{AWS::AccountId}}:{kind}/*")
                for kind in kinds
            ),
            wildcard="the service names what its jobs create",
        )
        for sid, actions, kinds in rows
    ]
