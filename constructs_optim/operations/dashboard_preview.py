"""Draws the dashboards of a synthesized app with sample metrics.

After a deployment, CloudWatch draws the real ones (``aws cloudwatch get-metric-widget-image``).
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from constructs_optim.runtime.documents import is_object, json_value, object_in
from constructs_optim.runtime.formula import calculate
from constructs_optim.templates.json_values import as_object
from constructs_optim.templates.references import Reference, readable_id
from constructs_optim.templates.resource_types import DASHBOARD
from constructs_optim.templates.template import Template
from constructs_optim.templates.text import text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Series = Sequence[float | None]
_PSEUDO_PARAMETERS = {
    "AWS::AccountId": "111122223333",
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::StackName": "stack",
    "AWS::StackId": "stack",
    "AWS::URLSuffix": "amazonaws.com",
}
_RANGE = re.compile(r"-PT?(\d{1,5})([MHDW])")
_SECONDS = {"M": 60, "H": 3600, "D": 86_400, "W": 604_800}
_STATISTICS = {"p90": 1.6, "p99": 2.4, "Maximum": 1.2, "Minimum": 0.5, "SampleCount": 0.03}
_MOST_POINTS = 180
# Fixed, so that the same app always gives the same picture.
_NOON = dt.datetime(2026, 1, 15, 12, tzinfo=dt.UTC)
_COUNT = re.compile(r"\d{1,9}")
_PERIOD = re.compile(r"PERIOD\(\w+\)")
_DIVIDED = re.compile(r"([a-z]\w*) / (\d{1,9})")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_YEARS = range(2000, 2101)
# CloudWatch's limits of a dashboard and a graph, and of a picture's height.
_MOST_WIDGETS, _MOST_METRICS, _MOST_ROWS, _COLUMNS = 500, 500, 1_000, 24
_LONGEST = 200
_COLUMN_INCHES, _ROW_INCHES, _TOP, _DPI = 0.62, 0.42, 0.55, 80
_INK, _FAINT, _GRID, _PAGE = "#16191f", "#687078", "#e3e6e8", "#f2f3f3"


class PreviewError(ValueError):
    """An app has no readable dashboard; the message names a fix."""


# A dashboard's body, as far as it is drawn. Source: CloudWatch API reference, "Dashboard body structure and syntax".

_Number = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
# Of a longer text, no glyph beyond the picture can be drawn.
_Shown = Annotated[str, AfterValidator(lambda text: text[:_LONGEST])]


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if is_object(data) else data


class _Rendering(_Part):
    id: str = ""
    label: _Shown = ""
    stat: str = ""
    expression: Annotated[str, Field(max_length=2048)] = ""
    visible: bool = True


class _Mark(_Part):
    value: _Number | str
    label: _Shown = ""


class _HorizontalMark(_Part):
    value: _Number
    label: _Shown = ""


class _Annotations(_Part):
    # A band is a list of its two ends.
    horizontal: tuple[_HorizontalMark | tuple[_HorizontalMark, ...], ...] = ()
    vertical: tuple[_Mark | tuple[_Mark | str, ...], ...] = ()


class _Side(_Part):
    label: _Shown = ""
    min: _Number | None = None
    max: _Number | None = None


class _Axes(_Part):
    left: _Side = _Side()


class _Query(_Part):
    label: _Shown = ""


class _Data(_Part):
    queries: tuple[_Query, ...] = ()


class _Properties(_Part):
    title: _Shown = ""
    view: str = ""
    stacked: bool = False
    stat: str = ""
    metrics: Annotated[tuple[tuple[str | _Rendering, ...], ...], Field(max_length=_MOST_METRICS)] = ()
    annotations: _Annotations = _Annotations()
    axes: _Axes = Field(default=_Axes(), alias="yAxis")
    markdown: str = ""
    query: str = ""
    data: _Data = _Data()
    alarms: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _rows_are_metrics(self) -> _Properties:
        # Raises ValueError for an entry that names none.
        list(_rows(self.model_dump(include={"metrics"})))
        return self


class _Widget(_Part):
    type: str
    width: int = Field(default=6, ge=1, le=_COLUMNS)
    height: int = Field(default=6, ge=1, le=_MOST_ROWS)
    x: int = Field(default=0, ge=0, lt=_COLUMNS)
    y: int = Field(default=0, ge=0, le=_MOST_ROWS)
    properties: _Properties = Field(default_factory=lambda: _Properties())

    @model_validator(mode="before")
    @classmethod
    def _only_graphs_have_rows_of_metrics(cls, data: Any) -> Any:
        # Those of an explorer are objects.
        if not is_object(data) or data.get("type") in (None, "metric"):
            return data
        properties = object_in(data.get("properties"))
        return {**data, "properties": {name: value for name, value in properties.items() if name != "metrics"}}


class _Body(_Part):
    start: str = "-PT3H"
    widgets: Annotated[tuple[_Widget, ...], Field(max_length=_MOST_WIDGETS)] = ()


@dataclass(frozen=True)
class Dashboard:
    """A dashboard of a template, with readable names for values that are resolved at deployment."""

    stack: str
    logical_id: str
    # The length of the time range, such as ``-PT3H``.
    start: str
    widgets: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """The stack, and the logical ID without its hash, for file names."""
        return f"{self.stack}-{readable_id(self.logical_id)}"

    @property
    def graphs(self) -> list[Mapping[str, Any]]:
        """The properties of its metric widgets."""
        return [widget["properties"] for widget in self.widgets if widget["type"] == "metric"]


def dashboards_of(
    assembly: Path, *, stacks: Sequence[str] | None = None, dashboard: str | None = None
) -> list[Dashboard]:
    """Return a synthesized app's dashboards, optionally of stacks by pattern, or of a logical ID without its hash."""
    # Path.is_dir raises an error for a name that is too long.
    paths = sorted(assembly.glob("**/*.template.json")) if os.path.isdir(assembly) else []  # noqa: PTH112
    if not paths:
        raise PreviewError(
            f"{assembly} has no synthesized templates: run `cdk synth` first (`constructs-optim synth FILE` for an "
            "endpoint file), or pass its output folder"
        )
    if links := [path for path in paths if not path.resolve().is_relative_to(assembly.resolve())]:
        raise PreviewError(f"{links[0]} is a link to a file outside of {assembly}: only files of the app are read")
    dashboards = [dashboard for path in paths for dashboard in _of_template(path)]
    if not dashboards:
        raise PreviewError(f"the templates of {assembly} have no dashboard ({DASHBOARD})")
    selected = [
        candidate
        for candidate in dashboards
        if (not stacks or any(fnmatchcase(candidate.stack, pattern) for pattern in stacks))
        and dashboard in (None, candidate.logical_id, readable_id(candidate.logical_id))
    ]
    if not selected:
        names = ", ".join(f"{candidate.stack} {candidate.logical_id}" for candidate in dashboards)
        raise PreviewError(f"{assembly} has no such dashboard; it has: {names}")
    return selected


