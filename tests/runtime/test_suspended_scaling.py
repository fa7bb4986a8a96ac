"""The record of suspended scaling, what it has of a registration, and the state of the stack that suspends it."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.hosting import serving, suspended_scaling
from constructs_optim.runtime.hosting.suspended_scaling import SuspendedScaling, SuspendedScalingRecord
from constructs_optim.runtime.requests.hosting_properties import Registration, ScalingWatch

from ..support.s3_clients import BUCKET

STACK, OTHER = (f"arn:aws:cloudformation:us-west-2:111122223333:stack/{name}/1" for name in ("Chat", "Other"))
RESOURCE = "endpoint/chat/variant/AllTraffic"


def policy(name: str, **more: Any) -> dict[str, Any]:
    return {"PolicyName": name, **more}


def schedule(name: str, **more: Any) -> dict[str, Any]:
    return {"ScheduledActionName": name, **more}


def registration(*policies: dict[str, Any], schedules: tuple[dict[str, Any], ...] = (), **more: Any) -> Registration:
    return Registration(
        resource_id=RESOURCE, target={}, policies=list(policies), scheduled_actions=list(schedules), **more
    )


@pytest.fixture
def records(s3: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, SuspendedScalingRecord]:
    """The record of one endpoint, as two stacks see it."""
    monkeypatch.setattr(suspended_scaling, "client", lambda service: s3)
    return {
        stack: SuspendedScalingRecord(stack, ScalingWatch(stack_id=stack, endpoint_name="chat", bucket=BUCKET))
        for stack in (STACK, OTHER)
    }


def suspended(request: str, *policies: str, stack: str = STACK, registered: bool = True) -> SuspendedScaling:
    found = [registration(*map(policy, policies))] if registered else []
    variants = {"AllTraffic": ["ml.g5.12xlarge"]}
    return SuspendedScaling(stack_id=stack, variants=variants, registrations=found, since=1000, request=request)


@pytest.mark.parametrize(
    ("later", "is_kept"),
    [
        # The first try of the same request has deregistered what it wrote down.
        (suspended("first", "Now"), True),
        (suspended("second", "Now"), False),
        (suspended("first", "Now", stack=OTHER), False),
    ],
)
def test_a_repeated_request_keeps_what_its_first_try_wrote_down(
    records: dict[str, SuspendedScalingRecord], later: SuspendedScaling, *, is_kept: bool
) -> None:
    first = suspended("first", "Before")
    assert records[STACK].get() is None
    assert records[STACK].write(first) == first
    expected = first if is_kept else later
    assert records[later.stack_id].write(later) == expected
    assert records[expected.stack_id].get() == expected


def test_a_request_writes_down_anew_what_was_restored_meanwhile(records: dict[str, SuspendedScalingRecord]) -> None:
    first = records[STACK].write(suspended("first", "Before"))
    assert records[STACK].empty(first)
    assert records[STACK].get() is None
    again = suspended("first", "Now")
    assert records[STACK].write(again) == again


def test_a_record_is_emptied_only_of_what_was_restored(records: dict[str, SuspendedScalingRecord]) -> None:
    first, second = suspended("first", "Before"), suspended("second", "Now")
    records[STACK].write(first)
    records[STACK].write(second)
    assert not records[STACK].empty(first), "a later request suspended it again"
    assert records[STACK].get() == second
    # Another stack's endpoint of the same name has nothing to restore.
    assert records[OTHER].get() is None
    assert records[OTHER].empty(suspended("third", stack=OTHER))
    assert records[STACK].get() == second
    assert records[STACK].empty(second)
    assert records[STACK].get() is None


def test_a_record_that_is_gone_is_empty(records: dict[str, SuspendedScalingRecord]) -> None:
    assert records[STACK].empty(suspended("first", "Before"))
    assert records[STACK].get() is None


def test_missing_parts_of_a_registration_are_joined_and_present_ones_stay() -> None:
    now = registration(policy("Both", At=2), schedules=(schedule("Mornings", At=2),), tags={"team": "chat"}, own=["A"])
    before = registration(
        policy("Both", At=1),
        policy("Missing", At=1),
        policy("Dropped", At=1),
        schedules=(schedule("Mornings", At=1), schedule("Nights", At=1)),
        tags={"team": "search"},
        own=["B"],
    )
    joined = now.joined(before, without={"Dropped"})
    assert joined.policies == [policy("Both", At=2), policy("Missing", At=1)]
    assert joined.scheduled_actions == [schedule("Mornings", At=2), schedule("Nights", At=1)]
    assert (joined.tags, joined.own, joined.policy_names) == ({"team": "chat"}, ["A"], {"Both", "Missing"})
    assert now.policy_names == {"Both"}


@pytest.mark.parametrize(
    ("status", "rolls_back"),
    [
        ("UPDATE_ROLLBACK_IN_PROGRESS", True),
        ("ROLLBACK_IN_PROGRESS", True),
        ("UPDATE_ROLLBACK_FAILED", True),
        ("UPDATE_IN_PROGRESS", False),
        ("DELETE_IN_PROGRESS", False),
        (None, False),
    ],
)
def test_a_stack_has_its_status_or_is_gone(
    monkeypatch: pytest.MonkeyPatch, status: str | None, *, rolls_back: bool
) -> None:
    cloudformation = Mock()
    cloudformation.describe_stacks.return_value = {"Stacks": [{"StackStatus": status}]}
    if status is None:
        gone: Any = {"Error": {"Code": "ValidationError", "Message": f"Stack with id {STACK} does not exist"}}
        cloudformation.describe_stacks.side_effect = ClientError(gone, "DescribeStacks")
    monkeypatch.setattr(serving, "client", lambda service: cloudformation)
    assert (serving.stack_status(STACK), serving.is_rolling_back(STACK)) == (status, rolls_back)
    cloudformation.describe_stacks.assert_called_with(StackName=STACK)


def test_a_stack_that_cannot_be_described_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    cloudformation = Mock()
    denied: Any = {"Error": {"Code": "AccessDenied", "Message": "not authorized"}}
    cloudformation.describe_stacks.side_effect = ClientError(denied, "DescribeStacks")
    monkeypatch.setattr(serving, "client", lambda service: cloudformation)
    with pytest.raises(ClientError, match="not authorized"):
        serving.is_rolling_back(STACK)


@pytest.mark.parametrize(
    ("status", "is_settled"),
    [
        ("InService", True),
        ("Failed", True),
        ("OutOfService", True),
        ("UpdateRollbackFailed", True),
        ("Creating", False),
        ("Updating", False),
        ("SystemUpdating", False),
        ("RollingBack", False),
        ("Deleting", False),
    ],
)
def test_an_endpoint_serves_the_instance_types_of_its_variants_in_order(
    monkeypatch: pytest.MonkeyPatch, status: str, *, is_settled: bool
) -> None:
    sagemaker = Mock()
    sagemaker.describe_endpoint.return_value = {"EndpointStatus": status, "EndpointConfigName": "chat-1"}
    pools = [{"InstanceType": "ml.g6.12xlarge"}, {"InstanceType": "ml.g5.12xlarge"}]
    variants = [
        {"VariantName": "One", "InstanceType": "ml.p5.4xlarge"},
        {"VariantName": "Pools", "InstancePools": pools},
        {"VariantName": "Serverless"},
    ]
    sagemaker.describe_endpoint_config.return_value = {"ProductionVariants": variants, "CreationTime": "then"}
    monkeypatch.setattr(serving, "client", lambda service: sagemaker)
    found = serving.serving_endpoint("chat")
    assert found is not None
    sagemaker.describe_endpoint_config.assert_called_once_with(EndpointConfigName="chat-1")
    assert (found.is_settled, found.config_name, found.config_created) == (is_settled, "chat-1", "then")
    types = {"One": ["ml.p5.4xlarge"], "Pools": ["ml.g6.12xlarge", "ml.g5.12xlarge"], "Serverless": []}
    assert found.as_lists == types


@pytest.mark.parametrize(("code", "is_known"), [("AccessDeniedException", False), ("ResourceNotFound", True)])
def test_only_an_endpoint_that_sagemaker_does_not_know_is_none(
    monkeypatch: pytest.MonkeyPatch, code: str, *, is_known: bool
) -> None:
    refused = ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeEndpoint")
    sagemaker = Mock(describe_endpoint=Mock(side_effect=refused))
    monkeypatch.setattr(serving, "client", lambda _: sagemaker)
    if is_known:
        assert serving.serving_endpoint("chat") is None
    else:
        with pytest.raises(ClientError):
            serving.serving_endpoint("chat")
    sagemaker.describe_endpoint.assert_called_once_with(EndpointName="chat")
