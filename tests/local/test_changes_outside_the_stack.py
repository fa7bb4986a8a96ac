"""Stacks whose scaling, or whose endpoint, has become something else than CloudFormation knows."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack, hosting, scalable_target
from ..support.watched_endpoints import tracking

DIMENSION = "sagemaker:variant:DesiredInstanceCount"


def scaled(target_value: float, most: int = 4, name: str = "OnConcurrency") -> dict[str, Any]:
    """An endpoint whose variant scales."""
    resources = hosting()
    resources["Target"] = scalable_target(most=most)
    resources["Policy"] = tracking(name, target_value)
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


ALARM: dict[str, Any] = {
    "Type": "AWS::CloudWatch::Alarm",
    "Properties": {
        "AlarmActions": [{"Ref": "Policy"}],
        "ComparisonOperator": "GreaterThanThreshold",
        "EvaluationPeriods": 1,
        "MetricName": "Invocations",
        "Namespace": "AWS/SageMaker",
        "Period": 60,
        "Statistic": "Sum",
        "Threshold": 8,
    },
}
DASHBOARD = {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": json.dumps({"widgets": []})}}
POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
READER = {
    "Type": "AWS::IAM::Role",
    "Properties": {
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        },
        "Policies": [{"PolicyName": "read", "PolicyDocument": POLICY}],
    },
}


def test_a_drift_aware_change_set_creates_again_what_was_deleted(made: Scaled, cloud: LocalCloud) -> None:
    stack, cloudwatch, iam = made.stack, cloud.client("cloudwatch"), cloud.client("iam")
    resources = {**scaled(8), "Alarm": ALARM, "Dashboard": DASHBOARD, "Role": READER}
    assert stack.deploy(resources) == "UPDATE_COMPLETE", stack.reasons()
    assert stack.drifted() == {}
    made.client.deregister_scalable_target(**made.key)
    cloudwatch.delete_alarms(AlarmNames=[stack.physical_id("Alarm")])
    cloudwatch.delete_dashboards(DashboardNames=[stack.physical_id("Dashboard")])
    iam.delete_role_policy(RoleName=stack.physical_id("Role"), PolicyName="read")
    assert stack.drifted() == {
        "Alarm": "DELETED", "Dashboard": "DELETED", "Policy": "DELETED", "Role": "MODIFIED", "Target": "DELETED"
    }  # fmt: skip
    assert stack.revert_drift(resources) == {
        "Alarm": "Add", "Dashboard": "Add", "Policy": "Add", "Role": "Modify", "Target": "Add"
    }  # fmt: skip
    assert stack.status() == "UPDATE_COMPLETE", stack.reasons()
    (policy,) = made.policies()
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=[stack.physical_id("Alarm")])["MetricAlarms"]
    assert alarm["AlarmActions"] == [policy["PolicyARN"]]
    assert cloudwatch.get_dashboard(DashboardName=stack.physical_id("Dashboard"))["DashboardBody"]
    assert iam.get_role_policy(RoleName=stack.physical_id("Role"), PolicyName="read")["PolicyDocument"] == POLICY
    # CloudFormation knows the new policy.
    assert stack.deploy({**resources, **scaled(9, most=5)}) == "UPDATE_COMPLETE", stack.reasons()


def test_a_change_of_what_was_deregistered_succeeds_in_a_drift_aware_change_set(made: Scaled) -> None:
    changed = scaled(9, most=5)
    made.client.deregister_scalable_target(**made.key)
    assert made.stack.deploy(changed) == "UPDATE_ROLLBACK_COMPLETE"
    assert made.stack.revert_drift(changed) == {"Policy": "Add", "Target": "Add"}
    assert made.stack.status() == "UPDATE_COMPLETE", made.stack.reasons()
    (policy,) = made.policies()
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 9


def test_a_drift_aware_change_set_enables_the_actions_of_an_alarm(cloud: LocalCloud) -> None:
    stack, cloudwatch = Stack(cloud, "silenced"), cloud.client("cloudwatch")
    alarm = {**ALARM, "Properties": {**ALARM["Properties"], "ActionsEnabled": True, "AlarmActions": []}}
    assert stack.deploy({"Alarm": alarm}) == "CREATE_COMPLETE", stack.reasons()
    cloudwatch.disable_alarm_actions(AlarmNames=[stack.physical_id("Alarm")])
    assert stack.revert_drift({"Alarm": alarm}) == {"Alarm": "Modify"}
    assert cloudwatch.describe_alarms()["MetricAlarms"][0]["ActionsEnabled"] is True
    stack.delete()
