"""What a benchmark job leaves, read: values by hand from a summary as aiperf writes it."""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import statistics
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.evaluator.requests import (
    ErrorKind,
    Request,
)
from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.evaluation import benchmark_output
from constructs_optim.runtime.evaluation.benchmark_output import read_levels
from constructs_optim.runtime.evaluation.definitions import COUNTS, DEFINITIONS, SOURCES
from constructs_optim.runtime.evaluation.differences import errors_of
from constructs_optim.runtime.evaluation.samples import Observation, samples_of, stored
from constructs_optim.runtime.formula import calculate

from ..support.benchmarked_requests import TOKENS, archive, benchmarked
from ..support.summaries import summarized


def latency(value: float, unit: str = "ms") -> dict[str, Any]:
    return {"unit": unit, "avg": value, "p50": value * 0.9, "p90": value * 2, "p99": value * 3, "min": 1, "max": 9}


def count(value: float, unit: str) -> dict[str, Any]:
    return {"unit": unit, "avg": value}


def summary(**more: Any) -> dict[str, Any]:
    return {
        "input_config": {"endpoint": {"type": "chat"}},
        "was_cancelled": False,
        "time_to_first_token": latency(200),
        "inter_token_latency": latency(20),
        "request_latency": latency(4),
        "request_throughput": count(2.5, "requests/sec"),
        "output_token_throughput": count(250, "tokens/sec"),
        "input_sequence_length": latency(600, "tokens"),
        "output_sequence_length": latency(100, "tokens"),
        "request_count": count(98, "requests"),
        "error_request_count": count(2, "requests"),
        "benchmark_duration": count(40, "sec"),
        **more,
    }


def distribution(values: Sequence[float], unit: str) -> dict[str, Any]:
    quantiles = statistics.quantiles(values, n=100, method="inclusive")
    shares = {f"p{share}": quantiles[share - 1] for share in (50, 90, 99)}
    return {"unit": unit, "avg": statistics.fmean(values), **shares}


def test_the_same_requests_yield_the_same_metrics_locally_and_in_benchmark_jobs() -> None:
    """One set of requests, summarized by the laptop's client and, as aiperf defines its metrics, by the handlers.

    Source: aiperf, ``metrics/types``: request_latency ends with the last response, inter_token_latency is what follows
    the first token over the other tokens, throughputs are sums over benchmark_duration.
    """
    drawn = random.Random(7)
    made: list[Request] = []
    for place in range(60):
        tokens, start = drawn.randint(2, 1000), place * 0.1
        first = start + drawn.lognormvariate(-1, 0.5)
        end = first + (tokens - 1) * drawn.uniform(0.01, 0.03)
        pieces = [round(drawn.uniform(10, 30)) * 1.0 for _ in range(5)]
        made.append(Request(start, end, first, end, drawn.randint(50, 2000), tokens, gaps=pieces))
    failed = [Request(6.0, 6.1, error=ErrorKind.SERVER_ERROR)] * 3
    seconds = max(each.end for each in made)
    objectives = LatencyObjectives(time_to_first_token=300)
    here = summarized([*made, *failed], seconds, 8, instance_price_per_hour=7.09, discount=0.3, objectives=objectives)

    waited = [each.end - each.start for each in made]
    firsts = [(each.first_token or 0) - each.start for each in made]
    sent, said = [each.input_tokens or 0 for each in made], [each.output_tokens or 0 for each in made]
    gaps = [(whole - first) / (count - 1) for whole, first, count in zip(waited, firsts, said, strict=True)]
    export = {
        "time_to_first_token": distribution([1000 * each for each in firsts], "ms"),
        "inter_token_latency": distribution([1000 * each for each in gaps], "ms"),
        "inter_chunk_latency": distribution([gap for each in made for gap in each.gaps], "ms"),
        "request_latency": distribution([1000 * each for each in waited], "ms"),
        "input_sequence_length": distribution(sent, "tokens"),
        "output_sequence_length": distribution(said, "tokens"),
        "request_throughput": count(len(made) / seconds, "requests/sec"),
        "goodput": count(sum(first <= 0.3 for first in firsts) / seconds, "requests/sec"),
        "output_token_throughput": count(sum(said) / seconds, "tokens/sec"),
        "request_count": count(len(made), "requests"),
        "error_request_count": count(len(failed), "requests"),
        "benchmark_duration": count(seconds, "sec"),
    }
    (level,) = read_levels(archive({"profile_export_aiperf.json": export}), (8,))
    of_the_engine = {"acceptance_length", "drafts"}
    # aiperf has no such metric.
    longest = {name for name in here if name.startswith("longest_")}
    assert level.priced(7.09, 0.3).metrics == pytest.approx({n: v for n, v in here.items() if n not in longest})
    # Only requests for embeddings, scores and classes have inputs.
    assert set(here) == {metric["name"] for metric in DEFINITIONS} - of_the_engine - {"inputs_per_second"}


