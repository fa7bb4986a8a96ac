"""The segments of a dashboard that compare evaluations: what was measured of one artifact beside another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe import metrics
from constructs_optim.recipe.metrics import MetricDefinition
from constructs_optim.recipe.metrics.evaluation import PERCENTILES

from .dashboard_graph import AXES, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, Place
from .dashboard_widget import Segment, Widget
from .served_model import ServedModel, expression, metric_row, operands, renamed

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


def evaluation(models: Sequence[EvaluatedModel], concurrencies: Sequence[int], place: Place) -> list[Segment]:
    """Everything an evaluation measures, a bar for each model and concurrency."""

    def bars(name: str) -> Widget:
        return _bars(metrics.find(name), models, concurrencies, place)

    stated = all(model.instance_price_per_hour is not None for model in models)
    latencies = ("time_to_first_token", "inter_token_latency", "client_latency")
    return [
        Segment(
            "evaluation_latency",
            "Evaluation: latency",
            tuple(bars(f"{name}{suffix}") for name in latencies for suffix in ("", *(f"_{p}" for p in PERCENTILES))),
        ),
        Segment(
            "evaluation_throughput",
            "Evaluation: throughput",
            tuple(
                bars(name)
                for name in (
                    "input_tokens_per_second",
                    "output_tokens_per_second",
                    "input_tokens_per_second_per_request",
                    "output_tokens_per_second_per_request",
                    "input_tokens",
                    "output_tokens",
                    "total_throughput",
                    "concurrency",
                )
            ),
        ),
        Segment(
            "evaluation_errors",
            "Evaluation: requests and errors",
            tuple(
                bars(name)
                for name in (
                    "client_invocations",
                    "client_invocation_errors",
                    "tokenizer_failed",
                    "empty_inference_response",
                )
            ),
        ),
        Segment(
            "evaluation_price",
            "Evaluation: price",
            tuple(bars(name) for name in (*_PRICES, *(() if stated else ("instance_price_per_hour",)))),
        ),
    ]


def _bars(
    metric: MetricDefinition, models: Sequence[EvaluatedModel], concurrencies: Sequence[int], place: Place
) -> Widget:
    hidden: dict[str, list[Any]] = {}
    drawn: list[list[Any]] = []
    for concurrency in concurrencies:
        for number, model in enumerate(models):
            suffix = f"_{concurrency}_{number + 1}"
            rendering = {
                "label": f"{model.label}, {concurrency} user{'s' if concurrency > 1 else ''}",
                "color": _COLORS[number % len(_COLORS)],
            }
            if not _calculated(metric, model):
                drawn.append(_row(metric, model, concurrency, rendering))
                continue
            text = _expression(metric, model, place)
            ids = {part.name: f"{part.name}{suffix}" for part in operands(text)}
            for name, own_id in ids.items():
                hidden[own_id] = _row(metrics.find(name), model, concurrency, {"id": own_id, "visible": False})
            drawn.append([{"expression": renamed(text, ids), **rendering}])
    properties: dict[str, Any] = {
        "title": metric.title,
        "view": "bar",
        "region": place.region,
        **({"accountId": place.account} if place.account is not None else {}),
        "stat": metric.statistic,
        "metrics": [*hidden.values(), *drawn],
        "start": _START,
        "setPeriodToTimeRange": True,
        "yAxis": {"left": {"min": 0, "label": AXES[metric.shown_unit], "showUnits": False}},
    }
    return Widget(f"evaluation_{metric.name}", "metric", properties, _WIDTH, _HEIGHT)


def _calculated(metric: MetricDefinition, model: EvaluatedModel) -> bool:
    """Whether metric math calculates it from what the evaluation measured, instead of showing what it published.

    A price that is stated here counts, also where it has changed since the evaluation.
    """
    return metric.formula is not None and (metric.name not in _PRICES or model.instance_price_per_hour is not None)


def _expression(metric: MetricDefinition, model: EvaluatedModel, place: Place) -> str:
    return expression(metric, model.served, price=model.instance_price_per_hour, discount=place.discount)


def _row(metric: MetricDefinition, model: EvaluatedModel, concurrency: int, rendering: dict[str, Any]) -> list[Any]:
    return metric_row(model.served, metric, rendering, concurrency=concurrency)
