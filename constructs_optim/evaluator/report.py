"""The results of an evaluation: JSON for machines, CSV for spreadsheets, and a page with plots."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from constructs_optim.recipe.evaluation.calculation import ErrorKind
from constructs_optim.recipe.evaluation.result import EvaluationResult, Level
from constructs_optim.recipe.metrics import EVALUATION, PERCENTILES, MetricDefinition, Unit, find
from constructs_optim.runtime.evaluation.differences import LEVEL, MARGIN, Difference

from .comparison import CompletionComparison, compare_completions, compare_metrics
from .load import MeasuredLevel
from .prompts import Prompt
from .run_directory import RunDirectory
from .streaming import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPORT = "report.html"
_TEMPLATE = Path(__file__).with_name("report.html.j2")
PLOT_STYLE = Path(__file__).with_name("report.mplstyle")
"""matplotlib's settings for the plots."""
_SUMMARY = (
    "time_to_first_token_p50",
    "time_to_first_token_p99",
    "inter_token_latency_p50",
    "client_latency_p50",
    "output_tokens_per_second",
    "price_per_million_output_tokens",
    "blended_price_per_million_tokens",
    "client_invocation_errors",
)
_UNITS = {Unit.MILLISECONDS: " (ms)", Unit.US_DOLLARS: " ($)"}

# Of the baseline and the optimized side: the same as in dashboards.
_COLORS = ("#7f7f7f", "#2ca02c")
_FAINT, _CARD = "#687078", "#ffffff"
_INCHES = (5.6, 3.3)
# Inches of a legend's row, and characters of its labels in an inch.
_LEGEND_ROW, _LEGEND_CHARACTERS = 0.17, 14
# The ratio of the largest value to the smallest from which on an axis is logarithmic.
_WIDE = 20
_LINES = ("-", "--", ":")
_LATENCIES = {
    "Time to first token": "time_to_first_token",
    "Inter-token latency": "inter_token_latency",
    "Client latency": "client_latency",
}
_THROUGHPUT = ("output_tokens_per_second", "total_throughput")
_PRICES = ("price_per_million_output_tokens", "price_per_million_input_tokens", "blended_price_per_million_tokens")
_COST_X = "client latency, p50 (ms); numbers are users"


@dataclass(frozen=True)
class ReportSide:
    """One side of a report: its result, its requests by concurrency, and its color in plots."""

    result: EvaluationResult
    measured: Mapping[int, MeasuredLevel]
    color: str

    @property
    def label(self) -> str:
        """Its name."""
        return self.result.subject.label

    @property
    def levels(self) -> dict[int, Level]:
        """The level of each concurrency."""
        return {level.concurrency: level for level in self.result.levels}


@dataclass(frozen=True)
class WrittenComparison:
    """Two sides' differences, by concurrency, and their completions."""

    margin: float
    differences: Mapping[int, Sequence[Difference]]
    completions: CompletionComparison


def write_report(
    directory: RunDirectory, results: Mapping[str, EvaluationResult], prompts: Sequence[Prompt], margin: float = MARGIN
) -> WrittenComparison | None:
    """Write ``<side>.json``, ``levels.csv``, ``report.html`` and, of two sides, ``comparison.json``.

    ``results`` are by side, the baseline first. Returns the comparison of two sides;
    ``margin`` is the largest change that counts as none.
    """
    colors = _COLORS if len(results) > 1 else _COLORS[1:]
    sides: list[ReportSide] = []
    for (name, result), color in zip(results.items(), colors, strict=True):
        document = result.model_dump_json(indent=1, exclude_none=True) + "\n"
        (directory.path / f"{name}.json").write_text(document, encoding="utf-8")
        measured = {level.concurrency: directory.measured(name, level.concurrency) for level in result.levels}
        sides.append(ReportSide(result, measured, color))
    (directory.path / "levels.csv").write_text(_csv([*results.values()]), encoding="utf-8")
    comparison = None
    if len(sides) > 1:
        measured = {name: side.measured for name, side in zip(results, sides, strict=True)}
        differences = compare_metrics(sides[0].result, sides[1].result, measured, margin)
        completions = compare_completions(prompts, *(_records(side) for side in sides))
        comparison = WrittenComparison(margin, differences, completions)
        levels = [{"concurrency": concurrency, "differences": found} for concurrency, found in differences.items()]
        document = {"schema": 2, "margin": margin, "level": LEVEL, "levels": levels, "answers": completions}
        (directory.path / "comparison.json").write_bytes(to_json(document, indent=1) + b"\n")
    (directory.path / REPORT).write_text(_page(sides, comparison), encoding="utf-8")
    return comparison


