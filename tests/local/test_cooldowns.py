"""Application Auto Scaling's cool-downs and requests, as its user guide describes them.

Whole sequences: ``tests/replay/documented_sequences.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim_local.autoscaling.cooldowns import Change, Cooldowns
from constructs_optim_local.autoscaling.decisions import Breach, requests

ABOVE = {"ComparisonOperator": "GreaterThanThreshold", "Threshold": 10.0}
BELOW = {"ComparisonOperator": "LessThanThreshold", "Threshold": 10.0}


def tracking(name: str = "tracking", **more: Any) -> dict[str, Any]:
    return {"PolicyName": name, "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 10.0, **more}}


def steps(adjustment: int, **more: Any) -> dict[str, Any]:
    step = {"MetricIntervalLowerBound": 0, "ScalingAdjustment": adjustment}
    config = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": [step], **more}
    return {"PolicyName": f"steps-{adjustment}", "StepScalingPolicyConfiguration": config}


def scaled(*changes: tuple[float, int, int], seconds: float = 20.0, cooldown: float = 60.0) -> Cooldowns:
    """A target after changes that take ``seconds``: when each begins, and the capacity before and after it."""
    remembered = Cooldowns()
    for at, before, after in changes:
        remembered.begin(Change(before, after, cooldown), at)
        remembered.complete(after, at + seconds)
    return remembered


def requested(breach: Breach, capacity: int, remembered: Cooldowns, now: float) -> list[int]:
    found = requests([breach], [breach.policy], capacity, remembered, now)
    return [request.capacity for request in found]


@pytest.mark.parametrize(
    ("now", "wanted", "is_allowed"),
    [(79.0, 4, False), (80.0, 4, True), (79.0, 5, True), (21.0, 1, True)],
    ids=["as much within", "as much after", "more within", "less within"],
)
def test_a_cooldown_after_a_scale_out_allows_only_a_larger_one(now: float, wanted: int, is_allowed: bool) -> None:
    # Two became four; meanwhile the capacity is down at three.
    assert scaled((0.0, 2, 4)).allow(3, wanted, now) is is_allowed


def test_a_cooldown_after_a_scale_in_delays_only_a_scale_in() -> None:
    remembered = scaled((0.0, 4, 3))
    assert remembered.allow(3, 4, 21.0)
    assert not remembered.allow(3, 2, 79.0)
    assert remembered.allow(3, 2, 80.0)


def test_a_scale_out_stops_the_cooldown_after_a_scale_in() -> None:
    remembered = scaled((0.0, 4, 3), cooldown=1000)
    assert not remembered.allow(3, 2, 100.0)
    remembered.begin(Change(3, 4, 60), 100.0)
    assert remembered.allow(4, 2, 101.0)


def test_a_change_that_was_not_fulfilled_has_no_cooldown() -> None:
    remembered = Cooldowns()
    remembered.begin(Change(2, 4, 60), 0.0)
    remembered.complete(2, 20.0)
    assert remembered.allow(2, 4, 21.0)
    assert remembered.base(2, 21.0) == 2


def test_a_cooldown_begins_when_the_change_is_complete() -> None:
    slow = scaled((0.0, 2, 4), seconds=300)
    assert not slow.allow(4, 4, 359.0)
    assert slow.base(4, 359.0) == 2
    assert slow.base(4, 360.0) == 4


def test_a_larger_step_within_a_cooldown_counts_what_was_added_already() -> None:
    remembered = scaled((0.0, 2, 4))
    three = Breach(steps(3, Cooldown=60), ABOVE, 20.0)
    assert requested(three, 4, remembered, 30.0) == [5], "2 + 3, of which 2 are there"
    assert requested(three, 4, remembered, 80.0) == [7], "after it"
    assert requested(Breach(steps(1, Cooldown=60), ABOVE, 20.0), 4, remembered, 30.0) == [4], "never less than there is"


def test_scale_outs_of_one_cooldown_count_from_the_same_capacity() -> None:
    remembered = scaled((0.0, 2, 4), (30.0, 4, 5))
    three = Breach(steps(3, Cooldown=60), ABOVE, 20.0)
    assert requested(three, 5, remembered, 60.0) == [5], "2 + 3 again"
    assert requested(three, 5, remembered, 110.0) == [8], "60 seconds after the last one"


def test_the_cooldown_is_the_one_of_the_policy_that_changed_the_capacity() -> None:
    remembered = scaled((0.0, 1, 2), cooldown=600)
    tracked = Breach(tracking(ScaleOutCooldown=10), ABOVE, 20.0)
    assert requested(tracked, 2, remembered, 619.0) == [2]
    assert requested(tracked, 2, remembered, 620.0) == [4]


@pytest.mark.parametrize(
    ("alarm", "value", "asked"),
    [(ABOVE, 25.0, 10), (BELOW, 2.5, 1), (ABOVE, None, 5), (BELOW, None, 3)],
)
def test_target_tracking_asks_for_the_capacity_that_meets_its_target(
    alarm: dict[str, Any], value: float | None, asked: int
) -> None:
    policy = tracking(ScaleOutCooldown=30)
    (request,) = requests([Breach(policy, alarm, value)], [policy], 4, Cooldowns(), 0.0)
    assert (request.capacity, request.cooldown) == (asked, 30.0 if alarm is ABOVE else 300.0)


def test_nothing_tracks_out_of_zero() -> None:
    assert requested(Breach(tracking(), ABOVE, 25.0), 0, Cooldowns(), 0.0) == []


@pytest.mark.parametrize(("disabled", "expected"), [(False, [6]), (True, [2, 6])])
def test_target_tracking_policies_scale_in_together(disabled: bool, expected: list[int]) -> None:
    low, other = tracking("low"), tracking("other", DisableScaleIn=disabled)
    stepping = steps(2)
    breaches = [Breach(low, BELOW, 5.0), Breach(stepping, ABOVE, 20.0)]
    found = requests(breaches, [low, other, stepping], 4, Cooldowns(), 0.0)
    assert [request.capacity for request in found] == expected
    both = requests([breaches[0], Breach(other, BELOW, 2.0)], [low, other], 4, Cooldowns(), 0.0)
    assert [request.capacity for request in both] == [2, 1]


def test_cooldowns_last_as_long_as_a_second_does_here() -> None:
    policy = tracking()
    (request,) = requests([Breach(policy, ABOVE, 25.0)], [policy], 4, Cooldowns(), 0.0, scale=0.01)
    assert request.cooldown == 3.0
