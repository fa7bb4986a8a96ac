"""How many requests and measurements a gate needs to tell what it refuses from chance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

from . import Benchmark
from .requirements import Requirement

LEVEL, POWER = 0.05, 0.9
"""The probability with which any limit of a gate may refuse an endpoint that meets all of them, and the one with which
a gate is to refuse an endpoint ``BEYOND`` times its limit. The gate's own figures (``runtime/evaluation``)."""
BEYOND = 1.5
MEASUREMENTS = 3
"""The most measurements of one deployment."""
SPREAD = 0.5
"""How much latencies are assumed to vary: the standard deviation of their logarithm, which is normal. With less, fewer
requests decide a limit. Heavier tails take more, and so do requests that are alike."""
# A gate allows for requests that are alike. It estimates how much they are, which takes more of them: three times as
# many for latencies, of which it has a hundred (tests/recipe/test_sample_size.py), and half as many again for failures,
# of which it has thousands (bench/verdicts).
_ALIKE, _ALIKE_OF_FAILURES = 3.0, 1.5
# Latencies and rates count from every user's first response on. Until the slowest one, a user sends about two requests.
# If more than half of the requests were sent by then, they count, too (runtime/evaluation/benchmark_output.py).
_FIRST_OF_USER, _FEWEST_OF_USER = 2, 4
# The factor from one guess of the number of requests to the next.
_GROWTH = 1.05
_NORMAL = NormalDist()


@dataclass(frozen=True)
class LimitedSample:
    """The requests with ``users`` concurrent users by which a limit is judged.

    ``requests`` is their number in one measurement, and ``limits`` the number of values that the gate judges: each
    limit at each number of users.
    """

    limit: Requirement
    users: int
    requests: int
    limits: int

    @property
    def needed(self) -> int | None:
        """The number of requests in a measurement that decides the limit; None if it does not depend on requests."""
        shares = _shares_beyond(self.limit)
        if shares is None:
            return None
        fewest = _fewest(*shares, LEVEL / self.limits)
        if self.limit.is_on_failures:
            return math.ceil(fewest * _ALIKE_OF_FAILURES / MEASUREMENTS)
        counted = math.ceil(fewest * _ALIKE / MEASUREMENTS)
        return max(counted + self.users * _FIRST_OF_USER, self.users * _FEWEST_OF_USER)


@dataclass(frozen=True)
class ComparedVersions:
    """A requirement that a version is not worse than the replaced one, and the schedule that measures each version."""

    max_regression: float | None
    schedule: str | None


def limited_samples(benchmark: Benchmark) -> Iterator[LimitedSample]:
    """Yield each limit with the fewest requests that judge it, if their number is known."""
    required = benchmark.requirements
    requests = benchmark.workload.spec["parameters"].get("request_count")
    if required is None or not isinstance(requests, int):
        return
    users = [required.at_concurrency] if required.at_concurrency is not None else benchmark.workload.concurrency
    judged = [limit for limit in required.limits if _shares_beyond(limit) is not None]
    for limit in judged:
        yield LimitedSample(limit, max(users), requests, len(judged) * len(users))


def _shares_beyond(limit: Requirement) -> tuple[float, float] | None:
    """Return the shares of requests beyond a limit, of an endpoint at the limit, and of one that is far beyond it.

    Means, rates, and prices need about as many requests as the median.
    """
    if limit.is_on_failures:
        most = limit.at_most or 0.0
        return (most, most * BEYOND) if 0 < most * BEYOND < 1 else None
    if limit.is_of_requests:
        allowed = 1 - (limit.percentile or 50) / 100
        return allowed, 1 - _NORMAL.cdf(_NORMAL.inv_cdf(1 - allowed) - math.log(BEYOND) / SPREAD)
    return None


def _fewest(allowed: float, beyond: float, level: float) -> int:
    """Return the number of requests of which too many are beyond the limit, with a probability of ``POWER``."""
    requests = 1.0
    while True:
        count = _refused_from(math.ceil(requests), allowed, level)
        if 1 - _fewer_than(count, math.ceil(requests), beyond) >= POWER:
            return math.ceil(requests)
        requests = max(requests + 1, requests * _GROWTH)


def _refused_from(requests: int, share: float, level: float) -> int:
    """Return the smallest number of requests beyond the limit that chance explains with less than ``level``."""
    count, below, probability = 0, 0.0, math.exp(requests * math.log1p(-share))
    while 1 - below > level:
        below += probability
        probability *= (requests - count) / (count + 1) * share / (1 - share)
        count += 1
    return count


def _fewer_than(count: int, requests: int, share: float) -> float:
    """Return the binomial probability of fewer than ``count`` of the requests."""
    logarithms = (
        math.lgamma(requests + 1)
        - math.lgamma(each + 1)
        - math.lgamma(requests - each + 1)
        + each * math.log(share)
        + (requests - each) * math.log1p(-share)
        for each in range(min(count, requests + 1))
    )
    return math.fsum(math.exp(each) for each in logarithms)