def test_how_metrics_are_compared_follows_from_their_definitions() -> None:
    assert set(COUNTS) == {"client_invocation_errors", "empty_inference_response", "tokenizer_failed"}
    assert SOURCES == {
        "total_throughput": "inter_token_latency_p50",
        "blended_price_per_million_tokens": "inter_token_latency_p50",
        "price_per_million_input_tokens": "input_tokens_per_second",
        "price_per_million_output_tokens": "output_tokens_per_second",
        "price_per_million_tokens": "total_tokens_per_second",
        "price_per_thousand_requests": "requests_per_second",
        "price_per_thousand_good_requests": "goodput",
    }


def test_every_concurrency_of_a_sweep_is_read_from_its_folder() -> None:
    files = {
        "concurrency_8/profile_export_aiperf.json": summary(time_to_first_token=latency(300)),
        "concurrency_1/profile_export_aiperf.json": summary(),
        "concurrency_1/profile_export.jsonl": b"{}\n" * 1000,
        "plots/ttft.png": b"\x89PNG",
    }
    one, eight = read_levels(archive(files), (1, 8))
    assert (one.concurrency, eight.concurrency) == (1, 8)
    assert one.metrics["time_to_first_token"] == 200
    assert eight.metrics["time_to_first_token"] == 300
    assert one.seconds == 40


def recorded(start_ns: int, **more: Any) -> bytes:
    """A line of ``profile_export.jsonl``, as aiperf 0.13 writes it."""
    metrics = {
        "time_to_first_token": {"value": 200_000_000, "unit": "ns"},
        "inter_token_latency": {"value": 20.0, "unit": "ms"},
        "request_latency": {"value": 1.2, "unit": "sec"},
        "input_sequence_length": {"value": 600, "unit": "tokens"},
        "output_sequence_length": {"value": 51, "unit": "tokens"},
    }
    phase = {"benchmark_phase": "profiling", "request_start_ns": start_ns}
    return json.dumps({"metadata": phase, "metrics": metrics, "error": None, **more}).encode() + b"\n"


def test_the_requests_of_a_benchmark_are_read_without_its_warm_up() -> None:
    lines = [
        recorded(10**18, metadata={"benchmark_phase": "warmup", "request_start_ns": 10**18}),
        recorded(10**18 + 5 * 10**9),
        b"{cut off\n",
        recorded(10**18 + 7 * 10**9, error={"type": "timeout"}, metrics={}),
        # Its tokens came before it broke off.
        recorded(10**18 + 8 * 10**9, error={"type": "reset"}),
    ]
    files = {"profile_export_aiperf.json": summary(), "profile_export.jsonl": b"".join(lines)}
    (level,) = read_levels(archive(files), (4,))
    assert level.observations == (
        Observation(0.0, 200.0, 20.0, 1200.0, input_tokens=600, output_tokens=51),
        Observation(2.0),
        Observation(3.0),
    )


def test_the_requests_of_less_than_a_second_are_all_kept() -> None:
    lines = b"".join(recorded(10**18 + number * 10**7) for number in range(5))
    files = {"profile_export_aiperf.json": summary(), "profile_export.jsonl": lines}
    (level,) = read_levels(archive(files), (2,))
    assert [each.start for each in level.observations] == [0, 0.01, 0.02, 0.03, 0.04]


