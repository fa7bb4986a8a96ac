"""How many requests decide a limit, and what is told of a workload with fewer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from constructs_optim.recipe.evaluation import Benchmark, Workload, sample_size
from constructs_optim.recipe.evaluation.requirements import Limits, requirements_of
from constructs_optim.recipe.evaluation.sample_size import ComparedVersions, LimitedSample, limited_samples
from constructs_optim.recipe.rules import warnings
from constructs_optim.runtime.evaluation import differences, repetitions
from constructs_optim.runtime.evaluation.differences import Measured
from constructs_optim.runtime.evaluation.gate import find
from constructs_optim.runtime.requests.run_properties import Gate, Limit

from ..support.benchmarked_requests import benchmarked, heavy_tailed, lognormal

# A limit that any endpoint meets.
_MET = Limit(formula="client_latency_p50", at_most=1e9)
Noise = Callable[[Random], float]


def samples(workload: Workload, at_concurrency: int | None = None, **limits: Any) -> dict[str, LimitedSample]:
    required = requirements_of(Limits(**limits), at_concurrency=at_concurrency)
    return {each.limit.name: each for each in limited_samples(Benchmark(workload, requirements=required))}


def _limited(name: str) -> dict[str, Any]:
    return {name: 500.0}


def told(sample: LimitedSample) -> list[str]:
    return [advice.message for advice in warnings(sample)]


def doubtful() -> list[LimitedSample | ComparedVersions]:
    """Limits that too few requests decide, and versions that are measured once."""
    few = samples(Workload(concurrency=[8], requests=20), p99_ttft_ms=500, min_output_tokens_per_second=40)
    failures = samples(Workload(concurrency=[8], requests=20), max_error_rate=0.01)
    return [*few.values(), failures["max_error_rate"], ComparedVersions(0.05, None)]


def test_the_figures_are_those_of_the_gate() -> None:
    assert (sample_size.LEVEL, sample_size.POWER) == (differences.LEVEL, differences.POWER)
    assert sample_size.MEASUREMENTS == repetitions.MOST_MEASUREMENTS


def tail(count: int, requests: int, share: float) -> float:
    """The binomial probability of ``count`` or more, from whole numbers."""
    return 1 - math.fsum(
        math.comb(requests, each) * share**each * (1 - share) ** (requests - each) for each in range(count)
    )


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_three_times_the_needed_requests_tell_one_and_a_half_times_a_share_from_it(share: float) -> None:
    sample = samples(Workload(concurrency=[8]), max_error_rate=share)["max_error_rate"]
    # Two thirds of them, because the gate does not know that they are independent.
    requests = 3 * (sample.needed or 0) * 2 // 3
    refused_from = next(count for count in range(requests) if tail(count, requests, share) <= 0.05)
    assert tail(refused_from, requests, 1.5 * share) >= 0.89
    assert tail(refused_from, requests, 0.9 * share) <= 0.05
    fewer = requests // 2
    refused_from = next(count for count in range(fewer) if tail(count, fewer, share) <= 0.05)
    assert tail(refused_from, fewer, 1.5 * share) < 0.9


@cache
def truth(formula: str, users: int, noise: Noise) -> float:
    return benchmarked(Random(f"truth {users}"), users, 10_000, noise).metrics[formula]


def refused(sample: LimitedSample, requests: int, runs: int, noise: Noise = lognormal) -> float:
    """The share of gates that refuse endpoints at 1.5 times a limit, as the watcher measures and judges them."""
    limit, users, value = sample.limit, sample.users, truth(sample.limit.formula, sample.users, noise)
    if limit.at_most is not None:
        broken = Limit(formula=limit.formula, at_most=value / sample_size.BEYOND)
    else:
        broken = Limit(formula=limit.formula, at_least=value * sample_size.BEYOND)
    gate, count = Gate(limits=(broken, *[_MET] * (sample.limits - 1))), 0
    for run in range(runs):
        random, measured = Random(f"{limit.formula} {users} {run}"), list[Measured]()
        while True:
            level = benchmarked(random, users, requests, noise)
            measured.append(Measured(level.metrics, level.sample))
            found = find(gate, {users: Measured.of_runs(measured)}, {}, None)
            if found.misses or not found.is_worth_repeating:
                break
        count += bool(found.misses)
    return count / runs


@pytest.mark.parametrize("name", ["p99_ttft_ms", "min_output_tokens_per_second"])
def test_the_needed_requests_decide_a_latency_and_a_rate(name: str) -> None:
    sample = samples(Workload(concurrency=[8]), **_limited(name))[name]
    assert refused(sample, sample.needed or 0, 20) >= 0.9


@pytest.mark.exhaustive
@pytest.mark.parametrize("limits", [2, 9, 20])
@pytest.mark.parametrize("users", [1, 8, 32])
@pytest.mark.parametrize(
    "name",
    [
        "mean_ttft_ms",
        "p50_ttft_ms",
        "p90_ttft_ms",
        "p99_ttft_ms",
        "min_output_tokens_per_second",
        "max_price_per_million_output_tokens",
    ],
)
def test_the_needed_requests_decide_every_limit(name: str, users: int, limits: int) -> None:
    sample = replace(samples(Workload(concurrency=[users]), **_limited(name))[name], limits=limits)
    assert refused(sample, sample.needed or 0, 60) >= 0.9


@pytest.mark.exhaustive
def test_a_heavy_tail_needs_four_times_as_many_requests() -> None:
    """docs/evaluation.md has the factor, and the share of slower endpoints that the needed requests find."""
    sample = samples(Workload(concurrency=[8]), p99_ttft_ms=500)["p99_ttft_ms"]
    assert refused(sample, sample.needed or 0, 60, heavy_tailed) < 0.5
    assert refused(sample, 4 * (sample.needed or 0), 60, heavy_tailed) >= 0.9


@pytest.mark.parametrize("name", ["p50_ttft_ms", "min_output_tokens_per_second"])
def test_each_user_needs_four_requests(name: str) -> None:
    """With fewer, most requests are sent while some users still wait for their first response."""
    for users in (8, 32, 256):
        sample = samples(Workload(concurrency=[users]), **_limited(name))[name]
        assert (sample.needed or 0) >= 4 * users
    assert sample.needed == 4 * users, "of so many users, that is enough"


def test_more_limits_and_higher_percentiles_need_more_requests() -> None:
    one = samples(Workload(concurrency=[8]), p50_ttft_ms=500, p99_ttft_ms=500)
    several = samples(Workload(concurrency=[1, 8, 32]), p50_ttft_ms=500, p99_ttft_ms=500)
    needed = [each.needed or 0 for each in (one["p50_ttft_ms"], one["p99_ttft_ms"], several["p99_ttft_ms"])]
    assert needed == sorted(set(needed))
    assert one["p99_ttft_ms"].limits == 3, "with that on failures"
    assert several["p99_ttft_ms"].limits == 9
    assert samples(Workload(), at_concurrency=8, p50_ttft_ms=500)["p50_ttft_ms"].limits == 2


def test_a_workload_with_too_few_requests_is_told_how_many_decide_its_limit() -> None:
    few = samples(Workload(concurrency=[8], requests=20), p99_ttft_ms=500)["p99_ttft_ms"]
    (message,) = told(few)
    assert message == (
        "require.p99_ttft_ms = 500: of endpoints that are 1.5 times beyond this limit, 3 measurements of 20 requests "
        "find fewer than nine in ten; the others pass as undecided. To find them, set "
        f"Workload(requests={few.needed}). This is for independent requests whose latencies have a logarithmic "
        "standard deviation of 0.5: similar ones and longer tails need more"
    )
    assert told(replace(few, requests=few.needed or 0)) == []


def test_advice_on_failures_assumes_only_that_requests_are_independent() -> None:
    (message,) = told(samples(Workload(concurrency=[8], requests=20), max_error_rate=0.01)["max_error_rate"])
    assert message.endswith("This is for independent requests: similar ones need more")


def test_the_default_requests_decide_latencies_and_not_few_failures() -> None:
    found = samples(Workload(), p99_ttft_ms=500, mean_itl_ms=20, max_blended_price_per_million_tokens=1)
    assert [name for name, each in found.items() if told(each)] == ["max_error_rate"]
    assert told(samples(Workload(concurrency=[8], requests=3000), max_error_rate=0.01)["max_error_rate"]) == []


def test_what_requests_do_not_decide_needs_none() -> None:
    assert "min_acceptance_length" not in samples(Workload(), min_acceptance_length=2)
    assert "max_error_rate" not in samples(Workload(), max_error_rate=0), "one failure is too many"
    assert samples(Workload(duration_seconds=60), p99_ttft_ms=500) == {}, "how many requests that is depends"
    assert samples(Workload(parameters={"request_count": 50}), p99_ttft_ms=5)["p99_ttft_ms"].requests == 50


def test_a_version_that_is_measured_once_gives_a_warning() -> None:
    (advice,) = warnings(ComparedVersions(0.05, None))
    assert advice.message.startswith("require.max_regression = 0.05: measurements of one endpoint differ by about 7%")
    assert "schedule=" in advice.message
    assert warnings(ComparedVersions(0.05, "rate(1 day)")) == warnings(ComparedVersions(None, None)) == ()
