"""How often ``evaluate --compare`` calls two sides different, which one machine measured one after the other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from random import Random

from row import Row, count
from traffic import ClosedLoop, Traffic, autocorrelated, beside_a_neighbor, heavy_tailed, lognormal

from constructs_optim.evaluator.comparison import compare_metrics
from constructs_optim.evaluator.lag import Lag
from constructs_optim.recipe.evaluation.result import EvaluationResult, Level, Subject, Workload

_USERS, _FEW, _MANY = 8, 160, 1600
_MOST, _LEAST = 0.05, 0.9
_STEADY = Traffic("independent", lognormal(0.3))


def rows(runs: int, seed: int) -> Iterator[Row]:
    """Simulate a server beside itself, and beside one that is 10% slower."""
    for traffic in (
        _STEADY,
        Traffic("autocorrelated", autocorrelated),
        Traffic("heavy tail", heavy_tailed),
        Traffic("on/off neighbor", beside_a_neighbor),
    ):

        def differs(random: Random, traffic: Traffic = traffic) -> bool:
            return not _verdicts(traffic, random, _FEW).isdisjoint(("better", "worse"))

        told = f"{traffic.name}, equal, {_FEW} at {_USERS} users"
        yield Row("comparison", told, "better or worse", count(runs, seed, differs), runs, _MOST)

    def is_worse(random: Random) -> bool:
        return "worse" in _verdicts(_STEADY, random, _MANY, slower=1.1)

    told = f"{_STEADY.name}, 10% slower, {_MANY} at {_USERS} users"
    yield Row("comparison", told, "worse", count(runs, seed, is_worse), runs, None, _LEAST)


def _verdicts(traffic: Traffic, random: Random, requests: int, slower: float = 1.0) -> set[str]:
    sides = [ClosedLoop(traffic, random, _USERS, requests, each) for each in (1.0, slower)]
    samples = {
        name: {f"{_USERS} users": side.sample} for name, side in zip(("baseline", "optimized"), sides, strict=True)
    }
    lags = {key: {f"{_USERS} users": Lag()} for key in samples}
    (compared,) = compare_metrics(_result(sides[0]), _result(sides[1]), samples, lags)
    return {each.verdict for each in compared.differences}


def _result(side: ClosedLoop) -> EvaluationResult:
    return EvaluationResult(
        subject=Subject(label="simulated"),
        workload=Workload(prompts=1),
        started=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        levels=(Level(concurrency=_USERS, seconds=1.0, metrics=side.metrics()),),
    )
