"""The output of a benchmark, in NVIDIA AIPerf's files and formats.

Sources: AIPerf's ``JsonExportData``, ``MetricsJsonExporter`` and ``MetricsCsvExporter`` (main, 2026), its guides
"Working with profile export files" (records and inputs) and "Search history API reference", and users' reports of the
service's own output, with aiperf_version 0.8.0 and schema_version 1.1. SageMaker developer guide, "Benchmark generative
AI inference endpoints", for the metrics.

Not written: ``outputs.json``, plots, telemetry and metrics of HTTP connections. Assumed: the folders of a search's
benchmarks are those of a sweep's.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import statistics
import tarfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .measurement import (
    Failure,
    Measurement,
    Request,
    made_up_prompt,
)
from .workload_spec import Workload

AIPERF_VERSION, SCHEMA_VERSION = "0.8.0", "1.1"
_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_STATISTICS = ("avg", "min", "max", *(f"p{share}" for share in _PERCENTILES), "std")
_MS, _TOKENS, _REQUESTS = "ms", "tokens", "requests"
_HEADERS = {
    "benchmark_duration": "Benchmark Duration",
    "error_request_count": "Error Request Count",
    "e2e_output_token_throughput": "E2E Output Token Throughput",
    "good_request_count": "Good Request Count",
    "good_request_fraction": "Good Request Fraction",
    "goodput": "Goodput",
    "input_sequence_length": "Input Sequence Length",
    "inter_token_latency": "Inter Token Latency",
    "output_sequence_length": "Output Sequence Length",
    "output_token_count": "Output Token Count",
    "output_token_throughput": "Output Token Throughput",
    "output_token_throughput_per_user": "Output Token Throughput Per User",
    "request_count": "Request Count",
    "request_latency": "Request Latency",
    "request_throughput": "Request Throughput",
    "time_to_first_token": "Time to First Token",
    "total_isl": "Total Input Sequence Length",
    "total_osl": "Total Output Sequence Length",
    "total_output_tokens": "Total Output Tokens",
}
_OF_A_REQUEST: Mapping[str, tuple[str, Callable[[Request], float]]] = {
    "request_latency": (_MS, lambda request: request.latency),
    "time_to_first_token": (_MS, lambda request: request.time_to_first_token),
    "inter_token_latency": (_MS, lambda request: request.inter_token_latency),
    "output_token_throughput_per_user": ("tokens/sec/user", lambda request: 1000 / request.inter_token_latency),
    "e2e_output_token_throughput": (
        "tokens/sec/user",
        lambda request: request.output_tokens * 1000 / request.latency,
    ),
    "input_sequence_length": (_TOKENS, lambda request: request.input_tokens),
    "output_sequence_length": (_TOKENS, lambda request: request.output_tokens),
    "output_token_count": (_TOKENS, lambda request: request.output_tokens),
}
_NEED_STREAMING = ("time_to_first_token", "inter_token_latency", "output_token_throughput_per_user")
_ERRORS = {
    Failure.error: {"code": 500, "type": "Internal Server Error", "message": "the model server answered 500"},
    Failure.timeout: {"code": None, "type": "TimeoutError", "message": "the request took longer than its timeout"},
}


def files(workload: Workload, measurement: Measurement, *, model: str, started: dt.datetime) -> dict[str, bytes]:
    """Return the files of one benchmark, by name."""
    metrics = aggregated(workload, measurement)
    return {
        "profile_export_aiperf.json": _json(_summary(workload, measurement, metrics, model, started)),
        "profile_export_aiperf.csv": _csv(metrics),
        "profile_export.jsonl": _lines(_record(workload, request, started) for request in measurement.requests),
        "inputs.json": _json({"data": [_input(workload, request, model) for request in measurement.requests]}),
    }


def archive(content: Mapping[str, bytes]) -> bytes:
    """Return files as a reproducible ``output.tar.gz``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in sorted(content.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)


def aggregated(workload: Workload, measurement: Measurement) -> dict[str, dict[str, Any]]:
    """Return the metrics of all successful requests, and those of failed ones; empty without requests."""
    completed, seconds = measurement.completed, measurement.seconds
    failed = len(measurement.requests) - len(completed)
    found: dict[str, dict[str, Any]] = {}
    if completed:
        for name, (unit, of) in _OF_A_REQUEST.items():
            if workload.streaming or name not in _NEED_STREAMING:
                found[name] = _statistics(unit, [of(request) for request in completed])
        generated = sum(request.output_tokens for request in completed)
        found |= {
            "request_throughput": _single("requests/sec", len(completed) / seconds),
            "output_token_throughput": _single("tokens/sec", generated / seconds),
            "total_isl": _single(_TOKENS, sum(request.input_tokens for request in completed)),
            "total_osl": _single(_TOKENS, generated),
            "total_output_tokens": _single(_TOKENS, generated),
            **_goodput(workload, completed, seconds),
        }
    found["request_count"] = _single(_REQUESTS, len(completed))
    if failed:
        found["error_request_count"] = _single(_REQUESTS, failed)
    found["benchmark_duration"] = _single("sec", seconds)
    return found


def _goodput(workload: Workload, completed: Sequence[Request], seconds: float) -> dict[str, dict[str, Any]]:
    """Return the requests that met every objective; ``goodput`` is ``metric:value metric:value``."""
    objectives = [(name, float(limit)) for name, limit in workload.pairs("goodput").items() if name in _OF_A_REQUEST]
    if not objectives:
        return {}
    good = sum(all(_OF_A_REQUEST[name][1](request) <= limit for name, limit in objectives) for request in completed)
    return {
        "goodput": _single("requests/sec", good / seconds),
        "good_request_count": _single(_REQUESTS, good),
        "good_request_fraction": _single("ratio", good / len(completed)),
    }