def test_a_recorded_prompt_is_known_by_its_conversation_and_its_turn() -> None:
    known: list[dict[str, Any]] = [{"conversation_id": "a"}, {"conversation_id": "a", "turn_index": 1}, {}]
    lines = [
        recorded(at, metadata={"benchmark_phase": "profiling", "request_start_ns": at, **more})
        for at, more in enumerate(known)
    ]
    files = {"profile_export_aiperf.json": summary(), "profile_export.jsonl": b"".join(lines)}
    (level,) = read_levels(archive(files), (4,))
    assert [each.prompt for each in level.observations] == ["a, turn 0", "a, turn 1", None]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_benchmark_ended_at_a_time_in_utc(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        (level,) = read_levels(archive({"profile_export_aiperf.json": summary(end_time="2026-11-25T10:00:00")}), (1,))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (level.ended, level.seconds) == (dt.datetime(2026, 11, 25, 10, tzinfo=dt.UTC).timestamp(), 40)


def test_a_summary_without_its_duration_or_with_endless_times_is_read_without_them() -> None:
    document = summary(request_latency=latency(1e306, "sec"), time_to_first_token={"avg": 200})
    del document["benchmark_duration"]
    (level,) = read_levels(archive({"profile_export_aiperf.json": document}), (1,))
    assert (level.seconds, level.ended, "client_latency" in level.metrics) == (0, None, False)
    # A time without a unit may be in any one.
    assert "time_to_first_token" not in level.metrics
    assert "inter_token_latency" in level.metrics


def test_the_starts_of_requests_are_exact_to_the_nanosecond() -> None:
    lines = [recorded(10**18 + after) for after in (0, 1, 1_000)]
    files = {"profile_export_aiperf.json": summary(), "profile_export.jsonl": b"".join(lines)}
    (level,) = read_levels(archive(files), (4,))
    assert [each.start for each in level.observations] == pytest.approx([0, 1e-9, 1e-6], abs=1e-12)


def test_an_archive_is_read_as_a_stream() -> None:
    """The body of an S3 object cannot be read twice."""
    stream: Any = SimpleNamespace(read=archive({"profile_export_aiperf.json": summary()}).read)
    (level,) = read_levels(stream, (1,))
    assert level.seconds == 40


def responses(*counts: dict[str, float], took: float = 1000.0) -> Any:
    """The level of one user's requests, each with these counts of tokens, one right after the other."""
    lines = list[bytes]()
    for number, each in enumerate(counts):
        tokens = each.get("output_sequence_length", 0)
        metrics = {
            "time_to_first_token": {"value": 100.0, "unit": "ms"},
            "request_latency": {"value": took, "unit": "ms"},
            **({"inter_token_latency": {"value": (took - 100) / (tokens - 1), "unit": "ms"}} if tokens > 1 else {}),
            **{name: {"value": value, "unit": "tokens"} for name, value in each.items()},
        }
        lines.append(recorded(10**18 + int(number * took * 1e6), metrics=metrics))
    files = {"profile_export_aiperf.json": summary(), "profile_export.jsonl": b"".join(lines)}
    (level,) = read_levels(archive(files), (1,))
    return level


def test_the_server_s_counts_of_tokens_are_used_if_aiperf_has_them() -> None:
    """aiperf's tokenizer counts the text: 100 tokens of 120, whose special tokens have none."""
    counts = {
        "input_sequence_length": 600,
        "usage_prompt_tokens": 594,
        "output_sequence_length": 100,
        "usage_completion_tokens": 120,
    }
    level = responses(*[counts] * 40)
    assert level.server_counted == {"input": pytest.approx(-0.01), "output": pytest.approx(0.2)}
    found = level.metrics
    assert (found["input_tokens"], found["output_tokens"]) == (594, 120)
    assert found["input_tokens_per_second"] == pytest.approx(594)
    assert found["output_tokens_per_second"] == pytest.approx(120)
    assert found["output_tokens_per_second_per_request"] == pytest.approx(120)
    assert found["inter_token_latency_p50"] == pytest.approx(900 / 119)
    assert found["total_throughput"] == pytest.approx(1000 * 119 / 900)


def test_responses_without_text_have_the_server_s_count() -> None:
    """Half of the responses are tool calls, which have no text that aiperf's tokenizer could count."""
    text, call = {"output_sequence_length": 100, "usage_completion_tokens": 100}, {"usage_completion_tokens": 50}
    level = responses(*[call, text] * 50)
    assert level.server_counted == {"output": pytest.approx(0)}, "only the requests that both counted are compared"
    assert level.metrics["output_tokens_per_second"] == pytest.approx(75, rel=0.02)
    assert level.metrics["output_tokens"] == pytest.approx(75, rel=0.02)
    assert level.priced(3.6, 0).metrics["price_per_million_output_tokens"] == pytest.approx(3.6 / 0.27, rel=0.02)
    by_tokens = {each.output_tokens: each.inter_token_latency for each in level.observations}
    assert by_tokens == {50: pytest.approx(900 / 49), 100: pytest.approx(900 / 99)}


def test_responses_that_only_the_server_counted_have_its_counts() -> None:
    level = responses(*[{"usage_completion_tokens": 50.0}] * 40)
    assert level.server_counted == {"output": None}
    assert level.metrics["output_tokens_per_second"] == pytest.approx(50)


def test_two_tokens_have_one_time_between_them_and_one_token_has_none() -> None:
    level = responses(*[{"usage_completion_tokens": 2.0}, {"usage_completion_tokens": 1.0}] * 20)
    by_tokens = {each.output_tokens: each.inter_token_latency for each in level.observations}
    assert by_tokens == {2: pytest.approx(900), 1: None}


def test_counts_are_compared_over_all_requests_that_both_counted() -> None:
    many, few = {"output_sequence_length": 100, "usage_completion_tokens": 110}, {"output_sequence_length": 20}
    level = responses(*[many] * 20, *[few] * 20)
    assert level.server_counted == {"output": pytest.approx(0.1)}
    assert {each.output_tokens for each in level.observations} == {110, 20}


@pytest.mark.parametrize("count", [0, 60])
def test_a_server_s_count_that_the_text_contradicts_is_not_used(count: float) -> None:
    level = responses(*[{"output_sequence_length": 100, "usage_completion_tokens": count}] * 40)
    assert (level.server_counted, level.metrics["output_tokens"]) == ({}, 100)
    assert level.metrics["output_tokens_per_second"] == pytest.approx(100)


def test_without_the_tokens_of_some_responses_token_rates_are_unknown() -> None:
    level = responses(*[{"output_sequence_length": 100.0}] * 39, {"usage_completion_tokens": 0.0})
    assert level.uncounted == 1
    assert "output_tokens_per_second" not in level.metrics
    assert "price_per_million_output_tokens" not in level.priced(3.6, 0).metrics
    assert level.metrics["requests_per_second"] == pytest.approx(1)
    assert level.metrics["output_tokens"] == 100


def test_the_start_of_all_users_at_once_and_the_end_of_the_last_are_left_out() -> None:
    """Four users: their first requests queue for a second, and the last response ends long after the others."""
    lines, free = list[bytes](), [0.0] * 4
    for number in range(60):
        start = min(free)
        first, whole = (1000, 2000) if number < 4 else (100, 500)
        free[free.index(start)] = start + whole / 1000
        metrics = {
            "time_to_first_token": {"value": first, "unit": "ms"},
            "inter_token_latency": {"value": 20, "unit": "ms"},
            "request_latency": {"value": whole, "unit": "ms"},
            "input_sequence_length": {"value": 600, "unit": "tokens"},
            "output_sequence_length": {"value": 20, "unit": "tokens"},
        }
        lines.append(recorded(10**18 + int(start * 1e9), metrics=metrics))
    files = {
        "profile_export_aiperf.json": summary(request_count=count(60, "requests")),
        "profile_export.jsonl": b"".join(lines),
    }
    (level,) = read_levels(archive(files), (4,))
    assert level.left_out == 4
    for name in ("time_to_first_token", "time_to_first_token_p50", "time_to_first_token_p99"):
        assert level.metrics[name] == pytest.approx(100), name
    # Four users, half a second each.
    assert level.metrics["requests_per_second"] == pytest.approx(8, rel=0.01)
    assert level.metrics["output_tokens_per_second"] == pytest.approx(160, rel=0.01)
    assert level.metrics["client_invocations"] == 62, "all, and the two that failed"
    assert level.metrics["total_throughput"] == pytest.approx(200), "formulas follow"
    assert level.seconds == pytest.approx(6.5)


def test_where_few_requests_would_be_left_all_of_them_count() -> None:
    lines = [recorded(10**18 + number * 10**8) for number in range(20)]
    files = {"profile_export_aiperf.json": summary(), "profile_export.jsonl": b"".join(lines)}
    (level,) = read_levels(archive(files), (16,))
    assert (level.left_out, level.seconds, len(level.observations)) == (0, pytest.approx(1.9), 20)
    assert level.metrics["time_to_first_token_p50"] == 200


@pytest.mark.parametrize(("users", "requests"), [(32, 40), (32, 100), (32, 256), (8, 100)])
def test_rates_are_those_of_the_time_in_which_no_user_has_finished(users: int, requests: int) -> None:
    """Little's law, about the users and their latency, holds only while all users send requests."""
    level = benchmarked(random.Random(3), users, requests)
    rate = users / (benchmarked(random.Random(4), users, 5_000).metrics["client_latency"] / 1000)
    assert level.metrics["requests_per_second"] == pytest.approx(rate, rel=0.15)
    assert level.metrics["output_tokens_per_second"] == pytest.approx(rate * TOKENS, rel=0.15)


def test_without_a_second_request_of_any_user_rates_last_until_the_last_response() -> None:
    lines = [recorded(10**18 + number) for number in range(20)]
    files = {"profile_export_aiperf.json": summary(), "profile_export.jsonl": b"".join(lines)}
    (level,) = read_levels(archive(files), (32,))
    assert level.metrics["requests_per_second"] == pytest.approx(20 / 1.2)


def test_goodput_is_that_of_the_same_time() -> None:
    lines = [recorded(10**18 + number * 10**9) for number in range(40)]
    document = summary(goodput=count(2, "requests/sec"), request_throughput=count(2.5, "requests/sec"))
    (level,) = read_levels(
        archive({"profile_export_aiperf.json": document, "profile_export.jsonl": b"".join(lines)}), (1,)
    )
    assert level.metrics["goodput"] == pytest.approx(level.metrics["requests_per_second"] * 2 / 2.5)


@pytest.mark.parametrize(("users", "requests"), [(8, 100), (32, 256)])
def test_stored_requests_have_the_rates_of_the_evaluation(users: int, requests: int) -> None:
    """Requests that began before the sample, and do not count in it, still add to its rates."""
    level = benchmarked(random.Random(3), users, requests)
    document = json.loads(json.dumps(stored({users: (level.observations, level.seconds)})))
    ((_, sample),) = samples_of(document)
    assert 0 < level.left_out == requests - len(sample)
    for name in ("requests_per_second", "output_tokens_per_second", "time_to_first_token_p50"):
        assert sample.drawn()[name] == pytest.approx(level.metrics[name], rel=1e-4)
        assert level.sample is not None
        assert level.sample.drawn()[name] == pytest.approx(level.metrics[name])
    assert errors_of(sample)["requests_per_second"].value < 0.05


def test_too_many_recorded_requests_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benchmark_output._LARGEST, "profile_export.jsonl", 100)
    files = {"profile_export_aiperf.json": summary(), "profile_export.jsonl": recorded(10**18)}
    (level,) = read_levels(archive(files), (4,))
    assert level.metrics["time_to_first_token"] == 200
    assert not level.observations


