"""Tests on pairs that arrive one after the other, with error rates that hold however often they are looked at.

A pair is one request with two outcomes. It counts as worse, equal or better for the candidate.

*Worse* is an exact binomial test. Of pairs that differ, half are worse when both models are as good (McNemar's test).
It is made at :data:`LOOKS` only, and each look spends its share of the level, so that all looks together err no more
often than stated, by the union bound; a run may end at any of them.

*Not worse by a margin* is a test by betting: a bettor who stakes on "worse by less than the margin" multiplies its
capital, which under the contrary is a nonnegative supermartingale, so that it reaches ``1/level`` with a probability of
``level`` at most, at any time (Ville's inequality). The interval holds the differences that the same bets cannot rule
out: it holds at all times at once, and is wider than that of a single look.

Both assume that the next pair is drawn like the others given all earlier ones; neither assumes a distribution.
Sources: McNemar, Psychometrika 12 (1947), 153-157; Waudby-Smith and Ramdas, "Estimating means of bounded random
variables by betting", Journal of the Royal Statistical Society B 86 (2024), 1-27; Lan and DeMets, Biometrika 70 (1983),
659-663, for levels that are spent over looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

LEVEL = 0.05
"""How often a run calls equal models different, at most, and how often it lets one pass that is worse by its margin."""
POWER = 0.8
"""How often a model that is worse by the margin is caught within the pairs that are announced, at least."""
ANSWERS_LEVEL, LATENCY_LEVEL, ERRORS_LEVEL = 0.8 * LEVEL, 0.1 * LEVEL, 0.1 * LEVEL
"""The shares of the level: answers need most of it, as differences in latency and errors show sooner."""
EXPECTED_DIFFERENCE = 0.1
"""The share of pairs that differ, as long as too few are there to tell."""
LOOKS: dict[int, float] = {
    31: 0.03,
    62: 0.03,
    125: 0.06,
    250: 0.12,
    500: 0.39,
    1_000: 0.20,
    2_000: 0.09,
    4_000: 0.05,
    8_000: 0.02,
    16_000: 0.01,
}
"""After how many observations it is asked whether the candidate is worse, and the share of the level of each look."""
_STAKES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


@dataclass(frozen=True)
class Counts:
    """How many pairs were worse, equal and better for the candidate."""

    worse: int = 0
    equal: int = 0
    better: int = 0

    @property
    def pairs(self) -> int:
        """All of them."""
        return self.worse + self.equal + self.better

    @property
    def difference(self) -> float:
        """By which share of the pairs the candidate is worse; negative where it is better."""
        return (self.worse - self.better) / self.pairs if self.pairs else 0.0

    def reversed(self) -> Counts:
        """The same from the other side."""
        return Counts(self.better, self.equal, self.worse)

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.worse + other.worse, self.equal + other.equal, self.better + other.better)


def tail(successes: int, trials: int, chance: float) -> float:
    """The probability of ``successes`` or more of ``trials`` that succeed with ``chance`` each."""
    if successes <= 0:
        return 1.0
    if successes > trials or chance <= 0:
        return 0.0
    if chance >= 1:
        return 1.0
    mean = trials * chance
    # From the side with the smaller sum, so that neither rounding nor the number of terms matters.
    if successes > mean:
        return min(1.0, _sum_from(successes, trials, chance))
    return max(0.0, 1.0 - _sum_from(trials - successes + 1, trials, 1 - chance))


def _sum_from(first: int, trials: int, chance: float) -> float:
    logarithm = math.lgamma(trials + 1) - math.lgamma(first + 1) - math.lgamma(trials - first + 1)
    term = math.exp(logarithm + first * math.log(chance) + (trials - first) * math.log1p(-chance))
    total, odds = term, chance / (1 - chance)
    for successes in range(first + 1, trials + 1):
        term *= (trials - successes + 1) / successes * odds
        total += term
        if term < total * 1e-17:
            break
    return total


@dataclass
class Looks:
    """The question, at each of :data:`LOOKS`, whether the candidate is worse.

    Attributes:
        level: how often all looks together answer yes for a candidate that is as good, at most.
        spent: what of the level the looks so far have taken. A look of few pairs that differ cannot take all of its
            share, and leaves the rest to later ones.
        called: after how many observations the answer was yes; None as long as it was not.
    """

    level: float
    spent: float = 0.0
    called: int | None = None

    def look(self, worse: int, differing: int, observations: int, chance: float = 0.5) -> None:
        """Ask, if it is a look, whether ``worse`` of the ``differing`` are more than ``chance`` explains."""
        self.look_between(worse, differing, observations - 1, observations, chance)

    def look_between(self, worse: int, differing: int, before: int, observations: int, chance: float) -> None:
        """The same for observations that come several at once: the last look among them is taken."""
        if self.called is not None or not any(before < look <= observations for look in LOOKS):
            return
        allotted = self.level * sum(share for look, share in LOOKS.items() if look <= observations)
        critical = _critical(differing, chance, allotted - self.spent)
        self.spent += tail(critical, differing, chance)
        if worse >= critical:
            self.called = observations


def evidence_below(counts: Counts, bound: float) -> float:
    """The natural logarithm of the evidence that the candidate is worse by less than ``bound``, a share of the pairs.

    The capital of bettors who stake different shares of theirs, on average. It needs the counts alone.
    """
    if bound >= 1:
        return math.inf
    # The most that a pair can lose is 1 - bound, and a bettor may not lose more than it has.
    most = 1 / (1 - bound)
    logarithms = [
        counts.worse * math.log1p(stake * most * (bound - 1))
        + counts.equal * math.log1p(stake * most * bound)
        + counts.better * math.log1p(stake * most * (bound + 1))
        if stake * most * bound > -1 and stake * most * (bound + 1) > -1
        else -math.inf
        for stake in _STAKES
    ]
    highest = max(logarithms)
    return highest + math.log(sum(math.exp(value - highest) for value in logarithms) / len(_STAKES))


def is_below(counts: Counts, bound: float, level: float = LEVEL) -> bool:
    """Whether it is shown, at any time, that the candidate is worse by less than ``bound``."""
    return evidence_below(counts, bound) >= -math.log(level)


def interval(counts: Counts, level: float = LEVEL) -> tuple[float, float]:
    """Where the difference is, at all times at once with a probability of ``1 - level`` at least."""
    highest = _lowest_ruled_out(counts, level / 2)
    lowest = -_lowest_ruled_out(counts.reversed(), level / 2)
    return lowest, highest


def _lowest_ruled_out(counts: Counts, level: float) -> float:
    # The observed difference cannot be ruled out, and evidence grows with the bound above it.
    low, high = counts.difference, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_below(counts, middle, level) else (middle, high)
    return high


@lru_cache
def pairs_needed(margin: float, differing: float, level: float, power: float = POWER) -> int | None:
    """The first look at which a model that is worse by ``margin`` is called worse with ``power``; None without one.

    ``differing`` is the share of pairs that differ: the more differ by chance, the more pairs it takes. The power is
    that of this look alone, calculated exactly, so that earlier looks only add to it.
    """
    differing = max(margin, differing)
    chance = (1 + margin / differing) / 2
    for pairs, share in LOOKS.items():
        mean, deviation = pairs * differing, math.sqrt(pairs * differing * (1 - differing))
        caught = 0.0
        for number in range(max(0, int(mean - 5 * deviation)), min(pairs, int(mean + 5 * deviation) + 1) + 1):
            probability = tail(number, pairs, differing) - tail(number + 1, pairs, differing)
            caught += probability * tail(_critical(number, 0.5, level * share), number, chance)
        if caught >= power:
            return pairs
    return None


def _critical(trials: int, chance: float, level: float) -> int:
    """The fewest successes of ``trials`` that ``chance`` explains with a probability of ``level`` at most."""
    low, high = 0, trials + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle, trials, chance) <= level else (middle + 1, high)
    return low


def announced_pairs(margin: float, checks: int) -> int | None:
    """How many pairs it takes to catch a candidate that is worse by the margin, where a tenth of them differ."""
    return pairs_needed(margin, max(EXPECTED_DIFFERENCE, margin), ANSWERS_LEVEL / max(1, checks))