def _summary(
    workload: Workload, measurement: Measurement, metrics: dict[str, Any], model: str, started: dt.datetime
) -> dict[str, Any]:
    ended = started + dt.timedelta(seconds=measurement.seconds)
    errors = [
        {"error_details": _ERRORS[failure], "count": count}
        for failure in Failure
        if (count := sum(request.failure is failure for request in measurement.requests))
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "aiperf_version": AIPERF_VERSION,
        "benchmark_id": _id("benchmark", model, measurement.concurrency, started),
        **metrics,
        "input_config": _input_config(workload, measurement, model),
        "was_cancelled": False,
        "error_summary": errors,
        "start_time": started.replace(tzinfo=None).isoformat(),
        "end_time": ended.replace(tzinfo=None).isoformat(),
    }


def _input_config(workload: Workload, measurement: Measurement, model: str) -> dict[str, Any]:
    settings = workload.parameters
    loadgen = ("request_count", "request_rate", "request_rate_mode", "benchmark_duration", "warmup_request_count")
    prompts = {
        "input_tokens": dict(zip(("mean", "stddev"), workload.input_tokens, strict=True)),
        "output_tokens": dict(zip(("mean", "stddev"), workload.output_tokens, strict=True)),
    }
    return {
        "endpoint": {"model_names": [model], "type": "chat", "streaming": workload.streaming},
        "input": {
            "random_seed": workload.seed,
            "prompt": prompts,
            **{
                name: settings[name]
                for name in ("public_dataset", "custom_dataset_type", "goodput")
                if name in settings
            },
            **({"file": settings["input_file"]} if "input_file" in settings else {}),
            **({"extra": workload.pairs("extra_inputs")} if "extra_inputs" in settings else {}),
        },
        "loadgen": {
            "concurrency": measurement.concurrency,
            **{name: settings[name] for name in loadgen if name in settings},
        },
        **({"tokenizer": {"name": settings["tokenizer"]}} if "tokenizer" in settings else {}),
    }


def _record(workload: Workload, request: Request, started: dt.datetime) -> dict[str, Any]:
    begin = int(started.timestamp() * 1e9) + int(request.start * 1e6)
    acknowledged = begin + int(request.time_to_first_token * 1e6)
    metrics: dict[str, Any]
    if request.failure is None:
        metrics = {
            name: {"value": of(request), "unit": unit}
            for name, (unit, of) in _OF_A_REQUEST.items()
            if workload.streaming or name not in _NEED_STREAMING
        }
    else:
        metrics = {"error_isl": {"value": request.input_tokens, "unit": _TOKENS}}
    return {
        "metadata": {
            "session_num": request.number,
            "x_request_id": _id("request", request.number, started),
            "x_correlation_id": _id("session", request.number, started),
            "conversation_id": _conversation(request),
            "turn_index": 0,
            "request_start_ns": begin,
            "request_ack_ns": acknowledged if workload.streaming and request.failure is None else None,
            "request_end_ns": begin + int((request.end - request.start) * 1e6),
            "worker_id": "worker_local",
            "record_processor_id": "record_processor_local",
            "benchmark_phase": "profiling",
            "was_cancelled": False,
            "cancellation_time_ns": None,
        },
        "metrics": metrics,
        "error": None if request.failure is None else _ERRORS[request.failure],
    }


def _input(workload: Workload, request: Request, model: str) -> dict[str, Any]:
    prompt = request.prompt or made_up_prompt(request.number, request.input_tokens)
    payload = {
        "messages": [{"role": "user", "content": prompt}],
        "model": model,
        "max_completion_tokens": request.output_tokens,
        "stream": workload.streaming,
        **{name: _plain(value) for name, value in workload.pairs("extra_inputs").items()},
    }
    return {"session_id": _conversation(request), "payloads": [payload]}


def _conversation(request: Request) -> str:
    """Return a conversation's name, as aiperf 0.13 makes it from a seed (``common/session_id_generator.py``)."""
    return f"session_{request.number:06d}"


def _statistics(unit: str, values: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(values)
    return {
        "unit": unit,
        "avg": statistics.fmean(ordered),
        **{f"p{share}": percentile(ordered, share) for share in _PERCENTILES},
        "min": ordered[0],
        "max": ordered[-1],
        "std": statistics.pstdev(ordered),
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values, with NumPy's linear interpolation."""
    rank = (len(ordered) - 1) * share / 100
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def _single(unit: str, value: float) -> dict[str, Any]:
    return {"unit": unit, "avg": float(value)}


def _csv(metrics: Mapping[str, Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    spread = {name: metric for name, metric in metrics.items() if "p50" in metric}
    if spread:
        writer.writerow(["Metric", *_STATISTICS])
        writer.writerows(
            [_header(name, metric), *(f"{metric[key]:.2f}" for key in _STATISTICS)]
            for name, metric in sorted(spread.items())
        )
        writer.writerow([])
    writer.writerow(["Metric", "Value"])
    writer.writerows(
        [_header(name, metric), f"{metric['avg']:.2f}"]
        for name, metric in sorted(metrics.items())
        if name not in spread
    )
    return text.getvalue().encode()


def _header(name: str, metric: Mapping[str, Any]) -> str:
    unit = metric["unit"]
    return _HEADERS[name] if unit in ("count", _REQUESTS) else f"{_HEADERS[name]} ({unit})"


def _lines(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode()


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _id(*parts: Any) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(str(part) for part in parts)))
