"""A rollback that failed is continued when its cause is gone, as the CDK CLI and the AWS CLI request it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack, hosting, scalable_target
from ..support.waiting import until

MISSING: dict[str, Any] = {
    "Type": "AWS::SageMaker::Endpoint",
    "DependsOn": "Target",
    "Properties": {"EndpointConfigName": "missing"},
}


def scaled(most: int) -> dict[str, Any]:
    """An endpoint that scales to this many instances."""
    return {**hosting(), "Target": scalable_target(most=most)}


@pytest.fixture
def stuck(cloud: LocalCloud) -> Iterator[Stack]:
    """A stack whose endpoint could not get its former range back."""
    stack = Stack(cloud, "stuck")
    assert stack.deploy(scaled(2)) == "CREATE_COMPLETE", stack.reasons()
    cloud.inject("server_error", operation="RegisterScalableTarget", skip=1)
    assert stack.deploy({**scaled(4), "Late": MISSING}) == "UPDATE_ROLLBACK_FAILED", stack.reasons()
    cloud.clear_faults()
    yield stack
    stack.delete()


@pytest.mark.parametrize("more", [{}, {"ResourcesToSkip": []}], ids=["aws", "cdk"])
def test_a_rollback_that_failed_is_continued(cloud: LocalCloud, stuck: Stack, more: dict[str, Any]) -> None:
    stuck.cloudformation.continue_update_rollback(StackName=stuck.name, **more)
    until(stuck.status, "UPDATE_ROLLBACK_COMPLETE".__eq__)
    (target,) = cloud.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="sagemaker", ResourceIds=[stuck.physical_id("Target").partition("|")[0]]
    )["ScalableTargets"]
    assert target["MaxCapacity"] == 2


def test_a_skipped_resource_stays_as_the_update_left_it_and_reverting_drift_restores_it(
    cloud: LocalCloud, stuck: Stack
) -> None:
    def most() -> int:
        (target,) = cloud.client("application-autoscaling").describe_scalable_targets(
            ServiceNamespace="sagemaker", ResourceIds=[stuck.physical_id("Target").partition("|")[0]]
        )["ScalableTargets"]
        return target["MaxCapacity"]

    stuck.cloudformation.continue_update_rollback(StackName=stuck.name, ResourcesToSkip=["Target"])
    until(stuck.status, "UPDATE_ROLLBACK_COMPLETE".__eq__)
    assert most() == 4
    stuck.revert_drift(scaled(2))
    assert most() == 2
