"""The simulation: steady states as forecast, queues, scaling, costs and requests that find nothing."""

from __future__ import annotations

import datetime as dt
import random
import re
import statistics
from array import array
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from constructs_optim.replay.comparison import replay, sentence
from constructs_optim.replay.declaration import Declared
from constructs_optim.replay.scaling import Policy, Scaling
from constructs_optim.replay.simulation import simulate
from constructs_optim.replay.traffic import Traffic
from constructs_optim_local.cloud import LocalCloud

from ..support.cloud_scaling import CloudScaling
from .declarations import append, declared, poisson, pool, scaling

HOUR = 3600.0


@pytest.mark.parametrize("share", [0.2, 0.5, 0.75])
def test_at_a_steady_rate_requests_take_the_forecast_time(share: float) -> None:
    probe = poisson(1.0, 60)
    rate = share * pool(probe).forecasts.capacity.value
    traffic = poisson(rate, 2 * HOUR)
    forecast = pool(traffic).forecasts.at_rate(rate)
    outcome = simulate(declared(traffic), traffic)
    between = statistics.fmean(outcome.served.between)
    assert between == pytest.approx(forecast.inter_token_latency.value, rel=0.15)
    first = statistics.fmean(outcome.served.first)
    assert first == pytest.approx(forecast.time_to_first_token.value, rel=0.25)
    assert len(outcome.served.first) == len(traffic)
    flying = statistics.fmean(flying for _, _, flying in outcome.capacity)
    assert flying == pytest.approx(forecast.in_flight, rel=0.25)


@pytest.mark.parametrize(("limit", "share"), [(8, 0.6), (8, 0.9), (30, 0.8), (30, 0.95)])
def test_requests_wait_the_forecast_time_for_room_in_a_batch(limit: int, share: float) -> None:
    forecasts = pool(poisson(1.0, 60)).forecasts.with_limit(limit)
    rate = share * forecasts.capacity.value
    traffic, chance = poisson(rate, 20_000 / rate), random.Random(5)
    # Lengths differ, as those of recorded traffic do.
    traffic.output_tokens[:] = array("l", (max(1, round(chance.expovariate(1 / 300))) for _ in traffic.seconds))
    served = simulate(replace(declared(traffic), pools=(replace(pool(traffic), forecasts=forecasts),)), traffic).served
    waited = sum(served.waits) / len(served.first)
    forecast = (
        forecasts.at_rate(rate).time_to_first_token.value - forecasts.at_rate(rate / 1000).time_to_first_token.value
    )
    assert waited < 2 * forecast
    assert forecast < 2 * waited + 0.2


def test_the_prompts_of_a_burst_are_computed_one_after_the_other() -> None:
    traffic = Traffic(array("d", [0.0] * 50), array("l", [8000] * 50), array("l", [10] * 50))
    each = pool(traffic).forecasts.prompt(8000)
    first = sorted(simulate(declared(traffic), traffic).served.first)
    assert 49 * each <= first[-1] - first[0] <= 1.3 * 49 * each
    assert statistics.fmean(first) > 24 * each


def test_no_pace_is_beyond_what_physics_allows() -> None:
    traffic = poisson(0.1, HOUR)
    best = pool(traffic).forecasts.best
    served = simulate(declared(traffic), traffic, slower=[(0.001, 0.001)]).served
    assert min(served.first) >= best.time_to_first_token
    assert min(served.between) >= best.inter_token_latency * (1 - 1e-9)


def test_prompts_beyond_the_context_fail_and_count_as_late() -> None:
    traffic = poisson(0.5, 600)
    traffic.input_tokens[3] = 40_000
    (replayed,) = replay([("a", replace(declared(traffic), pools=(replace(pool(traffic), longest=4096),)))], traffic)
    assert replayed.failed == 1
    assert replayed.missed_first is not None
    assert replayed.missed_first[0] >= 1 / len(traffic)
    assert replayed.requests == len(traffic)


def test_of_an_endpoint_that_served_nothing_no_latency_is_known() -> None:
    traffic = poisson(0.5, 600)
    (replayed,) = replay([("a", declared(traffic, copies=0))], traffic)
    assert replayed.failed == len(traffic)
    assert (replayed.time_to_first_token, replayed.inter_token_latency, replayed.waited) == (None, None, None)
    assert replayed.missed_first == (1.0, 1.0, 1.0)


