"""Sequential tests on pairs that arrive one by one, with error rates that hold for any number of looks.

A pair is one request with two outcomes. It counts as worse, equal, or better for the candidate.

*Worse* is an exact binomial test. If both models are equally good, half of the pairs that differ are worse (McNemar's
test). The test runs only at ``LOOKS``, and each look spends its share of the level. By the union bound, all looks
together err no more often than stated, and a run may end at any look.

*Not worse by a margin* is a test by betting. A bettor stakes on "worse by less than the margin". Under the opposite
hypothesis, its capital is a nonnegative supermartingale, which at any time reaches ``1/level`` with a probability of at
most ``level`` (Ville's inequality). The interval contains the differences that the same bets cannot rule out. It holds
at all times at once, and is wider than the interval of a single look.

Both assume that the next pair, given all earlier ones, is drawn like the others; neither assumes a distribution. What
makes pairs independent is in ``units.py`` and ``clusters.py``: for clustered pairs, the tests get effective numbers.
Sources: McNemar, Psychometrika 12 (1947), 153-157; Waudby-Smith and Ramdas, "Estimating means of bounded random
variables by betting", Journal of the Royal Statistical Society B 86 (2024), 1-27; Lan and DeMets, Biometrika 70 (1983),
659-663, for levels that are spent over looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

LEVEL = 0.05
"""The highest probability of calling equal models different, and of passing a model that is worse by the margin."""
POWER = 0.8
"""The least probability of catching a model that is worse by the margin within the announced number of pairs."""
ANSWERS_LEVEL, LATENCY_LEVEL, ERRORS_LEVEL = 0.5 * LEVEL, 0.1 * LEVEL, 0.1 * LEVEL
"""The shares of the level. Answers need most of it, because differences in latency and errors show sooner.

The tests allow for clusters of outcomes by a design effect. It is an estimate, for whose error the rest is kept.
"""
EXPECTED_DIFFERENCE = 0.1
"""The assumed share of pairs that differ, until there are enough pairs to estimate it."""
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
"""The numbers of observations at which the test runs, with each look's share of the level."""
_STAKES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


@dataclass(frozen=True)
class Counts:
    """The numbers of pairs that were worse, equal, and better for the candidate; effective numbers have fractions."""

    worse: float = 0
    equal: float = 0
    better: float = 0

    @property
    def pairs(self) -> float:
        """The number of all pairs."""
        return self.worse + self.equal + self.better

    @property
    def difference(self) -> float:
        """The share of pairs by which the candidate is worse; negative if it is better."""
        return (self.worse - self.better) / self.pairs if self.pairs else 0.0

    @property
    def variance(self) -> float:
        """The variance of a pair's outcome: 1 if the candidate is worse, -1 if it is better."""
        return (self.worse + self.better) / self.pairs - self.difference**2 if self.pairs else 0.0

    def over(self, design_effect: float) -> Counts:
        """Return the effective numbers: those of independent pairs that show as much."""
        return Counts(self.worse / design_effect, self.equal / design_effect, self.better / design_effect)

    def reversed(self) -> Counts:
        """Return the counts with production and candidate exchanged."""
        return Counts(self.better, self.equal, self.worse)

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.worse + other.worse, self.equal + other.equal, self.better + other.better)


def tail(successes: int, trials: int, chance: float) -> float:
    """Return the probability of at least ``successes`` in ``trials`` that each succeed with ``chance``."""
    if successes <= 0:
        return 1.0
    if successes > trials or chance <= 0:
        return 0.0
    if chance >= 1:
        return 1.0
    mean = trials * chance
    # Sums the smaller tail, so that neither rounding nor the number of terms matters.
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
    """The test, at each of ``LOOKS``, of whether the candidate is worse.

    Attributes:
        level: the highest probability that any look calls an equally good candidate worse.
        spent: the part of the level that earlier looks have spent. With few pairs that differ, a look cannot spend all
            of its share and leaves the rest to later looks.
        called: the number of observations at which the candidate was called worse; None until then.
    """

    level: float
    spent: float = 0.0
    called: int | None = None

    def look(self, worse: float, differing: float, observations: int, chance: float = 0.5) -> None:
        """If a look is due, test whether ``worse`` of ``differing`` pairs are more than expected at ``chance``.

        Both may be effective numbers, of which fractions do not count as worse.
        """
        if self.called is not None or observations not in LOOKS:
            return
        worse, differing = math.floor(worse), round(differing)
        allotted = self.level * sum(share for look, share in LOOKS.items() if look <= observations)
        critical = _critical(differing, chance, allotted - self.spent)
        self.spent += tail(critical, differing, chance)
        if worse >= critical:
            self.called = observations


def evidence_below(counts: Counts, bound: float) -> float:
    """Return the logarithm of the evidence that the candidate is worse by less than ``bound``, a share of the pairs.

    The evidence is the average capital of bettors who stake different shares of their capital. It depends only on the
    counts.
    """
    if bound >= 1:
        return math.inf
    # A pair can lose at most 1 - bound, and a bettor must not lose more than it has.
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
    """Return whether the counts show, at any time, that the candidate is worse by less than ``bound``."""
    return evidence_below(counts, bound) >= -math.log(level)


def interval(counts: Counts, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval that contains the difference at all times at once, with probability ``1 - level`` or more."""
    highest = _lowest_ruled_out(counts, level / 2)
    lowest = -_lowest_ruled_out(counts.reversed(), level / 2)
    return lowest, highest


def _lowest_ruled_out(counts: Counts, level: float) -> float:
    # The observed difference cannot be ruled out. Above it, the evidence grows with the bound.
    low, high = counts.difference, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_below(counts, middle, level) else (middle, high)
    return high


@lru_cache
def pairs_needed(margin: float, differing: float, level: float, power: float = POWER) -> int | None:
    """Return the number of pairs at the first look that detects a model worse by ``margin`` with probability ``power``.

    Returns None if no look does. ``differing`` is the share of pairs that differ: the more pairs differ by chance, the
    more pairs are needed. The power is exact for this look alone; earlier looks only increase it.
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
    """Return the smallest number of successes whose upper tail probability is at most ``level``.

    The successes are binomial: ``trials`` with the success probability ``chance``.
    """
    low, high = 0, trials + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle, trials, chance) <= level else (middle + 1, high)
    return low


def announced_pairs(margin: float, checks: int) -> int | None:
    """Return the number of pairs that detects a candidate worse by the margin, if a tenth of the pairs differ."""
    return pairs_needed(margin, max(EXPECTED_DIFFERENCE, margin), ANSWERS_LEVEL / max(1, checks))
