"""The simulated requests of a benchmark are consistent for every workload."""

from __future__ import annotations

import datetime as dt
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim_local.sagemaker.benchmarks.aiperf_export import aggregated, files, percentile
from constructs_optim_local.sagemaker.benchmarks.concurrency_search import ConcurrencySearch
from constructs_optim_local.sagemaker.benchmarks.measurement import Measurement, measured
from constructs_optim_local.sagemaker.benchmarks.workload_spec import Workload, parsed
from constructs_optim_local.sagemaker.hosting.performance import Performance, Served
from constructs_optim_local.sagemaker.runtime import event_message

HERE = Served("here", "ml.g5.12xlarge", ("here",))


def workload(**parameters: Any) -> Workload:
    return parsed(json.dumps({"benchmark": {"type": "aiperf"}, "parameters": parameters}))


def always(performance: Performance) -> Callable[[Served, float], Performance]:
    return lambda served, tokens: performance


@given(
    users=st.integers(1, 40),
    count=st.integers(1, 120),
    spread=st.floats(0, 0.5),
    error_rate=st.floats(0, 1),
    seed=st.integers(0, 9),
)
def test_concurrency_and_error_rate_are_those_of_the_configuration(
    users: int, count: int, spread: float, error_rate: float, seed: int
) -> None:
    asked = workload(request_count=count, output_tokens_mean=20, output_tokens_stddev=5, random_seed=seed)
    numbers = Performance(100, 10, 0.02, spread, error_rate)
    found = measured(asked, users, [HERE], always(numbers))
    assert len(found.requests) == count
    for request in found.requests:
        under_way = [other for other in found.requests if other.start <= request.start < other.end]
        assert len(under_way) <= users
    failed = count - len(found.completed)
    assert abs(failed - error_rate * count) <= 1
    assert found == measured(asked, users, [HERE], always(numbers))


@given(count=st.integers(1, 200), ttft=st.floats(1, 5000), itl=st.floats(0.1, 500), spread=st.floats(0, 0.2))
def test_mean_latencies_equal_the_configured_ones_for_any_request_count(
    count: int, ttft: float, itl: float, spread: float
) -> None:
    asked = workload(request_count=count)
    metrics = aggregated(asked, measured(asked, 1, [HERE], always(Performance(ttft, itl, 0.02, spread))))
    assert metrics["time_to_first_token"]["avg"] == pytest.approx(ttft)
    assert metrics["inter_token_latency"]["avg"] == pytest.approx(itl)


@given(limit=st.integers(100, 2000), most=st.integers(1, 200), least=st.integers(1, 20))
@settings(max_examples=40)
def test_a_concurrency_search_finds_the_same_boundary_as_an_exhaustive_one(limit: int, most: int, least: int) -> None:
    if least > most:
        least, most = most, least
    asked = workload(
        search_recipe="max-concurrency-under-sla",
        ttft_sla_ms=limit,
        concurrency_min=least,
        concurrency_max=most,
        request_count=2,
        output_tokens_mean=2,
    )
    numbers = Performance(100, 1, 0.1, 0.0)

    def measure(users: int) -> Measurement:
        return measured(asked, users, [HERE], always(numbers))

    search = ConcurrencySearch(asked, measure)
    kept = [users for users in range(least, most + 1) if numbers.under(users)[0] <= limit]
    boundary = search.history()["boundary_summary"]
    assert (boundary["feasible_max"] or {}).get("value") == (max(kept) if kept else None)
    assert len(search.measurements) <= 20


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30))
def test_percentiles_are_ordered_between_minimum_and_maximum(values: list[float]) -> None:
    ordered = sorted(values)
    found = [percentile(ordered, share) for share in (0, 1, 50, 99, 100)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (ordered[0], ordered[-1])


def test_a_benchmark_with_only_failed_requests_still_writes_its_report() -> None:
    asked = workload(request_count=3)
    found = measured(asked, 1, [HERE], always(Performance(100, 10, error_rate=1)))
    written = files(asked, found, model="here", started=dt.datetime.now(dt.UTC))
    assert "error_request_count" in json.loads(written["profile_export_aiperf.json"])
    assert written["profile_export_aiperf.csv"].startswith(b"Metric,Value")


@given(st.binary(max_size=200))
def test_an_event_stream_message_is_decoded_by_botocore_as_it_was_encoded(payload: bytes) -> None:
    message = event_message("PayloadPart", payload)
    assert struct.unpack("!I", message[-4:])[0] == zlib.crc32(message[:-4])
    buffer = EventStreamBuffer()
    buffer.add_data(message)
    (read,) = list(buffer)
    assert (read.payload, read.headers[":event-type"]) == (payload, "PayloadPart")
