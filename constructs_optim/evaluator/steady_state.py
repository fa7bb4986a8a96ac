"""Leaves out requests to a cold endpoint, and determines whether the others have a steady state.

The second half of the requests shows what a warm endpoint's latency is, and how much it varies. Batches of the first
requests are left out, one by one, as long as some of the batches that begin with the next one differ from it. So what
is left out is no longer than necessary, and no later disturbance is taken for a cold start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from constructs_optim.runtime.evaluation.samples import (
    FEWEST_BLOCKS,
    block_means,
    student_quantile,
    trend,
    variance_inflation,
)

from .lag import Lag
from .load import MeasuredLevel
from .streaming import Record

_BATCH = 5
# The first batches differ by this many standard errors, and the following ones by that many: the first test has to tell
# a cold endpoint from a warm one, the others where its warm-up ends.
_FIRST_ERRORS, _NEXT_ERRORS = 4.0, 2.0
# They also differ by at least this share of the warm endpoint's latency.
_LEAST_DIFFERENCE = 0.1
_LATENCIES = ("time_to_first_token", "inter_token_latency", "client_latency")
# A drift is reported if its whole interval, at this level, exceeds this share of the mean.
_LEVEL, _MOST_DRIFT = 0.01, 0.1


class Drift(NamedTuple):
    """The change of client latency during the measurement, relative to its mean, with its 99% interval."""

    change: float
    low: float
    high: float

    @property
    def is_steady(self) -> bool:
        """Whether the interval overlaps the changes that are not reported."""
        return self.low <= _MOST_DRIFT and self.high >= -_MOST_DRIFT


def leave_out_warm_up(level: MeasuredLevel) -> int:
    """Exclude the last segment's requests to a cold endpoint from the count, and return how many."""
    records = _in_order(level, max(record.segment for record in level.records))
    cold = max(warm_up_length(_values(records, name)) for name in _LATENCIES)
    for record in records[:cold]:
        record.counted = False
    return cold


def warm_up_length(values: Sequence[float]) -> int:
    """Return how many of the first values to leave out, at most half; 0 if they do not differ from the others."""
    means = [math.fsum(values[first : first + _BATCH]) / _BATCH for first in range(0, len(values) - _BATCH + 1, _BATCH)]
    if len(means) < 2 * FEWEST_BLOCKS:
        return 0
    most = len(means) // 2
    warm = _Warm.of(means[most:])
    cut, difference = 0, warm.difference(means[:most], _FIRST_ERRORS)
    is_slower = difference > 0
    while difference and (difference > 0) == is_slower:
        cut += 1
        difference = warm.difference(means[cut:most], _NEXT_ERRORS)
    return cut * _BATCH


class _Warm(NamedTuple):
    """Means of batches of a warm endpoint: their mean, and the variance of one and of all of them."""

    center: float
    of_one: float
    of_all: float

    @staticmethod
    def of(means: Sequence[float]) -> _Warm:
        # As batches that are alike vary together, the mean of several varies more.
        variance = _spread(means) * variance_inflation(means)
        return _Warm(math.fsum(means) / len(means), variance, variance / len(means))

    def difference(self, means: Sequence[float], errors: float) -> float:
        """Return how much the first means are higher; 0 if no number of them differs by so many standard errors."""
        size = 1
        while size <= len(means):
            found, half = (math.fsum(means[:n]) / n - self.center for n in (size, (size + 1) // 2))
            least = max(errors * math.sqrt(self.of_one / size + self.of_all), _LEAST_DIFFERENCE * self.center)
            # The first half differs, too: otherwise, this is a later disturbance.
            if abs(found) > least and half / found > 0.5:
                return found
            size *= 2
        return 0.0


def drift_of(level: MeasuredLevel, lag: Lag | None = None) -> Drift | None:
    """Return the drift of client latency in the longest segment; None if there are too few requests.

    With this machine's ``lag``, it is the drift that remains if the lag explains as much of it as possible.
    """
    records = max((_in_order(level, number) for number in level.windows), key=len, default=[])
    values = _values(records, "client_latency")
    values = values if lag is None else lag.evened(values)
    means = block_means(values)
    blocks = len(means)
    if blocks < FEWEST_BLOCKS:
        return None
    slope, rest = trend(means)
    spread = (blocks**3 - blocks) / 12
    error = math.sqrt(math.fsum(each * each for each in rest) / (blocks - 2) / spread * variance_inflation(means))
    center = math.fsum(means) / blocks
    arm = student_quantile(1 - _LEVEL / 2, blocks - 2) * error
    return Drift(*((slope + way * arm) * (blocks - 1) / center for way in (0, -1, 1)))


def _in_order(level: MeasuredLevel, segment: int) -> list[Record]:
    counted = [record for record in level.counted if record.segment == segment and record.is_measured]
    return sorted(counted, key=lambda record: record.start)


def _values(records: Sequence[Record], name: str) -> list[float]:
    return [value for record in records if (value := getattr(record, name)) is not None]


def _spread(values: Sequence[float]) -> float:
    """Return the variance."""
    center = math.fsum(values) / len(values)
    return math.fsum((value - center) ** 2 for value in values) / max(1, len(values) - 1)
