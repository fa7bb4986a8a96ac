"""Limits as one-sided tests: sound endpoints pass, unsound ones are refused, and what chance may explain is told."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from statistics import NormalDist

import pytest

from constructs_optim.runtime.evaluation.differences import Measured
from constructs_optim.runtime.evaluation.gate import Findings, find
from constructs_optim.runtime.evaluation.samples import Observation, Sample
from constructs_optim.runtime.requests.run_properties import Gate, Limit

MEDIAN, SIGMA = 200.0, 0.5
P99 = MEDIAN * math.exp(SIGMA * NormalDist().inv_cdf(0.99))
MEAN = MEDIAN * math.exp(SIGMA**2 / 2)
FAILURES = "client_invocation_errors / client_invocations"
TTFT = "time_to_first_token"


def measured(
    seed: object,
    *,
    requests: int = 100,
    slower: float = 1.0,
    failing: float = 0.0,
    in_a_row: int = 1,
    price: float = 1.0,
) -> Measured:
    """One user's requests, with lognormal times to the first token, of which some fail, ``in_a_row`` each time."""
    drawn, at, observations = random.Random(str(seed)), 0.0, list[Observation]()
    while len(observations) < requests:
        if drawn.random() < failing / in_a_row:
            observations += [Observation(at) for _ in range(min(in_a_row, requests - len(observations)))]
            continue
        latency = slower * MEDIAN * drawn.lognormvariate(0, SIGMA)
        observations.append(Observation(at, latency, latency / 20, latency, 600, 50))
        at += latency / 1000
    sample = Sample(observations, at)
    errors = sum(each.client_latency is None for each in observations)
    metrics = {**sample.drawn(), "client_invocations": float(requests), "client_invocation_errors": float(errors)}
    tokens = metrics["output_tokens_per_second"]
    return Measured({**metrics, "price_per_million_output_tokens": price / tokens}, sample)


def at_most(formula: str, bound: float, unit: str = "ms") -> Gate:
    return Gate(limits=(Limit(formula=formula, title="value", unit=unit, at_most=bound),))


def at_least(formula: str, bound: float) -> Gate:
    return Gate(limits=(Limit(formula=formula, title="value", at_least=bound),))


def judged(gate: Gate, *runs: Measured, before: Mapping[int, Measured] | None = None) -> Findings:
    return find(gate, {1: Measured.of_runs(runs)}, before or {}, None)


def refused(gate: Gate, measure: Callable[[int], Measured], seeds: int) -> int:
    """The number of refused runs."""
    return sum(bool(judged(gate, measure(seed)).misses) for seed in range(seeds))


# True values of a server whose requests take one after another.
TRUTH = {
    f"{TTFT}_p50": MEDIAN,
    f"{TTFT}_p90": MEDIAN * math.exp(SIGMA * NormalDist().inv_cdf(0.9)),
    f"{TTFT}_p99": P99,
    TTFT: MEAN,
    "price_per_million_output_tokens": 1 / (50 * 1000 / MEAN),
}


@pytest.mark.parametrize("metric", TRUTH)
def test_an_endpoint_at_nine_tenths_of_a_maximum_is_not_refused(metric: str) -> None:
    gate = at_most(metric, TRUTH[metric] / 0.9)
    assert refused(gate, lambda seed: measured(seed, requests=100), seeds=40) <= 1


@pytest.mark.parametrize(("metric", "requests"), [(name, 256 if name.endswith("99") else 100) for name in TRUTH])
def test_an_endpoint_at_one_and_a_half_times_a_maximum_is_refused(metric: str, requests: int) -> None:
    gate = at_most(metric, TRUTH[metric] / 1.5)
    assert refused(gate, lambda seed: measured(seed, requests=requests), seeds=20) >= 18


def test_rates_have_minimums() -> None:
    rate = 1000 / MEAN
    assert refused(at_least("requests_per_second", rate / 0.9 * 0.9**2), lambda seed: measured(seed), seeds=20) == 0
    assert refused(at_least("requests_per_second", rate * 1.5), lambda seed: measured(seed), seeds=20) >= 18


def test_two_failures_of_a_hundred_are_no_proof_of_more_than_one_in_a_hundred() -> None:
    """Of an endpoint at which 0.5% of the requests fail, a ninth of such measurements have as many or more."""
    gate = at_most(FAILURES, 0.01, unit="")

    def of_failures(count: int) -> Measured:
        observations = [
            Observation(float(at), client_latency=None if at % 17 == 5 and at < 17 * count else 100.0)
            for at in range(100)
        ]
        metrics = {"client_invocations": 100.0, "client_invocation_errors": float(count)}
        return Measured(metrics, Sample(observations, 100.0))

    found = judged(gate, of_failures(2))
    assert found.misses == []
    (told,) = found.undecided
    assert re.fullmatch(
        r"value at 1 user is 0\.02, 100% above the maximum of 0\.01 \(95% interval from 0\.00\d+\), which may be "
        r"chance alone: [\d,]+ requests would decide it",
        told,
    ), told
    (miss,) = judged(gate, of_failures(5)).misses
    assert re.fullmatch(
        r"value at 1 user is 0\.05, 400% above the maximum of 0\.01 \(95% interval from 0\.0[12]\d*\)", miss
    ), miss


