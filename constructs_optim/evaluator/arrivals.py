"""The times at which the requests of an open loop are due."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

from .options import Arrivals, OpenLoop


def due_times(load: OpenLoop, lead_seconds: float) -> Iterator[float]:
    """Yield the times at which an open loop's requests are due, in seconds from its start, without end.

    A load always has the same times. The first ``lead_seconds`` have the load's initial rate. The arrivals at a rate of
    1 are scaled by the current rate, so that a ramp keeps their pattern.
    """
    generator = random.Random(load.label)  # noqa: S311 - no secret
    between = _intervals(load, generator)
    # The number of requests that are due up to the next one.
    count = 0.0
    while True:
        count += between()
        due = count / load.request_rate
        if load.end_rate is None or due <= lead_seconds:
            yield due
        else:
            yield lead_seconds + _in_ramp(load, count - lead_seconds * load.request_rate)


def _intervals(load: OpenLoop, generator: random.Random) -> Callable[[], float]:
    """Return a function for the time between two requests, with a mean of 1."""
    if load.arrivals is Arrivals.CONSTANT:
        return lambda: 1.0
    shape = 1.0 if load.arrivals is Arrivals.POISSON else load.burstiness
    return lambda: generator.gammavariate(shape, 1 / shape)


def _in_ramp(load: OpenLoop, count: float) -> float:
    """Return the seconds of a ramp until this many requests are due: the inverse of the rate's integral."""
    start, end, seconds = load.request_rate, load.end_rate or load.request_rate, load.ramp_seconds
    if count >= (in_all := (start + end) / 2 * seconds):
        return seconds + (count - in_all) / end
    slope = (end - start) / seconds
    if slope == 0:
        return count / start
    return (math.sqrt(max(0.0, start * start + 2 * slope * count)) - start) / slope
