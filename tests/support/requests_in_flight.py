"""Requests in flight on the instances of an endpoint, in a simulation of its own: arrivals, routing and waiting.

- Requests arrive at random (Poisson) and take 10 seconds on average (log-normal, sigma 1).
- An instance serves ``places`` of them at once; the others wait, and are in flight as well (AWS Machine Learning Blog,
  "Amazon SageMaker inference launches faster auto scaling for generative AI models").
- SageMaker publishes each instance's number every 10 seconds (the same post).
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heapreplace
from itertools import accumulate
from random import Random

REQUEST_SECONDS, SIGMA, SAMPLE_SECONDS = 10.0, 1.0, 10.0
_PREFIXES = 200
# Routing.prefix_aware's default.
_CONCURRENCY_THRESHOLD = 64
Route = Callable[[Sequence[int]], int]
"""The instance of the next request, by the number in flight of each."""
Routing = Callable[[Random, int, float], Route]
"""A route for a number of instances of a capacity."""


def at_random(chance: Random, instances: int, capacity: float) -> Route:
    """RANDOM."""
    return lambda in_flight: int(chance.random() * instances)


def to_the_fewest(chance: Random, instances: int, capacity: float) -> Route:
    """LEAST_OUTSTANDING_REQUESTS: among equals, a random instance."""

    def route(in_flight: Sequence[int]) -> int:
        fewest = min(in_flight)
        first = int(chance.random() * instances)
        return in_flight.index(fewest, first) if fewest in in_flight[first:] else in_flight.index(fewest)

    return route


def to_prefixes(chance: Random, instances: int, capacity: float) -> Route:
    """PREFIX_AWARE: each of 200 prefixes of Zipf's law has an instance; at 64 in flight, the request goes elsewhere.

    Source: SageMaker API reference, PrefixAwareRoutingConfig.
    """
    return _to_homes(chance, instances, capacity, _CONCURRENCY_THRESHOLD)


def to_caches(chance: Random, instances: int, capacity: float) -> Route:
    """KV_AWARE: as ``to_prefixes``, but an instance is too busy once it is full.

    Source: SageMaker API reference, ProductionVariantRoutingConfig, which does not say how busy.
    """
    return _to_homes(chance, instances, capacity, math.ceil(capacity))


def _to_homes(chance: Random, instances: int, capacity: float, limit: int) -> Route:
    shares = list(accumulate(1 / rank for rank in range(1, _PREFIXES + 1)))
    homes = [int(chance.random() * instances) for _ in shares]
    elsewhere = to_the_fewest(chance, instances, capacity)

    def route(in_flight: Sequence[int]) -> int:
        home = homes[bisect(shares, chance.random() * shares[-1])]
        return home if in_flight[home] < limit else elsewhere(in_flight)

    return route


def offered(capacity: float, in_flight: float) -> float:
    """The requests in service, on average, of an instance that has ``in_flight`` with those that wait.

    Sources: Erlang's formula C; Allen and Cunneen's approximation for the variance of the lengths.
    """
    places, low, high = math.ceil(capacity), 0.0, in_flight
    variance = math.exp(SIGMA**2) - 1
    for _ in range(50):
        busy = (low + high) / 2
        blocked = 1.0
        for number in range(1, places + 1):
            blocked = busy * blocked / (number + busy * blocked)
        share = busy / places
        waiting = blocked / (1 - share + share * blocked) * share / (1 - share) * (1 + variance) / 2
        low, high = (low, busy) if busy + waiting > in_flight else (busy, high)
    return low


def samples(
    routing: Routing, instances: int, capacity: float, load: Callable[[float], float], seconds: float, seed: str
) -> list[list[int]]:
    """Each instance's number of requests in flight, every ten seconds.

    ``load`` is the number of requests in service, on average, that the arrivals at a second mean for an instance.
    """
    chance = Random(seed)
    route, in_flight = routing(chance, instances, capacity), [0] * instances
    # When the places of each instance are free, and when requests end, with their instances.
    free = [[0.0] * math.ceil(capacity) for _ in range(instances)]
    ends: list[tuple[float, int]] = []
    mean = math.log(REQUEST_SECONDS) - SIGMA**2 / 2
    found: list[list[int]] = []
    now, sample = 0.0, SAMPLE_SECONDS
    while now < seconds:
        now += chance.expovariate(load(now) * instances / REQUEST_SECONDS)
        while ends and ends[0][0] <= now:
            ended, instance = heappop(ends)
            while sample <= ended:
                found.append(in_flight[:])
                sample += SAMPLE_SECONDS
            in_flight[instance] -= 1
        while sample <= now:
            found.append(in_flight[:])
            sample += SAMPLE_SECONDS
        instance = route(in_flight)
        end = max(now, free[instance][0]) + chance.lognormvariate(mean, SIGMA)
        heapreplace(free[instance], end)
        heappush(ends, (end, instance))
        in_flight[instance] += 1
    return found
