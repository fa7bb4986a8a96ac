from __future__ import annotations

import math
import random
import statistics

import pytest

from constructs_optim.evaluator.load import MeasuredLevel, Segment
from constructs_optim.evaluator.steady_state import drift_of, leave_out_warm_up, warm_up_length
from constructs_optim.evaluator.streaming import Record


def level_of(latencies: list[float]) -> MeasuredLevel:
    """Requests of one user, one after the other."""
    level, start = MeasuredLevel(segments=[Segment(complete=True)]), 0.0
    for latency in latencies:
        first, end = start + latency * 0.2, start + latency
        level.records.append(Record(start, end, first, end, output_tokens=20))
        start = end
    return level


def lognormal(seed: int, count: int = 400, sigma: float = 0.3) -> list[float]:
    drawn = random.Random(seed)
    return [drawn.lognormvariate(0, sigma) for _ in range(count)]


@pytest.mark.parametrize("count", [200, 512])
@pytest.mark.parametrize("cold", [10, 30, 60])
@pytest.mark.parametrize("times", [2, 3, 6])
def test_requests_that_met_a_cold_endpoint_are_left_out_and_no_others(count: int, cold: int, times: float) -> None:
    """The first ones take several times as long, as with kernels that are compiled at first use."""
    found: list[int] = []
    for seed in range(20):
        values = lognormal(seed, count)
        found.append(warm_up_length([*(times * each for each in values[:cold]), *values[cold:]]))
    assert sum(cut == cold for cut in found) >= 17, found
    assert max(found) <= cold + 10, found


@pytest.mark.parametrize("times", [2, 3, 6])
@pytest.mark.parametrize("slowness", [5, 10, 20])
def test_latency_that_falls_gradually_is_left_out_until_the_rest_is_alike(times: float, slowness: float) -> None:
    """Without what is left out, the mean is within 5% of the warm endpoint's."""
    biases: list[float] = []
    for seed in range(20):
        warm = lognormal(seed, 200)
        values = [each * (1 + (times - 1) * math.exp(-place / slowness)) for place, each in enumerate(warm)]
        cut = warm_up_length(values)
        assert cut <= 100
        biases.append(sum(values[cut:]) / sum(warm[cut:]) - 1)
    assert statistics.median(biases) < 0.05


def test_a_later_disturbance_does_not_extend_the_warm_up() -> None:
    """30 cold requests, and a neighbor that takes the endpoint's time from the 60th to the 80th."""
    found: list[int] = []
    for seed in range(30):
        values = lognormal(seed, 200)
        found.append(
            warm_up_length(
                [*(4 * v for v in values[:30]), *values[30:60], *(3 * v for v in values[60:80]), *values[80:]]
            )
        )
    assert sum(cut == 30 for cut in found) >= 27, found


def test_a_disturbance_of_a_warm_endpoint_is_no_warm_up() -> None:
    """One tenth of the requests, in runs of eight, take three times as long."""
    found: list[int] = []
    for seed in range(100):
        drawn, is_disturbed = random.Random(seed), False
        values = lognormal(seed, 200, 0.2)
        for place in range(200):
            is_disturbed = drawn.random() < (7 / 8 if is_disturbed else 1 / 72)
            values[place] *= 3 if is_disturbed else 1
        found.append(warm_up_length(values))
    assert sum(cut > 0 for cut in found) <= 10, found


@pytest.mark.parametrize(("correlation", "most"), [(0.5, 4), (0.7, 4), (0.9, 6)])
def test_successive_requests_that_are_alike_are_no_warm_up(correlation: float, most: int) -> None:
    found: list[int] = []
    for seed in range(100):
        drawn, state, values = random.Random(seed), 0.0, list[float]()
        for _ in range(200):
            state = correlation * state + math.sqrt(1 - correlation**2) * drawn.gauss(0, 1)
            values.append(math.exp(0.3 * state))
        found.append(warm_up_length(values))
    assert sum(cut > 0 for cut in found) <= most


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.8])
def test_of_a_warm_endpoint_nearly_nothing_is_left_out(sigma: float) -> None:
    found = [warm_up_length(lognormal(seed, sigma=sigma)) for seed in range(200)]
    assert sum(cut > 0 for cut in found) <= 4


def test_few_requests_are_all_kept() -> None:
    assert warm_up_length([9.0, *([1.0] * 50)]) == 0


def test_what_is_left_out_no_longer_counts() -> None:
    values = lognormal(1)
    level = level_of([*(4 * each for each in values[:30]), *values[30:]])
    left_out = leave_out_warm_up(level)
    assert left_out == 30
    assert len(level.counted) == 400 - left_out
    assert not any(record.counted for record in level.records[:left_out])


def test_each_segment_is_looked_at_once() -> None:
    values = lognormal(1)
    level = level_of([*(4 * each for each in values[:30]), *values[30:]])
    for record in level_of(lognormal(2)).records:
        record.segment = 1
        level.records.append(record)
    assert leave_out_warm_up(level) == 0
    assert len(level.counted) == 800


@pytest.mark.parametrize(("growth", "sigma"), [(0.6, 0.3), (2.0, 0.8), (-0.5, 0.2)])
def test_a_queue_that_grows_is_no_steady_state(growth: float, sigma: float) -> None:
    found = 0
    for seed in range(20):
        values = lognormal(seed, sigma=sigma)
        drift = drift_of(level_of([each * (1 + growth * place / 400) for place, each in enumerate(values)]))
        assert drift is not None
        assert drift.low < drift.change < drift.high
        found += not drift.is_steady
    assert found >= 19


def test_a_steady_endpoint_is_seldom_called_unsteady() -> None:
    drifts = [drift_of(level_of(lognormal(seed))) for seed in range(200)]
    assert sum(drift is not None and not drift.is_steady for drift in drifts) <= 4


def test_no_drift_is_reported_for_few_requests() -> None:
    assert drift_of(level_of(lognormal(1, count=12))) is None
    assert drift_of(MeasuredLevel()) is None