def test_more_requests_than_a_copy_takes_wait_and_all_are_served() -> None:
    probe = poisson(1.0, 60)
    rate = 1.5 * pool(probe).forecasts.capacity.value
    traffic = poisson(rate, 600)
    outcome = simulate(declared(traffic), traffic)
    assert len(outcome.served.first) == len(traffic)
    assert len(outcome.served.waits) > 0.1 * len(traffic)
    assert max(outcome.served.first) > max(outcome.served.waits) > 10
    two = simulate(declared(traffic, copies=2), traffic)
    assert len(two.served.waits) < len(outcome.served.waits)
    assert two.instance_hours > outcome.instance_hours


def test_without_scaling_instances_are_paid_for_from_the_first_to_the_last_request() -> None:
    traffic = poisson(0.5, 2 * HOUR)
    outcome = simulate(declared(traffic, copies=3), traffic)
    assert outcome.instance_hours == pytest.approx(3 * traffic.duration / HOUR, rel=0.02)
    assert outcome.copies == (3, 3)
    packed = simulate(declared(traffic, copies=3, on_each=2), traffic)
    assert packed.instance_hours == pytest.approx(2 * traffic.duration / HOUR, rel=0.02)


def test_a_few_seconds_of_traffic_are_paid_for_as_well() -> None:
    traffic = poisson(2.0, 3.0)
    outcome = simulate(declared(traffic, copies=2), traffic)
    assert len(outcome.served.first) == len(traffic)
    assert outcome.instance_hours * HOUR > 2 * traffic.duration
    assert outcome.copies == (2, 2)


def test_a_fleet_that_starts_empty_is_not_scaled_in_before_its_alarm_has_seen_fifteen_minutes() -> None:
    traffic = poisson(0.3, HOUR)
    outcome = simulate(declared(traffic, scaling(traffic, most=6), copies=6), traffic)
    by_time = {at: copies for at, copies, _ in outcome.capacity}
    assert [by_time[at] for at in (10, 300, 600)] == [6, 6, 6]
    assert outcome.copies[0] < 6


