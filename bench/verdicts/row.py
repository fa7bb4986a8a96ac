"""A row of the table of verdicts: how often simulated runs get a verdict, and what that share must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

_CRITICAL = 1.96


@dataclass(frozen=True)
class Row:
    """How many of ``runs`` got the verdict.

    Attributes:
        judge: what judged: the gate, its limits, the shadow, the comparison or the warm-up.
        traffic: the simulated truth, and what the requests have in common.
        verdict: the counted verdict.
        found: the number of runs that got it.
        most, least: the largest and smallest share of the runs that may get it; None where the share is only reported.
    """

    judge: str
    traffic: str
    verdict: str
    found: int
    runs: int
    most: float | None = None
    least: float | None = None

    @property
    def share(self) -> float:
        """The share of the runs."""
        return self.found / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """The share's 95% interval (Wilson, Journal of the American Statistical Association 22 (1927), 209-212)."""
        share, square = self.share, _CRITICAL**2
        center = (share + square / (2 * self.runs)) / (1 + square / self.runs)
        arm = _CRITICAL * math.sqrt(share * (1 - share) / self.runs + square / (4 * self.runs**2))
        arm /= 1 + square / self.runs
        return max(0.0, center - arm), min(1.0, center + arm)

    @property
    def holds(self) -> bool:
        """Whether the share is within its limits."""
        return (self.most is None or self.share <= self.most) and (self.least is None or self.share >= self.least)


def count(runs: int, seed: int, verdict_of: Callable[[Random], bool]) -> int:
    """Return how many runs get the verdict; each run has a generator of its own, so that one can be repeated."""
    return sum(verdict_of(Random(f"{seed}-{run}")) for run in range(runs))


Rows = Callable[[int, int], Iterable[Row]]
"""Simulates rows with a number of runs and a seed."""
