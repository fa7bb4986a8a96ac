"""What chance does to a comparison: intervals, verdicts and the requests that would decide."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.evaluator.requests import Request
from constructs_optim.recipe.metrics import EVALUATION
from constructs_optim.runtime.evaluation.differences import (
    SAMPLED,
    Comparison,
    Difference,
    Measured,
    intervals,
)
from constructs_optim.runtime.evaluation.samples import (
    ALL_TOKENS,
    LATENCIES,
    PERCENTILES,
    Observation,
    Sample,
    first_of,
    samples_of,
    stored,
    student_quantile,
    variance_inflation,
)

from ..support.sampling import one_in
from ..support.summaries import summarized

USERS, PRICE = 8, 7.09
# The requests of these tests have neither pieces nor objectives.
DIRECTIONS = {
    metric.name: metric.direction
    for metric in EVALUATION
    if metric.name in SAMPLED and "inter_chunk" not in metric.name and metric.name != "goodput"
}
GATED = {
    name: DIRECTIONS[name]
    for name in (
        "time_to_first_token_p50",
        "inter_token_latency_p50",
        "client_latency_p90",
        "output_tokens_per_second",
    )
}


def steady(drawn: random.Random) -> Iterator[float]:
    while True:
        yield math.exp(drawn.gauss(0, 0.05))


def lognormal(drawn: random.Random) -> Iterator[float]:
    while True:
        yield math.exp(drawn.gauss(0, 0.4))


def bursty(drawn: random.Random) -> Iterator[float]:
    """A server that is 2.5 times as slow for some dozen requests now and then."""
    while True:
        slow = 2.5 if drawn.random() < 0.3 else 1.0
        for _ in range(max(1, round(drawn.expovariate(1 / 12)))):
            yield slow * math.exp(drawn.gauss(0, 0.2))


SERVERS: dict[str, Callable[[random.Random], Iterator[float]]] = {
    "steady": steady,
    "lognormal": lognormal,
    "bursty": bursty,
}


def sent(server: str, seed: str, requests: int, *, slower: float = 1.0) -> list[Request]:
    """The requests of a closed loop: every user sends the next one when the one before it is complete."""
    drawn = random.Random(seed)
    factors, free = SERVERS[server](drawn), [0.0] * USERS
    found: list[Request] = []
    for _ in range(requests):
        start, factor = min(free), next(factors) * slower
        first = start + 0.2 * factor
        tokens = drawn.randint(10, 40)
        end = first + 0.02 * slower * math.exp(drawn.gauss(0, 0.1)) * (tokens - 1)
        free[free.index(start)] = end
        found.append(Request(start, end, first, end, 100, tokens))
    return found


def measured(requests: list[Request], *, paired: bool = True) -> Measured:
    """A side with these requests, whose prompts are known where it may be ``paired``."""
    observed = [observation(each, number if paired else None) for number, each in enumerate(requests)]
    sample = Sample(observed, seconds_of(requests))
    return Measured(summarized(requests, seconds_of(requests), USERS, instance_price_per_hour=PRICE), sample)


def observation(request: Request, prompt: int | None) -> Observation:
    known = request if request.is_measured else Request(request.start, request.end)
    return Observation(
        request.start,
        known.time_to_first_token,
        known.inter_token_latency,
        known.client_latency if request.is_measured else None,
        known.input_tokens,
        known.output_tokens,
        prompt,
    )


def seconds_of(requests: list[Request]) -> float:
    return max(each.end for each in requests)


def unpaired(side: Measured) -> Measured:
    assert side.sample is not None
    return Measured(
        side.metrics, Sample([replace(each, prompt=None) for each in side.sample.observations], side.sample.seconds)
    )


def differences(
    server: str, seed: int, requests: int, *, slower: float = 1.0, directions: dict[str, int] = DIRECTIONS
) -> list[Difference]:
    sides = (
        measured(sent(server, f"{server} {seed} {side}", requests, slower=speed), paired=False)
        for side, speed in (("before", 1.0), ("after", slower))
    )
    return list(Comparison(directions).differences(*sides))


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    # Fisher and Yates, Statistical Tables for Biological, Agricultural and Medical Research, table III.
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 4, 2.776),
        (0.975, 9, 2.262),
        (0.975, 19, 2.093),
        (0.995, 9, 3.250),
        (0.995, 19, 2.861),
        (0.9995, 9, 4.781),
        (0.9995, 19, 3.883),
    ],
)
def test_quantiles_of_students_distribution_are_those_of_the_tables(
    probability: float, freedom: int, quantile: float
) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(quantile, abs=0.0005)


def test_a_whole_sample_has_the_published_metrics() -> None:
    side = measured(sent("lognormal", "seed", 300))
    assert side.sample is not None
    drawn = side.sample.drawn()
    assert drawn.pop(ALL_TOKENS) == drawn["input_tokens_per_second"] + drawn["output_tokens_per_second"]
    assert drawn.keys() == frozenset(DIRECTIONS).difference(
        ("client_invocation_errors", "empty_inference_response", "tokenizer_failed", "total_throughput"),
        (name for name in SAMPLED if name.startswith(("price_", "blended_"))),
    )
    for name, value in drawn.items():
        assert value == pytest.approx(side.metrics[name], rel=1e-9), name


@given(
    st.lists(st.floats(1, 1000), min_size=20, max_size=60),
    st.integers(0, 2**32),
)
def test_percentiles_of_a_drawing_are_those_of_the_drawn_requests(values: list[float], seed: int) -> None:
    sample = Sample([Observation(number, client_latency=value) for number, value in enumerate(values)], len(values))
    chosen = random.Random(seed).choices(range(sample.blocks), k=sample.blocks)
    cuts = [len(values) * block // sample.blocks for block in range(sample.blocks + 1)]
    repeated = sorted(value for block in chosen for value in values[cuts[block] : cuts[block + 1]])
    drawn = sample.drawn([chosen.count(block) for block in range(sample.blocks)])
    expected = quantiles(repeated, n=100, method="inclusive")
    for percent in PERCENTILES:
        assert drawn[f"client_latency_p{percent}"] == pytest.approx(expected[percent - 1])
    assert drawn["client_latency"] == pytest.approx(sum(repeated) / len(repeated))


def test_samples_are_stored_and_read_without_loss() -> None:
    side = measured(sent("lognormal", "seed", 50))
    assert side.sample is not None
    document = stored({USERS: (side.sample.observations, side.sample.seconds)})
    [(users, sample)] = samples_of(document)
    assert users == USERS
    assert sample.paired_with(side.sample) is not None
    for name, value in sample.drawn().items():
        if name != ALL_TOKENS:
            assert value == pytest.approx(side.metrics[name], rel=1e-4), name


@pytest.mark.parametrize(("shared", "are_paired"), [(20, True), (10, True), (8, False), (0, False)])
def test_samples_are_paired_if_half_of_their_prompts_are_the_same(shared: int, are_paired: bool) -> None:
    first, other = (
        Sample([Observation(number, client_latency=1000, prompt=number + begin) for number in range(20)], 20)
        for begin in (0, 20 - shared)
    )
    assert (other.paired_with(first) is not None) is are_paired


def _rate_of_false_calls(server: str, seeds: int) -> float:
    found = [each for seed in range(seeds) for each in differences(server, seed, 256)]
    called = Counter(each.verdict for each in found)
    return (called["better"] + called["worse"]) / len(found)


@pytest.mark.parametrize("server", one_in(len(SERVERS), SERVERS))
def test_a_server_is_seldom_called_different_from_itself(server: str) -> None:
    assert _rate_of_false_calls(server, seeds=20) <= 0.05


@pytest.mark.exhaustive
@pytest.mark.parametrize("server", SERVERS)
def test_of_200_comparisons_with_itself_at_most_one_in_twenty_calls_a_server_different(server: str) -> None:
    assert _rate_of_false_calls(server, seeds=200) <= 0.05


def _found(server: str, seeds: int) -> float:
    """The share of metrics that are called worse of a server that is 10% slower, with the requests asked for."""
    # Half a million requests decide the median between fast and slow ones, which is near neither.
    directions = {name: sign for name, sign in GATED.items() if (server, name) != ("bursty", "time_to_first_token_p50")}
    found: list[Difference] = []
    for seed in range(seeds):
        first = differences(server, seed, 256, slower=1.1, directions=directions)
        wanted = max((each.requests or 0 for each in first), default=0)
        found += differences(server, -1 - seed, wanted, slower=1.1, directions=directions) if wanted else first
    return sum(each.verdict == "worse" for each in found) / len(found)


def test_a_slower_server_is_found_with_the_requests_that_were_asked_for() -> None:
    assert _found("steady", seeds=3) >= 0.9


@pytest.mark.exhaustive
@pytest.mark.parametrize(("server", "seeds"), [("steady", 100), ("lognormal", 100), ("bursty", 20)])
def test_a_slower_server_is_found_nine_times_in_ten_with_the_requests_that_were_asked_for(
    server: str, seeds: int
) -> None:
    assert _found(server, seeds) >= 0.9


def test_no_difference_is_shown_with_the_requests_that_were_asked_for() -> None:
    first = differences("steady", 1, 256, directions=GATED)
    wanted = max(each.requests or 256 for each in first)
    again = differences("steady", 2, wanted, directions=GATED)
    assert Counter(each.verdict for each in again)["same"] >= 3


def test_an_interval_holds_the_true_change_and_shrinks_with_more_requests() -> None:
    few, many = (
        {each.name: each for each in differences("lognormal", 5, requests, slower=1.3)} for requests in (200, 2000)
    )
    for found in (few, many):
        latency = found["time_to_first_token_p50"]
        assert latency.low is not None
        assert latency.high is not None
        assert latency.low < 0.3 < latency.high
        # A change as large as the interval's half is missed half of the time.
        assert latency.change is not None
        assert latency.detectable is not None
        assert latency.detectable > (1 + latency.high) / (1 + latency.change) - 1
    for name in ("time_to_first_token_p50", "client_latency", "output_tokens_per_second"):
        detectable = few[name].detectable, many[name].detectable
        assert detectable[0] is not None
        assert detectable[1] is not None
        assert detectable[1] < detectable[0] / 2


def test_the_same_prompts_on_both_sides_narrow_the_interval() -> None:
    """Long and short answers differ much more than the sides do."""
    drawn = random.Random(3)
    tokens = [drawn.choice([10, 400]) for _ in range(400)]
    sides: list[Measured] = []
    for speed in (1.0, 1.05):
        requests, at = list[Request](), 0.0
        for count in tokens:
            end = at + 0.2 + count * 0.01 * speed * drawn.lognormvariate(0, 0.02)
            requests.append(Request(at, end, at + 0.2, end, 100, count))
            at = end
        sides.append(measured(requests))
    comparison = Comparison({"client_latency": -1})
    (paired,) = comparison.differences(*sides)
    (apart,) = comparison.differences(unpaired(sides[0]), sides[1])
    assert paired.detectable is not None
    assert apart.detectable is not None
    assert paired.detectable < apart.detectable / 3
    assert paired.verdict == "worse"
    assert apart.verdict == "undecided"


@pytest.mark.parametrize("users", [4, 16])
def test_prompts_are_paired_whatever_order_the_users_took_them_in(users: int) -> None:
    """Each side has the same prompts, of 10 or 400 tokens: the next free user takes the next one."""
    drawn = random.Random(5)
    tokens = [drawn.choice([10, 400]) for _ in range(200)]
    sides: list[Measured] = []
    for _ in range(2):
        free, requests, observed = [0.0] * users, list[Request](), list[Observation]()
        taken = list(enumerate(tokens))
        while taken:
            # Users are ready in another order each time.
            place, count = taken.pop(min(drawn.randrange(users), len(taken) - 1))
            start = min(free)
            end = start + 0.2 + count * 0.01 * drawn.lognormvariate(0, 0.02)
            free[free.index(start)] = end
            requests.append(Request(start, end, start + 0.2, end, 100, count))
            observed.append(observation(requests[-1], place))
        sample = Sample(observed, seconds_of(requests))
        sides.append(Measured(sample.drawn(), sample))
    comparison = Comparison({"client_latency": -1})
    (paired,) = comparison.differences(*sides)
    (apart,) = comparison.differences(unpaired(sides[0]), sides[1])
    assert (paired.verdict, apart.verdict) == ("same", "undecided")


def test_sides_are_paired_where_one_of_them_left_some_requests_out() -> None:
    """Some prompts take forty times as long; the first ten requests of one side met a cold server."""
    drawn = random.Random(6)
    lengths = [drawn.choice([1, 40]) for _ in range(200)]

    def side(first: int) -> Measured:
        observed = [
            Observation(place, client_latency=lengths[place] * drawn.lognormvariate(0, 0.02), prompt=place)
            for place in range(first, 200)
        ]
        sample = Sample(observed, 200 - first)
        return Measured(sample.drawn(), sample)

    before, after = side(0), side(10)
    comparison = Comparison({"client_latency": -1})
    (paired,) = comparison.differences(before, after)
    (apart,) = comparison.differences(unpaired(before), after)
    assert (paired.detectable or 1) < (apart.detectable or 0) / 2


def test_what_follows_from_another_metric_has_its_interval() -> None:
    found = {each.name: each for each in differences("lognormal", 7, 400, slower=1.2)}
    throughput, price = found["output_tokens_per_second"], found["price_per_million_output_tokens"]
    assert throughput.detectable == price.detectable
    assert throughput.change is not None
    assert price.change is not None
    assert (1 + throughput.change) * (1 + price.change) == pytest.approx(1)
    assert (throughput.verdict, price.verdict) in (("worse", "worse"), ("undecided", "undecided"))


def test_the_price_of_all_tokens_is_as_sure_as_their_rate() -> None:
    """Prompts differ much more than responses do, and are nearly all of the tokens."""
    drawn = random.Random(2)
    requests = [Request(at, at + 0.9, at + 0.2, at + 0.9, drawn.choice([100, 3000]), 10) for at in range(200)]
    sides = [measured(requests, paired=False) for _ in range(2)]
    found = {each.name: each.detectable or 0 for each in Comparison(DIRECTIONS).differences(*sides)}
    assert found["price_per_million_tokens"] == pytest.approx(found["input_tokens_per_second"], rel=0.05)
    assert found["price_per_million_tokens"] > 0.1 > found["output_tokens_per_second"]


def latencies_of(values: Iterable[float]) -> Measured:
    observed = [Observation(place, client_latency=value) for place, value in enumerate(values)]
    sample = Sample(observed, len(observed))
    return Measured(sample.drawn(), sample)


def alike(drawn: random.Random, requests: int, correlation: float) -> Iterator[float]:
    """Lognormal latencies with a mean of 1, each of which is like the one before it."""
    deviation = drawn.gauss(0, 1)
    for _ in range(requests):
        yield math.exp(0.4 * deviation - 0.4**2 / 2)
        deviation = correlation * deviation + math.sqrt(1 - correlation**2) * drawn.gauss(0, 1)


@pytest.mark.parametrize(
    ("requests", "correlation", "holds"),
    [
        pytest.param(20, 0.5, 0.87, marks=pytest.mark.exhaustive),
        (60, 0.8, 0.86),
        pytest.param(256, 0.9, 0.89, marks=pytest.mark.exhaustive),
    ],
)
def test_an_interval_holds_the_true_value_where_requests_are_alike(
    requests: int, correlation: float, holds: float
) -> None:
    drawn = random.Random(f"{requests} {correlation}")
    found = [
        ends
        for _ in range(200)
        if (ends := intervals(latencies_of(alike(drawn, requests, correlation))).get("client_latency"))
    ]
    assert len(found) >= 190
    assert sum(low <= 1 <= high for low, high in found) >= holds * len(found)


def test_the_interval_of_a_rate_holds_it_where_requests_last_longer_than_a_block() -> None:
    """Each block has a share of the same long requests as its neighbors: 16 a second, of two seconds."""
    held = 0
    for seed in range(60):
        drawn, starts = random.Random(seed), [-6.0]
        while sum(start >= 0 for start in starts) < 120:
            starts.append(starts[-1] + drawn.expovariate(16))
        inside = [Observation(at, client_latency=2000.0).inside(0, starts[-1]) for at in starts]
        pairs = list(zip(starts, inside, strict=True))
        sample = Sample([one for at, one in pairs if at >= 0], starts[-1], [one for at, one in pairs if at < 0])
        low, high = intervals(Measured(sample.drawn(), sample))["requests_per_second"]
        held += low <= 16 <= high
    assert held >= 53


def test_a_side_that_falls_further_and_further_behind_is_worse() -> None:
    """An open loop beyond what the server takes: each request waits longer than the one before it."""
    drawn = random.Random(1)
    steady, behind = (
        latencies_of(100 + waits * place + 5 * drawn.gauss(0, 1) for place in range(200)) for waits in (0, 8)
    )
    (found,) = Comparison({"client_latency": -1}, concurrencies=20).differences(steady, behind)
    assert found.verdict == "worse"


@pytest.mark.parametrize("across_runs", [False, True])
@pytest.mark.parametrize("longest", [300.0, 10_000.0])
def test_a_metric_of_which_nothing_is_sure_has_no_interval_but_asks_for_more_requests(
    longest: float, *, across_runs: bool
) -> None:
    """One request of a hundred takes most of the time."""
    rare = latencies_of(longest if place == 50 else 1.0 for place in range(100))
    assert "client_latency" not in intervals(rare)
    comparison = Comparison({"client_latency": -1}, across_runs=across_runs)
    (found,) = comparison.differences(latencies_of([1.0] * 100), rare)
    assert (found.verdict, found.low, found.high) == ("undecided", None, None)
    assert (found.requests or 0) > 10_000


def test_sides_that_no_number_of_requests_tells_apart_ask_for_about_a_thousand_times_as_many() -> None:
    observed = [Observation(place, client_latency=500.0, meets_objectives=False) for place in range(100)]
    sample = Sample(observed, 100)
    (found,) = Comparison({"goodput": 1}).differences(
        Measured({"goodput": 0.0}, sample), Measured({"goodput": 0.1}, sample)
    )
    assert found.verdict == "undecided"
    assert 100_000 < (found.requests or 0) < 110_000


def test_a_rate_that_is_missing_in_some_drawings_asks_for_more_requests_than_there_were() -> None:
    def side(good: int) -> Measured:
        observed = [Observation(place, client_latency=500.0, meets_objectives=place < good) for place in range(100)]
        sample = Sample(observed, 100)
        return Measured(sample.drawn(), sample)

    (found,) = Comparison({"goodput": 1}).differences(side(3), side(4))
    assert (found.verdict, found.low, found.requests) == ("undecided", None, 200)


def counted(errors: int, sent: int) -> Measured:
    return Measured({"client_invocations": sent, "client_invocation_errors": errors}, None)


def test_the_interval_of_two_shares_is_the_published_one() -> None:
    """Newcombe, Statistics in Medicine 17 (1998), table II (a), method 10: 56 of 70 against 48 of 80."""
    comparison = Comparison({"client_invocation_errors": -1})
    (found,) = comparison.differences(counted(48, 80), counted(56, 70))
    assert found.change == pytest.approx(0.2)
    assert (found.low, found.high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))
    assert found.verdict == "worse"


@pytest.mark.parametrize(
    ("before", "after", "sent", "verdict"),
    [
        (0, 0, 1000, "same"),
        (0, 0, 30, "undecided"),
        (0, 1, 30, "undecided"),
        (0, 40, 1000, "worse"),
        (40, 0, 1000, "better"),
    ],
)
def test_shares_of_failed_requests_are_compared(before: int, after: int, sent: int, verdict: str) -> None:
    (found,) = Comparison({"client_invocation_errors": -1}).differences(counted(before, sent), counted(after, sent))
    assert found.verdict == verdict
    assert (found.requests is not None) is (verdict == "undecided")


@pytest.mark.parametrize("burst", [1, 5, 10])
def test_failures_that_come_in_bursts_are_seldom_called_a_difference(burst: int) -> None:
    """5% of the requests fail on both sides, so many in a row."""

    def side(seed: str) -> Measured:
        drawn, flags = random.Random(seed), list[bool]()
        while len(flags) < 400:
            flags += [True] * burst if drawn.random() < 0.05 / burst else [False]
        observed = [Observation(place, client_latency=None if flag else 1.0) for place, flag in enumerate(flags[:400])]
        counts = {"client_invocations": 400.0, "client_invocation_errors": float(sum(flags[:400]))}
        return Measured(counts, Sample(observed, 400))

    comparison = Comparison({"client_invocation_errors": -1})
    verdicts = [
        difference.verdict
        for seed in range(60)
        for difference in comparison.differences(side(f"{seed} a"), side(f"{seed} b"))
    ]
    assert sum(verdict in ("better", "worse") for verdict in verdicts) <= 0.08 * len(verdicts)


@pytest.mark.parametrize("sent", [60, 300])
def test_the_requests_that_shares_of_no_failures_ask_for_are_enough(sent: int) -> None:
    def side(count: float) -> Measured:
        return Measured({"client_invocations": count, "client_invocation_errors": 0.0}, None)

    comparison = Comparison({"client_invocation_errors": -1})
    [first] = comparison.differences(side(sent), side(sent))
    assert first.verdict == "undecided"
    assert first.detectable is not None
    assert first.requests is not None
    assert first.requests < 500
    [again] = comparison.differences(side(first.requests), side(first.requests))
    assert again.verdict == "same"


@pytest.mark.parametrize("share", [0.005, 0.02])
def test_few_good_requests_on_one_side_alone_are_seldom_called_a_difference(share: float) -> None:
    def side(drawn: random.Random) -> Measured:
        observed = [
            Observation(place, client_latency=500.0, meets_objectives=drawn.random() < share) for place in range(100)
        ]
        sample = Sample(observed, 100)
        return Measured(sample.drawn(), sample)

    comparison, drawn = Comparison({"goodput": 1}), random.Random(1)
    found = [next(comparison.differences(side(drawn), side(drawn))) for _ in range(100)]
    assert sum(each.verdict in ("better", "worse") for each in found) <= 5
    assert all((each.requests or 0) > 100 for each in found if each.verdict == "undecided" and each.change != 0)


def test_what_is_known_of_some_requests_alone_has_no_rate() -> None:
    observed = [
        Observation(place, client_latency=500.0, meets_objectives=None if place % 2 else True, output_tokens=7)
        for place in range(100)
    ]
    drawn = Sample(observed, 100).drawn()
    assert "goodput" not in drawn
    assert drawn["output_tokens_per_second"] == pytest.approx(7)


def test_a_rate_that_falls_to_nothing_is_worse() -> None:
    def side(meets: bool) -> Measured:
        observed = [
            Observation(place, client_latency=500.0, time_to_first_token=100.0, meets_objectives=meets)
            for place in range(100)
        ]
        sample = Sample(observed, 100)
        return Measured(sample.drawn(), sample)

    comparison = Comparison({"goodput": 1})
    [fell] = comparison.differences(side(True), side(False))
    assert (fell.verdict, fell.change, fell.after) == ("worse", -1.0, 0.0)
    [rose] = comparison.differences(side(False), side(True))
    assert (rose.verdict, rose.change) == ("better", None)


@pytest.mark.parametrize("requests", [1, 5, 19])
def test_too_few_requests_decide_nothing(requests: int) -> None:
    latencies = {name: sign for name, sign in DIRECTIONS.items() if name.startswith(LATENCIES)}
    for found in differences("steady", 1, requests, slower=3.0, directions=latencies):
        assert (found.verdict, found.low, found.high) == ("undecided", None, None)
        assert found.requests is not None
        assert found.requests >= 20


def test_a_percentile_with_too_few_values_beyond_it_decides_nothing() -> None:
    found = {each.name: each for each in differences("steady", 1, 200, slower=3.0)}
    assert found["client_latency_p50"].verdict == "worse"
    assert (found["client_latency_p99"].verdict, found["client_latency_p99"].requests) == ("undecided", 500)


def test_more_comparisons_widen_each_interval() -> None:
    sides = [measured(sent("steady", side, 256), paired=False) for side in ("before", "after")]
    (alone,) = Comparison({"client_latency": -1}).differences(*sides)
    among = {each.name: each for each in Comparison(DIRECTIONS, concurrencies=3).differences(*sides)}
    assert (among["client_latency"].detectable or 0) > (alone.detectable or 0) * 1.3


def test_missing_and_zero_values_are_not_compared() -> None:
    metrics = dict.fromkeys(LATENCIES, 0.0)
    found = list(Comparison(dict.fromkeys(LATENCIES, -1)).differences(Measured(metrics, None), Measured(metrics, None)))
    assert {(each.change, each.verdict) for each in found} == {(0.0, "undecided")}
    assert list(Comparison({"client_latency": -1}).differences(Measured({}, None), Measured(metrics, None))) == []


def test_the_first_of_many_requests_are_a_sample_with_the_same_rates() -> None:
    drawn = random.Random(1)
    observations = [
        Observation(0.1 * each, 200.0, 20.0, 1000 * drawn.lognormvariate(0, 0.3), 600.0, 50.0) for each in range(1000)
    ]
    whole = Sample(*first_of(observations, 100.0, 1000))
    first = Sample(*first_of(observations, 100.0, 400))
    assert (len(whole), len(first), first.seconds) == (1000, 400, pytest.approx(40.0))
    for name in ("requests_per_second", "output_tokens_per_second", "client_latency_p50"):
        assert first.drawn()[name] == pytest.approx(whole.drawn()[name], rel=0.05)
    assert first.mean_under_way == pytest.approx(whole.mean_under_way, rel=0.05)


def test_a_request_that_runs_on_after_the_first_of_many_counts_with_its_part() -> None:
    observed = [Observation(float(at), client_latency=2000.0) for at in range(4)]
    first, seconds = first_of(observed, 10.0, 2)
    assert (seconds, [each.within for each in first]) == (2.0, [1.0, 0.5])


def test_a_failed_request_is_not_under_way() -> None:
    sample = Sample([Observation(0, client_latency=3000.0), Observation(1)], 2)
    assert sample.mean_under_way == pytest.approx(1.5)


@pytest.mark.parametrize(("before", "after"), [((0, 0), (1, 10)), ((1, 10), (0, 0)), ((0, 0), (0, 0))])
def test_shares_of_no_requests_are_not_compared(before: tuple[int, int], after: tuple[int, int]) -> None:
    (found,) = Comparison({"client_invocation_errors": -1}).differences(counted(*before), counted(*after))
    assert (found.change, found.low, found.verdict) == (None, None, "undecided")
    unknown = Measured({"client_invocation_errors": 1.0}, None)
    (found,) = Comparison({"client_invocation_errors": -1}).differences(unknown, counted(1, 10))
    assert found.change is None


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("goodput", (0.0, 4.0), 2.0),
        ("goodput", (2.0, 8.0), 4.0),
        ("client_latency", (2.0, 8.0), 4.0),
        ("client_latency", (0.5, 2.0), 1.0),
        ("client_invocations", (2.0, 8.0), 10.0),
        ("client_invocation_errors", (0.0, 8.0), 8.0),
    ],
)
def test_several_runs_have_the_sum_of_what_was_counted_and_the_mean_of_what_was_measured(
    name: str, values: tuple[float, float], expected: float
) -> None:
    runs = [Measured({name: value}, None) for value in values]
    assert Measured.of_runs(runs).metrics[name] == pytest.approx(expected)


def test_several_runs_have_the_percentiles_of_all_their_requests() -> None:
    fast, slow = latencies_of([1.0] * 20), latencies_of([3.0] * 40)
    both = Measured.of_runs([fast, slow]).metrics
    assert both["client_latency_p50"] == 3
    assert both["client_latency"] == pytest.approx(math.sqrt(3))
    # Without the requests of one run, its percentile counts as much as the other's.
    some = Measured.of_runs([fast, Measured(slow.metrics, None)]).metrics
    assert some["client_latency_p50"] == pytest.approx(math.sqrt(3))


@pytest.mark.parametrize(("requests", "is_rounded"), [(5000, False), (5001, True)])
def test_latencies_of_very_many_requests_are_rounded_where_that_suffices(requests: int, *, is_rounded: bool) -> None:
    values = [1000.123 + place for place in range(requests)]
    sample = Sample([Observation(place, client_latency=value) for place, value in enumerate(values)], requests)
    exact, coarse = sample.drawn(), sample.drawn(coarse=True)
    assert exact["client_latency_p50"] == pytest.approx(quantiles(values, n=2, method="inclusive")[0])
    assert (coarse != exact) is is_rounded
    if is_rounded:
        assert coarse["client_latency_p50"] == 3500
        assert coarse["client_latency"] == pytest.approx(sum(float(f"{each:.2e}") for each in values) / requests)


def test_a_resample_without_any_value_of_a_latency_lacks_it() -> None:
    observed = [
        Observation(place, time_to_first_token=9.0 if place == 0 else None, client_latency=10.0) for place in range(40)
    ]
    sample = Sample(observed, 40)
    assert sample.drawn()["time_to_first_token"] == 9
    without = sample.drawn([0, *[1] * (sample.blocks - 1)])
    assert [name for name in without if name.startswith("time_to_first_token")] == []
    assert without["client_latency"] == 10


def test_what_rounding_leaves_of_equal_means_is_no_similarity() -> None:
    rounded = [1000 + 1e-9 * (number // 5 % 2) for number in range(20)]
    assert variance_inflation(rounded) == 1.0
    assert variance_inflation([1000 + 10 * (number // 5 % 2) for number in range(20)]) > 2


def test_means_of_one_slow_wave_are_as_alike_as_few_blocks_can_show() -> None:
    wave = [1000 + math.cos(2 * math.pi * place / 40) for place in range(40)]
    assert variance_inflation(wave) == pytest.approx((1 + 0.9) / (1 - 0.9))