def test_a_summary_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(json.dumps(summary()))
    monkeypatch.setitem(benchmark_output._LARGEST, "profile_export_aiperf.json", size)
    files = {"profile_export_aiperf.json": summary()}
    assert read_levels(archive(files), (4,))[0].metrics["time_to_first_token"] == 200
    monkeypatch.setitem(benchmark_output._LARGEST, "profile_export_aiperf.json", size - 1)
    told = f"cannot be read: ValueError: profile_export_aiperf.json has {size} bytes"
    with pytest.raises(DeploymentError, match=told):
        read_levels(archive(files), (4,))


def test_what_belongs_to_no_concurrency_of_a_sweep_is_left_out() -> None:
    files = {
        "concurrency_1/profile_export_aiperf.json": summary(),
        "concurrency_8/profile_export_aiperf.json": summary(),
        "profile_export_aiperf.json": summary(time_to_first_token=latency(999)),
        "profile_export.jsonl": recorded(10**18),
    }
    levels = read_levels(archive(files), (1, 8))
    assert [level.metrics["time_to_first_token"] for level in levels] == [200, 200]
    assert [level.observations for level in levels] == [(), ()]


def test_a_single_concurrency_has_no_separate_folder() -> None:
    (level,) = read_levels(archive({"profile_export_aiperf.json": summary()}), (4,))
    assert level.metrics["concurrency"] == 4


