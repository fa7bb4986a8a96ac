"""How the metrics of an evaluation follow from what aiperf measured.

Source: aiperf, ``common/models/export_models.py`` and ``metrics/types``: a metric of ``profile_export_aiperf.json`` has
``avg``, ``min``, ``max``, percentiles and ``std``; counts and rates have ``avg`` only. What the managed benchmark job
leaves in its output is that file, for each concurrency one.
"""

from __future__ import annotations

from typing import Any

from constructs_optim.recipe import metrics

_OF_LATENCIES = {
    "time_to_first_token": "time_to_first_token",
    "inter_token_latency": "inter_token_latency",
    "client_latency": "request_latency",
}
_OTHERS = {
    "input_tokens_per_second": "input_sequence_length.avg * request_throughput.avg",
    "output_tokens_per_second": "output_token_throughput.avg",
    "client_invocations": "request_count.avg + error_request_count.avg",
    "client_invocation_errors": "error_request_count.avg",
    "input_tokens_per_second_per_request": "input_sequence_length.avg * 1000 / request_latency.avg",
    "output_tokens_per_second_per_request": "output_sequence_length.avg * 1000 / request_latency.avg",
    "input_tokens": "input_sequence_length.avg",
    "output_tokens": "output_sequence_length.avg",
}


def formula(name: str) -> str | None:
    """What a metric is in terms of aiperf's, latencies in milliseconds; None where aiperf does not measure it.

    A text such as ``time_to_first_token.p50``, or a calculation over several.
    """
    for ours, theirs in _OF_LATENCIES.items():
        if name == ours:
            return f"{theirs}.avg"
        if name.removeprefix(f"{ours}_") in metrics.PERCENTILES:
            return f"{theirs}.{name.removeprefix(f'{ours}_')}"
    return _OTHERS.get(name)


def definitions() -> list[dict[str, Any]]:
    """What the handlers know of every metric of an evaluation: ``runtime/evaluation/evaluation_metrics.json``."""
    return [
        {
            "name": metric.name,
            "metric_name": metric.variant.metric_name,
            "unit": metric.published_unit.in_cloudwatch,
            "aiperf": formula(metric.name),
            "formula": metric.formula,
        }
        for metric in metrics.EVALUATION
        if metric.variant is not None
    ]