def test_failures_in_a_row_count_as_fewer() -> None:
    gate = at_most(FAILURES, 0.01, unit="")
    bursts = refused(gate, lambda seed: measured(seed, failing=0.009, in_a_row=5), seeds=60)
    assert bursts <= 3


def test_the_requests_that_would_decide_a_limit_decide_it() -> None:
    gate = at_most(f"{TTFT}_p99", P99 / 1.25)
    first = next(
        told for seed in range(50) for told in judged(gate, measured(seed)).undecided if "requests would" in told
    )
    needed = int(re.findall(r"([\d,]+) requests would decide it", first)[0].replace(",", ""))
    assert needed > 100
    assert refused(gate, lambda seed: measured(-1 - seed, requests=4 * needed), seeds=20) >= 18


def test_a_value_close_to_its_limit_is_decided_by_more_measurements_not_by_more_requests() -> None:
    """Measurements of one endpoint differ by 7% however many requests each of them has."""
    (told,) = judged(at_most(TTFT, MEAN / 1.08), measured("many", requests=4000)).undecided
    assert re.search(
        r"chance alone: \d+ measurements would decide it, because those of one endpoint differ by about 7%$", told
    )


def test_several_measurements_count_together() -> None:
    gate = at_most(f"{TTFT}_p99", P99 / 1.35)
    alone = refused(gate, lambda seed: measured(seed), seeds=20)
    together = sum(bool(judged(gate, *(measured((seed, run)) for run in range(3))).misses) for seed in range(20))
    assert alone < together
    assert together >= 15


def test_another_measurement_is_made_only_if_it_may_decide() -> None:
    gate = at_most(f"{TTFT}_p99", P99 / 1.35)
    found = [judged(gate, measured(seed)) for seed in range(20)]
    assert any(each.is_worth_repeating for each in found)
    assert not any(each.is_worth_repeating for each in found if not each.undecided)
    close = judged(at_most(TTFT, MEAN / 1.01), measured("many", requests=4000))
    assert close.undecided
    assert not close.is_worth_repeating, "the mean of three measurements varies by more"
    thrice = judged(gate, *(found_in for found_in in (measured(seed) for seed in range(3))))
    assert not thrice.is_worth_repeating


def test_any_of_many_limits_seldom_refuses_a_sound_endpoint() -> None:
    limits = tuple(Limit(formula=name, at_most=value / 0.9) for name, value in TRUTH.items())
    gate = Gate(limits=(*limits, Limit(formula=FAILURES, at_most=0.01)))
    count = 0
    for seed in range(30):
        levels = {users: measured((seed, users), failing=0.009) for users in (1, 8, 32)}
        count += bool(find(gate, levels, {}, None).misses)
    assert count <= 1


def test_a_limit_is_harder_to_miss_by_chance_the_more_limits_there_are() -> None:
    alone, among = (
        Gate(limits=tuple(Limit(formula=f"{TTFT}_p99", at_most=P99 / 1.5) for _ in range(limits))) for limits in (1, 20)
    )
    run = next(each for each in map(measured, range(50)) if not judged(among, each).misses)
    assert judged(alone, run).misses
    assert len(judged(among, run).undecided) == 20


def test_what_does_not_come_from_single_requests_is_judged_by_its_value() -> None:
    values = Measured({"acceptance_length": 2.0, "client_invocations": 100.0}, None)
    (miss,) = judged(at_least("acceptance_length", 2.1), values).misses
    assert miss == "value at 1 user is 2, 5% below the minimum of 2.1"


def test_requests_that_are_not_stored_leave_the_spread_between_runs() -> None:
    """There are too many of them for a record: chance within the run is small."""
    values = Measured(
        {f"{TTFT}_p99": 550.0, "client_invocations": 500_000.0, "client_invocation_errors": 5_200.0}, None
    )
    assert judged(at_most(f"{TTFT}_p99", 530.0), values).misses == []
    (miss,) = judged(at_most(f"{TTFT}_p99", 400.0), values).misses
    assert "is 550 ms, 38% above the maximum of 400 ms" in miss
    (miss,) = judged(at_most(FAILURES, 0.01, unit=""), values).misses
    assert miss.startswith("value at 1 user is 0.0104, 4% above the maximum of 0.01 (95% interval from 0.0101")


@pytest.mark.parametrize("requests", [1, 5])
def test_a_mean_of_too_few_requests_is_not_decided(requests: int) -> None:
    (told,) = judged(at_most(TTFT, MEAN / 3), measured("few", requests=requests)).undecided
    assert re.search(r"which may be chance alone: it takes at least \d+ requests to tell$", told), told


