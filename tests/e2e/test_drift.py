"""Endpoints that change behind CloudFormation's back: what the CDK CLI says of it, and how it reverts it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.hosting import settled
from ..support.scaled_variants import variant
from ..support.shared_stores import BUCKET
from ..support.template_stack import TemplateStack, physical
from ..support.uploaded_models import upload_model
from ..support.variant_scaling import VariantScaling

APP = f"""
import os
from aws_cdk import App, Environment, Stack, aws_sns as sns
from constructs_optim import Model, OptimizedEndpoint

app = App()
stack = Stack(app, "Refactored", env=Environment(region="us-west-2"))
sns.Topic(stack, os.environ["TOPIC"])
OptimizedEndpoint(
    stack, os.environ["ENDPOINT"], model=Model.s3("s3://{BUCKET}/models/refactored/"), instance_type="ml.g5.12xlarge"
)
app.synth()
"""


@pytest.mark.exhaustive
def test_an_endpoint_that_was_moved_by_hand_has_drifted_and_is_reverted(
    cloud: LocalCloud, a_stack: Callable[..., DeployedStack]
) -> None:
    stack: DeployedStack = a_stack("Drifted")
    stack.deploy()
    name, config = stack.endpoint["EndpointName"], stack.endpoint["EndpointConfigName"]
    sagemaker = cloud.client("sagemaker")
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=name, DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}]
    )
    settled(sagemaker, name)
    assert "Number of resources with drift: 0" in stack.cdk("drift"), "scaling is no drift"
    variants = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    sagemaker.create_endpoint_config(EndpointConfigName="by-hand", ProductionVariants=variants)
    sagemaker.update_endpoint(EndpointName=name, EndpointConfigName="by-hand", RetainAllVariantProperties=True)
    settled(sagemaker, name)

    drifted = stack.cdk("drift")
    assert re.search(rf"/EndpointConfigName\n.*{config}\n.*by-hand", drifted), drifted
    assert "(no changes)" in stack.deploy()
    assert stack.endpoint["EndpointConfigName"] == "by-hand"
    stack.cdk("deploy", "--revert-drift", "--require-approval", "never")
    assert stack.endpoint["EndpointConfigName"] == config
    assert stack.endpoint["ProductionVariants"][0]["DesiredInstanceCount"] == 2
    assert "Number of resources with drift: 0" in stack.cdk("drift")
    assert "Nothing to refactor" in stack.cdk("refactor", "--unstable=refactor", "--dry-run")
    stack.destroy()


@pytest.mark.exhaustive
def test_scaling_and_an_alarm_that_were_removed_by_hand_are_named_and_reverting_drift_creates_them_again(
    cloud: LocalCloud, a_stack: Callable[..., DeployedStack]
) -> None:
    stack: DeployedStack = a_stack("Removed")
    stack.deploy()
    before, template = scaling_of(stack), next(stack.output.glob("Removed*"))
    alarm = physical(TemplateStack(cloud, stack.name, {}), "AWS::CloudWatch::Alarm", "AlarmsErrorRate")
    deregister(stack)
    cloud.client("cloudwatch").delete_alarms(AlarmNames=[alarm])

    assert "(no changes)" in stack.deploy()
    assert "Number of resources with drift: 3" in stack.cdk("drift")
    explained = command(cloud, "explain", str(template), "--against", "deployed", "--fail-on", "drift")
    assert explained.returncode == 1, explained.stdout + explained.stderr
    assert "Deployed, but missing in the account (Removed)" in explained.stdout
    shown = command(cloud, "endpoint", "show", stack.endpoint["EndpointName"])
    assert shown.returncode == 1, shown.stdout + shown.stderr
    for text in ("is not registered, so nothing scales", "does not scale by it", f"({alarm}) does not exist"):
        assert text in " ".join(explained.stdout.split())
        assert text in " ".join(shown.stdout.split())

    stack.cdk("deploy", "--revert-drift", "--require-approval", "never")
    assert scaling_of(stack) == before
    assert command(cloud, "explain", str(template), "--against", "deployed", "--fail-on", "drift").returncode == 0
    # A deployment that changes the scaling restores it, too.
    deregister(stack)
    stack.changed(max_capacity=6).deploy()
    assert scaling_of(stack) == ((1, 6), before[1])
    stack.destroy()


def command(cloud: LocalCloud, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "constructs_optim", *arguments],
        env={**cloud.child_environment(), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )


def deregister(stack: DeployedStack) -> None:
    key = variant(stack.endpoint["EndpointName"])
    stack.client("application-autoscaling").deregister_scalable_target(**key)


def scaling_of(stack: DeployedStack) -> tuple[tuple[int, int] | None, dict[str, float]]:
    """The range, and the targets of the policies."""
    found = VariantScaling(TemplateStack(stack.cloud, stack.name, {}))
    return found.range, found.targets


@pytest.mark.exhaustive
def test_a_refactoring_renames_a_topic_and_no_endpoint(cloud: LocalCloud, tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    upload_model(cloud.client("s3"), BUCKET, "models/refactored")
    settings = {"TOPIC": "Pages", "ENDPOINT": "Llama"}
    stack = DeployedStack(cloud, tmp_path, "Refactored", app=str(app), settings=settings)
    stack.deploy()
    dry_run = ("refactor", "--unstable=refactor", "--dry-run")
    renamed = replace(stack, settings={**settings, "TOPIC": "Pager"}).cdk(*dry_run)
    assert re.search(r"AWS::SNS::Topic.*Refactored/Pages/Resource.*Refactored/Pager/Resource", renamed), renamed
    refused = replace(stack, settings={**settings, "ENDPOINT": "Other"}).cdk(*dry_run)
    assert "Refactor failed: A refactor operation cannot add, remove or update resources" in refused
    assert "[-] Refactored/Llama/Alarms/ErrorRate" in refused
    assert "[-] Refactored/Llama/Resource" in refused
    stack.destroy()
