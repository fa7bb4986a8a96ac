"""How often a gate refuses endpoints, by its limits and by comparison with the replaced version."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from row import Row
from traffic import ClosedLoop, Traffic, autocorrelated, beside_a_neighbor, heavy_tailed, lognormal

from constructs_optim.runtime.evaluation.differences import Measured
from constructs_optim.runtime.evaluation.gate import find
from constructs_optim.runtime.requests.run_properties import Comparison, Gate, Limit

Requests = Mapping[int, int]
"""The number of requests by the number of users."""
_DEFAULT: Requests = {1: 100, 8: 100, 32: 256}
_FEW: Requests = {8: 100}
_SOUND, _UNSOUND, _MOST, _LEAST = 0.9, 1.5, 0.05, 0.9
# For the true values.
_LONG = 40_000
_STEADY, _UNSTEADY = Traffic("sigma 0.3", lognormal(0.3)), Traffic("sigma 0.5", lognormal(0.5))
_OTHERS = (
    Traffic("autocorrelated", autocorrelated, 0.002),
    Traffic("heavy tail", heavy_tailed, 0.002),
    Traffic("on/off neighbor", beside_a_neighbor, 0.002),
)
_AT_MOST = (
    "time_to_first_token_p50",
    "time_to_first_token_p90",
    "time_to_first_token_p99",
    "time_to_first_token",
    "inter_token_latency_p50",
    "inter_token_latency_p99",
    "client_latency_p90",
    "price_per_million_output_tokens",
    "blended_price_per_million_tokens",
)
_AT_LEAST = ("requests_per_second", "output_tokens_per_second", "total_throughput")
_FAILURES = Limit(formula="client_invocation_errors / client_invocations", at_most=0.01)
_COMPARED = (
    Comparison(metric="time_to_first_token_p50"),
    Comparison(metric="inter_token_latency_p50"),
    Comparison(metric="client_latency_p90"),
    Comparison(metric="output_tokens_per_second", better="higher"),
)


class _Runs:
    """The measurements of one version, made when they are asked for.

    Runs differ by the deviation ``between``, and deployments, whose runs all use the same instances, by ``deployed``.
    """

    def __init__(
        self,
        traffic: Traffic,
        requests: Requests,
        seed: str,
        *,
        slower: float = 1.0,
        between: float = 0.0,
        deployed: float = 0.0,
    ) -> None:
        self._traffic, self._requests, self._seed, self._between = traffic, requests, seed, between
        self._slower = slower * math.exp(Random(f"deployed {seed}").gauss(0, deployed))
        self._measured: list[Mapping[int, Measured]] = []

    def first(self, count: int) -> Mapping[int, Measured]:
        """Return the first runs as one side."""
        while len(self._measured) < count:
            self._measured.append(self._measure())
        return {users: Measured.of_runs([run[users] for run in self._measured[:count]]) for users in self._requests}

    def known(self, count: int) -> Mapping[int, Measured]:
        """Return the first runs as those of a replaced version, of which only the last one's requests are read."""
        self.first(count)
        *earlier, last = self._measured[:count]
        return {
            users: Measured.of_runs([*(Measured(run[users].metrics, None) for run in earlier), last[users]])
            for users in self._requests
        }

    def _measure(self) -> Mapping[int, Measured]:
        random = Random(f"{self._seed} {len(self._measured)}")
        slower = self._slower * math.exp(random.gauss(0, self._between))
        loops = {
            users: ClosedLoop(self._traffic, random, users, requests, slower)
            for users, requests in self._requests.items()
        }
        return {users: Measured(loop.metrics(), loop.sample) for users, loop in loops.items()}


def _judge(gate: Gate, after: _Runs, before: Mapping[int, Measured] | None = None) -> tuple[bool, bool]:
    """Return whether a deployment is refused, and whether it was measured again, as the watcher does it."""
    runs = 1
    while True:
        found = find(gate, after.first(runs), before or {}, None)
        if found.misses or not found.is_worth_repeating:
            return bool(found.misses), runs > 1
        runs += 1


def limits(runs: int, seed: int) -> Iterator[Row]:
    """Simulate endpoints within and beyond their limits."""
    for traffic in (_STEADY, _UNSTEADY):
        yield from _single_limits(traffic, _DEFAULT, _SOUND, runs, seed)
        yield from _single_limits(traffic, _FEW, _UNSOUND, runs, seed)
    for traffic in (_UNSTEADY, *_OTHERS):
        yield from _all_limits(traffic, 0.0, runs, seed)
    for between in (0.05, 0.08):
        yield from _all_limits(_STEADY, between, runs, seed)
    # 2,250 requests are what the synthesis advises for this limit.
    for failing, in_a_row, requests, most, least in (
        (0.009, 1, _DEFAULT, _MOST, None),
        (0.009, 5, _DEFAULT, _MOST, None),
        (0.015, 1, _DEFAULT, None, None),
        (0.06, 1, _DEFAULT, None, _LEAST),
        (0.009, 1, {8: 2_250}, _MOST, None),
        (0.015, 1, {8: 2_250}, None, _LEAST),
    ):
        traffic = Traffic(f"{failing:.1%} fail, {in_a_row} in a row", lognormal(0.3), failing, in_a_row)
        gate = Gate(limits=(_FAILURES,))
        refused = sum(_judge(gate, _Runs(traffic, requests, f"{seed} {traffic.name} {run}"))[0] for run in range(runs))
        told = f"{traffic.name}, at most 1%, {_described(requests)}"
        yield Row("limit", told, "refused", refused, runs, most, least)


