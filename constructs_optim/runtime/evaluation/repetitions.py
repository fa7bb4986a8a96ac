"""Verdicts on single requirements, and whether those that chance may explain are worth another measurement."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

MOST_MEASUREMENTS = 3
"""The most measurements of one deployment."""
# A repetition takes minutes, during which the new version serves requests.
_FAIR_CHANCE = 0.2
_NORMAL = NormalDist()


class Refusal(NamedTuple):
    """A requirement that is not met."""

    told: str


class Undecided(NamedTuple):
    """A requirement that is not met, perhaps by chance; ``is_worth_repeating`` if more measurements may decide it."""

    told: str
    is_worth_repeating: bool


def is_worth_repeating(size: float, error: float, runs: int, reach: float) -> bool:
    """Return whether repetitions have a fair chance to find a value beyond the interval of all measurements.

    With no other knowledge of the truth, the mean of all measurements is normal, with the present value as its mean.

    Args:
        size: how far the value of ``runs`` measurements is from what is required.
        error: the part of its standard error that more measurements reduce.
        runs: the number of measurements so far.
        reach: how far the interval of all measurements will reach.
    """
    if runs >= MOST_MEASUREMENTS or math.isinf(reach):
        return False
    return size + _NORMAL.inv_cdf(1 - _FAIR_CHANCE) * error * math.sqrt(1 - runs / MOST_MEASUREMENTS) > reach
