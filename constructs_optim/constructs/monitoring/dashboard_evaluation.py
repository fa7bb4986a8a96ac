"""The segments of a dashboard that compare evaluations of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe import metrics
from constructs_optim.recipe.metrics import PERCENTILES, MetricDefinition

from .dashboard_graph import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, GraphContext, MetricRows, axis_label
from .dashboard_widget import Segment, Widget
from .served_model import ServedModel

# An evaluation ran some day before: its widgets look back further than a viewer's last hours.
_START = "-P3M"
_COLORS = (GREY, GREEN, BLUE, ORANGE, PURPLE, RED)
_WIDTH, _HEIGHT = 6, 6
_PRICES = ("price_per_million_input_tokens", "price_per_million_output_tokens", "blended_price_per_million_tokens")


@dataclass(frozen=True)
class EvaluatedModel:
    """One side of a comparison.

    Attributes:
        label: what it is called, for instance ``baseline``.
        served: what was evaluated, with the ``artifact_key`` that its metrics were published with.
        instance_price_per_hour: what its instance costs in an hour. Default: what the evaluation published.
    """

    label: str
    served: ServedModel
    instance_price_per_hour: float | None = None


def evaluation(models: Sequence[EvaluatedModel], concurrencies: Sequence[int], context: GraphContext) -> list[Segment]:
    """Everything an evaluation measures, a bar for each model and concurrency."""
    stated = all(model.instance_price_per_hour is not None for model in models)
    latencies = ("time_to_first_token", "inter_token_latency", "client_latency")
    names = {
        "latency": [f"{name}{suffix}" for name in latencies for suffix in ("", *(f"_{p}" for p in PERCENTILES))],
        "throughput": [
            "input_tokens_per_second",
            "output_tokens_per_second",
            "input_tokens_per_second_per_request",
            "output_tokens_per_second_per_request",
            "input_tokens",
            "output_tokens",
            "total_throughput",
            "concurrency",
        ],
        "errors": ["client_invocations", "client_invocation_errors", "tokenizer_failed", "empty_inference_response"],
        "price": [*_PRICES, *(() if stated else ("instance_price_per_hour",))],
    }
    titles = {"errors": "requests and errors"}
    return [
        Segment(
            f"evaluation_{kind}",
            f"Evaluation: {titles.get(kind, kind)}",
            tuple(_bars(metrics.find(name), models, concurrencies, context) for name in names[kind]),
        )
        for kind in names
    ]


def _bars(
    metric: MetricDefinition, models: Sequence[EvaluatedModel], concurrencies: Sequence[int], context: GraphContext
) -> Widget:
    rows = MetricRows()
    for concurrency in concurrencies:
        for number, model in enumerate(models):
            rendering = {
                "label": f"{model.label}, {concurrency} user{'s' if concurrency > 1 else ''}",
                "color": _COLORS[number % len(_COLORS)],
            }
            price, suffix = model.instance_price_per_hour, f"_{concurrency}_{number + 1}"
            # A price that is stated here counts, also where it has changed since the evaluation published one.
            if metric.formula is not None and (metric.name not in _PRICES or price is not None):
                formula = model.served.expression(metric, price=price, discount=context.discount)
                rows.calculate(model.served, formula, rendering, suffix=suffix, concurrency=concurrency)
            else:
                rows.drawn.append(model.served.row(metric, rendering, concurrency=concurrency))
    properties: dict[str, Any] = {"title": metric.title, "view": "bar", "region": context.region}
    if context.account is not None:
        properties["accountId"] = context.account
    properties |= {
        "stat": metric.statistic,
        "metrics": rows.all,
        "start": _START,
        "setPeriodToTimeRange": True,
        "yAxis": {"left": {"min": 0, **axis_label(metric)}},
    }
    return Widget(f"evaluation_{metric.name}", "metric", properties, _WIDTH, _HEIGHT)
