"""Stacks whose scaling, or whose endpoint, has become something else than CloudFormation knows."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack, hosting, scalable_target

DIMENSION = "sagemaker:variant:DesiredInstanceCount"


def scaled(target_value: float, most: int = 4, name: str = "OnConcurrency") -> dict[str, Any]:
    """An endpoint whose variant scales."""
    resources = hosting()
    resources["Target"] = scalable_target(most=most)
    resources["Policy"] = {
        "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
        "Properties": {
            "PolicyName": name,
            "PolicyType": "TargetTrackingScaling",
            "ScalingTargetId": {"Ref": "Target"},
            "TargetTrackingScalingPolicyConfiguration": {
                "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
                "TargetValue": target_value,
            },
        },
    }
    return resources


class Scaled:
    """A stack that scales, and its scaling as Application Auto Scaling has it."""

    def __init__(self, cloud: LocalCloud, name: str) -> None:
        self.stack, self.client = Stack(cloud, name), cloud.client("application-autoscaling")
        assert self.stack.deploy(scaled(8)) == "CREATE_COMPLETE", self.stack.reasons()
        resource_id = self.stack.physical_id("Target").split("|")[0]
        self.key = {"ServiceNamespace": "sagemaker", "ResourceId": resource_id, "ScalableDimension": DIMENSION}

    def policies(self) -> list[dict[str, Any]]:
        return self.client.describe_scaling_policies(**self.key)["ScalingPolicies"]

    def register(self, *policies: dict[str, Any]) -> None:
        self.client.register_scalable_target(**self.key, MinCapacity=1, MaxCapacity=4)
        for policy in policies:
            members = ("PolicyName", "PolicyType", "TargetTrackingScalingPolicyConfiguration")
            self.client.put_scaling_policy(**self.key, **{name: policy[name] for name in members})


@pytest.fixture
def made(cloud: LocalCloud, request: pytest.FixtureRequest) -> Iterator[Scaled]:
    found = Scaled(cloud, request.node.name.replace("_", "-")[:60])
    yield found
    if found.stack.exists():
        found.stack.delete()


def test_updating_what_was_deregistered_is_refused(made: Scaled) -> None:
    made.client.deregister_scalable_target(**made.key)
    assert made.stack.deploy(scaled(8, most=5)) == "UPDATE_ROLLBACK_COMPLETE"
    assert f"'{made.stack.physical_id('Target')}' was not found. (HandlerErrorCode: NotFound)" in made.stack.reasons()


def test_a_policy_of_the_same_name_is_another_one(made: Scaled) -> None:
    (policy,) = made.policies()
    made.client.deregister_scalable_target(**made.key)
    made.register(policy)
    assert made.stack.deploy(scaled(9)) == "UPDATE_ROLLBACK_COMPLETE"
    assert "(HandlerErrorCode: NotFound)" in made.stack.reasons()
    without = scaled(8)
    del without["Policy"]
    assert made.stack.deploy(without) == "UPDATE_COMPLETE"
    assert [each["PolicyName"] for each in made.policies()] == ["OnConcurrency"]
    assert made.stack.deploy(scaled(8)) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Scaling Policy Already Exists" in made.stack.reasons()


def test_a_policy_of_another_name_replaces_one_that_is_gone(made: Scaled) -> None:
    made.client.deregister_scalable_target(**made.key)
    made.register()
    assert made.stack.deploy(scaled(9, name="Other")) == "UPDATE_COMPLETE"
    assert [each["PolicyName"] for each in made.policies()] == ["Other"]


def test_a_silent_rollback_of_an_endpoint_is_taken_for_a_success(
    made: Scaled, cloud: LocalCloud, sagemaker: Any
) -> None:
    name = made.key["ResourceId"].split("/")[1]
    before = sagemaker.describe_endpoint(EndpointName=name)
    cloud.inject("update_fails", count=1)
    cloud.inject("silent_rollback", count=1)
    changed = copy.deepcopy(scaled(8))
    changed["Config"]["Properties"]["ProductionVariants"][0]["InitialVariantWeight"] = 2
    assert made.stack.deploy(changed) == "UPDATE_COMPLETE"
    after = sagemaker.describe_endpoint(EndpointName=name)
    assert after["EndpointConfigName"] == before["EndpointConfigName"] != made.stack.physical_id("Config")
    assert "FailureReason" not in after
