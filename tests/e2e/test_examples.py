"""Every example, deployed with the real CDK CLI, and taken down again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT, DeployedStack
from ..support.example_cloud import example_cloud

pytestmark = pytest.mark.exhaustive

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


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with example_cloud(tmp_path_factory.mktemp("cloud")) as running:
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
