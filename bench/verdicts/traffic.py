"""Simulated requests of closed loops: each user sends the next request when the last response is complete."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from statistics import fmean, quantiles

from constructs_optim.runtime.evaluation.samples import Observation, Sample

_TTFT, _ITL, _TOKENS, _INPUT_TOKENS = 200.0, 20.0, 50, 600
PRICE_PER_HOUR = 7.09
Noise = Callable[[Random], Iterator[float]]
"""How many times as long as usual successive requests take."""


def lognormal(sigma: float) -> Noise:
    """Return independent factors whose logarithms have this standard deviation."""

    def noise(random: Random) -> Iterator[float]:
        while True:
            yield math.exp(sigma * random.gauss(0, 1))

    return noise


def autocorrelated(random: Random) -> Iterator[float]:
    """Yield lognormal factors with a correlation of 0.9 from one to the next."""
    state = random.gauss(0, 1)
    while True:
        yield math.exp(0.3 * state)
        state = 0.9 * state + math.sqrt(1 - 0.9**2) * random.gauss(0, 1)


def heavy_tailed(random: Random) -> Iterator[float]:
    """Yield factors of Pareto's distribution: one in 316 is above 10."""
    while True:
        yield random.paretovariate(2.5)


def beside_a_neighbor(random: Random) -> Iterator[float]:
    """Yield lognormal factors that are half as high again for some dozen requests, and then are not for as many."""
    while True:
        busy = random.choice((1.0, 1.5))
        for _ in range(1 + int(random.expovariate(1 / 12))):
            yield busy * math.exp(0.2 * random.gauss(0, 1))


@dataclass(frozen=True)
class Traffic:
    """Requests, of which the share ``failing`` fails, ``in_a_row`` each time."""

    name: str
    noise: Noise
    failing: float = 0.0
    in_a_row: int = 1


class ClosedLoop:
    """The requests of some users, ``slower`` times as slow as usual.

    As in an evaluation, latencies and rates count requests from every user's first response on, or all if few would be
    left, and the time until the last request.
    """

    def __init__(self, traffic: Traffic, random: Random, users: int, requests: int, slower: float = 1.0) -> None:
        self.users = users
        self._starts, self._ttfts, self._itls, self._took = list[float](), list[float](), list[float](), list[float]()
        self._failed = list[bool]()
        free, factors, failing = [0.0] * users, traffic.noise(random), 0
        for _ in range(requests):
            start, factor = heapq.heappop(free), next(factors)
            if not failing and random.random() < traffic.failing / traffic.in_a_row:
                failing = traffic.in_a_row
            self._starts.append(start)
            self._ttfts.append(_TTFT * slower * factor)
            self._itls.append(_ITL * slower * factor ** (1 / 3))
            self._failed.append(failing > 0)
            self._took.append(self._ttfts[-1] + (0.0 if failing else self._itls[-1] * (_TOKENS - 1)))
            failing = max(0, failing - 1)
            heapq.heappush(free, start + self._took[-1] / 1000)
        ends = [start + took / 1000 for start, took in zip(self._starts, self._took, strict=True)]
        self._begin, self._end = max(ends[:users]), self._starts[-1]
        if sum(start >= self._begin for start in self._starts) < requests / 2:
            self._begin = 0.0
        if requests <= users:
            self._end = max(ends)

    @property
    def sample(self) -> Sample:
        """The requests as an evaluation stores them."""
        observed = [
            Observation(start) if failed else Observation(start, ttft, itl, took, _INPUT_TOKENS, _TOKENS)
            for start, ttft, itl, took, failed in zip(
                self._starts, self._ttfts, self._itls, self._took, self._failed, strict=True
            )
        ]
        inside = [each.inside(self._begin, self._end) for each in observed]
        first = next(place for place, start in enumerate(self._starts) if start >= self._begin)
        return Sample(inside[first:], self._end - self._begin, inside[:first])

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the requests."""
        counted = [
            place for place, start in enumerate(self._starts) if start >= self._begin and not self._failed[place]
        ]
        found: dict[str, float] = {}
        for name, values in (
            ("time_to_first_token", self._ttfts),
            ("inter_token_latency", self._itls),
            ("client_latency", self._took),
        ):
            chosen = [values[place] for place in counted]
            percentiles = quantiles(chosen, n=100, method="inclusive")
            found |= {name: fmean(chosen)} | {f"{name}_p{each}": percentiles[each - 1] for each in (50, 90, 99)}
        within = sum(
            max(0.0, min(self._end, start + took / 1000) - max(self._begin, start)) / (took / 1000)
            for start, took, failed in zip(self._starts, self._took, self._failed, strict=True)
            if not failed
        )
        rate = within / (self._end - self._begin)
        generated = self.users * 1000 / found["inter_token_latency_p50"]
        return found | {
            "requests_per_second": rate,
            "output_tokens_per_second": rate * _TOKENS,
            "price_per_million_output_tokens": PRICE_PER_HOUR / (rate * _TOKENS * 3600 / 1e6),
            "total_throughput": generated,
            "blended_price_per_million_tokens": PRICE_PER_HOUR / (generated * 3600 / 1e6) / 4,
            "client_invocations": float(len(self._starts)),
            "client_invocation_errors": float(sum(self._failed)),
        }
