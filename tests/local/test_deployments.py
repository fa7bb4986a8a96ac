"""Deployments as functions of time: the fleets end in the expected state for every configuration."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from constructs_optim_local.sagemaker.hosting.deployments import (
    Deployment,
    Pace,
    Stage,
    plan,
)

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PACE = Pace(launch=8.0)
LONG_AFTER = START + dt.timedelta(days=3)

sizes = st.one_of(
    st.fixed_dictionaries({"Type": st.just("CAPACITY_PERCENT"), "Value": st.integers(10, 50)}),
    st.fixed_dictionaries({"Type": st.just("INSTANCE_COUNT"), "Value": st.integers(1, 6)}),
)
routings = st.one_of(
    st.just({"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 60}),
    st.fixed_dictionaries({"Type": st.just("CANARY"), "CanarySize": sizes, "WaitIntervalInSeconds": st.just(60)}),
    st.fixed_dictionaries({"Type": st.just("LINEAR"), "LinearStepSize": sizes, "WaitIntervalInSeconds": st.just(60)}),
)
rolling = st.fixed_dictionaries(
    {"MaximumBatchSize": sizes, "WaitIntervalInSeconds": st.just(60)}, optional={"RollbackMaximumBatchSize": sizes}
)
policies = st.one_of(
    st.builds(lambda routing: {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}, routings),
    st.builds(lambda policy: {"RollingUpdatePolicy": policy}, rolling),
)
counts = st.integers(1, 12)


class Scripted:
    """A world in which launch number ``fails`` fails, and an alarm trips at a moment."""

    def __init__(self, fails: int | None = None, trips: dt.datetime | None = None) -> None:
        self.fails, self.trips, self.launches = fails, trips, 0

    def launched(self, stage: Stage, waited: float) -> str | None:
        self.launches += 1
        return "No capacity." if self.launches - 1 == self.fails else None

    def restored(self) -> str | None:
        return None

    def tripped(self, alarms: Sequence[str], start: dt.datetime, end: dt.datetime) -> tuple[dt.datetime, str] | None:
        return (self.trips, "alarm") if self.trips is not None and start <= self.trips <= end else None


def deployed(config: dict[str, Any], old: int, new: int, world: Scripted, polls: Sequence[float] = ()) -> Deployment:
    """A deployment polled after each number of seconds, and long after."""
    deployment = Deployment(plan(config, {"v": old}, {"v": new}, PACE), world, START)
    for seconds in sorted(polls):
        deployment.advance(START + dt.timedelta(seconds=seconds))
    deployment.advance(LONG_AFTER)
    return deployment


@given(config=policies, old=counts, new=counts)
def test_a_deployment_ends_with_the_new_fleet_in_full(config: dict[str, Any], old: int, new: int) -> None:
    deployment = deployed(config, old, new, Scripted())
    assert deployment.outcome == "done"
    assert deployment.history[-1]["new"] == {"v": new}
    serving = [stage["new"]["v"] for stage in deployment.history]
    assert serving == sorted(serving)


@given(policy=rolling, old=counts, new=counts)
def test_a_rolling_update_stays_between_the_smaller_fleet_and_a_batch_above_the_larger(
    policy: dict[str, Any], old: int, new: int
) -> None:
    size = policy["MaximumBatchSize"]
    batch = size["Value"] if size["Type"] == "INSTANCE_COUNT" else -(-new * size["Value"] // 100)
    for stage in deployed({"RollingUpdatePolicy": policy}, old, new, Scripted()).history:
        total = stage["new"]["v"] + stage["old"]["v"]
        assert min(old, new) <= total <= max(old, new) + batch


@given(config=policies, old=counts, new=counts, fails=st.integers(0, 3))
def test_a_failed_instance_launch_restores_the_old_fleet(
    config: dict[str, Any], old: int, new: int, fails: int
) -> None:
    world = Scripted(fails=fails)
    deployment = deployed(config, old, new, world)
    if world.launches <= fails:
        assert deployment.outcome == "done"
        return
    assert (deployment.outcome, deployment.reason) == ("rolled back", "No capacity.")
    assert (deployment.history[-1]["new"], deployment.history[-1]["old"]) == ({"v": 0}, {"v": old})


@given(
    config=policies,
    old=counts,
    new=counts,
    trips=st.floats(0, 400),
    polls=st.lists(st.floats(0, 600), max_size=8),
)
def test_the_outcome_of_a_deployment_does_not_depend_on_when_it_is_polled(
    config: dict[str, Any], old: int, new: int, trips: float, polls: list[float]
) -> None:
    moment = START + dt.timedelta(seconds=trips)
    once, often = (deployed(config, old, new, Scripted(trips=moment), when) for when in ((), polls))
    assert (once.outcome, once.history) == (often.outcome, often.history)
    if once.outcome == "rolled back":
        assert (once.history[-1]["new"], once.history[-1]["old"]) == ({"v": 0}, {"v": old})
