"""The simulation: requests arrive, copies serve them, and every ten seconds the scaling reads its metrics."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from .declaration import Declared
from .fleet import Copy, Served, Speed
from .traffic import Traffic

_TICK_SECONDS = 10.0
_MINUTE_TICKS = 6
# Requests go to the copy with the fewest requests; among several, to the one that changed least recently.
_LOAD = attrgetter("requests", "updated")
# The interval of ``Outcome.capacity``.
_SAMPLE_SECONDS = 300.0


@dataclass(frozen=True)
class Outcome:
    """The result of a simulation: instance hours by pool, requests, and the capacity over time.

    ``copies`` is the minimum and maximum number in service. ``is_short`` tells whether the endpoint needed more
    instances than are available. ``capacity`` has the seconds, the copies in service and the requests in flight, every
    five minutes.
    """

    hours: tuple[float, ...]
    served: Served
    copies: tuple[int, int]
    is_short: bool
    capacity: list[tuple[float, int, float]] = field(default_factory=list[tuple[float, int, float]])

    @property
    def instance_hours(self) -> float:
        """The instance hours of all pools."""
        return sum(self.hours)


def simulate(declared: Declared, traffic: Traffic, slower: Sequence[tuple[float, float]] = ()) -> Outcome:
    """Simulate traffic to an endpoint.

    ``slower`` has, for each pool, factors for the times to the first token and between tokens. Default: 1.
    """
    return _Simulation(declared, traffic, slower or [(1.0, 1.0)] * len(declared.pools)).run()


class _Simulation:
    def __init__(self, declared: Declared, traffic: Traffic, slower: Sequence[tuple[float, float]]) -> None:
        self._declared, self._traffic = declared, traffic
        self._pools = declared.pools
        self._speeds = [
            Speed.of(pool.forecasts, traffic.lengths[0], factors)
            for pool, factors in zip(declared.pools, slower, strict=True)
        ]
        # By pool: copies that start, serve or drain, and the billed seconds of their instances.
        self._paid = [0] * len(self._pools)
        self._instance_seconds = [0.0] * len(self._pools)
        self._is_short = False
        self._served = Served()
        self._copies: list[Copy] = []
        self._numbers = 0
        self._ends: list[tuple[float, int, int, Copy]] = []
        self._events = 0
        # When starting copies will serve, and their pools.
        self._starting: list[tuple[float, int]] = []
        self._in_flight, self._flown, self._flown_since = 0, 0.0, 0.0
        self._arrived, self._arrived_per_copy, self._refused = 0, 0.0, 0
        self._paid_until = 0.0
        self._fewest = self._most = declared.copies
        self._capacity: list[tuple[float, int, float]] = []
        for _ in range(declared.copies):
            pool = self._launched()
            if pool is not None:
                self._add(pool, 0.0)
        self._desired = len(self._copies)

    def run(self) -> Outcome:
        """Run until the last request has ended."""
        traffic, count = self._traffic, len(self._traffic)
        tick, ticks, index = _TICK_SECONDS, 0, 0
        now = next_sample = 0.0
        while index < count or self._in_flight:
            arrival = traffic.seconds[index] if index < count else math.inf
            end = self._ends[0][0] if self._ends else math.inf
            now = min(arrival, end, tick)
            if now == tick:
                ticks += 1
                self._tick(now, ticks)
                if now >= next_sample:
                    self._capacity.append((now, len(self._copies), float(self._in_flight)))
                    next_sample += _SAMPLE_SECONDS
                tick += _TICK_SECONDS
            elif now == end:
                self._end()
            else:
                self._arrive(now, traffic.input_tokens[index], traffic.output_tokens[index])
                index += 1
        self._pay(now)
        hours = tuple(seconds / 3600 for seconds in self._instance_seconds)
        return Outcome(hours, self._served, (self._fewest, self._most), self._is_short, self._capacity)

    def _arrive(self, now: float, input_tokens: int, output_tokens: int) -> None:
        self._arrived += 1
        if not self._copies:
            self._refused += 1
            self._served.failed += 1
            return
        # SageMaker publishes 1 / (number of instances) for each request: SageMaker developer guide, "Amazon SageMaker
        # AI metrics in Amazon CloudWatch" (InvocationsPerInstance).
        self._arrived_per_copy += 1 / len(self._copies)
        copy = min(self._copies, key=_LOAD)
        if input_tokens >= copy.longest:
            self._served.failed += 1
            return
        self._fly(now, 1)
        copy.take(now, input_tokens, output_tokens, now, self._served)
        self._schedule(copy)

    def _end(self) -> None:
        now, _, event, copy = heapq.heappop(self._ends)
        if event != copy.event:
            return
        copy.end(now, self._served)
        self._fly(now, -1)
        self._schedule(copy)
        if copy.is_leaving and not copy.requests:
            self._paid[copy.pool] -= 1

    def _schedule(self, copy: Copy) -> None:
        at = copy.next_end
        if at < math.inf:
            self._events += 1
            copy.event = self._events
            heapq.heappush(self._ends, (at, copy.number, self._events, copy))

    def _fly(self, now: float, change: int) -> None:
        self._flown += self._in_flight * (now - self._flown_since)
        self._flown_since = now
        self._in_flight += change

    def _pay(self, now: float) -> None:
        """Add the cost of instances that start, serve or drain, since the last call."""
        for index, (pool, copies) in enumerate(zip(self._pools, self._paid, strict=True)):
            instances = math.ceil(copies / pool.copies_per_instance)
            self._instance_seconds[index] += instances * (now - self._paid_until)
        self._paid_until = now

    def _tick(self, now: float, ticks: int) -> None:
        self._pay(now)
        self._fly(now, 0)
        scaling, serving = self._declared.scaling, len(self._copies)
        if scaling is not None:
            begun = now - _TICK_SECONDS
            if serving:
                # Copies begin and end to serve between periods, so the number is that of the whole period.
                for metric in ("ConcurrentRequestsPerModel", "ConcurrentRequestsPerCopy"):
                    scaling.published(metric, 10, begun, self._flown / _TICK_SECONDS / serving)
            if ticks % _MINUTE_TICKS == 0:
                minute = now - 60
                scaling.published("Invocations", 60, minute, self._arrived)
                scaling.published("NoCapacityInvocationFailures", 60, minute, self._refused)
                for metric in ("InvocationsPerInstance", "InvocationsPerCopy"):
                    if serving:
                        scaling.published(metric, 60, minute, self._arrived_per_copy)
        self._flown = 0.0
        if ticks % _MINUTE_TICKS == 0:
            self._arrived, self._arrived_per_copy, self._refused = 0, 0.0, 0
        while self._starting and self._starting[0][0] <= now:
            self._add(heapq.heappop(self._starting)[1], now)
        # SageMaker starts no change while another is in progress.
        if scaling is not None and not self._starting:
            self._scale(scaling.wanted(self._desired, now), now)
        self._fewest, self._most = min(self._fewest, len(self._copies)), max(self._most, len(self._copies))

    def _scale(self, wanted: int, now: float) -> None:
        for _ in range(wanted - self._desired):
            pool = self._launched()
            if pool is None:
                break
            self._desired += 1
            heapq.heappush(self._starting, (now + self._pools[pool].start_seconds, pool))
        for _ in range(self._desired - wanted):
            # The last pool is reduced first (see fleets.py of the local cloud for the source).
            leaving = max(self._copies, key=lambda each: (each.pool, -each.requests))
            self._desired -= 1
            self._copies.remove(leaving)
            leaving.is_leaving = True
            if not leaving.requests:
                self._paid[leaving.pool] -= 1
            for at, given, expected in list(leaving.left()):
                copy = min((each for each in self._copies if given < each.longest), key=_LOAD, default=leaving)
                copy.take(at, given, expected, now, self._served)
                self._schedule(copy)

    def _launched(self) -> int | None:
        """Return the pool in which another copy starts: the first pool with room, or None."""
        for index, (pool, copies) in enumerate(zip(self._pools, self._paid, strict=True)):
            if pool.available is None or copies < pool.available * pool.copies_per_instance:
                self._paid[index] += 1
                return index
        self._is_short = True
        return None

    def _add(self, pool: int, now: float) -> None:
        self._numbers += 1
        self._copies.append(Copy(self._numbers, pool, self._speeds[pool], self._pools[pool].longest, now))
