"""Benchmark and recommendation jobs: the workload that they send, and what their role needs for it."""

from __future__ import annotations

import json

from aws_cdk import Fn
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.model_source import channel_statements
from constructs_optim.constructs.stack.permissions import Statement
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