def _single_limits(traffic: Traffic, requests: Requests, share: float, runs: int, seed: int) -> Iterator[Row]:
    """Judge each limit by itself, beside the default limit on failures, all by the same requests."""
    gates = {
        metric: Gate(limits=(_limit(metric, traffic, requests, share), _FAILURES)) for metric in (*_AT_MOST, *_AT_LEAST)
    }
    refused, repeated = Counter[str](), Counter[str]()
    for run in range(runs):
        measured = _Runs(traffic, requests, f"{seed} {traffic.name} {share} {run}")
        for metric, gate in gates.items():
            is_refused, is_repeated = _judge(gate, measured)
            refused[metric] += is_refused
            repeated[metric] += is_repeated
    most, least = (_MOST, None) if share < 1 else (None, _LEAST)
    for metric in gates:
        told = f"{traffic.name}, {metric} at {share}, {_described(requests)}"
        yield Row("limit", told, "refused", refused[metric], runs, most, least)
        if repeated[metric]:
            yield Row("limit", told, "measured again", repeated[metric], runs)


def _all_limits(traffic: Traffic, between: float, runs: int, seed: int) -> Iterator[Row]:
    """Judge all limits at once."""
    for share, most in ((_SOUND, _MOST), (_UNSOUND, None)):
        each = tuple(_limit(metric, traffic, _DEFAULT, share) for metric in (*_AT_MOST, *_AT_LEAST))
        gate, refused = Gate(limits=(*each, _FAILURES)), 0
        for run in range(runs):
            measured = _Runs(traffic, _DEFAULT, f"{seed} {traffic.name} {share} {run}", between=between)
            refused += _judge(gate, measured)[0]
        spread = f", runs {between:.0%} apart" if between else ""
        told = f"{traffic.name}{spread}, {len(gate.limits)} limits at {share}, {_described(_DEFAULT)}"
        yield Row("limit", told, "refused", refused, runs, most)


@cache
def _truth(traffic: Traffic, users: int) -> Mapping[str, float]:
    return ClosedLoop(traffic, Random(f"truth {traffic.name} {users}"), users, _LONG).metrics()


def _limit(metric: str, traffic: Traffic, requests: Requests, share: float) -> Limit:
    """Return the limit of which the worst true value is this share, or which is this share of it for a minimum."""
    values = [_truth(traffic, users)[metric] for users in requests]
    if metric in _AT_LEAST:
        return Limit(formula=metric, at_least=min(values) * share)
    return Limit(formula=metric, at_most=max(values) / share)


@dataclass(frozen=True)
class _Change:
    """A deployment: how much slower it is, how far apart runs are, and how many of the old version's are known.

    ``deployed`` is how far apart deployments are beyond that.
    """

    slower: float
    between: float
    known: int
    requests: Requests
    margins: Sequence[float]
    most: float | None = None
    least: float | None = None
    deployed: float = 0.0


def regressions(runs: int, seed: int) -> Iterator[Row]:
    """Simulate deployments of equal and of slower versions."""
    for between in (0.0, 0.02, 0.03, 0.05, 0.08):
        for known, requests in ((1, {8: 120}), (1, _DEFAULT), (8, {8: 120})):
            yield from _deployed(_Change(1.0, between, known, requests, (0.05, 0.1), most=_MOST), runs, seed)
    for deployed, between, known in ((0.04, 0.01, 1), (0.04, 0.01, 3), (0.04, 0.01, 12), (0.04, 0.05, 12)):
        change = _Change(1.0, between, known, {8: 120}, (0.05, 0.1), most=_MOST, deployed=deployed)
        yield from _deployed(change, runs, seed)
    for slower, between, known, requests, least in (
        (1.1, 0.02, 1, _DEFAULT, None),
        (1.1, 0.02, 8, _DEFAULT, None),
        (1.25, 0.02, 8, _DEFAULT, _LEAST),
        (1.3, 0.05, 1, _DEFAULT, None),
        (1.3, 0.05, 8, _DEFAULT, _LEAST),
        (1.5, 0.05, 1, _DEFAULT, _LEAST),
    ):
        yield from _deployed(_Change(slower, between, known, requests, (0.05,), least=least), runs, seed)


def _deployed(change: _Change, runs: int, seed: int) -> Iterator[Row]:
    refused, repeated = Counter[float](), Counter[float]()
    for run in range(runs):
        named = f"{seed} {change.slower} {change.between} {change.deployed} {change.known} {run}"
        apart = {"between": change.between, "deployed": change.deployed}
        before = _Runs(_STEADY, change.requests, f"before {named}", **apart).known(change.known)
        after = _Runs(_STEADY, change.requests, f"after {named}", slower=change.slower, **apart)
        for margin in change.margins:
            is_refused, is_repeated = _judge(Gate(max_regression=margin, compared=_COMPARED), after, before)
            refused[margin] += is_refused
            repeated[margin] += is_repeated
    how = "equal" if change.slower == 1 else f"{change.slower - 1:.0%} slower"
    for margin in change.margins:
        deployed = f", deployments {change.deployed:.0%}" if change.deployed else ""
        told = (
            f"{how}, {margin:.0%} allowed, runs {change.between:.0%} apart{deployed}, {change.known} known, "
            f"{_described(change.requests)}"
        )
        yield Row("gate", told, "refused", refused[margin], runs, change.most, change.least)
        if repeated[margin]:
            yield Row("gate", told, "measured again", repeated[margin], runs)


def _described(requests: Requests) -> str:
    counts, users = ("/".join(map(str, each)) for each in (requests.values(), requests))
    return f"{counts} at {users} users"
