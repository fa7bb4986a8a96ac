from __future__ import annotations

import asyncio
import random
import time
from bisect import bisect_right
from collections.abc import Sequence

import pytest

from constructs_optim.evaluator.lag import Lag, mean_shares
from constructs_optim.evaluator.load import MeasuredLevel, Segment
from constructs_optim.evaluator.options import Arrivals, ClosedLoop, OpenLoop
from constructs_optim.evaluator.streaming import Record
from constructs_optim.evaluator.summary import sample_of
from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.runtime.evaluation.samples import Observation, Sample

from ..support.model_server import ModelServer, asked, sender

USERS, TOKENS = 8, 20
TIMES = [
    f"{name}{which}"
    for name in ("time_to_first_token", "client_latency", "inter_token_latency")
    for which in ("", "_p50", "_p90")
]


def steady(*late: float) -> Sample:
    """100 requests with a first token after 200 ms and 20 more, each after 20 ms. The last requests are ``late``."""
    longer = (*[0.0] * (100 - len(late)), *late)
    gaps = (20.0,) * TOKENS
    return Sample([Observation(0.0, 200 + more, 20.0, 600 + more, 100, TOKENS + 1, gaps=gaps) for more in longer], 60.0)


def test_shares_keep_the_mean_and_rise() -> None:
    drawn = random.Random(1)
    lags = [drawn.expovariate(100) for _ in range(5432)]
    shares = mean_shares(lags)
    assert len(shares) == 100
    assert shares == sorted(shares)
    assert sum(shares) / 100 == pytest.approx(1000 * sum(lags) / len(lags), rel=0.01)
    assert mean_shares([0.003, 0.001]) == [1.0, 3.0]
    assert mean_shares([]) == []


@pytest.mark.parametrize("lag", [Lag(), Lag([0.0] * 100, [0.0] * 7)])
def test_without_a_lag_the_bounds_are_the_sample(lag: Lag) -> None:
    sample = steady()
    assert lag.bounds(sample) == (sample, sample)
    assert lag.evened([3.0, 1.0]) == [3.0, 1.0]


def test_a_lag_may_be_in_the_longest_latencies_alone() -> None:
    assert Lag([0.0, 0.0, 1.0, 2.0], [0.0, 3.0]).evened([500, 512, 501, 504]) == [500, 502, 501, 496]


def test_each_metric_moves_by_what_a_lag_can_add_to_it() -> None:
    """Lags of 50 ms in a tenth of the time: 5 ms on average, and twice that in the bounds."""
    sample = steady(*[100.0] * 10)
    shortest, longest = (bound.drawn() for bound in Lag([0.0] * 9 + [50.0]).bounds(sample))
    measured = sample.drawn()
    for name, metric in (("time_to_first_token", 200), ("client_latency", 600)):
        assert measured[f"{name}_p99"] == metric + 100
        assert shortest[f"{name}_p99"] == metric
        assert shortest[f"{name}_p50"] == metric - 10
        assert longest[name] == measured[name], "a lag shortens none of them"
    assert shortest["inter_token_latency_p50"] == pytest.approx(20 - 10 / TOKENS)
    assert longest["inter_token_latency_p50"] == pytest.approx(20 + 10 / TOKENS)
    assert longest["inter_chunk_latency_p99"] == 20 + 100
    assert shortest["requests_per_second"] == pytest.approx(measured["requests_per_second"] * 610 / 600)
    assert longest["output_tokens_per_second"] == pytest.approx(measured["output_tokens_per_second"])


def test_a_request_that_this_machine_sent_late_has_a_longer_latency_but_not_more_time_per_token() -> None:
    shortest, longest = (bound.drawn() for bound in Lag(sends=[5.0]).bounds(steady()))
    assert (shortest["time_to_first_token_p50"], shortest["client_latency_p50"]) == (190, 590)
    assert shortest["inter_token_latency_p50"] == longest["inter_token_latency_p50"] == 20


