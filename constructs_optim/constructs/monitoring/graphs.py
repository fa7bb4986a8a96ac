"""Graphs of metrics in readable units, with one scale for each axis and no lines without data.

``dashboards.toml`` defines the graphs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import TypeAdapter

from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.recipe import metrics
from constructs_optim.recipe.metrics import Unit, engines
from constructs_optim.recipe.metrics.engines import EngineMetric

from .served_model import ServedModel, operands, renamed
from .widgets import GRID_COLUMNS, Segment, Widget

COLORS: Mapping[str, str] = {
    "grey": "#7f7f7f",
    "green": "#2ca02c",
    "blue": "#1f77b4",
    "orange": "#ff7f0e",
    "purple": "#9467bd",
    "red": "#d62728",
}
_AXES: Mapping[Unit, str] = {
    Unit.COUNT: "count",
    Unit.COUNT_PER_SECOND: "per second",
    Unit.MILLISECONDS: "ms",
    Unit.PERCENT: "%",
    Unit.US_DOLLARS: "US$",
}
_PLOT: Mapping[str, Any] = {
    "legend": {"position": "bottom", "show": True},
    "xAxis": {"type": "datetime"},
    "yAxis": [{"type": "linear"}],
    "style": {
        "lineOptions": {"filled": False, "stacked": False, "width": 2, "pattern": "solid", "spline": False},
        "numberOptions": {"sparkline": True},
        "pieOptions": {"innerSize": "50%"},
        "barOptions": {},
        "gaugeOptions": {},
    },
}
# Evaluations are rare, so their widgets have a longer time range than the dashboard.
_EVALUATIONS_START = "-P3M"


@dataclass(frozen=True)
class Line:
    """A line or bar of a graph: a metric in ``recipe.metrics``.

    ``suffix`` is the suffix of its rows' IDs, for graphs of several endpoints. With ``concurrency``, it shows an
    evaluation.
    """

    metric: str
    statistic: str | None = None
    label: str | None = None
    color: str | None = None
    suffix: str = ""
    concurrency: int | None = None


@dataclass(frozen=True)
class EngineLine:
    """A line of a graph: a metric in ``recipe.metrics.engines``; ``quantile`` applies to a latency."""

    metric: str
    label: str | None = None
    quantile: float | None = None


@dataclass(frozen=True)
class Graph:
    """A time series graph; ``to_hundred`` for percentages of a whole, ``only`` for variants or components.

    A graph of engine metrics has ``engine_lines`` instead of ``lines``.
    """

    name: str
    title: str
    lines: tuple[Line, ...] = ()
    engine_lines: tuple[EngineLine, ...] = ()
    to_hundred: bool = False
    only: Literal["variant", "component"] | None = None


@dataclass(frozen=True)
class GraphSegment:
    """Graphs below a heading, or ``metrics`` of evaluations; ``of_components`` if components also have them."""

    name: str
    title: str
    graphs: tuple[Graph, ...] = ()
    metrics: tuple[str, ...] = ()
    of_components: bool = False
    priced: bool = False


@dataclass(frozen=True)
class Dashboards:
    """The content of ``dashboards.toml``."""

    segments: tuple[GraphSegment, ...]
    evaluation: tuple[GraphSegment, ...]
    totals: tuple[Graph, ...]
    row: tuple[Graph, ...]


@cache
def dashboards() -> Dashboards:
    """Return the graphs of all dashboards."""
    data = (files(__package__ or "") / "dashboards.toml").read_text(encoding="utf-8")
    return TypeAdapter(Dashboards).validate_python(tomllib.loads(data))


@dataclass(frozen=True)
class GraphContext:
    """The common values of an endpoint's or component's graphs.

    ``account`` is None for the dashboard's own account. ``deployments`` are vertical annotations: pairs of a time in
    ISO 8601 and a label. ``price`` is the price of an instance in US dollars an hour; ``discount`` is a share of it.
    """

    served: ServedModel
    region: str
    account: str | None = None
    deployments: tuple[tuple[str, str], ...] = ()
    price: float | None = None
    discount: float = 0

    def segments(
        self, thresholds: Mapping[str, Sequence[tuple[float, str]]], *, of_component: str | None = None
    ) -> list[Segment]:
        """Return the segments of live metrics; for an additional component, only the segments that it does not share.

        ``thresholds`` are horizontal annotations by graph name: pairs of a value and a label.
        """
        shown: list[Segment] = []
        prefix = f"{of_component}_" if of_component else ""
        server = "component" if self.served.is_component else "variant"
        for segment in dashboards().segments:
            if (of_component and not segment.of_components) or (segment.priced and self.price is None):
                continue
            drawn = [graph for graph in segment.graphs if graph.only in (None, server) and self.publishes(graph)]
            width = GRID_COLUMNS // max(len(drawn), 1)
            widgets = tuple(
                self.graph(graph, f"{prefix}{graph.name}", width, thresholds=thresholds.get(graph.name, ()))
                for graph in drawn
            )
            title = f"{of_component}: {segment.title}" if of_component else segment.title
            shown.append(Segment(f"{prefix}{segment.name}", title, widgets))
        return shown

    def publishes(self, graph: Graph) -> bool:
        """Return whether SageMaker publishes any of the graph's metrics."""
        return bool(self._engine_lines(graph)) or any(
            self.served.publishes(metrics.find(line.metric)) for line in graph.lines
        )

    def _engine_lines(self, graph: Graph) -> list[tuple[EngineLine, EngineMetric]]:
        """Return the lines whose metrics CloudWatch has."""
        lines = [(line, engines.find(line.metric)) for line in graph.engine_lines]
        return [(line, metric) for line, metric in lines if self.served.engine.has(metric)]

    def graph(
        self, graph: Graph, name: str, width: int, height: int = 6, *, thresholds: Sequence[tuple[float, str]] = ()
    ) -> Widget:
        """Return a time series graph as a widget."""
        if graph.engine_lines:
            return Widget(name, "chart", self._chart(graph), width, height)
        unit = "copy" if self.served.is_component else "instance"
        axis: dict[str, Any] = {}
        if graph.to_hundred:
            summed = self.served.series(metrics.find(graph.lines[0].metric)).summed
            # Summed over an unknown number of GPUs or vCPUs, the maximum is not 100.
            axis = {"max": 100} if summed is None or self.served.instance_type is not None else {}
        lines, title = [(self, line) for line in graph.lines], graph.title.format(unit=unit)
        properties = graph_properties(title, lines, self.region, self.account, axis=axis, unit=unit)
        marks = {"horizontal": (thresholds, COLORS["grey"]), "vertical": (self.deployments, COLORS["purple"])}
        annotations = {
            direction: [{"value": value, "label": label, "color": color} for value, label in marked]
            for direction, (marked, color) in marks.items()
            if marked
        }
        if annotations:
            properties["annotations"] = annotations
        return Widget(name, "metric", properties, width, height)

    def _chart(self, graph: Graph) -> dict[str, Any]:
        """Return the properties of a chart, which has PromQL queries instead of metrics.

        Only this widget type accepts PromQL. Source of the format: a dashboard that AWS publishes
        (aws-solutions-library-samples/guidance-for-claude-code-with-amazon-bedrock, claude-code-dashboard.yaml).
        """
        queries = [
            {
                "id": f"q{number}",
                "type": "cloudwatch-metrics",
                "language": "PromQL",
                "query": self.served.engine_query(metric, quantile=line.quantile),
                "step": self.served.publishing_seconds,
                "label": line.label or metric.title,
            }
            for number, (line, metric) in enumerate(self._engine_lines(graph), 1)
        ]
        return {
            "title": graph.title,
            "view": "line",
            "region": self.region,
            **drop_none(accountId=self.account),
            "data": {"queries": queries},
            "plotOptions": _PLOT,
        }


