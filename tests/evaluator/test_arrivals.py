from __future__ import annotations

import itertools
import statistics

import pytest

from constructs_optim.evaluator.arrivals import due_times
from constructs_optim.evaluator.options import Arrivals, OpenLoop


def due(load: OpenLoop, count: int, lead: float = 0.0) -> list[float]:
    return list(itertools.islice(due_times(load, lead), count))


def variation(times: list[float]) -> float:
    """The coefficient of variation of the times between arrivals."""
    between = [later - earlier for earlier, later in itertools.pairwise([0.0, *times])]
    return statistics.stdev(between) / statistics.fmean(between)


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    # Of gamma arrivals, 1 / sqrt(shape).
    [(Arrivals.CONSTANT, 0.0), (Arrivals.POISSON, 1.0), (Arrivals.GAMMA, 2.0)],
)
def test_arrivals_have_their_rate_and_their_burstiness(arrivals: Arrivals, expected: float) -> None:
    times = due(OpenLoop(request_rate=20, arrivals=arrivals, burstiness=0.25), 20_000)
    assert times == sorted(times)
    assert len(times) / times[-1] == pytest.approx(20, rel=0.05)
    assert variation(times) == pytest.approx(expected, rel=0.05, abs=1e-6)


def test_a_load_has_the_same_arrivals_each_time_and_another_load_has_others() -> None:
    load = OpenLoop(request_rate=5)
    assert due(load, 100) == due(load, 100)
    faster = [5 / 6 * each for each in due(OpenLoop(request_rate=5), 100)]
    assert due(OpenLoop(request_rate=6), 100) != pytest.approx(faster)


def test_a_rate_of_conversations_counts_their_turns() -> None:
    load = OpenLoop(request_rate=1, end_rate=20, turns=4, requests=840)
    assert load.label == "1 to 20 conversations/s"
    assert load.ramp_seconds == pytest.approx(20), "210 conversations, at 10.5 a second on average"
    assert OpenLoop(request_rate=5, turns=4).default_total == 30 * 5 * 4


@pytest.mark.parametrize(("start", "end"), [(1, 20), (20, 1), (5, 5)])
def test_a_ramp_changes_its_rate_linearly(start: float, end: float) -> None:
    load = OpenLoop(request_rate=start, end_rate=end, arrivals=Arrivals.CONSTANT, seconds=100)
    times = due(load, int(100 * (start + end) / 2), lead=0.0)
    for until in (25, 50, 75, 100):
        rate = start + (end - start) * until / 100
        so_far = sum(each <= until for each in times)
        assert so_far == pytest.approx((start + rate) / 2 * until, abs=1.01), until


def test_before_a_ramp_the_rate_is_that_of_its_beginning() -> None:
    load = OpenLoop(request_rate=10, end_rate=20, arrivals=Arrivals.CONSTANT, requests=300)
    times = due(load, 320, lead=2.0)
    assert sum(each <= 2.0 for each in times) == pytest.approx(20, abs=1)
    assert load.ramp_seconds == 20
    assert times[319] == pytest.approx(22, abs=0.1)
