"""Every example, deployed with the real CDK CLI, and taken down again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT, DeployedStack
from ..support.hub_documents import write_document

pytestmark = pytest.mark.exhaustive

HUB = {
    "huggingface-llm-mistral-7b": ("2.0.0",),
    "meta-textgeneration-llama-3-1-8b": ("2.6.0",),
    "meta-textgeneration-llama-3-70b-instruct": ("2.25.0",),
    "meta-textgeneration-llama-3-8b": ("2.24.0",),
}
GATES = ("GatedBucket", "HostingEulaUri")
# Where the hub's document of the local cloud says that the model is.
PREPACKED = "meta-textgeneration/meta-textgeneration-llama-2-70b/artifacts/inference-prepack/v1.0.0"
# What the examples take for granted.
OBJECTS = {
    "models-of-mine": ("assistant/model.safetensors", "batch/model.safetensors", "adapters/sql.tar.gz"),
    "my-models": ("chat-12b/model.safetensors",),
    "my-prompts": ("chat.jsonl",),
    "prompts-of-mine": ("quality.jsonl",),
    "sql-of-mine": ("train/train.jsonl", "validation/validation.jsonl"),
    "chat-captures": (),
    "jumpstart-cache-prod-us-west-2": (f"{PREPACKED}/model.safetensors",),
}
# The stacks in the order of their deployment.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "awq_with_draft.py": ("Drafted",),
    "dashboards.py": ("Chat",),
    "evaluation.py": ("Evaluated",),
    "fast_load_to_zero.py": ("ToZero",),
    "instance_pools.py": ("Pooled",),
    "larger_stack.py": ("Network", "Assistant"),
    "medusa.py": ("TextToSql",),
    "neuron.py": ("Neuron",),
    "pipeline.py": ("Artifacts", "Pipeline/Staging/Chat", "Pipeline/Production/Chat"),
    "policy.py": ("Governed",),
    "production.py": ("Production",),
    "quickstart.py": ("Quickstart",),
    "recommendation.py": ("Chat",),
}
# Deployed by tests/e2e/test_sharing.py, test_accounts.py, test_huggingface.py and test_objectives.py.
ELSEWHERE = {"eagle_in_two_stacks.py", "huggingface.py", "objectives.py", "shared_store.py"}
# Stands for a training job's image: the real training code is in tests/e2e/test_medusa.py.
IMAGE = """#!/bin/sh
case "$1" in -m) ;; *) echo weights >model/model.safetensors ;; esac
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A bootstrapped local cloud in which a day passes in minutes, with all that the examples refer to."""
    hub, image = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("image")
    for model_id, versions in HUB.items():
        write_document(hub / model_id, versions)
    # Mistral's licence asks for nothing; the document that stands for all is Llama's.
    for path in (hub / "huggingface-llm-mistral-7b").iterdir():
        document = json.loads(path.read_text())
        path.write_text(json.dumps({name: value for name, value in document.items() if name not in GATES}))
    (image / "python").write_text(IMAGE)
    (image / "python").chmod(0o755)
    with LocalCloud(
        job_seconds=(0.3, 0.3), endpoint_seconds=0.2, time_scale=0.01, hub_folders=[hub], training_path=image
    ) as running:
        s3 = running.client("s3")
        for bucket, keys in OBJECTS.items():
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
            for key in keys:
                body = json.dumps({"prompt": "How many?"}) if key.endswith("jsonl") else key
                s3.put_object(Bucket=bucket, Key=key, Body=body.encode())
        running.client("sns").create_topic(Name="pages")
        trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}}]}
        running.client("iam").create_role(
            RoleName="chat-recommendations", AssumeRolePolicyDocument=json.dumps(trust), Path="/"
        )
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


def test_every_example_is_covered_by_a_test() -> None:
    assert {path.name for path in (CHECKOUT / "examples").glob("*.py")} == {*EXAMPLES} | ELSEWHERE


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_deployed_in_service_and_destroyed(cloud: LocalCloud, tmp_path: Path, example: str) -> None:
    stacks = [DeployedStack(cloud, tmp_path, name, example=example) for name in EXAMPLES[example]]
    for stack in stacks:
        stack.deploy()
    endpoints = [found for stack in stacks for found in endpoints_of(stack)]
    assert endpoints or example == "recommendation.py"
    assert {found["EndpointStatus"] for found in endpoints} <= {"InService"}
    for stack in reversed(stacks):
        stack.destroy()


def endpoints_of(stack: DeployedStack) -> list[dict[str, Any]]:
    # A path in the app starts with the pipeline that a stage is in; the name of the stack does not.
    name = "-".join(stack.name.split("/")[-2:])
    resources = stack.client("cloudformation").describe_stack_resources(StackName=name)
    names = [
        found["PhysicalResourceId"].rpartition("/")[2]
        for found in resources["StackResources"]
        if found["ResourceType"] == "AWS::SageMaker::Endpoint"
    ]
    return [stack.client("sagemaker").describe_endpoint(EndpointName=name) for name in names]
