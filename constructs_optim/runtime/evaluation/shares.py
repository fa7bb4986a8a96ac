"""The lowest share of requests that a count allows for: exact for rare events, and for requests that are alike.

A normal approximation refuses too often where events are rare: with 3 failures of 100, Wilson's interval excludes a
share of 1%, although 8% of such measurements have so many. The exact interval (Clopper and Pearson, Biometrika 26
(1934), 404-413) does not. Events in clusters count as fewer (Korn and Graubard, Survey Methodology 24 (1998), 193-201).
"""

from __future__ import annotations

import math
from statistics import NormalDist

from .samples import student_quantile

_NORMAL = NormalDist()
_MOST_TERMS = 100_000
_SMALLEST, _ROUNDING = 1e-300, 1e-12
# Bisections of the interval from 0 to 1.
_STEPS = 40


def probability_of_more(count: float, trials: float, share: float) -> float:
    """Return the probability of ``count`` or more events in ``trials``, each with the probability ``share``.

    The numbers need not be whole.
    """
    if count <= 0:
        return 1.0
    return _incomplete_beta(share, count, trials - count + 1)


def lowest_share(count: float, trials: float, level: float) -> float:
    """Return the share below which ``count`` or more events are less probable than ``level``."""
    low, high = 0.0, min(1.0, count / trials)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if probability_of_more(count, trials, middle) < level else (low, middle)
    return low


def clustering(effect: float, blocks: int, level: float) -> float:
    """Return the number of requests that count as one, from a design effect.

    The design effect is an estimate from ``blocks`` blocks, which the quantile of Student's distribution allows for.
    """
    if effect <= 1 or blocks < 2:
        return 1.0
    return effect * (student_quantile(1 - level, blocks - 1) / _NORMAL.inv_cdf(1 - level)) ** 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function (NIST Digital Library of Mathematical Functions, 8.17.22)."""
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # Lentz's evaluation of the continued fraction.
    above, below = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    fraction = below
    for term in range(1, _MOST_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for factor in (even, odd):
            below, above = 1 / _not_zero(1 + factor * below), _not_zero(1 + factor / above)
            fraction *= below * above
        if abs(below * above - 1) < _ROUNDING:
            break
    return math.exp(scale) * fraction / a


def _not_zero(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST
