"""How often a comparison calls sides different when the measuring machine is busy, with and without its own lag."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from row import Row

from constructs_optim.evaluator.comparison import compare_metrics
from constructs_optim.evaluator.lag import Lag, mean_shares
from constructs_optim.evaluator.load import MeasuredLevel, Segment
from constructs_optim.evaluator.options import ClosedLoop
from constructs_optim.evaluator.streaming import Record
from constructs_optim.evaluator.summary import sample_of, summarize
from constructs_optim.recipe.evaluation.result import EvaluationResult, Level, Subject, Workload
from constructs_optim.runtime.evaluation.differences import Difference
from constructs_optim.runtime.evaluation.samples import Sample

_USERS, _REQUESTS, _TOKENS, _LOAD = 8, 160, 50, ClosedLoop(concurrency=8)
_FIRST_SECONDS, _TOKEN_SECONDS, _DEVIATION = 0.05, 0.004, 0.1
_CHECK_SECONDS = 0.02
_MOST, _LEAST = 0.05, 0.8


@dataclass(frozen=True)
class _Machine:
    """How many times a second its event loop is blocked, and for how many seconds on average."""

    name: str
    times: float
    seconds: float


_FREE = _Machine("free", 0.01, 0.001)
_MACHINES = (
    _FREE,
    _Machine("blocked 5 times a second for 10 ms", 5.0, 0.01),
    _Machine("blocked once a second for 50 ms", 1.0, 0.05),
    _Machine("blocked 3 times a second for 100 ms", 3.0, 0.1),
)


def rows(runs: int, seed: int) -> Iterator[Row]:
    """Yield the rows: a server against itself, and against a slower one; the machine is busy during the second side."""
    for machine in _MACHINES:
        traffic, aware, unaware = f"same server, {machine.name}", 0, 0
        for run in range(runs):
            random = Random(f"{seed}-{run}")
            with_lag, without = _compared(_level(random, _FREE), _level(random, machine))
            aware, unaware = aware + _differs(with_lag), unaware + _differs(without)
        yield Row("lag", traffic, "better or worse", aware, runs, most=_MOST)
        yield Row("lag", traffic, "better or worse, lag unknown", unaware, runs)
    for machine in _MACHINES:
        found = 0
        for run in range(runs):
            random = Random(f"{seed}-{run}")
            with_lag, _ = _compared(_level(random, _FREE), _level(random, machine, slower=1.5))
            found += with_lag["time_to_first_token_p50"].verdict == "worse"
        least = _LEAST if machine.seconds < 0.1 else None
        yield Row("lag", f"first token 50% slower, {machine.name}", "worse", found, runs, least=least)


def _differs(found: dict[str, Difference]) -> bool:
    return any(each.verdict in ("better", "worse") for each in found.values())


def _compared(before: MeasuredLevel, after: MeasuredLevel) -> tuple[dict[str, Difference], dict[str, Difference]]:
    """Return the differences by metric, with and without the machine's lag."""
    sides = {"baseline": before, "optimized": after}
    samples = {side: {_LOAD.label: sample_of(level)} for side, level in sides.items()}
    first, second = (
        EvaluationResult(
            subject=Subject(label=side),
            workload=Workload(prompts=1),
            started=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            levels=(_level_of(level, samples[side][_LOAD.label]),),
        )
        for side, level in sides.items()
    )

    def found(lags: dict[str, Lag]) -> dict[str, Difference]:
        by_load = {side: {_LOAD.label: lag} for side, lag in lags.items()}
        (compared,) = compare_metrics(first, second, samples, by_load)
        return {each.name: each for each in compared.differences}

    return found({side: level.lag for side, level in sides.items()}), found(dict.fromkeys(sides, Lag()))


def _level_of(measured: MeasuredLevel, sample: Sample) -> Level:
    """Return the result of a level, without the intervals of single metrics."""
    metrics = summarize(measured.counted, sample, _USERS)
    return Level(concurrency=_USERS, seconds=measured.seconds, metrics=metrics)


def _level(random: Random, machine: _Machine, slower: float = 1.0) -> MeasuredLevel:
    """Return the requests of a level as a machine sees them, and the lag that it notes."""
    ends = [0.0]
    starts = [-1.0]
    while ends[-1] < _REQUESTS:
        starts.append(ends[-1] + random.expovariate(machine.times))
        ends.append(starts[-1] + random.expovariate(1 / machine.seconds))

    def handled(arrival: float) -> float:
        return max(arrival, ends[bisect_right(starts, arrival) - 1])

    records, free = list[Record](), [random.random() for _ in range(_USERS)]
    for number in range(_REQUESTS):
        start = min(free)
        arrivals = [start + _FIRST_SECONDS * slower * random.lognormvariate(0, _DEVIATION)]
        for _ in range(_TOKENS - 1):
            arrivals.append(arrivals[-1] + _TOKEN_SECONDS * random.lognormvariate(0, _DEVIATION))
        seen = [handled(arrival) for arrival in arrivals]
        gaps = [1000 * (after - before) for before, after in pairwise(seen) if after > before]
        first, last = seen[0], seen[-1]
        records.append(Record(start, last, first, last, 100, _TOKENS, gaps=gaps, prompt=number))
        free[free.index(start)] = last
    checks = (place * _CHECK_SECONDS for place in range(int(records[-1].end / _CHECK_SECONDS)))
    lags = mean_shares([handled(check) - check for check in checks])
    return MeasuredLevel(records, [Segment(complete=True, lags=lags)])