def test_metrics_derived_from_aiperf_equal_hand_computed_values() -> None:
    (level,) = read_levels(archive({"profile_export_aiperf.json": summary(request_latency=latency(4, "s"))}), (8,))
    found = level.metrics
    assert found["time_to_first_token_p99"] == 600
    assert found["inter_token_latency_p50"] == 18
    assert found["client_latency"] == 4000, "seconds are milliseconds here"
    assert found["client_invocations"] == 100, "aiperf counts valid requests"
    assert found["client_invocation_errors"] == 2
    assert found["input_tokens_per_second"] == 600 * 2.5
    assert found["output_tokens_per_second"] == 250
    assert found["output_tokens_per_second_per_request"] == 100 / 4
    assert found["input_tokens_per_second_per_request"] == 600 / 4
    assert found["total_throughput"] == pytest.approx(8 * 1000 / 18)
    assert "price_per_million_output_tokens" not in found, "no price is known yet"


def test_token_prices_follow_from_the_instance_price_by_the_published_formula() -> None:
    (level,) = read_levels(archive({"profile_export_aiperf.json": summary()}), (8,))
    found = level.priced(7.09, 0.2).metrics
    assert found["price_per_million_output_tokens"] == pytest.approx(0.8 * 7.09 / (250 * 3600 / 1e6))
    assert found["blended_price_per_million_tokens"] == pytest.approx(0.8 * 7.09 / (8 * 1000 / 18 * 3600 / 1e6) / 4)


