"""The statistics of shadow runs: 200 seeded runs of each kind, and exact arithmetic as the oracle."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.shadow.sequential_test import (
    LEVEL,
    LOOKS,
    Counts,
    Looks,
    evidence_below,
    interval,
    is_below,
    pairs_needed,
    tail,
)

RUNS = 200
ANSWERS = 0.025
"""The level of the answers' check where there is one, as ``verdict.py`` shares it out."""


def compared(worse_by: float, differing: float, pairs: int, seed: int, margin: float = 0.02) -> tuple[str, int]:
    """The outcome of a run of pairs, and after how many it came."""
    chance, looks, worse, better = random.Random(seed).random, Looks(ANSWERS), 0, 0
    more = (differing + worse_by) / 2
    for number in range(1, pairs + 1):
        drawn = chance()
        worse += drawn < more
        better += more <= drawn < differing
        if number in LOOKS:
            looks.look(worse, worse + better, number)
            if looks.called is not None:
                return "worse", number
        # A watcher polls now and then.
        if number % 100 == 0 and is_below(Counts(worse, number - worse - better, better), margin):
            return "pass", number
    return "not decided", pairs


def share_of(
    outcome: str, worse_by: float, differing: float, pairs: int, runs: int = RUNS, margin: float = 0.02
) -> float:
    found = [compared(worse_by, differing, pairs, seed, margin)[0] for seed in range(runs)]
    return found.count(outcome) / runs


@pytest.mark.parametrize("differing", [0.1, 0.4])
def test_equal_models_are_called_worse_in_5_percent_of_200_runs_at_most(differing: float) -> None:
    assert share_of("worse", 0, differing, 4_000) <= LEVEL


def test_5_points_worse_with_a_tenth_differing_is_caught_in_90_percent_within_500_pairs() -> None:
    assert share_of("worse", 0.05, 0.1, 500) >= 0.9


def test_2_points_worse_is_caught_in_80_percent_within_the_pairs_that_are_announced() -> None:
    announced = pairs_needed(0.02, 0.1, ANSWERS)
    assert announced == 4_000
    assert share_of("worse", 0.02, 0.1, announced) >= 0.8
    # It passes no more often than stated, as it is worse by the margin.
    assert share_of("pass", 0.02, 0.1, announced) <= LEVEL


def test_equal_models_pass_within_the_pairs_that_are_announced() -> None:
    announced = pairs_needed(0.02, 0.1, ANSWERS)
    assert announced is not None
    assert share_of("pass", 0, 0.1, announced) >= 0.8


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("worse_by", "differing", "outcome", "pairs", "least", "most"),
    [
        (0.05, 0.1, "worse", 500, 0.9, 1.0),
        (0.02, 0.1, "worse", 4_000, 0.8, 1.0),
        (0.0, 0.1, "worse", 16_000, 0.0, ANSWERS),
        (0.0, 0.8, "worse", 16_000, 0.0, ANSWERS),
        (0.02, 0.1, "pass", 16_000, 0.0, LEVEL),
    ],
)
def test_rates_hold_over_2000_runs(
    worse_by: float, differing: float, outcome: str, pairs: int, least: float, most: float
) -> None:
    share = share_of(outcome, worse_by, differing, pairs, runs=2_000)
    # Two standard errors of the share that is stated.
    error = 2 * math.sqrt(0.05 * 0.95 / 2_000)
    assert least - error <= share <= most + error


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.02, 0.25, 0.5, 0.75, 0.98]))
def test_the_tail_is_exact(successes: int, trials: int, chance: float) -> None:
    exact = sum(
        math.comb(trials, k) * Fraction(chance) ** k * (1 - Fraction(chance)) ** (trials - k)
        for k in range(max(0, successes), trials + 1)
    )
    assert tail(successes, trials, chance) == pytest.approx(float(exact), rel=1e-9, abs=0)


