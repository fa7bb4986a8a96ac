"""What of an endpoint's state is a problem, and what is not."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from constructs_optim.operations.capacity import Component, Endpoint, ScalingRange, Variant
from constructs_optim.operations.diagnosis import Diagnosis, ScalingActivity, ScalingState, problems
from constructs_optim.operations.drift import StackDrift

NOW = dt.datetime(2026, 11, 30, 9, tzinfo=dt.UTC)
OF_VARIANT, OF_COMPONENT = "endpoint/chat/variant/AllTraffic", "inference-component/llama"
SUSPENDED = ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended")


def ago(**time: float) -> dt.datetime:
    return NOW - dt.timedelta(**time)


def scaling(*suspensions: str, least: int = 1, most: int = 4) -> ScalingRange:
    return ScalingRange(
        min_capacity=least, max_capacity=most, suspended=suspensions == SUSPENDED, suspensions=suspensions
    )


def of_a_variant(
    current: int = 4,
    *,
    changed: dt.datetime | None = None,
    of: ScalingRange | None = None,
    managed: tuple[int, int] | None = None,
) -> dict[str, Any]:
    variant = Variant(name="AllTraffic", desired_instances=4, current_instances=current, scaling=of)
    variant = variant.model_copy(update={"managed_instances": managed})
    return {"variants": (variant,), "components": (), "last_modified": changed}


def of_a_component(current: int = 4, desired: int = 4, **more: Any) -> dict[str, Any]:
    component = Component(name="llama", status="InService", current_copies=current, desired_copies=desired, **more)
    variant = Variant(name="AllTraffic", desired_instances=1, current_instances=1)
    return {"variants": (variant,), "components": (component,), "last_modified": ago(days=9)}


def found(
    parts: dict[str, Any],
    *,
    last: tuple[str, dt.datetime] | None = None,
    policies: tuple[str, ...] = ("OnLoad",),
    stack_status: str | None = None,
    compared: tuple[str, ...] = (),
) -> list[str]:
    activity = None
    if last is not None:
        status, started = last
        activity = ScalingActivity(status=status, message="no capacity", started=started)
    state = ScalingState(policies=policies, last_activity=activity)
    resource_id = OF_COMPONENT if parts["components"] else OF_VARIANT
    endpoint = Endpoint(name="chat", arn="arn", status="InService", **parts)
    diagnosis = Diagnosis(
        endpoint=endpoint, scaling={resource_id: state}, stack_status=stack_status, drift=StackDrift(targets=compared)
    )
    return [each.text for each in problems(diagnosis, NOW)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (of_a_variant(), None),
        (of_a_variant(1, changed=ago(hours=1)), "AllTraffic has 1 of 4 instances, and waits for capacity"),
        (of_a_variant(0, changed=ago(hours=1)), "AllTraffic has 0 of 4 instances, and waits for capacity"),
        # Instances take minutes to start.
        (of_a_variant(1, changed=ago(minutes=5)), None),
        # SageMaker starts managed ones without a change of the endpoint.
        (of_a_variant(1, changed=ago(days=9), managed=(1, 8)), None),
        (
            of_a_variant(0, changed=ago(minutes=5), managed=(1, 8)),
            "AllTraffic has 0 of 4 instances, and waits for capacity",
        ),
        (of_a_variant(0, changed=ago(minutes=5)), "AllTraffic has 0 of 4 instances, and waits for capacity"),
        # A request wakes it from zero.
        (of_a_variant(0, changed=ago(minutes=5), of=scaling(least=0)), None),
        (of_a_component(), None),
        (of_a_component(1, last_modified=ago(hours=1)), "llama has 1 of 4 copies and waits for capacity (60 min)"),
        (of_a_component(1, last_modified=ago(minutes=9)), None),
        # SageMaker gives a reason at once if there is no capacity.
        (
            of_a_component(1, last_modified=ago(minutes=1), failure_reason="no capacity"),
            "llama has 1 of 4 copies and waits for capacity (1 min): no capacity",
        ),
        (of_a_component(0, 1, last_modified=ago(minutes=6)), "llama has 0 of 1 copies and waits for capacity (6 min)"),
        (of_a_component(0, 1, last_modified=ago(minutes=6), scaling=scaling(least=0)), None),
        (
            of_a_component(0, 1, last_modified=ago(minutes=16), scaling=scaling(least=0)),
            "llama has 0 of 1 copies and waits for capacity (16 min)",
        ),
    ],
)
def test_too_few_instances_or_copies_are_a_problem_once_they_take_longer_than_a_start(
    parts: dict[str, Any], expected: str | None
) -> None:
    assert found(parts) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("status", "started", "current", "what"),
    [
        ("Successful", ago(hours=1), 4, None),
        ("Failed", ago(hours=9), 4, "failed"),
        ("Unfulfilled", ago(hours=9), 4, "did not reach its capacity"),
        # Nothing has scaled since, and nothing is short.
        ("Failed", ago(days=20), 4, None),
        ("Unfulfilled", ago(days=20), 1, "did not reach its capacity"),
    ],
)
def test_a_failed_scaling_is_a_problem_for_a_day_or_while_capacity_is_short(
    status: str, started: dt.datetime, current: int, what: str | None
) -> None:
    texts = found(of_a_variant(current, changed=ago(days=20)), last=(status, started))
    expected = f"the last scaling of {OF_VARIANT} {what} at {started:%Y-%m-%d %H:%M} UTC: no capacity"
    assert [text for text in texts if "scaling" in text] == ([expected] if what else [])


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (of_a_variant(of=scaling()), None),
        (of_a_variant(of=scaling("DynamicScalingOutSuspended")), f"scaling out of {OF_VARIANT} is suspended"),
        (
            of_a_component(scaling=scaling(*SUSPENDED)),
            f"scaling in, scaling out and schedules of {OF_COMPONENT} are suspended",
        ),
        # `constructs-optim endpoint stop` suspends all of it, and removes the copies.
        (of_a_component(0, 0, scaling=scaling(*SUSPENDED)), None),
    ],
)
def test_suspended_scaling_is_a_problem_unless_the_endpoint_is_stopped(
    parts: dict[str, Any], expected: str | None
) -> None:
    assert found(parts) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("of", "policies", "expected"),
    [
        (scaling(), ("OnLoad",), False),
        (scaling(), (), True),
        # Its target keeps the number.
        (scaling(least=4), (), False),
    ],
)
def test_a_range_without_policies_and_schedules_is_a_problem(
    of: ScalingRange, policies: tuple[str, ...], expected: bool
) -> None:
    text = f"nothing scales {OF_VARIANT}: its target has no policy and no schedule"
    assert found(of_a_variant(of=of), policies=policies) == ([text] if expected else [])


def test_what_a_deployment_changes_or_drift_tells_is_no_other_problem() -> None:
    suspended = of_a_variant(of=scaling("DynamicScalingOutSuspended"))
    assert found(suspended, policies=(), stack_status="UPDATE_IN_PROGRESS") == []
    assert found(suspended, policies=(), compared=(OF_VARIANT,)) == []
    assert len(found(suspended, policies=(), compared=(f"{OF_VARIANT}-2",))) == 2


def test_a_shortage_begins_with_the_last_scaling_activity() -> None:
    parts = of_a_variant(1, changed=ago(days=9))
    assert found(parts, last=("Successful", ago(minutes=5))) == []
    assert len(found(parts, last=("Successful", ago(minutes=25)))) == 1
