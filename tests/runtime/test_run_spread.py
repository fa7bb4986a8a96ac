"""How much measurements of one version differ, beyond the chance within each of them."""

from __future__ import annotations

import math
import random

import pytest

from constructs_optim.runtime.evaluation.run_spread import ASSUMED, DEPLOYED, FEWEST_RUNS, RunSpread, run_spread


def runs(*values: float) -> list[dict[str, float]]:
    return [{"client_latency": value} for value in values]


def test_a_spread_is_assumed_while_too_few_runs_are_known() -> None:
    few = runs(*([100.0, 101.0] * FEWEST_RUNS)[: FEWEST_RUNS - 1])
    assert run_spread("client_latency", [few, runs(90.0)], 0.0) == RunSpread(ASSUMED)
    assert run_spread("client_latency", [[*few, {"client_latency": 100.0}]], 0.0).freedom == FEWEST_RUNS - 1
    assert run_spread("client_latency", [[{}] * 20], 0.0) == RunSpread(ASSUMED)


def test_the_spread_is_that_of_the_runs_of_each_version() -> None:
    """The versions themselves may differ by any factor."""
    drawn = random.Random(1)
    versions = [runs(*(scale * math.exp(drawn.gauss(0, 0.04)) for _ in range(200))) for scale in (1.0, 3.0)]
    found = run_spread("client_latency", versions, 0.0)
    assert found.deviation == pytest.approx(0.04, rel=0.1)
    assert found.freedom == 398


def test_chance_within_runs_is_no_spread_between_them() -> None:
    drawn = random.Random(2)
    versions = [runs(*(math.exp(drawn.gauss(0, math.hypot(0.03, 0.04))) for _ in range(400)))]
    assert run_spread("client_latency", versions, 0.04).deviation == pytest.approx(0.03, rel=0.15)
    assert run_spread("client_latency", versions, 0.2).deviation == 0


def test_a_spread_that_few_runs_show_is_less_certain_than_an_assumed_one() -> None:
    # Student's quantiles for 5 and 19 degrees of freedom, and the normal one.
    assert RunSpread(0.1, 5).arm(0.025) == pytest.approx(0.2571, abs=1e-4)
    assert RunSpread(0.1, 19).arm(0.025) == pytest.approx(0.2093, abs=1e-4)
    assert RunSpread(0.1).arm(0.025) == pytest.approx(0.1960, abs=1e-4)
    assert RunSpread(0.1).of_means(4).arm(0.025) == pytest.approx(0.0980, abs=1e-4)


def test_means_of_many_runs_still_differ_between_deployments() -> None:
    assert RunSpread(0.1).of_means(10**6, 10**6).total == pytest.approx(DEPLOYED * math.sqrt(2), abs=1e-3)
    assert RunSpread(0.1).of_means(10**6).total == pytest.approx(0, abs=1e-3)
    # Student's distribution is that of the runs' estimate alone.
    assert RunSpread(0.0, 5, deployed=0.1).arm(0.025) == pytest.approx(0.1960, abs=1e-4)
