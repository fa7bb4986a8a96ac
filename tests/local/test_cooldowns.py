"""Application Auto Scaling's cooldowns, as its user guide describes them."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim_local.autoscaling.cooldowns import Cooldowns, requested

PAUSES = (60.0, 300.0)
ABOVE = {"ComparisonOperator": "GreaterThanThreshold", "Threshold": 10.0}
BELOW = {"ComparisonOperator": "LessThanThreshold", "Threshold": 10.0}


def tracking(**more: Any) -> dict[str, Any]:
    return {"TargetTrackingScalingPolicyConfiguration": {"TargetValue": 10.0, **more}}


def steps(adjustment: int, **more: Any) -> dict[str, Any]:
    step = {"MetricIntervalLowerBound": 0, "ScalingAdjustment": adjustment}
    return {"StepScalingPolicyConfiguration": {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": [step], **more}}


def scaled(*changes: tuple[float, int, int]) -> Cooldowns:
    """A target after changes: when, from which capacity and to which one."""
    remembered = Cooldowns()
    for now, capacity, limited in changes:
        remembered.note(capacity, limited, PAUSES, now)
    return remembered


@pytest.mark.parametrize(
    ("now", "limited", "is_allowed"),
    [
        (59.0, 4, False),
        (60.0, 4, True),
        (59.0, 5, True),
        (299.0, 1, False),
        (300.0, 1, True),
    ],
    ids=["as much within", "as much after", "more within", "less within", "less after"],
)
def test_within_a_cooldown_only_a_larger_scale_out_is_allowed(now: float, limited: int, is_allowed: bool) -> None:
    # Two became four; meanwhile the capacity is down at three.
    assert scaled((0.0, 2, 4)).allow(3, limited, PAUSES, now) is is_allowed


def test_a_scale_in_does_not_stop_a_scale_out() -> None:
    assert scaled((0.0, 4, 3)).allow(3, 4, PAUSES, 1.0)
    assert not scaled((0.0, 4, 3)).allow(3, 2, PAUSES, 299.0)


def test_a_larger_step_within_a_cooldown_counts_what_was_added_already() -> None:
    policy = steps(3, Cooldown=60)
    remembered = scaled((0.0, 2, 4))
    assert requested(policy, ABOVE, 20.0, 4, remembered, 30.0)[0] == 5, "2 + 3, of which 2 are there"
    assert requested(policy, ABOVE, 20.0, 4, remembered, 60.0)[0] == 7, "after it"
    assert requested(steps(1, Cooldown=60), ABOVE, 20.0, 4, remembered, 30.0)[0] == 4, "never less than there is"


@pytest.mark.parametrize(
    ("alarm", "value", "asked"),
    [(ABOVE, 25.0, 10), (BELOW, 2.5, 1), (ABOVE, None, 5), (BELOW, None, 3)],
)
def test_target_tracking_asks_for_the_capacity_that_meets_its_target(
    alarm: dict[str, Any], value: float | None, asked: int
) -> None:
    found, pauses = requested(tracking(ScaleOutCooldown=30), alarm, value, 4, Cooldowns(), 0.0)
    assert (found, pauses) == (asked, (30.0, 300.0))


def test_cooldowns_last_as_long_as_a_second_does_here() -> None:
    assert requested(tracking(), ABOVE, 25.0, 4, Cooldowns(), 0.0, scale=0.01)[1] == (3.0, 3.0)
