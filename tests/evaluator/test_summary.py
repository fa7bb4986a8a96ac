from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.evaluator.requests import ErrorKind, Request, errors_by_kind
from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.metrics import EVALUATION, find
from constructs_optim.runtime.evaluation.samples import Observation, Sample

from ..support.summaries import summarized

# Calculated manually below: first tokens after 200 and 300 ms, 5 tokens 20 ms apart and 11 tokens 30 ms apart.
FAST = Request(0.0, 0.3, first_token=0.2, last_token=0.28, input_tokens=100, output_tokens=5, gaps=[20.0] * 4)
SLOW = Request(
    0.5, 1.1, first_token=0.8, last_token=1.1, input_tokens=300, output_tokens=11, gaps=[*([30.0] * 9), 40.0]
)
BY_HAND = {
    "concurrency": 2,
    "time_to_first_token": (200 + 300) / 2,
    "time_to_first_token_p50": 250,
    "time_to_first_token_p90": 200 + 0.9 * 100,
    "time_to_first_token_p99": 200 + 0.99 * 100,
    # (280 - 200) / 4 = 20 ms; (600 - 300) / 10 = 30 ms.
    "inter_token_latency": 25,
    "inter_token_latency_p50": 25,
    "inter_token_latency_p90": 29,
    "inter_token_latency_p99": 29.9,
    # 4 gaps of 20 ms, 9 of 30 and 1 of 40.
    "inter_chunk_latency": (4 * 20 + 9 * 30 + 40) / 14,
    "inter_chunk_latency_p50": 30,
    "inter_chunk_latency_p90": 30,
    "inter_chunk_latency_p99": 30 + 0.87 * 10,
    "longest_inter_chunk_latency": 30,
    "longest_inter_chunk_latency_p50": 30,
    "longest_inter_chunk_latency_p90": 38,
    "longest_inter_chunk_latency_p99": 39.8,
    "client_latency": (300 + 600) / 2,
    "client_latency_p50": 450,
    "client_latency_p90": 570,
    "client_latency_p99": 597,
    # 400 and 16 tokens in 2 s.
    "input_tokens_per_second": 200,
    "output_tokens_per_second": 8,
    "client_invocations": 2,
    "client_invocation_errors": 0,
    "tokenizer_failed": 0,
    "empty_inference_response": 0,
    # Both in 2 s.
    "requests_per_second": 1,
    "goodput": 0.5,
    # 2 users, a token each 25 ms.
    "total_throughput": 80,
    # 100 tokens in 0.3 s and 300 in 0.6 s; 5 in 0.3 s and 11 in 0.6 s.
    "input_tokens_per_second_per_request": (100 + 300) / (0.3 + 0.6),
    "output_tokens_per_second_per_request": (5 + 11) / (0.3 + 0.6),
    "input_tokens": 200,
    "output_tokens": 8,
    # Two instances at $3.60 an hour are $7.20; a quarter less is $5.40, or $0.0015 a second.
    "instance_price_per_hour": 7.2,
    "price_per_million_input_tokens": 0.0015 / 200 * 1e6,
    "price_per_million_output_tokens": 0.0015 / 8 * 1e6,
    "blended_price_per_million_tokens": 0.0015 / 80 * 1e6 / 4,
    # 208 tokens a second, a request and half a good one.
    "price_per_million_tokens": 0.0015 / 208 * 1e6,
    "price_per_thousand_requests": 1.5,
    "price_per_thousand_good_requests": 3.0,
}


def test_every_evaluation_metric_matches_the_manual_calculation() -> None:
    objectives = LatencyObjectives(time_to_first_token=250, inter_token_latency=25)
    values = summarized([FAST, SLOW], 2.0, 2, instance_price_per_hour=7.2, discount=0.25, objectives=objectives)
    assert values == pytest.approx(BY_HAND)
    others = ("acceptance_length", "drafts", "inputs_per_second")
    of_requests = [metric.name for metric in EVALUATION if metric.name not in others]
    assert list(values) == of_requests, "all of them, in the order of their definitions"


def test_the_blended_price_matches_the_formula_of_the_aws_blog() -> None:
    """8 users, 20 ms a token: 400 tokens a second, 1.44 million an hour, for $7.09."""
    request = Request(start=0, first_token=1, last_token=1.2, end=1.2, input_tokens=1, output_tokens=11)
    values = summarized([request], 1.2, 8, instance_price_per_hour=7.09)
    assert values["total_throughput"] == pytest.approx(400)
    assert values["blended_price_per_million_tokens"] == pytest.approx(7.09 / 1.44 / 4)


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_a_failed_request_only_increases_the_request_and_error_counts(kind: ErrorKind) -> None:
    failed = Request(start=0, first_token=0.01, end=0.02, input_tokens=9, output_tokens=2, error=kind)
    alone, together = summarized([FAST, SLOW], 2, 2), summarized([FAST, failed, SLOW], 2, 2)
    counts = {"client_invocations": 3.0, "client_invocation_errors": 1.0}
    assert together == alone | counts
    assert errors_by_kind([FAST, failed]) == {kind.value: 1}
    assert kind.meaning.endswith(".")