def _of_template(path: Path) -> Iterator[Dashboard]:
    try:
        template = Template(object_in(json_value(path.read_bytes())))
    except ValueError as error:
        raise PreviewError(f"{path} is not a template: {error}") from None
    parameters = template.section("Parameters")

    def readable_name(reference: Reference) -> str:
        name = reference.target
        default = as_object(parameters.get(name)).get("Default")
        return str(_PSEUDO_PARAMETERS.get(name) or default or readable_id(name))

    stack = path.name.removesuffix(".template.json").removesuffix(".nested")
    for resource in template.of_type(DASHBOARD):
        try:
            value = json_value(text_of(resource.properties.get("DashboardBody"), readable_name))
            # As JSON, whose messages name JSON's types.
            body = _Body.model_validate_json(json.dumps(value))
        except ValidationError as error:
            problem = error.errors(include_input=False)[0]
            where = ".".join(map(str, problem["loc"])) or "the body"
            reason = f"{where}: {problem['msg'].removeprefix('Value error, ')}"
            raise PreviewError(
                f"the body of {stack} {resource.logical_id} is not a dashboard of CloudWatch: {reason[:_LONGEST]}"
            ) from None
        except ValueError as error:
            raise PreviewError(f"the body of {stack} {resource.logical_id} is not JSON: {error}") from None
        widgets = tuple(_positioned(body.widgets))
        if any(widget["y"] + widget["height"] > _MOST_ROWS for widget in widgets):
            raise PreviewError(
                f"{stack} {resource.logical_id} has more than {_MOST_ROWS:,} rows, which is more than a picture shows"
            )
        yield Dashboard(stack, resource.logical_id, body.start, widgets)


