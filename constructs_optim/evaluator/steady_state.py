"""Leaves out requests to a cold endpoint, and determines whether the others have a steady state.

MSER-5 finds the end of the warm-up (White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics
for simulation", Winter Simulation Conference 2000): it leaves out the first batches so that the standard error of the
rest is minimal. Because chance can also leave out batches, these must differ from the rest.
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

from .load import MeasuredLevel
from .streaming import Record

_BATCH = 5
# Use the shortest warm-up whose error is nearly minimal: the minimum often leaves out several times as much.
_NEARLY = 1.05
# Omitted requests differ by at least this many standard errors, and by this share of the mean.
_STANDARD_ERRORS, _LEAST_DIFFERENCE = 4.0, 0.1
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
    """Return how many of the first values to leave out; 0 if they do not differ from the others."""
    means = [math.fsum(values[first : first + _BATCH]) / _BATCH for first in range(0, len(values) - _BATCH + 1, _BATCH)]
    if len(means) < 2 * FEWEST_BLOCKS:
        return 0
    candidates = [_spread(means[cut:]) / (len(means) - cut) for cut in range(len(means) // 2)]
    cut = next(place for place, error in enumerate(candidates) if error <= min(candidates) * _NEARLY)
    if cut == 0:
        return 0
    cold, warm = math.fsum(means[:cut]) / cut, math.fsum(means[cut:]) / (len(means) - cut)
    error = math.sqrt(_spread(means[cut:]) * variance_inflation(means[cut:]) * (1 / cut + 1 / (len(means) - cut)))
    differs = abs(cold - warm) > max(_STANDARD_ERRORS * error, _LEAST_DIFFERENCE * abs(warm))
    return cut * _BATCH if differs else 0


def drift_of(level: MeasuredLevel) -> Drift | None:
    """Return the drift of client latency in the longest segment; None if there are too few requests."""
    records = max((_in_order(level, number) for number in level.windows), key=len, default=[])
    values = _values(records, "client_latency")
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
