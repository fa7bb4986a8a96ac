"""The simulation: requests arrive, copies serve them, and every ten seconds the scaling looks at its metrics."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

from .declaration import Declared
from .fleet import Copy, Served, Speed
from .traffic import Traffic

_TICK_SECONDS = 10.0
_MINUTE_TICKS = 6
# Of what is drawn.
_SAMPLE_SECONDS = 300.0


@dataclass(frozen=True)
class Outcome:
    """What became of the traffic: hours of instances, requests, and the capacity over time.

    ``copies`` are the fewest and the most in service. ``capacity`` has the seconds, the copies in service and the
    requests in flight, every five minutes.
    """

    instance_hours: float
    served: Served
    copies: tuple[int, int]
    capacity: list[tuple[float, int, float]] = field(default_factory=list[tuple[float, int, float]])


def simulate(declared: Declared, traffic: Traffic, slower: tuple[float, float] = (1.0, 1.0)) -> Outcome:
    """Send traffic to an endpoint; ``slower`` are factors of the times to the first token and between tokens."""
    return _Simulation(declared, traffic, slower).run()


class _Simulation:
    def __init__(self, declared: Declared, traffic: Traffic, slower: tuple[float, float]) -> None:
        self._declared, self._traffic = declared, traffic
        self._speed = Speed.of(declared.forecasts, traffic.lengths[0], slower)
        self._served = Served()
        self._copies: list[Copy] = []
        self._numbers = 0
        self._ends: list[tuple[float, int, int, Copy]] = []
        self._events = 0
        self._desired = declared.copies
        # When copies that start will serve.
        self._starting: list[float] = []
        self._leaving: list[Copy] = []
        self._in_flight, self._flown, self._flown_since = 0, 0.0, 0.0
        self._arrived, self._refused = 0, 0
        self._instance_seconds = 0.0
        self._paid_until = 0.0
        self._fewest = self._most = declared.copies
        self._capacity: list[tuple[float, int, float]] = []
        for _ in range(declared.copies):
            self._add(0.0)

    def run(self) -> Outcome:
        """Until the last request has ended."""
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
        return Outcome(self._instance_seconds / 3600, self._served, (self._fewest, self._most), self._capacity)

    def _arrive(self, now: float, input_tokens: int, output_tokens: int) -> None:
        self._arrived += 1
        longest = self._declared.longest
        if longest is not None and input_tokens >= longest:
            self._served.failed += 1
            return
        if not self._copies:
            self._refused += 1
            self._served.failed += 1
            return
        if longest is not None:
            output_tokens = min(output_tokens, longest - input_tokens)
        copy = min(self._copies, key=lambda each: each.requests)
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
            self._leaving.remove(copy)

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
        """Pay for the instances that start, serve or drain since the last time."""
        copies = len(self._copies) + len(self._starting) + len(self._leaving)
        instances = math.ceil(copies / self._declared.copies_per_instance)
        self._instance_seconds += instances * (now - self._paid_until)
        self._paid_until = now

    def _tick(self, now: float, ticks: int) -> None:
        self._pay(now)
        self._fly(now, 0)
        scaling, serving = self._declared.scaling, len(self._copies)
        if scaling is not None:
            begun = now - _TICK_SECONDS
            if serving:
                for metric in ("ConcurrentRequestsPerModel", "ConcurrentRequestsPerCopy"):
                    scaling.published(metric, 10, begun, self._flown / _TICK_SECONDS / serving)
            if ticks % _MINUTE_TICKS == 0:
                minute = now - 60
                scaling.published("Invocations", 60, minute, self._arrived)
                scaling.published("NoCapacityInvocationFailures", 60, minute, self._refused)
                for metric in ("InvocationsPerInstance", "InvocationsPerCopy"):
                    if serving:
                        scaling.published(metric, 60, minute, self._arrived / serving)
        self._flown = 0.0
        if ticks % _MINUTE_TICKS == 0:
            self._arrived = self._refused = 0
        while self._starting and self._starting[0] <= now:
            heapq.heappop(self._starting)
            self._add(now)
        # SageMaker changes nothing while it is changing something.
        if scaling is not None and not self._starting:
            self._scale(scaling.wanted(self._desired, now), now)
        self._fewest, self._most = min(self._fewest, len(self._copies)), max(self._most, len(self._copies))

    def _scale(self, wanted: int, now: float) -> None:
        for _ in range(wanted - self._desired):
            heapq.heappush(self._starting, now + self._declared.start_seconds)
        for _ in range(self._desired - wanted):
            leaving = min(self._copies, key=lambda each: each.requests)
            self._copies.remove(leaving)
            leaving.is_leaving = True
            if leaving.requests:
                self._leaving.append(leaving)
            for at, given, expected in list(leaving.left()):
                copy = min(self._copies, key=lambda each: each.requests, default=leaving)
                copy.take(at, given, expected, now, self._served)
                self._schedule(copy)
        self._desired = wanted

    def _add(self, now: float) -> None:
        self._numbers += 1
        self._copies.append(Copy(self._numbers, self._speed, now))