@pytest.mark.parametrize(
    ("request_", "empty", "tokenizer"),
    [
        (Request(start=0, end=0.1, output_tokens=0), 1, 0),
        (Request(start=0, end=0.1), 1, 0),
        (Request(start=0, end=0.1, first_token=0.1, output_tokens=0), 1, 0),
        # The tokenizer could not parse the output or the prompt.
        (Request(start=0, end=0.1, first_token=0.1, tokenizer_failed=True), 1, 1),
        (Request(start=0, end=0.1, first_token=0.1, output_tokens=3, tokenizer_failed=True), 0, 1),
        # Without a token count the response is not an error.
        (Request(start=0, end=0.1, first_token=0.1), 0, 0),
    ],
)
def test_empty_responses_and_tokenizer_failures_are_counted(request_: Request, empty: int, tokenizer: int) -> None:
    values = summarized([request_], 1, 1)
    assert (values["empty_inference_response"], values["tokenizer_failed"]) == (empty, tokenizer)
    assert values["client_invocation_errors"] == 0
    assert ("client_latency" in values) == (not empty)


def test_metrics_that_cannot_be_calculated_are_omitted() -> None:
    values = summarized([Request(start=0, end=1, error=ErrorKind.TIMEOUT)], 1, 4, instance_price_per_hour=1)
    assert values == {
        "concurrency": 4,
        "client_invocations": 1,
        "client_invocation_errors": 1,
        "tokenizer_failed": 0,
        "empty_inference_response": 0,
        "instance_price_per_hour": 1,
    }
    assert summarized([], 0, 1)["client_invocations"] == 0


def test_a_rate_of_tokens_is_missing_where_some_requests_have_no_count() -> None:
    uncounted = Request(0.5, 1.1, first_token=0.8, last_token=1.1)
    values = summarized([FAST, uncounted], 2.0, 2, instance_price_per_hour=7.2)
    assert "output_tokens_per_second" not in values
    assert "price_per_million_output_tokens" not in values
    assert "price_per_million_tokens" not in values
    assert values["output_tokens"] == 5, "the mean of those that are known"
    assert values["requests_per_second"] == 1
    assert values["price_per_thousand_requests"] == pytest.approx(2.0)


def test_requests_around_those_that_count_add_to_rates_alone() -> None:
    """A request that began a second before the window, and has half of its time in it."""
    before = Request(-1.0, 1.0, first_token=-0.5, last_token=1.0, input_tokens=100, output_tokens=40)
    late = Request(1.5, 2.5, first_token=2.0, last_token=2.5, input_tokens=100, output_tokens=10)
    values = summarized([FAST, late], 2.0, 2, around=[before])
    assert values["client_invocations"] == 2
    assert values["output_tokens_per_second"] == pytest.approx((5 + 10 / 2 + 40 / 2) / 2)
    assert values["requests_per_second"] == pytest.approx((1 + 0.5 + 0.5) / 2)
    assert values["client_latency"] == pytest.approx((300 + 1000) / 2)


def test_tokens_that_arrive_in_one_chunk_count_separately() -> None:
    """Speculative decoding sends four tokens per chunk, 80 ms apart, which is 20 ms per token."""
    speculative = Request(start=0, first_token=0.2, last_token=0.52, end=0.52, output_tokens=17)
    assert speculative.inter_token_latency == pytest.approx(20)


def test_a_duration_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds is 0"):
        summarized([FAST], 0, 1)


latencies = st.lists(st.floats(min_value=0, max_value=1e5), min_size=2, max_size=200)


@given(values=latencies)
def test_percentiles_match_the_inclusive_method_of_the_standard_library(values: list[float]) -> None:
    drawn = Sample([Observation(0.0, client_latency=value) for value in values], 1.0).drawn()
    quantiles = statistics.quantiles(values, n=100, method="inclusive")
    for percent in (50, 90, 99):
        assert drawn[f"client_latency_p{percent}"] == pytest.approx(quantiles[percent - 1])


requests = st.builds(
    lambda start, first, tokens, gap, input_tokens, error: Request(
        start, start + first + gap * max(tokens - 1, 0), start + first, None, input_tokens, tokens, error
    ),
    st.floats(0, 10),
    st.floats(0.001, 1),
    st.integers(0, 100),
    st.floats(0.0001, 0.1),
    st.integers(1, 1000),
    st.none() | st.sampled_from(ErrorKind),
)


@given(sent=st.lists(requests, min_size=1, max_size=30), concurrency=st.integers(1, 64))
def test_every_request_counts_as_failed_empty_or_measured(sent: list[Request], concurrency: int) -> None:
    values = summarized(sent, 20, concurrency, instance_price_per_hour=1)
    measured = [request for request in sent if request.is_measured]
    failures = values["client_invocation_errors"] + values["empty_inference_response"]
    assert values["client_invocations"] == failures + len(measured)
    assert ("client_latency_p99" in values) == bool(measured)
    for name in ("time_to_first_token", "inter_token_latency", "client_latency"):
        if name in values:
            assert values[f"{name}_p50"] <= values[f"{name}_p90"] <= values[f"{name}_p99"]
    if values.get("output_tokens_per_second"):
        hourly = values["price_per_million_output_tokens"] * values["output_tokens_per_second"] * 3600 / 1e6
        assert hourly == pytest.approx(values["instance_price_per_hour"])
    if "price_per_million_tokens" in values:
        tokens = values["input_tokens_per_second"] + values["output_tokens_per_second"]
        hourly = values["price_per_million_tokens"] * tokens * 3600 / 1e6
        assert hourly == pytest.approx(values["instance_price_per_hour"]), "prices add up"


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("time_to_first_token_p99", -1),
        ("output_tokens_per_second", 1),
        ("total_throughput", 1),
        ("blended_price_per_million_tokens", -1),
        ("client_invocation_errors", -1),
        ("empty_inference_response", -1),
        ("concurrency", 0),
        ("output_tokens", 0),
        ("instance_price_per_hour", 0),
    ],
)
def test_each_metric_records_whether_higher_or_lower_is_better(name: str, sign: int) -> None:
    assert find(name).direction == sign
