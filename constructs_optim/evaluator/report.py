"""The results of an evaluation: JSON for machines, CSV for spreadsheets, and a page with plots for people."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from constructs_optim.recipe.evaluation.calculation import PARTS, ErrorKind
from constructs_optim.recipe.evaluation.result import EvaluationResult, Level
from constructs_optim.recipe.metrics import EVALUATION, PERCENTILES, MetricDefinition, Unit, find

from .comparison import NOISE, Change, CompletionComparison, compare_completions, compare_metrics, comparison_data
from .load import MeasuredLevel, Record
from .prompts import Prompt
from .run_directory import RunDirectory

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

# Of the baseline and of what is compared with it: the same as in dashboards.
_COLORS = ("#7f7f7f", "#2ca02c")
_FAINT, _CARD = "#687078", "#ffffff"
_INCHES = (5.6, 3.3)
_BOX = (0.12, 0.15, 0.85, 0.74)
# Inches that a row of a legend takes.
_LEGEND_ROW = 0.17
# By what factor values differ before they are drawn on a logarithmic scale.
_WIDE = 20
_DOLLARS_PER_MILLION = "US dollars per million tokens"
_PRICES = {
    "price_per_million_output_tokens": "-",
    "price_per_million_input_tokens": "--",
    "blended_price_per_million_tokens": ":",
}


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


def write_report(
    directory: RunDirectory, results: Sequence[tuple[str, EvaluationResult]], prompts: Sequence[Prompt]
) -> CompletionComparison | None:
    """Write ``<side>.json``, ``levels.csv``, ``report.html`` and, of two sides, ``comparison.json``.

    ``results`` are by the name of their side, the baseline first. Returns how alike the completions of two sides are.
    """
    colors = _COLORS if len(results) > 1 else _COLORS[1:]
    sides: list[ReportSide] = []
    for (name, result), color in zip(results, colors, strict=True):
        (directory.path / f"{name}.json").write_text(result.to_json(), encoding="utf-8")
        measured = {level.concurrency: directory.measured(name, level.concurrency) for level in result.levels}
        sides.append(ReportSide(result, measured, color))
    (directory.path / "levels.csv").write_text(_table([result for _, result in results]), encoding="utf-8")
    changes: dict[int, list[Change]] = {}
    completions = None
    if len(sides) > 1:
        changes = compare_metrics(sides[0].result, sides[1].result)
        completions = compare_completions(prompts, *(_records(side) for side in sides))
        data = json.dumps(comparison_data(changes, completions), indent=1)
        (directory.path / "comparison.json").write_text(data + "\n", encoding="utf-8")
    (directory.path / REPORT).write_text(_page(sides, changes, completions), encoding="utf-8")
    return completions


def written_files(path: Path) -> list[Path]:
    """The files of the results in the folder of an evaluation."""
    return sorted(file for file in path.iterdir() if file.suffix in (".json", ".csv", ".html") and file.stem != "run")


def readable(value: float) -> str:
    """A number with three digits, or with all before the point."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def _table(results: Sequence[EvaluationResult]) -> str:
    """CSV with a row for each subject and concurrency; what is not known is empty."""
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


def _page(
    sides: Sequence[ReportSide], changes: Mapping[int, Sequence[Change]], completions: CompletionComparison | None
) -> str:
    from jinja2 import Environment, StrictUndefined

    def known(metric: MetricDefinition) -> bool:
        return any(metric.name in level.metrics for side in sides for level in side.result.levels)

    metrics = [metric for metric in EVALUATION if known(metric)]
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters.update(readable=readable, signed=_signed)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        started=sides[0].result.started.strftime("%d %B %Y, %H:%M %Z").lstrip("0"),
        workload=sides[0].result.workload,
        title=" against ".join(side.label for side in reversed(sides)),
        complete=all(side.result.complete for side in sides),
        sides=sides,
        units=_UNITS,
        summary=[metric for metric in metrics if metric.name in _SUMMARY],
        parts={part: [metric for metric in metrics if metric.part is part] for part in PARTS},
        concurrencies=sorted({level.concurrency for side in sides for level in side.result.levels}),
        changes={
            concurrency: {change.name: change for change in of_level} for concurrency, of_level in changes.items()
        },
        noise=NOISE,
        plots={title: base64.b64encode(svg.encode()).decode() for title, svg in _plots(sides)},
        without_prices=[side.label for side in sides if side.result.price is None],
        completions=completions,
        errors=[kind for kind in ErrorKind if any(kind in level.errors for s in sides for level in s.result.levels)],
    )


def _signed(change: float | None) -> str:
    return "new" if change is None else "±0%" if abs(change) < 0.005 else f"{change:+.0%}"


def _plots(sides: Sequence[ReportSide]) -> Iterator[tuple[str, str]]:
    """Title and SVG of every plot for which there are values."""
    import matplotlib as mpl

    plots: dict[str, Callable[[Axes], bool]] = {
        **{title: partial(_draw_percentiles, sides, name) for title, name in _LATENCIES.items()},
        "Throughput": partial(
            _draw_lines, sides, {"output_tokens_per_second": "-", "total_throughput": ":"}, "tokens/s"
        ),
        "Throughput of a request": partial(
            _draw_lines, sides, {"output_tokens_per_second_per_request": "-"}, "tokens/s"
        ),
        **{
            f"Distribution of {title[0].lower()}{title[1:]}": partial(_draw_distribution, sides, name)
            for title, name in list(_LATENCIES.items())[:2]
        },
        "Price": partial(_draw_lines, sides, _PRICES, _DOLLARS_PER_MILLION),
        "Cost against latency": partial(_draw_cost, sides),
    }
    for title, draw in plots.items():
        with mpl.rc_context(fname=PLOT_STYLE):
            figure = draw_figure(title, draw)
            if figure is not None:
                svg = io.StringIO()
                # Without a date: the same evaluation is the same report.
                figure.savefig(svg, format="svg", facecolor=_CARD, metadata={"Date": None, "Creator": None})
                yield title, svg.getvalue()