@pytest.mark.parametrize(("requests", "is_decided"), [(4, False), (5, True)])
def test_so_few_requests_that_chance_may_carry_all_of_them_beyond_a_median_decide_nothing(
    requests: int, *, is_decided: bool
) -> None:
    """All of five requests are above the median with a probability of 3%, all of four with one of 6%."""
    found = judged(at_most(f"{TTFT}_p50", 1e-6), measured("few", requests=requests))
    assert (len(found.misses), len(found.undecided)) == ((1, 0) if is_decided else (0, 1))


def test_a_few_requests_decide_what_is_far_beyond_its_limit() -> None:
    for metric in (f"{TTFT}_p50", f"{TTFT}_p99", TTFT):
        assert judged(at_most(metric, 20.0), measured("ten", requests=10)).misses, metric


def test_throughput_from_the_median_latency_between_tokens_is_judged_as_that_is() -> None:
    level = measured("seed")
    latency = level.metrics["inter_token_latency_p50"]
    metrics = {**level.metrics, "total_throughput": 1000 / latency, "blended_price_per_million_tokens": latency}
    side = Measured(metrics, level.sample)
    wanted = bool(judged(at_most("inter_token_latency_p50", latency / 1.5), side).misses)
    assert wanted
    assert judged(at_least("total_throughput", 1000 / latency * 1.5), side).misses
    assert judged(at_most("blended_price_per_million_tokens", latency / 1.5), side).misses
    assert not judged(at_least("total_throughput", 1000 / latency * 1.02), side).misses


def test_the_spread_of_the_replaced_versions_runs_counts() -> None:
    """With a spread of 1% instead of the assumed 7%, a value 8% beyond its limit is no chance."""
    after = measured("many", requests=4000)
    drawn = random.Random(1)
    known = [Measured({TTFT: 300 * math.exp(drawn.gauss(0, 0.01))}, None) for _ in range(8)]
    gate = at_most(TTFT, after.metrics[TTFT] / 1.08)
    assert judged(gate, after).misses == []
    assert judged(gate, after, before={1: Measured.of_runs(known)}).misses


def test_that_runs_differ_is_no_likeness_of_their_requests() -> None:
    """The spread between runs counts by itself; here, one of three runs is half as slow again."""
    runs = [measured(("run", number), slower=slower) for number, slower in enumerate((1.0, 1.5, 1.0))]
    samples = [run.sample for run in runs if run.sample is not None]
    joined = Sample.joined(samples)
    assert joined.dependence(TTFT) <= max(sample.dependence(TTFT) for sample in samples)
    assert Sample(joined.observations, joined.seconds).dependence(TTFT) > 1.5 * joined.dependence(TTFT)


def test_failures_in_a_row_count_as_fewer_in_any_of_several_runs() -> None:
    clustered, spread = (
        Sample([Observation(float(at), client_latency=None if failed(at) else 1.0) for at in range(100)], 100.0)
        for failed in (lambda at: at < 10, lambda at: at % 50 == 7)
    )
    alone, joined = (
        sample.design_effect(lambda each: each.client_latency is None)
        for sample in (clustered, Sample.joined([clustered, spread, spread]))
    )
    assert alone > 4
    assert joined > 0.6 * alone


def test_runs_of_one_version_become_one_side() -> None:
    first, second = measured("first"), measured("second", slower=2.0, failing=0.1)
    both = Measured.of_runs([first, second])
    assert both.sample is not None
    assert len(both.sample) == 200
    assert both.metrics["client_invocations"] == 200
    assert both.metrics["client_invocation_errors"] == second.metrics["client_invocation_errors"]
    assert both.metrics[TTFT] == pytest.approx(math.sqrt(first.metrics[TTFT] * second.metrics[TTFT]))
    values = sorted(value for each in both.sample.observations for value in each.latencies(TTFT))
    assert values[0] < both.metrics[f"{TTFT}_p50"] < values[-1]
    assert sum(value <= both.metrics[f"{TTFT}_p50"] for value in values) == pytest.approx(len(values) / 2, abs=1)
    rate = both.sample.drawn()["requests_per_second"]
    assert min(side.metrics["requests_per_second"] for side in (first, second)) < rate
    assert Measured.of_runs([first]) is first


def test_a_percentile_of_which_the_counted_requests_have_no_value_is_judged_by_its_value() -> None:
    """Each user's first response came, and all later requests failed."""
    metrics = {"time_to_first_token_p99": 2000.0, "client_invocations": 100.0, "client_invocation_errors": 92.0}
    failing = Measured(metrics, Sample([Observation(float(each)) for each in range(92)], 92.0))
    assert len(judged(at_most("time_to_first_token_p99", 500.0), failing).misses) == 1
    assert len(judged(at_most("time_to_first_token_p99", 500.0), Measured(metrics, Sample([], 0.0))).misses) == 1