def graph_properties(
    title: str,
    lines: Iterable[tuple[GraphContext, Line]],
    region: str,
    account: str | None = None,
    *,
    stacked: bool = False,
    axis: Mapping[str, Any] | None = None,
    unit: str = "",
) -> dict[str, Any]:
    """Return the properties of a time series graph, or of a bar chart for evaluations.

    Lines of unpublished metrics are omitted. The axis has the unit of the first line.
    """
    drawn = [entry for entry in lines if entry[0].served.publishes(metrics.find(entry[1].metric))]
    metric, evaluated = metrics.find(drawn[0][1].metric), drawn[0][1].concurrency is not None
    view = {"view": "bar"} if evaluated else {"view": "timeSeries", "stacked": stacked}
    return {
        "title": title,
        **view,
        "region": region,
        **drop_none(accountId=account),
        **({"stat": metric.statistic} if evaluated else {}),
        "metrics": _rows(drawn, region, account, unit),
        **({"start": _EVALUATIONS_START, "setPeriodToTimeRange": True} if evaluated else {}),
        "yAxis": {"left": {"min": 0, **(axis or {}), "label": _AXES[metric.shown_unit], "showUnits": False}},
    }


def _rows(lines: Iterable[tuple[GraphContext, Line]], region: str, account: str | None, unit: str) -> list[list[Any]]:
    """Return the ``metrics`` array of a graph, with each operand of metric math first, hidden and only once."""
    hidden: dict[str, list[Any]] = {}
    drawn: list[list[Any]] = []
    for context, line in lines:
        served, metric = context.served, metrics.find(line.metric)
        label = (line.label or line.statistic or metric.title).format(unit=unit)
        rendering = drop_none(label=label, color=line.color and COLORS.get(line.color))
        # CloudWatch calculates an expression in the dashboard's account, also from other accounts' metrics.
        location = drop_none(
            region=context.region if context.region != region else None,
            accountId=context.account if context.account != account else None,
        )
        # A graph of evaluations has one statistic for all rows.
        is_live = line.concurrency is None
        statistic = line.statistic or metric.statistic
        is_published = metric.series(component=served.is_component) is not None
        # Without a configured price, the price that the evaluation published applies.
        if metric.formula and not (is_published and context.price is None and "price" in metric.formula):
            formula = served.expression(metric, price=context.price, discount=context.discount)
            ids = {operand.name: f"{operand.name}{line.suffix}" for operand in operands(formula)}
            expression = renamed(formula, ids)
            terms = [(operand, operand.statistic, ids[operand.name]) for operand in operands(formula)]
        else:
            row_id = f"{metric.name}_{statistic.lower()}{line.suffix}"
            divisor = metric.divisor * metrics.summed_over(served.series(metric), served.instance_type)
            # Convert the published unit to the displayed one.
            expression = f"{row_id} / {divisor}" if divisor > 1 else None
            terms = [(metric, statistic, row_id)]
        if expression is None:
            shown = {**({"stat": statistic} if is_live else {}), **rendering, **location}
            drawn.append(served.row(metric, shown, concurrency=line.concurrency))
            continue
        for term, term_statistic, row_id in terms:
            shown = {**({"stat": term_statistic} if is_live else {}), "id": row_id, "visible": False, **location}
            hidden[row_id] = served.row(term, shown, concurrency=line.concurrency)
        drawn.append([{"expression": expression, **rendering}])
    return [*hidden.values(), *drawn]
