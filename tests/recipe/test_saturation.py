"""The saturation alarm on simulated requests: quiet at the scaling target, in ALARM soon after an overload begins."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import pytest

from constructs_optim.recipe.hosting.alarms import Alarm, AlarmSettings, Watched, configured_alarm
from constructs_optim.recipe.hosting.scaling import HEADROOM

from ..support.requests_in_flight import (
    SAMPLE_SECONDS,
    Routing,
    at_random,
    offered,
    samples,
    to_caches,
    to_prefixes,
    to_the_fewest,
)

ROUTINGS: list[Routing] = [at_random, to_the_fewest, to_prefixes, to_caches]
CAPACITIES, INSTANCES = (4, 5.7, 8, 16, 32), (1, 2, 4, 8, 16)
# One instance leaves no choice to a routing.
FLEETS = [
    (routing, capacity, instances)
    for routing in ROUTINGS
    for capacity in CAPACITIES
    for instances in INSTANCES
    if instances > 1 or routing is at_random
]
_STATISTICS = {"Minimum": min, "Maximum": max, "Average": fmean}
# The fleet starts without requests.
_WARM_UP_SECONDS = 600


def saturation(capacity: float, *, serves_components: bool = False) -> Alarm:
    return configured_alarm("saturation", AlarmSettings(), Watched(serves_components, capacity))


def first_alarm(alarm: Alarm, found: Sequence[Sequence[int]], statistic: str | None = None) -> int | None:
    """The seconds until M of the last N periods breach, over the values of all instances in a period."""
    (query,) = alarm.queries
    of = _STATISTICS[statistic or query.statistic]
    length = int(alarm.period_seconds / SAMPLE_SECONDS)
    breaches: list[bool] = []
    for begun in range(0, len(found) - length + 1, length):
        breaches.append(of([value for sample in found[begun : begun + length] for value in sample]) > alarm.threshold)
        if sum(breaches[-alarm.evaluation_periods :]) >= alarm.datapoints_to_alarm:
            return alarm.period_seconds * len(breaches)
    return None


def at_the_target(routing: Routing, capacity: float, instances: int, run: int) -> list[list[int]]:
    """Two hours in which an instance has the requests in flight that scaling holds it at."""
    load, name = offered(capacity, HEADROOM * capacity), f"{capacity}-{instances}-{run}"
    found = samples(routing, instances, capacity, lambda _: load, _WARM_UP_SECONDS + 7200, name)
    return found[int(_WARM_UP_SECONDS / SAMPLE_SECONDS) :]


def overloaded(routing: Routing, capacity: float, instances: int, share: float, run: int) -> list[list[int]]:
    """Forty minutes from the moment at which more arrives than the instances can serve."""
    usual, name = offered(capacity, HEADROOM * capacity), f"{capacity}-{instances}-{share}-{run}"
    found = samples(
        routing,
        instances,
        capacity,
        lambda at: usual if at < _WARM_UP_SECONDS else share * capacity,
        _WARM_UP_SECONDS + 2400,
        name,
    )
    return found[int(_WARM_UP_SECONDS / SAMPLE_SECONDS) :]


def alarms(routing: Routing, capacity: float, instances: int, runs: int) -> list[int]:
    """The runs at the scaling target in which the alarm goes off."""
    alarm = saturation(capacity)
    return [
        run for run in range(runs) if first_alarm(alarm, at_the_target(routing, capacity, instances, run)) is not None
    ]


@pytest.mark.parametrize(
    ("routing", "capacity", "instances"), [fleet for fleet in FLEETS if fleet[1] <= 8 and fleet[2] <= 4]
)
def test_at_the_scaling_target_saturation_raises_no_alarm(routing: Routing, capacity: float, instances: int) -> None:
    assert alarms(routing, capacity, instances, runs=1) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("routing", "capacity", "instances"), FLEETS)
def test_at_the_scaling_target_saturation_raises_no_alarm_in_two_hours_of_any_fleet(
    routing: Routing, capacity: float, instances: int
) -> None:
    assert alarms(routing, capacity, instances, runs=100) == []


@pytest.mark.exhaustive
def test_a_single_instance_with_room_for_four_requests_is_rarely_full_for_long_by_chance() -> None:
    assert len(alarms(at_random, 4, 1, runs=1500)) <= 2


def test_the_busiest_instance_alone_would_raise_an_alarm_at_the_scaling_target() -> None:
    # What the simulation is sensitive to: the statistic of one instance, and of all together.
    random, by_prefix = at_the_target(at_random, 8, 4, 0), at_the_target(to_prefixes, 8, 4, 0)
    assert first_alarm(saturation(8), random, "Maximum") is not None
    assert first_alarm(saturation(8), by_prefix, "Maximum") is not None
    assert first_alarm(saturation(4), at_the_target(to_prefixes, 4, 8, 0), "Average") is not None


def found_in_time(routing: Routing, capacity: float, instances: int, share: float, run: int) -> bool:
    at = first_alarm(saturation(capacity), overloaded(routing, capacity, instances, share, run))
    return at is not None and at <= 20 * 60


@pytest.mark.parametrize("routing", ROUTINGS)
def test_too_many_requests_for_all_instances_raise_an_alarm_within_20_minutes(routing: Routing) -> None:
    assert all(found_in_time(routing, 8, instances, 1.35, 0) for instances in (1, 2, 4))


@pytest.mark.exhaustive
@pytest.mark.parametrize("share", [1.2, 1.35, 1.5])
@pytest.mark.parametrize("routing", ROUTINGS)
def test_too_many_requests_for_a_fleet_raise_an_alarm_within_20_minutes_in_19_of_20_runs(
    routing: Routing, share: float
) -> None:
    found = [
        found_in_time(routing, capacity, instances, share, run)
        for capacity in CAPACITIES
        for instances in INSTANCES
        for run in range(10)
    ]
    assert sum(found) >= 0.95 * len(found)


@pytest.mark.parametrize(("serves_components", "each"), [(False, "each instance"), (True, "each copy")])
def test_saturation_is_that_of_each_instance_as_its_description_says(serves_components: bool, each: str) -> None:
    alarm = saturation(8, serves_components=serves_components)
    assert alarm.description("Chat", "https://runbook").startswith(f"warning: {each} of Chat has more than 8 requests")
    hour = 360
    assert first_alarm(alarm, [[9, 9, 9]] * hour) is not None
    assert first_alarm(alarm, [[9, 9, 8]] * hour) is None
    assert first_alarm(alarm, [[64, 64, 3]] * hour) is None
