"""How many requests decide a limit, and what is told of a workload with fewer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from constructs_optim.recipe.evaluation import Benchmark, Workload, sample_size
from constructs_optim.recipe.evaluation.requirements import Limits, requirements_of
from constructs_optim.recipe.evaluation.sample_size import ComparedVersions, LimitedSample, limited_samples
from constructs_optim.recipe.rules import warnings
from constructs_optim.runtime.evaluation import differences, repetitions


def samples(workload: Workload, at_concurrency: int | None = None, **limits: float) -> dict[str, LimitedSample]:
    required = requirements_of(Limits(**limits), at_concurrency=at_concurrency)  # type: ignore[typeddict-item]
    return {each.limit.name: each for each in limited_samples(Benchmark(workload, requirements=required))}


def told(sample: LimitedSample) -> list[str]:
    return [advice.message for advice in warnings(sample)]


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
        f"require.p99_ttft_ms = 500: of endpoints that are 1.5 times beyond this limit, 3 measurements of 20 requests "
        f"find fewer than nine in ten; the others pass as undecided. To find them, set Workload(requests={few.needed})"
    )
    assert told(replace(few, requests=few.needed or 0)) == []


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