def readable(value: float) -> str:
    """A number with three significant digits, or without decimals."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def _csv(results: Sequence[EvaluationResult]) -> str:
    """CSV with a row for each subject and concurrency; unknown values are empty."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    metrics = [metric.name for metric in EVALUATION]
    writer.writerow(["label", "seconds", "complete", *metrics, *(f"errors_{kind.value}" for kind in ErrorKind)])
    for result in results:
        for level in result.levels:
            values = [level.metrics.get(name, "") for name in metrics]
            errors = [level.errors.get(kind, 0) for kind in ErrorKind]
            writer.writerow([result.subject.label, level.seconds, str(level.complete).lower(), *values, *errors])
    return written.getvalue()


def _records(side: ReportSide) -> list[Record]:
    return [record for _, level in sorted(side.measured.items()) for record in level.records]


def _page(sides: Sequence[ReportSide], comparison: WrittenComparison | None) -> str:
    from jinja2 import Environment, StrictUndefined

    differences = comparison.differences if comparison else {}

    def known(metric: MetricDefinition) -> bool:
        return any(metric.name in level.metrics for side in sides for level in side.result.levels)

    metrics = [metric for metric in EVALUATION if known(metric)]
    parts = dict.fromkeys(metric.part for metric in EVALUATION)
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters.update(readable=readable, signed=signed)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        started=sides[0].result.started.strftime("%d %B %Y, %H:%M %Z").lstrip("0"),
        workload=sides[0].result.workload,
        title=" against ".join(side.label for side in reversed(sides)),
        complete=all(side.result.complete for side in sides),
        sides=sides,
        units=_UNITS,
        summary=[metric for metric in metrics if metric.name in _SUMMARY],
        parts={part: [metric for metric in metrics if metric.part == part] for part in parts},
        concurrencies=sorted({level.concurrency for side in sides for level in side.result.levels}),
        comparison=comparison,
        differences={users: {each.name: each for each in found} for users, found in differences.items()},
        plots={title: base64.b64encode(svg.encode()).decode() for title, svg in _plots(sides)},
        without_prices=[side.label for side in sides if side.result.price is None],
        completions=comparison.completions if comparison else None,
        errors=[kind for kind in ErrorKind if any(kind in level.errors for s in sides for level in s.result.levels)],
    )


def signed(change: float | None) -> str:
    """A change in percent, with a decimal where it is small; empty where there is none."""
    if change is None:
        return ""
    if abs(change) < 0.0005:
        return "±0%"
    return f"{change:+.0%}" if abs(change) >= 0.0995 else f"{change:+.1%}"


class Curve(NamedTuple):
    """A curve of a plot; ``style`` is of matplotlib's lines, ``users`` are numbers beside its points."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: Mapping[str, Any]
    users: Sequence[int] = ()


class Plot(NamedTuple):
    """A plot; the axis named ``wide`` is logarithmic where its values are far apart. Other axes begin at 0."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    wide: str = ""


def _plots(sides: Sequence[ReportSide]) -> Iterator[tuple[str, str]]:
    """Title and SVG of every plot for which there are values."""
    import matplotlib as mpl

    def over(metrics: Sequence[str], x: str = "concurrency") -> list[Curve]:
        return list(_metric_curves(sides, metrics, x))

    millions = "US dollars per million tokens"
    latencies = [
        Plot(title, "concurrency", "ms", over([f"{name}_{percentile}" for percentile in PERCENTILES]))
        for title, name in _LATENCIES.items()
    ]
    distributions = [
        Plot(f"Distribution of {title.lower()}", "ms", "% of requests", list(_distribution(sides, name)), wide="x")
        for title, name in list(_LATENCIES.items())[:2]
    ]
    plots = [
        *latencies,
        Plot("Throughput", "concurrency", "tokens/s", over(_THROUGHPUT)),
        Plot("Throughput of a request", "concurrency", "tokens/s", over(["output_tokens_per_second_per_request"])),
        *distributions,
        Plot("Price", "concurrency", millions, over(_PRICES), wide="y"),
        Plot("Cost against latency", _COST_X, millions, over(_PRICES[:1], "client_latency_p50"), wide="y"),
    ]
    for plot in plots:
        if plot.curves:
            with mpl.rc_context(fname=PLOT_STYLE):
                svg = io.StringIO()
                # Without a date: the same evaluation is the same report.
                draw_figure(plot).savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
                yield plot.title, svg.getvalue()


