"""Graphs of metrics: units that people read, one scale an axis, and no line that CloudWatch has no data for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe import metrics
from constructs_optim.recipe.metrics import Unit

from .dashboard_widget import Widget
from .served_model import ServedModel, expression, metric_row, operands, renamed, shown_expression

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#7f7f7f"
OF_STATISTICS = {"p50": BLUE, "p90": ORANGE, "p99": RED, "Average": BLUE, "Maximum": ORANGE}

AXES: Mapping[Unit, str] = {
    Unit.COUNT: "count",
    Unit.COUNT_PER_SECOND: "per second",
    Unit.MILLISECONDS: "ms",
    Unit.PERCENT: "%",
    Unit.US_DOLLARS: "US$",
}


@dataclass(frozen=True)
class Line:
    """One line of a graph.

    Attributes:
        metric: its name in ``recipe.metrics``.
        statistic: default: the metric's own.
        label: default: the statistic where one was chosen, otherwise the metric's title.
        color: default: CloudWatch chooses.
    """

    metric: str
    statistic: str | None = None
    label: str | None = None
    color: str | None = None


@dataclass(frozen=True)
class Place:
    """Where the metrics of a graph are: a region, and an account where it is another one; what is written on graphs.

    ``deployments`` are vertical annotations: pairs of a time in ISO 8601 and what happened.
    """

    region: str
    account: str | None = None
    deployments: tuple[tuple[str, str], ...] = ()
    price: float | None = None
    discount: float = 0


def graph(
    served: ServedModel,
    place: Place,
    name: str,
    title: str,
    lines: Sequence[Line],
    *,
    width: int = 8,
    height: int = 6,
    stacked: bool = False,
    highest: float | None = None,
    thresholds: Sequence[tuple[float, str]] = (),
) -> list[Widget]:
    """A graph over time, as a list of one; an empty list where SageMaker publishes none of its metrics.

    Args:
        served: whose metrics they are.
        place: where they are.
        name: the widget's name.
        title: what is written above it; the unit of the first metric is added.
        lines: what it shows. Those that SageMaker does not publish for ``served`` are left out.
        width: columns of the grid.
        height: rows of the grid.
        stacked: areas on top of each other. Default: lines.
        highest: upper end of the scale. Default: what the values need.
        thresholds: horizontal annotations, as pairs of a value and what it means.
    """
    shown = [line for line in lines if served.publishes(metrics.find(line.metric))]
    if not shown:
        return []
    unit = metrics.find(shown[0].metric).shown_unit
    properties: dict[str, Any] = {
        "title": title,
        "view": "timeSeries",
        "stacked": stacked,
        "region": place.region,
        **({"accountId": place.account} if place.account is not None else {}),
        "metrics": rows(served, place, shown),
        "yAxis": {
            "left": {
                "min": 0,
                **({"max": highest} if highest is not None else {}),
                "label": AXES[unit],
                "showUnits": False,
            }
        },
    }
    annotations: dict[str, Any] = {}
    if thresholds:
        annotations["horizontal"] = [{"value": value, "label": label, "color": GREY} for value, label in thresholds]
    if place.deployments:
        annotations["vertical"] = [{"value": at, "label": label, "color": PURPLE} for at, label in place.deployments]
    if annotations:
        properties["annotations"] = annotations
    return [Widget(name, "metric", properties, width, height)]


def rows(served: ServedModel, place: Place, lines: Sequence[Line], *, suffix: str = "") -> list[list[Any]]:
    """The ``metrics`` array of a graph: what is only calculated with is hidden, and in it once.

    ``suffix`` ends every id, where a graph has more rows than these.
    """
    hidden: dict[str, list[Any]] = {}
    drawn: list[list[Any]] = []
    for line in lines:
        metric = metrics.find(line.metric)
        rendering: dict[str, Any] = {"label": line.label or line.statistic or metric.title}
        if line.color is not None:
            rendering["color"] = line.color
        if metric.series(component=served.is_component) is None:
            text = expression(metric, served, price=place.price, discount=place.discount)
            ids = {part.name: f"{part.name}{suffix}" for part in operands(text)}
            for name, own_id in ids.items():
                hidden[own_id] = _hidden(served, name, own_id, metrics.find(name).statistic)
            drawn.append([{"expression": renamed(text, ids), **rendering}])
            continue
        statistic = line.statistic or metric.statistic
        own_id = re.sub(r"\W", "_", f"{metric.name}_{statistic.lower()}{suffix}")
        calculated = shown_expression(served, metric, own_id)
        if calculated is None:
            drawn.append(metric_row(served, metric, {"stat": statistic, **rendering}))
        else:
            hidden[own_id] = _hidden(served, metric.name, own_id, statistic)
            drawn.append([{"expression": calculated, **rendering}])
    return [*hidden.values(), *drawn]


def _hidden(served: ServedModel, name: str, own_id: str, statistic: str) -> list[Any]:
    return metric_row(served, metrics.find(name), {"stat": statistic, "id": own_id, "visible": False})


def total(
    each: Sequence[tuple[str, ServedModel, Place]], region: str, name: str, title: str, metric_name: str
) -> list[Widget]:
    """One metric of many endpoints, stacked: the height is the sum. An empty list where none publishes it.

    Args:
        each: label, endpoint and place of each.
        region: where the graph's own metrics are, unless an endpoint's place differs.
        name: the widget's name.
        title: what is written above it.
        metric_name: what it shows, in ``recipe.metrics``.
    """
    metric = metrics.find(metric_name)
    shown = [entry for entry in each if entry[1].publishes(metric)]
    if not shown:
        return []
    hidden: list[list[Any]] = []
    drawn: list[list[Any]] = []
    for number, (label, served, place) in enumerate(shown, 1):
        whose = {
            **({"region": place.region} if place.region != region else {}),
            **({"accountId": place.account} if place.account is not None else {}),
        }
        found = rows(served, place, [Line(metric_name, label=label)], suffix=f"_{number}")
        for row in found:
            *series, rendering = row
            # An expression is calculated in the dashboard's account, from metrics of wherever they are.
            placed = [*series, {**rendering, **whose}] if series else row
            (hidden if rendering.get("visible") is False else drawn).append(placed)
    properties = {
        "title": title,
        "view": "timeSeries",
        "stacked": True,
        "region": region,
        "metrics": [*hidden, *drawn],
        "yAxis": {"left": {"min": 0, "label": AXES[metric.shown_unit], "showUnits": False}},
    }
    return [Widget(name, "metric", properties, 6, 6)]