_LATENCIES = {
    "Time to first token": "time_to_first_token",
    "Inter-token latency": "inter_token_latency",
    "Client latency": "client_latency",
}


def draw_figure(title: str, draw: Callable[[Axes], bool]) -> Figure | None:
    """A plot, with its legend below the axes, where no curve is; None where ``draw`` had nothing to draw."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, facecolor=_CARD)
    axes = figure.add_axes(_BOX, facecolor=_CARD)
    if not draw(axes):
        return None
    axes.set_title(title)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        # As many columns as have room, by the widest label: some 14 characters an inch.
        columns = max(1, min(len(labels), int(_INCHES[0] / (max(map(len, labels)) / 14 + 0.5))))
        rows = math.ceil(len(labels) / columns)
        width, height = _INCHES
        taller = height + rows * _LEGEND_ROW
        figure.set_size_inches(width, taller)
        left, bottom, wide, high = _BOX
        axes.set_position((left, (bottom * height + rows * _LEGEND_ROW) / taller, wide, high * height / taller))
        figure.legend(
            handles, labels, loc="lower center", ncols=columns, handlelength=1.8, columnspacing=1.2, borderaxespad=0.3
        )
    return figure


def _draw_percentiles(sides: Sequence[ReportSide], name: str, axes: Axes) -> bool:
    styles = zip(PERCENTILES, ("-", "--", ":"), strict=True)
    return _draw_lines(sides, {f"{name}_{percentile}": style for percentile, style in styles}, "ms", axes)


def _draw_lines(sides: Sequence[ReportSide], styles: Mapping[str, str], unit: str, axes: Axes) -> bool:
    """Metrics over the concurrency."""
    drawn: list[float] = []
    for side in sides:
        for name, style in styles.items():
            points = [(level.concurrency, level.metrics[name]) for level in side.result.levels if name in level.metrics]
            if not points:
                continue
            title = find(name).title.rpartition(", ")[2] if unit == "ms" else find(name).title
            label = title if len(sides) == 1 else side.label if len(styles) == 1 else f"{side.label}: {title}"
            at, values = zip(*points, strict=True)
            drawn += values
            axes.plot(at, values, style, color=side.color, marker="o", markersize=3.5, linewidth=1.5, label=label)
    if not drawn:
        return False
    concurrencies = sorted({level.concurrency for side in sides for level in side.result.levels})
    if concurrencies[-1] / concurrencies[0] > 8:
        axes.set_xscale("log", base=2)
    axes.set_xticks(concurrencies, [str(users) for users in concurrencies])
    axes.minorticks_off()
    axes.set(xlabel="concurrency", ylabel=unit)
    _scale(axes, "y", drawn, wide=unit == _DOLLARS_PER_MILLION)
    return True


def _draw_distribution(sides: Sequence[ReportSide], name: str, axes: Axes) -> bool:
    """The share of requests that was at least that fast: a line for each concurrency, the darker the more users."""
    drawn: list[float] = []
    for side in sides:
        for index, (concurrency, level) in enumerate(sorted(side.measured.items()), start=1):
            requests = [record.request for record in level.records if record.request.is_measured]
            values = sorted(value for request in requests if (value := getattr(request, name)) is not None)
            if not values:
                continue
            drawn += values
            users = f"{concurrency} user{'s' if concurrency > 1 else ''}"
            label = users if len(sides) == 1 else f"{side.label}, {users}"
            shares = [100 * rank / len(values) for rank in range(1, len(values) + 1)]
            strength = 0.35 + 0.65 * index / len(side.measured)
            axes.step(values, shares, where="post", color=side.color, alpha=strength, linewidth=1.4, label=label)
    if not drawn:
        return False
    _scale(axes, "x", drawn)
    axes.set(ylim=(0, 102), xlabel="ms", ylabel="% of requests")
    return True


def _draw_cost(sides: Sequence[ReportSide], axes: Axes) -> bool:
    """The price of a million output tokens over how long users wait for a whole completion: left and low is good."""
    drawn: list[float] = []
    for side in sides:
        metrics = {level.concurrency: level.metrics for level in side.result.levels}
        points = {
            users: (of["client_latency_p50"], of["price_per_million_output_tokens"])
            for users, of in metrics.items()
            if {"client_latency_p50", "price_per_million_output_tokens"} <= of.keys()
        }
        if not points:
            continue
        latencies, prices = zip(*points.values(), strict=True)
        drawn += prices
        axes.plot(latencies, prices, color=side.color, marker="o", markersize=4, linewidth=1.3, label=side.label)
        for users, point in points.items():
            axes.annotate(str(users), point, xytext=(4, 4), textcoords="offset points", fontsize=7, color=_FAINT)
    if not drawn:
        return False
    _scale(axes, "y", drawn)
    axes.set(xlabel="client latency, p50 (ms); numbers are users", ylabel="US dollars per million output tokens")
    return True


def _scale(axes: Axes, direction: str, values: Sequence[float], *, wide: bool = True) -> None:
    """Begin an axis at 0, or make it logarithmic where values that may be far apart are."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if not wide or min(values) <= 0 or max(values) / min(values) <= _WIDE:
        axes.set(**{f"{direction}lim": (0, max(values) * 1.12 or 1)})
        return
    axes.set(**{f"{direction}scale": "log"})
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
