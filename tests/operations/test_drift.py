"""What a deployed stack declares and somebody removed or changed by hand."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from constructs_optim.operations.drift import StackDrift, drift_of
from constructs_optim.operations.stacks import DeployedStack
from constructs_optim.templates.template import Template
from constructs_optim_local.cloud import LocalCloud

from ..support.watched_endpoints import Watched, watched


@pytest.fixture
def stack(cloud: LocalCloud) -> Iterator[Watched]:
    made = Watched(cloud)
    yield made
    made.stack.delete()


def drift(stack: Watched) -> StackDrift:
    return drift_of(stack.deployed, stack.client)


def found(stack: Watched) -> dict[str, tuple[bool, str]]:
    return {each.logical_id: (each.is_missing, each.text) for each in drift(stack).resources}


def test_a_stack_without_changes_by_hand_has_no_drift(stack: Watched) -> None:
    assert drift(stack) == StackDrift(targets=(stack.target["ResourceId"],))


def test_all_that_was_removed_is_found_and_reverting_drift_creates_it_again(stack: Watched) -> None:
    resource_id, alarm, outage = stack.target["ResourceId"], *map(stack.stack.physical_id, ("ErrorRate", "Outage"))
    stack.deregister()
    stack.delete_alarm("Outage")
    stack.delete_alarm("ErrorRate")
    stack.delete_dashboard()
    assert found(stack) == {
        "Target": (True, f"is not registered, so nothing scales {resource_id}"),
        "Policy": (True, f"does not exist, so {resource_id} does not scale by it"),
        "ErrorRate": (True, f"({alarm}) does not exist"),
        "Outage": (True, f"({outage}) does not exist"),
        "Dashboard": (True, f"({stack.stack.physical_id('Dashboard')}) does not exist"),
    }
    assert {each.remedy for each in drift(stack).resources} == {"`cdk deploy --revert-drift` creates it again"}
    stack.stack.revert_drift(watched())
    assert drift(stack).resources == (), stack.stack.reasons()


def test_a_policy_alone_that_was_removed_is_found(stack: Watched) -> None:
    stack.delete_policy()
    assert [*found(stack)] == ["Policy"]


def test_a_range_that_was_changed_is_found_and_reverting_drift_restores_it(stack: Watched) -> None:
    stack.narrow()
    text = f"scales {stack.target['ResourceId']} from 1 to 2 instead of 1 to 4"
    assert found(stack) == {"Target": (False, text)}
    stack.stack.revert_drift(watched())
    assert found(stack) == {}


def test_a_policy_whose_alarms_were_removed_is_found_and_a_change_of_it_makes_them_again(stack: Watched) -> None:
    stack.delete_tracking_alarms()
    ((is_missing, text),) = found(stack).values()
    assert not is_missing
    assert "scales nothing: its alarm TargetTracking-" in text
    changed = watched()
    changed["Policy"]["Properties"]["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] = 9
    assert stack.stack.deploy(changed) == "UPDATE_COMPLETE", stack.stack.reasons()
    assert found(stack) == {}


def test_disabled_actions_of_an_alarm_are_found_with_the_command_that_enables_them(stack: Watched) -> None:
    stack.silence()
    (silent,) = drift(stack).resources
    assert (silent.logical_id, "its actions are disabled" in silent.text) == ("ErrorRate", True)
    name = stack.stack.physical_id("ErrorRate")
    assert silent.remedy == f"`aws cloudwatch enable-alarm-actions --alarm-names {name}`"


def test_an_alarm_that_was_emptied_is_found_and_reverting_drift_restores_it(stack: Watched) -> None:
    stack.empty()
    ((is_missing, text),) = found(stack).values()
    assert not is_missing
    action = "arn:aws:sns:us-west-2:000000000000:pages"
    assert text.endswith(f") has the Threshold 1000.5 instead of 8 and lacks the action {action} in AlarmActions")
    stack.stack.revert_drift(watched())
    assert found(stack) == {}


def test_a_changed_alarm_on_metric_math_and_a_changed_rule_are_found(stack: Watched) -> None:
    stack.change_rate()
    stack.change_rule()
    rate, outage = (stack.stack.physical_id(name) for name in ("Rate", "Outage"))
    error_rate = f"arn:aws:cloudwatch:us-west-2:000000000000:alarm:{stack.stack.physical_id('ErrorRate')}"
    assert found(stack) == {
        "Outage": (False, f'({outage}) has the AlarmRule FALSE instead of ALARM("{error_rate}")'),
        "Rate": (
            False,
            f"({rate}) has the Period of failed 60 instead of 300 and has the Expression of filled 0 * failed instead "
            "of FILL(failed, 0)",
        ),
    }


def of_stack(name: str, type: str, physical_id: str, **properties: Any) -> DeployedStack:
    """A deployed stack of one resource."""
    template = Template({"Resources": {name: {"Type": type, "Properties": properties}}})
    return DeployedStack("Chat", "UPDATE_COMPLETE", "000000000000", "us-west-2", template, {name: physical_id})


def test_an_alarm_that_runs_a_policy_that_was_put_back_has_not_drifted() -> None:
    """Its ARN has another ID, which CloudFormation does not know (scaling_registration.py)."""
    old, new = (
        f"arn:aws:autoscaling:us-west-2:000000000000:scalingPolicy:{number}:resource/sagemaker/endpoint/chat/variant/"
        "AllTraffic:policyName/Out"
        for number in (1, 2)
    )
    deployed = of_stack("Slow", "AWS::CloudWatch::Alarm", "slow", AlarmActions=[old], Threshold=1)
    alarm = {"AlarmName": "slow", "ActionsEnabled": True, "AlarmActions": [new], "Threshold": 1.0}
    cloudwatch = Mock()
    cloudwatch.describe_alarms.return_value = {"MetricAlarms": [alarm], "CompositeAlarms": []}
    assert drift_of(deployed, lambda service: cloudwatch) == StackDrift()
    alarm["AlarmActions"] = [new.replace("Out", "In")]
    (only,) = drift_of(deployed, lambda service: cloudwatch).resources
    assert only.text == f"(slow) lacks the action {old} in AlarmActions"


@pytest.mark.parametrize(
    ("copies", "declared", "drifts", "not_seen"),
    [
        (2, {}, True, False),
        # `constructs-optim endpoint stop` suspends scaling and removes the copies.
        (0, {}, False, False),
        (None, {}, False, True),
        (2, {"Ref": "OnlyKnownToCloudFormation"}, False, False),
        (2, True, False, False),
    ],
)
def test_suspended_scaling_of_a_stopped_component_has_not_drifted(
    copies: int | None, declared: Any, drifts: bool, not_seen: bool
) -> None:
    state = dict.fromkeys(
        ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended"), True
    )
    deployed = of_stack(
        "Target",
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "inference-component/llama|sagemaker:inference-component:DesiredCopyCount|sagemaker",
        SuspendedState=dict.fromkeys(state, declared) if declared != {} else {},
    )
    target = {"ResourceId": "inference-component/llama", "SuspendedState": state}
    scaling, sagemaker = Mock(), Mock()
    scaling.get_paginator().paginate.return_value = [
        {"ScalableTargets": [{**target, "MinCapacity": 1, "MaxCapacity": 2}]}
    ]
    described = {"RuntimeConfig": {"DesiredCopyCount": copies}}
    denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeInferenceComponent")
    sagemaker.describe_inference_component.side_effect = [denied if copies is None else described]
    found = drift_of(deployed, {"application-autoscaling": scaling, "sagemaker": sagemaker}.__getitem__)
    assert [each.text for each in found.resources] == (
        ["has scaling in, scaling out and schedules of inference-component/llama suspended"] if drifts else []
    )
    assert bool(found.not_seen) == not_seen
    assert found.targets == ("inference-component/llama",)


@pytest.mark.parametrize(
    ("suspensions", "text"),
    [
        (["DynamicScalingOutSuspended"], "scaling out"),
        (["DynamicScalingInSuspended", "ScheduledScalingSuspended"], "scaling in and schedules"),
    ],
)
def test_suspended_scaling_is_found_with_the_command_that_resumes_it(
    stack: Watched, suspensions: list[str], text: str
) -> None:
    stack.suspend(*suspensions)
    (suspended,) = drift(stack).resources
    assert (suspended.logical_id, suspended.is_missing) == ("Target", False)
    assert suspended.text == f"has {text} of {stack.target['ResourceId']} suspended"
    command = shlex.split(suspended.remedy.strip("`"))
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert options["--resource-id"] == stack.target["ResourceId"]
    state = dict(pair.split("=") for pair in options["--suspended-state"].split(","))
    stack.client("application-autoscaling").register_scalable_target(
        **stack.target, SuspendedState={name: value == "true" for name, value in state.items()}
    )
    assert found(stack) == {}


def test_lost_permissions_of_a_role_are_found_and_reverting_drift_restores_them(stack: Watched) -> None:
    role = stack.stack.physical_id("Role")
    stack.delete_role_policy("pull")
    text = f"lost permissions of the role {role} (the policy pull is gone): Allow ecr:Get* on *"
    assert found(stack) == {"Role": (False, text)}
    stack.stack.revert_drift(watched())
    assert found(stack) == {}


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_lost_grant_is_found_with_the_command_that_puts_it_back(stack: Watched, is_gone: bool) -> None:
    if is_gone:
        stack.delete_role_policy("grant")
    else:
        stack.narrow_grant()
    (lost,) = drift(stack).resources
    assert (lost.logical_id, lost.is_missing) == ("Grant", is_gone)
    assert "Allow s3:GetObject on arn:aws:s3:::models/*" in lost.text
    assert ("s3:ListBucket" in lost.text) is is_gone
    command = shlex.split(lost.remedy.removeprefix("put it back with `").removesuffix("`"))
    assert command[:3] == ["aws", "iam", "put-role-policy"]
    options = dict(zip(command[3::2], command[4::2], strict=True))
    stack.client("iam").put_role_policy(
        RoleName=options["--role-name"],
        PolicyName=options["--policy-name"],
        PolicyDocument=options["--policy-document"],
    )
    assert found(stack) == {}


def test_a_role_that_is_allowed_more_than_declared_lost_nothing(stack: Watched) -> None:
    document = '{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "ecr:*", "Resource": "*"}}'
    stack.client("iam").put_role_policy(
        RoleName=stack.stack.physical_id("Role"), PolicyName="pull", PolicyDocument=document
    )
    assert found(stack) == {}


def test_an_endpoint_that_was_moved_is_found_with_its_model(stack: Watched) -> None:
    config, model = (stack.stack.physical_id(each).rpartition("/")[2] for each in ("Config", "Model"))
    stack.move()
    ((is_missing, text),) = found(stack).values()
    name = stack.stack.name
    assert not is_missing
    expected = (
        f"serves the configuration by-hand-{name} instead of {config}, and the model another-model-{name} instead of "
        f"{model}"
    )
    assert text.lower() == expected.lower()


def test_a_model_that_was_removed_is_found(stack: Watched) -> None:
    stack.delete_model()
    assert [*found(stack)] == ["Model"]


def test_what_may_not_be_looked_up_is_named_and_the_rest_is_compared(stack: Watched) -> None:
    stack.delete_dashboard()

    class Denied:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            if name == "describe_alarms":
                return self._deny
            return getattr(self._inner, name)

        def _deny(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeAlarms")

    seen = drift_of(stack.deployed, lambda service: Denied(stack.client(service)))
    assert [each.logical_id for each in seen.resources] == ["Dashboard"]
    assert seen.not_seen == ("DescribeAlarms is denied",)


def test_only_the_resources_that_concern_the_caller_are_compared(stack: Watched) -> None:
    stack.delete_dashboard()
    seen = drift_of(stack.deployed, stack.client, concerns=lambda resource: resource.logical_id != "Dashboard")
    assert seen == StackDrift(targets=(stack.target["ResourceId"],))