def _metric_curves(sides: Sequence[ReportSide], metrics: Sequence[str], x: str) -> Iterator[Curve]:
    """Metrics over another one: a line for each side and metric."""
    for side in sides:
        for name, line in zip(metrics, _LINES, strict=False):
            levels = [level for level in side.result.levels if {x, name} <= level.metrics.keys()]
            if not levels:
                continue
            title = find(name).title.rpartition(", ")[2] if name.endswith(PERCENTILES) else find(name).title
            label = title if len(sides) == 1 else side.label if len(metrics) == 1 else f"{side.label}: {title}"
            yield Curve(
                label,
                [level.metrics[x] for level in levels],
                [level.metrics[name] for level in levels],
                {"color": side.color, "linestyle": line, "marker": "o", "markersize": 3.5},
                [level.concurrency for level in levels] if x != "concurrency" else (),
            )


def _distribution(sides: Sequence[ReportSide], name: str) -> Iterator[Curve]:
    """The cumulative share of requests: a line for each concurrency, the darker the more users."""
    for side in sides:
        for index, (concurrency, level) in enumerate(sorted(side.measured.items()), start=1):
            latencies = (getattr(record, name) for record in level.records if record.is_measured)
            values = sorted(value for value in latencies if value is not None)
            if not values:
                continue
            users = f"{concurrency} user{'s' if concurrency > 1 else ''}"
            yield Curve(
                users if len(sides) == 1 else f"{side.label}, {users}",
                values,
                [100 * rank / len(values) for rank in range(1, len(values) + 1)],
                {"color": side.color, "alpha": 0.35 + 0.65 * index / len(side.measured), "drawstyle": "steps-post"},
            )


def draw_figure(plot: Plot) -> Figure:
    """A plot, with its legend below the axes, where it covers no curve."""
    from matplotlib.figure import Figure

    labels = [curve.label for curve in plot.curves]
    columns = max(1, min(len(labels), int(_INCHES[0] / (max(map(len, labels)) / _LEGEND_CHARACTERS + 0.5))))
    width, height = _INCHES
    height += math.ceil(len(labels) / columns) * _LEGEND_ROW
    figure = Figure(figsize=(width, height), facecolor=_CARD, layout="constrained")
    axes = figure.subplots()
    for curve in plot.curves:
        axes.plot(curve.x, curve.y, linewidth=1.4, label=curve.label, **curve.style)
        for users, x, y in zip(curve.users, curve.x, curve.y, strict=False):
            axes.annotate(str(users), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7, color=_FAINT)
    axes.set(title=plot.title, xlabel=plot.xlabel, ylabel=plot.ylabel)
    xs = sorted({value for curve in plot.curves for value in curve.x})
    if plot.xlabel == "concurrency":
        if xs[-1] / xs[0] > 8:
            axes.set_xscale("log", base=2)
        axes.set_xticks(xs, [f"{users:g}" for users in xs])
        axes.minorticks_off()
    else:
        _scale(axes, "x", xs, wide=plot.wide == "x")
    _scale(axes, "y", [value for curve in plot.curves for value in curve.y], wide=plot.wide == "y")
    figure.legend(loc="outside lower center", ncols=columns, handlelength=1.8, columnspacing=1.2, borderaxespad=0.3)
    return figure


def _scale(axes: Axes, direction: str, values: Sequence[float], *, wide: bool) -> None:
    """Begin an axis at 0, or make it logarithmic where it is ``wide`` and its values are far apart."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if not wide or min(values) <= 0 or max(values) / min(values) <= _WIDE:
        axes.set(**{f"{direction}lim": (0, max(values) * 1.06 or 1)})
        return
    axes.set(**{f"{direction}scale": "log"})
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
