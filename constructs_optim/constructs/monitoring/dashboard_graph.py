"""Graphs of metrics: units that people read, one scale an axis, and no line that CloudWatch has no data for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from constructs_optim.recipe import metrics
from constructs_optim.recipe.metrics import MetricDefinition, Unit

from .dashboard_widget import Widget
from .served_model import ServedModel, operands, renamed

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#7f7f7f"
_STATISTIC_COLORS = {"p50": BLUE, "p90": ORANGE, "p99": RED, "Average": BLUE, "Maximum": ORANGE}
_AXES: Mapping[Unit, str] = {
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


def statistics(metric: str, *names: str) -> list[Line]:
    """A line for each statistic of one metric, in its usual color."""
    return [Line(metric, name, color=_STATISTIC_COLORS[name]) for name in names]


@dataclass(frozen=True)
class GraphContext:
    """What the graphs of one endpoint or component share.

    Attributes:
        served: what serves the model whose metrics they draw.
        region: where the metrics are.
        account: whose they are. Default: the dashboard's own account.
        deployments: vertical annotations: pairs of a time in ISO 8601 and a label.
        price: of an instance in an hour, in US dollars. Default: not known.
        discount: what a savings plan takes off the price, as a share.
    """

    served: ServedModel
    region: str
    account: str | None = None
    deployments: tuple[tuple[str, str], ...] = ()
    price: float | None = None
    discount: float = 0

    def graph(
        self,
        name: str,
        title: str,
        lines: Sequence[Line],
        *,
        width: int = 8,
        height: int = 6,
        highest: float | None = None,
        thresholds: Sequence[tuple[float, str]] = (),
    ) -> Widget | None:
        """A graph over time; None where SageMaker publishes none of its metrics.

        Args:
            name: the widget's name.
            title: what is written above it.
            lines: what it shows. Those that SageMaker does not publish are left out.
            width: columns of the grid.
            height: rows of the grid.
            highest: upper end of the scale. Default: what the values need.
            thresholds: horizontal annotations, as pairs of a value and a label.
        """
        shown = [line for line in lines if self.served.publishes(metrics.find(line.metric))]
        if not shown:
            return None
        properties = graph_properties(
            title,
            self.region,
            MetricRows().draw(self, shown),
            metrics.find(shown[0].metric),
            account=self.account,
            highest=highest,
        )
        annotations: dict[str, Any] = {}
        if thresholds:
            annotations["horizontal"] = [{"value": value, "label": label, "color": GREY} for value, label in thresholds]
        if self.deployments:
            annotations["vertical"] = [{"value": at, "label": label, "color": PURPLE} for at, label in self.deployments]
        if annotations:
            properties["annotations"] = annotations
        return Widget(name, "metric", properties, width, height)


@dataclass
class MetricRows:
    """The ``metrics`` array of a graph: operands of metric math are hidden, and in it once."""

    hidden: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    drawn: list[list[Any]] = field(default_factory=list[list[Any]])

    def draw(self, context: GraphContext, lines: Sequence[Line], *, suffix: str = "") -> list[list[Any]]:
        """Draw lines; ``suffix`` ends every id, where a graph has more rows than these. Returns all rows."""
        served = context.served
        for line in lines:
            metric = metrics.find(line.metric)
            rendering: dict[str, Any] = {"label": line.label or line.statistic or metric.title}
            if line.color is not None:
                rendering["color"] = line.color
            if metric.series(component=served.is_component) is None:
                formula = served.expression(metric, price=context.price, discount=context.discount)
                self.calculate(served, formula, rendering, suffix=suffix)
                continue
            statistic = line.statistic or metric.statistic
            row_id = re.sub(r"\W", "_", f"{metric.name}_{statistic.lower()}{suffix}")
            calculated = served.shown_expression(metric, row_id)
            if calculated is None:
                self.drawn.append(served.row(metric, {"stat": statistic, **rendering}))
            else:
                self.hidden[row_id] = served.row(metric, {"stat": statistic, "id": row_id, "visible": False})
                self.drawn.append([{"expression": calculated, **rendering}])
        return self.all

    def calculate(
        self,
        served: ServedModel,
        formula: str,
        rendering: dict[str, Any],
        *,
        suffix: str,
        concurrency: int | None = None,
    ) -> None:
        """Draw metric math of an endpoint, or of its evaluation at a ``concurrency``."""
        ids = {operand.name: f"{operand.name}{suffix}" for operand in operands(formula)}
        for operand in operands(formula):
            # A graph of evaluations has one statistic for all rows.
            hidden: dict[str, Any] = {"stat": operand.statistic} if concurrency is None else {}
            hidden |= {"id": ids[operand.name], "visible": False}
            self.hidden[ids[operand.name]] = served.row(operand, hidden, concurrency=concurrency)
        self.drawn.append([{"expression": renamed(formula, ids), **rendering}])

    @property
    def all(self) -> list[list[Any]]:
        """All rows, the hidden ones first."""
        return [*self.hidden.values(), *self.drawn]


def graph_properties(
    title: str,
    region: str,
    rows: list[list[Any]],
    metric: MetricDefinition,
    *,
    account: str | None = None,
    stacked: bool = False,
    highest: float | None = None,
) -> dict[str, Any]:
    """The properties of a graph over time, whose axis has the unit of ``metric``."""
    axis: dict[str, Any] = {"min": 0}
    if highest is not None:
        axis["max"] = highest
    properties: dict[str, Any] = {"title": title, "view": "timeSeries", "stacked": stacked, "region": region}
    if account is not None:
        properties["accountId"] = account
    return {**properties, "metrics": rows, "yAxis": {"left": {**axis, **axis_label(metric)}}}


def axis_label(metric: MetricDefinition) -> dict[str, Any]:
    """The label of an axis in the unit of ``metric``."""
    return {"label": _AXES[metric.shown_unit], "showUnits": False}


def total_graph(
    endpoints: Sequence[tuple[str, GraphContext]], region: str, name: str, title: str, metric_name: str
) -> Widget | None:
    """One metric of many endpoints, stacked: the height is the sum. None where none publishes it.

    Args:
        endpoints: label and context of each.
        region: where the graph's own metrics are, unless an endpoint's region differs.
        name: the widget's name.
        title: what is written above it.
        metric_name: what it shows, in ``recipe.metrics``.
    """
    metric = metrics.find(metric_name)
    rows = MetricRows()
    publishing = [entry for entry in endpoints if entry[1].served.publishes(metric)]
    for number, (label, context) in enumerate(publishing, 1):
        own = MetricRows()
        own.draw(context, [Line(metric_name, label=label)], suffix=f"_{number}")
        rows.hidden |= {row_id: _located(row, context, region) for row_id, row in own.hidden.items()}
        rows.drawn += [_located(row, context, region) for row in own.drawn]
    if not publishing:
        return None
    return Widget(name, "metric", graph_properties(title, region, rows.all, metric, stacked=True), 6, 6)


def _located(row: list[Any], context: GraphContext, region: str) -> list[Any]:
    """A row with the region and account of its metric, where they are not the graph's."""
    *series, rendering = row
    # An expression is calculated in the dashboard's account, from metrics of wherever they are.
    if not series:
        return row
    location = {"region": context.region} if context.region != region else {}
    if context.account is not None:
        location["accountId"] = context.account
    return [*series, {**rendering, **location}]