def _positioned(widgets: Sequence[_Widget]) -> Iterator[dict[str, Any]]:
    """Yield widgets with position and size; the default position is next to or below the previous widget."""
    x = y = row = 0
    for widget in widgets:
        if widget.model_fields_set & {"x", "y"}:
            x, y = widget.x, widget.y
        elif x + widget.width > _COLUMNS:
            x, y, row = 0, y + row, 0
        placed = {"x": x, "y": y, "width": widget.width, "height": widget.height}
        yield {"properties": {}, **widget.model_dump(exclude_unset=True, by_alias=True), **placed}
        x, row = x + widget.width, max(row, widget.height)


@dataclass(frozen=True)
class Row:
    """A row of a graph: a metric with its rendering properties, or only an expression in those."""

    rendering: Mapping[str, Any]
    namespace: str = ""
    name: str = ""
    dimensions: Mapping[str, str] = field(default_factory=dict[str, str])
    statistic: str = ""


def _rows(properties: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the ``metrics`` of a graph; ``.`` repeats a value of the previous row, and ``...`` several.

    Raises:
        ValueError: for an entry without a metric and an expression.
    """
    previous: list[Any] = []
    for entry in properties.get("metrics", []):
        rendering = entry[-1] if entry and isinstance(entry[-1], dict) else {}
        parts = [part for part in entry if not isinstance(part, dict)]
        if not parts and rendering.get("expression"):
            yield Row(rendering)
            continue
        if "..." in parts:
            at = parts.index("...")
            parts[at : at + 1] = previous[at : at + len(previous) - len(parts) + 1]
        if any(part == "." and index >= len(previous) for index, part in enumerate(parts)):
            raise ValueError(f"{parts} repeats a value that the metric above does not have")
        previous = parts = [previous[index] if part == "." else part for index, part in enumerate(parts)]
        if not parts or len(parts) % 2 or "" in parts:
            raise ValueError(f"{parts} is not a namespace, a metric's name, and names and values of dimensions")
        statistic = rendering.get("stat") or properties.get("stat") or "Average"
        yield Row(rendering, parts[0], parts[1], dict(zip(parts[2::2], parts[3::2], strict=True)), statistic)


class SampleMetrics:
    """Sample values, deterministic for each metric."""

    def __init__(self, dashboard: Dashboard, units: Mapping[tuple[str, str], str]) -> None:
        """Choose the times; ``units`` are the published units by namespace and metric name."""
        self._units = units
        marks = [time for properties in dashboard.graphs for time in _deployments(properties)]
        end = max(marks) + dt.timedelta(hours=1) if marks else _NOON
        matched = _RANGE.fullmatch(dashboard.start)
        seconds = int(matched[1]) * _SECONDS[matched[2]] if matched else 3 * 3600
        self.period_seconds = max(60, math.ceil(seconds / _MOST_POINTS / 60) * 60)
        count = seconds // self.period_seconds + 1
        self.times = [end - dt.timedelta(seconds=self.period_seconds) * (count - 1 - index) for index in range(count)]

    def values(self, metric: Row, scale: float) -> Series:
        """Return values in the metric's unit; ``scale`` is the number of GPUs or vCPUs in a summed percentage."""
        dimensions = tuple(metric.dimensions.items())
        noise = random.Random(f"{metric.namespace} {metric.name} {dimensions}")  # noqa: S311 - a picture
        unit = self._units.get((metric.namespace, metric.name), "Count")
        typical = {"Microseconds": 1.5e6, "Milliseconds": 400.0, "Percent": 60 * scale, "Count/Second": 800.0}
        highest = typical.get(unit, 4.0 if "Concurren" in metric.name else 90.0) * noise.uniform(0.8, 1.2)
        highest *= _STATISTICS.get(metric.statistic, 1.0)
        if (concurrency := metric.dimensions.get("Concurrency")) is not None:
            is_number = metric.name == "Concurrency" and _COUNT.fullmatch(concurrency)
            return [float(concurrency) if is_number else highest] * len(self.times)
        shift = noise.random()
        if "Error" in metric.name:
            return [float(noise.random() < 0.04) for _ in self.times]
        waves = (math.sin(2 * math.pi * (index / len(self.times) + shift)) for index in range(len(self.times)))
        return [highest * (0.8 + 0.25 * wave * noise.gauss(1, 0.04)) for wave in waves]


def lines_of(properties: Mapping[str, Any], metrics: SampleMetrics) -> dict[str, Series | str]:
    """Return the lines of a graph by label; text if an expression cannot be calculated here."""
    rows = [*_rows(properties)]
    divisions = filter(None, (_DIVIDED.fullmatch(str(row.rendering.get("expression", ""))) for row in rows))
    scales = {division[1]: float(division[2]) for division in divisions}
    series: dict[str, Series] = {}
    lines: dict[str, Series | str] = {}
    # Expressions last, because they are calculated from metrics.
    for row in sorted(rows, key=lambda row: not row.name):
        name = str(row.rendering.get("id") or f"row{len(series)}")
        label = str(row.rendering.get("label") or row.name or name)
        try:
            values = (
                metrics.values(row, scales.get(name, 1))
                if row.name
                else _calculated(str(row.rendering["expression"]), series, metrics)
            )
        except ValueError:
            lines[label] = f"not calculated here: {row.rendering['expression']}"
            continue
        series[name] = values
        if row.rendering.get("visible") is not False:
            lines[label] = values
    return lines


def _calculated(expression: str, series: Mapping[str, Series], metrics: SampleMetrics) -> Series:
    # Arithmetic and PERIOD. Source: Amazon CloudWatch user guide, "Using math expressions with CloudWatch metrics".
    formula = _PERIOD.sub(str(metrics.period_seconds), expression)
    points = ({name: values[index] for name, values in series.items()} for index in range(len(metrics.times)))
    known = ({name: value for name, value in point.items() if value is not None} for point in points)
    try:
        return [calculate(formula, point) for point in known]
    except (ArithmeticError, MemoryError, RecursionError):
        raise ValueError("too large or too deep to be calculated") from None


def _deployments(properties: Mapping[str, Any]) -> list[dt.datetime]:
    """Return the times of a graph's vertical annotations, without placeholders."""
    values = [mark["value"] for mark in properties.get("annotations", {}).get("vertical", []) if isinstance(mark, dict)]
    times: list[dt.datetime] = []
    for value in values:
        with suppress(ValueError):
            if _TIME.match(str(value)) and (time := dt.datetime.fromisoformat(value)).year in _YEARS:
                times.append(time)
    return times


def _horizontal(properties: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a graph's horizontal annotations, and both ends of those that are bands."""
    marks = properties.get("annotations", {}).get("horizontal", [])
    return [end for mark in marks for end in ([mark] if isinstance(mark, dict) else mark)]


def picture(dashboard: Dashboard, metrics: SampleMetrics) -> bytes:
    """Draw a dashboard as a PNG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = max((widget["y"] + widget["height"] for widget in dashboard.widgets), default=1)
    width, height = 24 * _COLUMN_INCHES, rows * _ROW_INCHES + _TOP
    with mpl.rc_context({"font.size": 7.5, "axes.titlesize": 9, "axes.edgecolor": _GRID, "axes.labelcolor": _FAINT}):
        # A text between two dollar signs is no formula.
        mpl.rcParams["text.parse_math"] = False
        figure = Figure(figsize=(width, height), dpi=_DPI, facecolor=_PAGE)
        top = 1 - 0.3 / height
        figure.text(0.01, top, f"{dashboard.stack} / {dashboard.logical_id}", fontsize=10, color=_FAINT)
        warning = "SAMPLE DATA: nothing was measured"
        figure.text(0.99, top, warning, fontsize=10, color="#b7410e", ha="right", weight="bold")
        for widget in dashboard.widgets:
            bottom = 1 - ((widget["y"] + widget["height"]) * _ROW_INCHES + _TOP) / height
            size = widget["width"] / 24, widget["height"] * _ROW_INCHES / height
            _draw(figure, widget, (widget["x"] / 24, bottom, *size), metrics)
        content = io.BytesIO()
        figure.savefig(content, format="png")
    return content.getvalue()


def _draw(figure: Figure, widget: Mapping[str, Any], box: tuple[float, ...], metrics: SampleMetrics) -> None:
    left, bottom, width, height = box
    properties = widget["properties"]
    card = figure.add_axes((left + 0.002, bottom + 0.04 * height, width - 0.004, 0.94 * height), xticks=[], yticks=[])
    if widget["type"] != "metric":
        columns = int(widget["width"] * 7)
        lines = [f"**{properties['title']}**"] if "title" in properties else []
        lines += _text_of(widget["type"], properties)
        for index, line in enumerate(lines[: int(widget["height"] * 2.2)]):
            text = _LINK.sub(r"\1", line.lstrip("# ")).replace("`", "").replace("**", "")
            shown = text if len(text) <= columns else f"{text[: columns - 1]}…"
            weight = "bold" if line.startswith(("#", "**")) else "normal"
            at = 1 - (0.45 * index + 0.3) / widget["height"]
            card.text(0.3 / widget["width"], at, shown, color=_INK, weight=weight, va="center")
        return
    names = width * 0.42 if properties.get("view") == "bar" else 0.03
    axes = figure.add_axes((left + names, bottom + 0.3 * height, width - names - 0.01, 0.54 * height))
    unit = properties.get("yAxis", {}).get("left", {}).get("label", "")
    card.set_title(f" {properties.get('title', '')}{f'  ({unit})' if unit else ''}", loc="left", y=0.89, weight="bold")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, colors=_FAINT)
    lines = lines_of(properties, metrics)
    drawn = {label: values for label, values in lines.items() if not isinstance(values, str)}
    if not drawn:
        reasons = [f"{label}: {reason}" for label, reason in lines.items() if isinstance(reason, str)]
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "\n".join(reasons) or "no data", ha="center", color=_FAINT, wrap=True)
    elif properties.get("view") == "bar":
        known = {label: [value for value in values if value is not None] for label, values in drawn.items()}
        bars = axes.barh([*known], [sum(values) / len(values) for values in known.values()])
        axes.bar_label(bars, fmt="%.3g", padding=2)
        axes.invert_yaxis()
        axes.margins(x=0.2)
    else:
        _draw_lines(axes, properties, drawn, metrics)


def _draw_lines(axes: Axes, properties: Mapping[str, Any], lines: Mapping[str, Series], metrics: SampleMetrics) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.ticker import EngFormatter

    times = [float(at) for at in date2num(metrics.times)]
    if properties.get("stacked"):
        stacked = [[value or 0 for value in values] for values in lines.values()]
        axes.stackplot(times, *stacked, labels=[*lines])
    else:
        for label, values in lines.items():
            gaps = [math.nan if value is None else value for value in values]
            axes.plot(times, gaps, linewidth=1.3, label=label)
    for mark in _horizontal(properties):
        axes.axhline(float(mark["value"]), color=_FAINT, linewidth=0.9, linestyle="--")
    for time in _deployments(properties):
        axes.axvline(float(date2num(time)), color="#9467bd", linewidth=1)
    limits = properties.get("yAxis", {}).get("left", {})
    least, most = limits.get("min") or 0, limits.get("max")
    # A graph that ends where it begins shows nothing.
    axes.set(xlim=(times[0], times[-1]), ylim=(least, None if most is not None and most <= least else most))
    low, high = axes.get_ylim()
    for mark in _horizontal(properties):
        # A text that is far from the picture cannot be drawn.
        if low <= float(mark["value"]) <= high:
            label = f" {mark.get('label', '')}"
            axes.text(times[0], float(mark["value"]), label, fontsize=6.5, color=_FAINT, va="bottom")
    axes.grid(axis="y", color=_GRID, linewidth=0.7)
    locator = AutoDateLocator(minticks=2, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.14), ncols=3, frameon=False, labelcolor=_FAINT, handlelength=1)


def _text_of(kind: str, properties: Mapping[str, Any]) -> list[str]:
    match kind:
        case "text":
            return [line for line in properties.get("markdown", "").splitlines() if line.strip()]
        case "log":
            return [part.strip() for part in properties.get("query", "").replace("\n", " ").split("|")]
        case "chart":
            return [f"● {query.get('label', '')}" for query in properties.get("data", {}).get("queries", [])]
        case "alarm":
            return [f"● {str(arn).rpartition(':alarm:')[2]}" for arn in properties.get("alarms", [])]
        case _:
            return ["only CloudWatch draws this"]
