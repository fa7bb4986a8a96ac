"""The exact interval of a share, checked against the binomial distribution."""

from __future__ import annotations

import math

import pytest

from constructs_optim.runtime.evaluation.shares import clustering, lowest_share, probability_of_more


def binomial_tail(count: int, trials: int, share: float) -> float:
    return math.fsum(
        math.comb(trials, each) * share**each * (1 - share) ** (trials - each) for each in range(count, trials + 1)
    )


@pytest.mark.parametrize("share", [0.001, 0.01, 0.3, 0.5, 0.99])
@pytest.mark.parametrize(("count", "trials"), [(1, 1), (1, 100), (5, 100), (50, 100), (100, 100), (7, 256), (20, 999)])
def test_the_probability_of_a_count_is_that_of_the_binomial_distribution(count: int, trials: int, share: float) -> None:
    assert probability_of_more(count, trials, share) == pytest.approx(binomial_tail(count, trials, share), abs=1e-10)


def test_no_events_are_certain_to_happen() -> None:
    assert probability_of_more(0, 100, 0.01) == 1
    assert probability_of_more(0, 100, 0) == 1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_events_that_never_or_always_happen_are_certain(share: float) -> None:
    assert probability_of_more(1, 100, share) == share
    assert probability_of_more(100, 100, share) == share


@pytest.mark.parametrize(
    ("count", "trials", "level", "share"),
    # Clopper and Pearson's intervals of 95%, of which these are the lower ends: Newcombe, Statistics in Medicine 17
    # (1998), 857-872, table I.
    [(81, 263, 0.025, 0.2527), (15, 148, 0.025, 0.0578), (1, 29, 0.025, 0.0009), (0, 20, 0.025, 0.0)],
)
def test_the_lowest_share_is_that_of_published_tables(count: int, trials: int, level: float, share: float) -> None:
    assert lowest_share(count, trials, level) == pytest.approx(share, abs=5e-5)


def test_a_share_of_many_requests_is_calculated() -> None:
    assert lowest_share(10_000, 1_000_000, 0.025) == pytest.approx(0.01 - 1.96 * math.sqrt(0.01 * 0.99 / 1e6), rel=1e-3)


def test_events_in_clusters_count_as_fewer() -> None:
    assert clustering(1.0, 20, 0.05) == 1
    # The quantile for 19 degrees of freedom is 1.729, the normal one 1.645.
    assert clustering(3.0, 20, 0.05) == pytest.approx(3 * (1.729 / 1.645) ** 2, rel=1e-3)
    assert lowest_share(6, 100, 0.05) > lowest_share(2, 100 / 3, 0.05)