def test_looks_spend_their_level_at_most() -> None:
    assert sum(LOOKS.values()) == pytest.approx(1)
    for differing in (0.02, 0.1, 0.5, 1.0):
        looks = Looks(LEVEL)
        for pairs in LOOKS:
            number = round(pairs * differing)
            looks.look(number // 2, number, pairs)
        assert looks.called is None
        assert 0 < looks.spent <= LEVEL


def test_between_looks_nothing_is_called_worse() -> None:
    looks = Looks(LEVEL)
    looks.look(100, 100, 100)
    assert (looks.called, looks.spent) == (None, 0.0)
    looks.look(125, 125, 125)
    assert looks.called == 125


def test_a_bettor_never_gains_on_average_where_the_candidate_is_worse_by_the_bound() -> None:
    for bound, worse, better in [(0.02, 0.06, 0.04), (0.1, 0.1, 0.0), (0.5, 0.6, 0.1)]:
        outcomes = [(Counts(worse=1), worse), (Counts(better=1), better), (Counts(equal=1), 1 - worse - better)]
        mean = sum(chance * math.exp(evidence_below(counts, bound)) for counts, chance in outcomes)
        assert mean == pytest.approx(1)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_the_interval_holds_what_was_observed(worse: int, equal: int, better: int) -> None:
    counts = Counts(worse, equal, better)
    low, high = interval(counts)
    assert -1 <= low <= counts.difference + 1e-9
    assert counts.difference - 1e-9 <= high <= 1
    assert interval(counts.reversed()) == pytest.approx((-high, -low))


def test_intervals_hold_the_truth_at_all_times_in_95_percent_of_runs() -> None:
    missed = 0
    for seed in range(RUNS):
        chance, worse, better = random.Random(seed).random, 0, 0
        for number in range(1, 1_001):
            drawn = chance()
            worse += drawn < 0.08
            better += 0.08 <= drawn < 0.12
            if number % 200 == 0:
                low, high = interval(Counts(worse, number - worse - better, better))
                if not low <= 0.04 <= high:
                    missed += 1
                    break
    assert missed / RUNS <= LEVEL


def test_more_pairs_are_announced_for_less_of_a_difference_and_for_more_noise() -> None:
    announced = [pairs_needed(margin, 0.1, ANSWERS) for margin in (0.08, 0.05, 0.03, 0.02)]
    assert announced == [250, 500, 2_000, 4_000]
    assert pairs_needed(0.02, 0.2, ANSWERS) == 16_000
    # What 16,000 pairs cannot show is said to be so.
    assert pairs_needed(0.01, 0.1, ANSWERS) is None


def exact_power(pairs: int, differing: float, chance: float, critical: dict[int, int]) -> float:
    """The chance that so many pairs call a candidate worse, summed over all numbers of pairs that may differ."""

    def of(number: int, trials: int, each: float) -> float:
        return math.comb(trials, number) * each**number * (1 - each) ** (trials - number)

    return sum(
        of(number, pairs, differing) * sum(of(worse, number, chance) for worse in range(critical[number], number + 1))
        for number in range(pairs + 1)
    )


@pytest.mark.parametrize(("margin", "differing", "pairs", "share"), [(0.3, 0.4, 62, 0.03), (0.15, 0.3, 125, 0.06)])
def test_the_announced_pairs_have_the_power_that_is_asked_for_and_no_more(
    margin: float, differing: float, pairs: int, share: float
) -> None:
    critical = {
        number: next(
            worse
            for worse in range(number + 2)
            if sum(math.comb(number, k) for k in range(worse, number + 1)) <= ANSWERS * share * 2**number
        )
        for number in range(pairs + 1)
    }
    power = exact_power(pairs, differing, (1 + margin / differing) / 2, critical)
    assert pairs_needed(margin, differing, ANSWERS, power - 1e-4) == pairs
    more = pairs_needed(margin, differing, ANSWERS, power + 1e-4)
    assert more is not None
    assert more > pairs
