from __future__ import annotations

import random

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


def test_requests_that_met_a_cold_endpoint_are_left_out() -> None:
    """The first 40 take three times as long, as with kernels that are compiled at first use."""
    samples = (lognormal(seed) for seed in range(50))
    found = [warm_up_length([*(3 * each for each in values[:40]), *values[40:]]) for values in samples]
    assert all(40 <= cut <= 120 for cut in found), found


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
    assert left_out >= 30
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