def test_requests_that_miss_an_objective_by_less_than_the_lag_may_be_good() -> None:
    objectives = LatencyObjectives(time_to_first_token=195)
    for lag, good in ((2.0, False), (3.0, True)):
        shortest, longest = Lag([lag]).bounds(steady(), objectives)
        assert {each.meets_objectives for each in shortest.observations} == {good}
        assert {each.meets_objectives for each in longest.observations} == {False}


def blocked(seed: int, rate: float, seconds: float) -> tuple[Sample, MeasuredLevel]:
    """The true sample of a level, and what an event loop notes that is blocked so often, for so long on average."""
    drawn = random.Random(seed)
    blocks, at = list[tuple[float, float]](), 0.0
    while at < 40:
        start = at + drawn.expovariate(rate)
        at = start + drawn.expovariate(1 / seconds)
        blocks.append((start, at))
    starts = [start for start, _ in blocks]

    def handled(arrival: float) -> float:
        return max(arrival, blocks[bisect_right(starts, arrival) - 1][1]) if arrival >= starts[0] else arrival

    true, noted, free = list[Record](), list[Record](), [drawn.random() for _ in range(USERS)]
    for number in range(240):
        start = min(free)
        arrivals = [start + 0.2 * drawn.lognormvariate(0, 0.1)]
        for _ in range(TOKENS):
            arrivals.append(arrivals[-1] + 0.02 * drawn.lognormvariate(0, 0.1))
        for records, times in ((true, arrivals), (noted, [handled(each) for each in arrivals])):
            records.append(Record(start, times[-1], times[0], times[-1], prompt=number, output_tokens=TOKENS + 1))
        free[free.index(start)] = handled(arrivals[-1])
    checks = (handled(check / 50) - check / 50 for check in range(50 * int(noted[-1].end)))
    segment = Segment(complete=True, lags=mean_shares([*checks]))
    return sample_of(MeasuredLevel(true, [segment])), MeasuredLevel(noted, [segment])


@pytest.mark.parametrize(("rate", "seconds"), [(5.0, 0.02), (1.0, 0.05), (3.0, 0.1)])
def test_the_bounds_contain_what_a_blocked_event_loop_did_not_see(rate: float, seconds: float) -> None:
    contained, seen_too_long = 0, 0
    for seed in range(4):
        true, level = blocked(seed, rate, seconds)
        sample = sample_of(level)
        shortest, longest = (bound.drawn() for bound in level.lag.bounds(sample))
        for name in TIMES:
            contained += shortest[name] <= true.drawn()[name] <= longest[name]
            seen_too_long += sample.drawn()[name] > true.drawn()[name]
    assert contained >= 0.95 * 4 * len(TIMES)
    assert seen_too_long > 0.6 * 4 * len(TIMES)


async def block(seconds: float, every: float) -> None:
    """Block this event loop again and again."""
    while True:
        await asyncio.sleep(every)
        time.sleep(seconds)


def test_a_blocked_event_loop_is_noted_with_all_the_time_that_it_is_blocked(server: ModelServer) -> None:
    """Half of the time is in blocks of 0.1 s, in which a byte waits for 50 ms on average: 25 ms over all the time."""

    async def run() -> MeasuredLevel:
        level = MeasuredLevel()
        blocking = asyncio.create_task(block(0.1, 0.1))
        await sender(server, asked("a")).run(ClosedLoop(concurrency=2, seconds=1.5), level)
        blocking.cancel()
        return level

    assert 15 < _of(asyncio.run(run()).lag.arrivals) < 100


def test_requests_that_a_blocked_event_loop_sends_late_are_noted(server: ModelServer) -> None:
    async def run() -> MeasuredLevel:
        level = MeasuredLevel()
        blocking = asyncio.create_task(block(0.1, 0.1))
        load = OpenLoop(request_rate=100, arrivals=Arrivals.CONSTANT, requests=60, warm_up=0)
        await sender(server, asked("a")).run(load, level)
        blocking.cancel()
        return level

    assert 15 < _of(asyncio.run(run()).lag.sends) < 150


def _of(shares: Sequence[float]) -> float:
    return sum(shares) / len(shares)