def test_target_tracking_adds_copies_under_load_and_removes_them_after_its_cooldown() -> None:
    quiet, busy = poisson(0.3, HOUR), poisson(6.0, HOUR, seed=2)
    traffic = poisson(0.3, HOUR)
    append(traffic, busy, HOUR)
    append(traffic, quiet, 2 * HOUR)
    outcome = simulate(declared(traffic, scaling(traffic)), traffic)
    by_hour: list[list[int]] = [[], [], []]
    for at, copies, _ in outcome.capacity:
        by_hour[min(2, int(at // HOUR))].append(copies)
    assert set(by_hour[0]) == {1}
    assert max(by_hour[1]) > 2
    assert by_hour[2][-1] == 1
    fixed = simulate(declared(traffic, copies=max(by_hour[1])), traffic)
    assert outcome.instance_hours < 0.8 * fixed.instance_hours


def test_the_load_from_before_a_copy_is_in_service_does_not_add_another_copy() -> None:
    # The load of three minutes on one copy is far above the target; two copies are enough for it.
    traffic = poisson(0.3, HOUR / 4)
    append(traffic, poisson(2.0, 3 * HOUR / 4, seed=4), HOUR / 4)
    assert simulate(declared(traffic, scaling(traffic)), traffic).copies == (1, 2)


def test_each_request_counts_for_the_copies_in_service_when_it_arrives() -> None:
    @dataclass
    class SecondCopy(Scaling):
        """Another copy, requested after ten seconds and in service after 90."""

        invocations: list[float] = field(default_factory=list[float])

        def published(self, metric: str, period: int, at: float, value: float) -> None:
            self.invocations += [value] if metric == "InvocationsPerInstance" else []

        def wanted(self, capacity: int, now: float) -> int:
            return 2

    traffic = Traffic(array("d", range(180)), array("l", [800] * 180), array("l", [30] * 180))
    second = SecondCopy(1, 2, traffic.start)
    simulate(
        replace(declared(traffic, second), pools=(replace(pool(traffic), start_seconds=80.0),)),
        traffic,
    )
    # 60 by one copy; 30 by one, and 30 by two; 60 by two.
    assert second.invocations[:3] == pytest.approx([60, 45, 30], abs=1)


def test_a_schedule_changes_the_range_at_its_time() -> None:
    traffic = poisson(0.2, 3 * HOUR)
    hour = traffic.start + dt.timedelta(hours=1)
    at = f"at({hour:%Y-%m-%dT%H:%M:%S})"
    schedule: dict[str, Any] = {"Schedule": at, "ScalableTargetAction": {"MinCapacity": 4, "MaxCapacity": 4}}
    outcome = simulate(declared(traffic, scaling(traffic, schedules=[schedule])), traffic)
    counts = {int(seconds // HOUR): copies for seconds, copies, _ in outcome.capacity}
    assert (counts[0], counts[2]) == (1, 4)


def test_a_component_at_zero_copies_fails_requests_until_it_is_awake() -> None:
    traffic = poisson(0.5, HOUR)
    steps = [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}]
    wake = Policy(
        {
            "PolicyName": "WakeUp",
            "PolicyARN": "wake-up",
            "StepScalingPolicyConfiguration": {
                "AdjustmentType": "ChangeInCapacity",
                "Cooldown": 600,
                "StepAdjustments": steps,
            },
        },
        [
            {
                "AlarmName": "asleep",
                "MetricName": "NoCapacityInvocationFailures",
                "Statistic": "Maximum",
                "Period": 60,
                "EvaluationPeriods": 1,
                "Threshold": 1.0,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            }
        ],
    )
    asleep = replace(scaling(traffic, least=0), policies=[wake])
    outcome = simulate(declared(traffic, asleep, copies=0), traffic)
    assert 60 <= outcome.served.failed <= 0.5 * 400
    assert len(outcome.served.first) + outcome.served.failed == len(traffic)
    assert outcome.capacity[-1][1] == 1


def late_shares(given: Declared, traffic: Traffic, seconds: float) -> tuple[float, float, float]:
    """The share of requests whose first token comes later, and its range over the paces of the forecast's interval."""
    first, between = (
        given.pools[0].forecasts.correction(figure)[1] for figure in ("time_to_first_token", "inter_token_latency")
    )
    shares: list[float] = []
    for slower in ((1.0, 1.0), (1 / first, 1 / between), (first, between)):
        # What scales has a memory: each run has its own.
        scaled = replace(given.scaling) if given.scaling is not None else None
        served = simulate(replace(given, scaling=scaled), traffic, [slower]).served
        assert (len(served.first), served.failed) == (len(traffic), 0)
        shares.append(len([each for each in served.first if each > seconds]) / len(traffic))
    return shares[0], min(shares), max(shares)


def test_two_declarations_are_compared_with_ranges_and_a_sentence() -> None:
    traffic = poisson(2.0, HOUR)
    before, after = declared(traffic, copies=4), declared(traffic, scaling(traffic, most=2))
    old, new = replay([("deployed", before), ("proposed", after)], traffic)
    assert old.dollars is not None
    assert old.dollars[0] == pytest.approx(10.0 * old.instance_hours[0])
    assert new.instance_hours[0] < old.instance_hours[0]
    for each, given in ((old, before), (new, after)):
        value, low, high = each.time_to_first_token_p50 or (0, 0, 0)
        assert low < value < high
        assert each.missed_first == late_shares(given, traffic, seconds=1.0)
    said = sentence(old, new)
    assert re.match(r"Chat/Model: \$[\d.,]+ instead of \$[\d.,]+, [\d.]+ instance-hours instead of [\d.]+, ", said)


@pytest.mark.local
@pytest.mark.exhaustive
def test_the_local_cloud_scales_the_same_traffic_as_the_simulation_does() -> None:
    traffic = poisson(1.0, 900)
    append(traffic, poisson(7.0, 2700, seed=4), 900)
    simulated = simulate(declared(traffic, scaling(traffic)), traffic)
    with LocalCloud(job_seconds=(0.1, 0.1), endpoint_seconds=180.0, time_scale=1.0) as cloud:
        by_cloud = CloudScaling(cloud, "played", least=1, most=6, target=20.0)
        played = simulate(replace(declared(traffic), scaling=by_cloud), traffic)
    assert max(copies for _, copies, _ in simulated.capacity) > 2
    assert played.instance_hours == pytest.approx(simulated.instance_hours, rel=0.05)