@given(st.floats(0.1, 100), st.floats(0, 0.9), st.floats(1, 500), st.integers(1, 512))
def test_the_blended_price_is_a_quarter_of_that_of_the_throughput(
    price: float, discount: float, itl: float, users: int
) -> None:
    """Three input tokens for each output token: AWS Machine Learning Blog, on the inference optimization toolkit."""
    formulas = {each["name"]: each["formula"] for each in DEFINITIONS}
    values = {
        "concurrency": float(users),
        "inter_token_latency_p50": itl,
        "instance_price_per_hour": price,
        "discount": discount,
    }
    throughput = users / (itl / 1000)
    assert calculate(formulas["total_throughput"] or "", values) == pytest.approx(throughput)
    millions_an_hour = throughput * 3600 / 1e6
    assert calculate(formulas["blended_price_per_million_tokens"] or "", values) == pytest.approx(
        price * (1 - discount) / millions_an_hour / 4
    )


def test_errors_are_counted_by_kind_and_under_their_metrics() -> None:
    errors = [
        {"error_details": {"code": 500, "type": "Internal", "message": "boom"}, "count": 3},
        {"error_details": {"type": "TokenizerError", "message": "cannot decode"}, "count": 2},
        {"error_details": {"type": "InvalidInferenceResultError", "message": "empty response"}, "count": 1},
        {"error_details": {"type": "Uncounted"}},
        {"error_details": {}, "count": "4"},
    ]
    document = summary(error_request_count=count(6, "requests"), error_summary=errors)
    (level,) = read_levels(archive({"profile_export_aiperf.json": document}), (1,))
    assert level.errors["500"] == 3
    assert (level.errors["TokenizerError"], level.errors["Uncounted"], level.errors["unknown"]) == (2, 0, 4)
    assert level.metrics["tokenizer_failed"] == 2
    assert level.metrics["empty_inference_response"] == 3, "those that could not be parsed count among the empty"
    assert level.metrics["client_invocation_errors"] == 6


def test_a_summary_without_errors_has_none() -> None:
    document = {name: value for name, value in summary().items() if name != "error_request_count"}
    (level,) = read_levels(archive({"profile_export_aiperf.json": document}), (1,))
    assert level.metrics["client_invocation_errors"] == 0


def test_a_run_in_which_every_request_failed_has_no_latency() -> None:
    document = {"error_request_count": count(100, "requests"), "error_summary": []}
    (level,) = read_levels(archive({"profile_export_aiperf.json": document}), (1,))
    assert level.metrics["client_invocations"] == 100
    assert "time_to_first_token" not in level.metrics
    assert "total_throughput" not in level.metrics


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (io.BytesIO(b"not an archive"), "cannot be read"),
        (archive({"concurrency_1/profile_export_aiperf.json": b"{"}), "cannot be read"),
        (archive({"other.json": {}}), "for 1 and 8 users; found: none"),
        (archive({"concurrency_8/profile_export_aiperf.json": summary()}), "for 1 users; found: 8"),
    ],
)
def test_damaged_or_incomplete_benchmark_output_is_reported(content: io.BytesIO, told: str) -> None:
    content.seek(0)
    with pytest.raises(DeploymentError, match=told):
        read_levels(content, (1, 8))


@pytest.mark.parametrize("formula", ["__import__('os')", "a if b else c", "f(1)", "a[0]", "1 +", "a.b.c", "'text'"])
def test_a_formula_other_than_plain_arithmetic_is_refused(formula: str) -> None:
    with pytest.raises(ValueError, match=r"formula|not a number, a name"):
        calculate(formula, {"a": 1.0, "b": 2.0, "c": 3.0})


def test_a_formula_with_missing_values_or_zero_divisor_yields_none() -> None:
    assert calculate("a / b", {"a": 1.0}) is None
    assert calculate("a / b", {"a": 1.0, "b": 0.0}) is None
    assert calculate("(a + 2) * b.p50 - 1", {"a": 1.0, "b.p50": 4.0}) == 11
