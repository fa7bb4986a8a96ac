"""The results of an evaluation: JSON for machines, CSV for spreadsheets, Markdown, and a page with plots."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from constructs_optim.recipe.evaluation.result import EvaluationResult, Level
from constructs_optim.recipe.metrics import EVALUATION, PERCENTILES, MetricDefinition, Unit, find
from constructs_optim.runtime.evaluation.differences import Difference
from constructs_optim.runtime.evaluation.samples import Sample

from .comparison import (
    ComparedLoad,
    ComparisonDocument,
    CompletionComparison,
    compare_completions,
    compare_metrics,
    counting_notes,
)
from .find_limit import described
from .load import MeasuredLevel
from .options import Options
from .output_agreement import OutputAgreement, compare_outputs
from .plots import HAS_PLOTS, PLOT_STYLE
from .pooled_formats import POOLED_FORMATS, PooledFormat
from .prompts import Prompt
from .requests import ErrorKind
from .run_directory import RunDirectory
from .streaming import Record
from .summary import sample_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPORT, SUMMARY = "report.html", "report.md"
_TEMPLATES = Path(__file__).parent
_SUMMARY = (
    "time_to_first_token_p50",
    "time_to_first_token_p99",
    "inter_token_latency_p50",
    "client_latency_p50",
    "requests_per_second",
    "goodput",
    "output_tokens_per_second",
    "price_per_million_output_tokens",
    "client_invocations",
    "client_invocation_errors",
)
# The same for models that generate no text.
_POOLED_SUMMARY = (
    "client_latency_p50",
    "client_latency_p99",
    "requests_per_second",
    "inputs_per_second",
    "input_tokens_per_second",
    "goodput",
    "price_per_million_input_tokens",
    "price_per_thousand_requests",
    "client_invocations",
    "client_invocation_errors",
)
_UNITS = {Unit.MILLISECONDS: " (ms)", Unit.US_DOLLARS: " ($)"}

# Colors of the baseline and the optimized side, the same as in dashboards.
_COLORS = ("#7f7f7f", "#2ca02c")
_FAINT, _CARD, _OBJECTIVE = "#687078", "#ffffff", "#b7410e"
_INCHES = (5.6, 3.3)
# Height of a legend's row in inches, and characters of its labels per inch.
_LEGEND_ROW, _LEGEND_CHARACTERS = 0.17, 14
# The smallest ratio of the largest to the smallest value for a logarithmic axis.
_WIDE = 20
_LINES = ("-", "--", ":")
_LATENCIES = {
    "Time to first token": "time_to_first_token",
    "Inter-token latency": "inter_token_latency",
    "Client latency": "client_latency",
}
_THROUGHPUT = ("output_tokens_per_second", "total_throughput")
_REQUESTS = ("requests_per_second", "goodput")
_INPUTS, _INPUT_TOKENS = ("inputs_per_second",), ("input_tokens_per_second",)
_DISTRIBUTIONS = {
    "Distribution of time to first token": ("time_to_first_token", "% of requests"),
    "Distribution of inter-token latency": ("inter_token_latency", "% of requests"),
    "Distribution of inter-chunk latency": ("inter_chunk_latency", "% of chunks"),
}
_POOLED_DISTRIBUTIONS = {"Distribution of client latency": ("client_latency", "% of requests")}
# Largest number of points in a curve over time, and in a distribution.
_BINS, _MOST_POINTS = 40, 400
_PRICES = ("price_per_million_output_tokens", "price_per_million_input_tokens", "blended_price_per_million_tokens")
_POOLED_PRICES = ("price_per_million_input_tokens",)
_COST_X = "client latency, p50 (ms); beside a point: the load"


@dataclass(frozen=True)
class ReportSide:
    """One side of a report: its result, its requests by load, and its color in plots."""

    result: EvaluationResult
    measured: Mapping[str, MeasuredLevel]
    samples: Mapping[str, Sample]
    color: str

    @property
    def label(self) -> str:
        """The name of the side."""
        return self.result.subject.label

    @property
    def levels(self) -> dict[str, Level]:
        """The level of each load."""
        return {level.load: level for level in self.result.levels}


@dataclass(frozen=True)
class WrittenComparison:
    """The differences between two sides, and between their completions or other ``outputs``."""

    margin: float
    levels: Sequence[ComparedLoad]
    completions: CompletionComparison | None = None
    notes: Sequence[str] = ()
    outputs: OutputAgreement | None = None

    @property
    def verdicts(self) -> Counter[str]:
        """The numbers of metrics that are better, worse, the same and undecided."""
        return Counter(found.verdict for level in self.levels for found in level.differences)

    @property
    def too_busy(self) -> int:
        """The number of undecided metrics whose change this machine's lag may explain."""
        return sum(found.too_busy for level in self.levels for found in level.differences)


def write_report(
    directory: RunDirectory, options: Options, results: Mapping[str, EvaluationResult], prompts: Sequence[Prompt]
) -> WrittenComparison | None:
    """Write ``<side>.json``, ``levels.csv``, ``report.html``, ``report.md`` and, for two sides, ``comparison.json``.

    ``results`` has the baseline first. Returns the comparison of two sides.
    """
    colors = _COLORS if len(results) > 1 else _COLORS[1:]
    sides: list[ReportSide] = []
    for (name, result), color in zip(results.items(), colors, strict=True):
        document = result.model_dump_json(indent=1, exclude_none=True) + "\n"
        (directory.path / f"{name}.json").write_text(document, encoding="utf-8")
        known = {level.load for level in result.levels}
        measured = {load.label: directory.measured(name, load) for load in options.loads if load.label in known}
        samples = {load: sample_of(level, options.objectives) for load, level in measured.items()}
        sides.append(ReportSide(result, measured, samples, color))
    (directory.path / "levels.csv").write_text(_csv([*results.values()]), encoding="utf-8")
    comparison = None
    if len(sides) > 1:
        samples = {name: side.samples for name, side in zip(results, sides, strict=True)}
        lags = {
            name: {load: level.lag for load, level in side.measured.items()}
            for name, side in zip(results, sides, strict=True)
        }
        levels = compare_metrics(sides[0].result, sides[1].result, samples, lags, options.margin)
        pooled, records = _pooled(sides), [_records(side) for side in sides]
        completions = compare_completions(prompts, *records) if pooled is None else None
        outputs = compare_outputs(pooled.task, prompts, *records) if pooled is not None else None
        notes = tuple(counting_notes(sides[0].result, sides[1].result))
        comparison = WrittenComparison(options.margin, levels, completions, notes, outputs)
        document = ComparisonDocument(
            margin=options.margin, levels=levels, completions=completions, outputs=outputs, notes=notes
        )
        (directory.path / "comparison.json").write_text(document.model_dump_json(indent=1) + "\n", encoding="utf-8")
    for name in (REPORT, SUMMARY):
        (directory.path / name).write_text(_page(name, sides, comparison), encoding="utf-8")
    return comparison


def readable(value: float) -> str:
    """Format a number with three significant digits, or without decimals."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def _csv(results: Sequence[EvaluationResult]) -> str:
    """Return CSV with a row for each subject and concurrency. Unknown values are empty."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    metrics = [metric.name for metric in EVALUATION]
    writer.writerow(
        [
            "label",
            "load",
            "request_rate",
            "seconds",
            "complete",
            *metrics,
            *(f"errors_{kind.value}" for kind in ErrorKind),
        ]
    )
    for result in results:
        for level in result.levels:
            values = [level.metrics.get(name, "") for name in metrics]
            errors = [level.errors.get(kind, 0) for kind in ErrorKind]
            writer.writerow(
                [
                    result.subject.label,
                    level.load,
                    level.request_rate or "",
                    level.seconds,
                    str(level.complete).lower(),
                    *values,
                    *errors,
                ]
            )
    return written.getvalue()


def _records(side: ReportSide) -> list[Record]:
    return [record for level in side.measured.values() for record in level.counted]


def _pooled(sides: Sequence[ReportSide]) -> type[PooledFormat] | None:
    """Return the format of models that generate no text; None for the others."""
    return POOLED_FORMATS.get(sides[0].result.workload.format or "")


def _page(name: str, sides: Sequence[ReportSide], comparison: WrittenComparison | None) -> str:
    from jinja2 import Environment, StrictUndefined, select_autoescape

    levels = comparison.levels if comparison else ()

    def known(metric: MetricDefinition) -> bool:
        return any(metric.name in level.metrics for side in sides for level in side.result.levels)

    metrics = [metric for metric in EVALUATION if known(metric)]
    parts = dict.fromkeys(metric.part for metric in EVALUATION)
    is_html, summarized = name == REPORT, _SUMMARY if _pooled(sides) is None else _POOLED_SUMMARY
    environment = Environment(
        autoescape=select_autoescape(default_for_string=is_html), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters.update(
        readable=readable, signed=signed, verdict=_verdict, requests_needed=requests_needed, cell=_cell
    )
    template = (_TEMPLATES / f"{name}.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        started=sides[0].result.started.strftime("%d %B %Y, %H:%M %Z").lstrip("0"),
        workload=sides[0].result.workload,
        objectives=sides[0].result.objectives,
        title=" against ".join(side.label for side in reversed(sides)),
        complete=all(side.result.complete for side in sides),
        sides=sides,
        units=_UNITS,
        titles={metric.name: metric.title for metric in EVALUATION},
        summary=[metric for metric in metrics if metric.name in summarized],
        parts={part: [metric for metric in metrics if metric.part == part] for part in parts},
        limits=[
            f"{side.label}: {described(side.result.limit, side.result.objectives)}"
            for side in sides
            if side.result.limit is not None and side.result.objectives is not None
        ],
        loads=list(dict.fromkeys(level.load for side in sides for level in side.result.levels)),
        comparison=comparison,
        differences={level.load: {each.name: each for each in level.differences} for level in levels},
        unpaired=[level.load for level in levels if not level.paired],
        plots={title: base64.b64encode(svg.encode()).decode() for title, svg in _plots(sides)} if is_html else {},
        has_plots=HAS_PLOTS,
        without_prices=[side.label for side in sides if side.result.price is None],
        completions=comparison.completions if comparison else None,
        outputs=comparison.outputs if comparison else None,
        errors=[kind for kind in ErrorKind if any(kind in level.errors for s in sides for level in s.result.levels)],
    )


def _cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return "".join(f"\\{character}" if character in "\\`*_[]<>|" else character for character in text).replace(
        "\n", " "
    )


def signed(change: float | None) -> str:
    """Format a change in percent, with a decimal if it is small; empty if there is none."""
    if change is None:
        return ""
    if abs(change) < 0.0005:
        return "±0%"
    return f"{change:+.0%}" if abs(change) >= 0.0995 else f"{change:+.1%}"


def _verdict(difference: Difference) -> str:
    """Return the verdict, with its reason if this machine's lag prevents another one."""
    return f"{difference.verdict}: this machine was too busy" if difference.too_busy else difference.verdict


def requests_needed(difference: Difference) -> str:
    """Return how many requests would decide the difference, or give it an interval; empty if unknown."""
    if difference.requests is None:
        return ""
    return ("" if difference.low is not None else "at least ") + readable(difference.requests)


class Curve(NamedTuple):
    """A curve of a plot; ``style`` is matplotlib's line style, ``notes`` are texts beside the points.

    ``arms`` are the distances from a point to the ends of its interval.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: Mapping[str, Any]
    notes: Sequence[str] = ()
    arms: tuple[Sequence[float], Sequence[float]] | None = None


class Plot(NamedTuple):
    """A plot. The axis named ``wide`` is logarithmic if its values are far apart. Other axes begin at 0.

    ``objective`` is drawn as a line, and ``limit`` as a band: between a rate that meets the objectives and one that
    misses them.
    """

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    wide: str = ""
    objective: float | None = None
    limit: tuple[float, float] | None = None


def _plots(sides: Sequence[ReportSide]) -> Iterator[tuple[str, str]]:
    """Yield the title and SVG of every plot for which there are values."""
    if not HAS_PLOTS:
        return
    import matplotlib as mpl

    result = sides[-1].result
    objectives = result.objectives.limits if result.objectives else {}
    limit = None
    if result.limit is not None and result.limit.meets and result.limit.misses:
        limit = (result.limit.meets, result.limit.misses)
    x = "concurrency" if all(level.concurrency for level in result.levels) else "requests/s"

    def over(metrics: Sequence[str], against: str = "") -> list[Curve]:
        return list(_metric_curves(sides, metrics, against))

    millions, is_pooled = "US dollars per million tokens", _pooled(sides) is not None
    prices = _POOLED_PRICES if is_pooled else _PRICES
    latencies = [
        Plot(title, x, "ms", over([f"{name}_{each}" for each in PERCENTILES]), "", objectives.get(name), limit)
        for title, name in _LATENCIES.items()
    ]
    distributions = [
        Plot(title, "ms", share, list(_distribution(sides, name)), wide="x")
        for title, (name, share) in (_POOLED_DISTRIBUTIONS if is_pooled else _DISTRIBUTIONS).items()
    ]
    timed = "client_latency" if is_pooled else "time_to_first_token"
    plots = [
        *latencies,
        Plot("Throughput", x, "tokens/s", over(_INPUT_TOKENS if is_pooled else _THROUGHPUT)),
        Plot("Requests", x, "requests/s", over(_REQUESTS), limit=limit),
        Plot("Inputs", x, "inputs/s", over(_INPUTS)),
        *distributions,
        Plot(f"{find(timed).title} over time", "seconds", "ms, median", list(_over_time(sides, timed))),
        Plot("Price", x, millions, over(prices), wide="y"),
        Plot("Cost against latency", _COST_X, millions, over(prices[:1], "client_latency_p50"), wide="y"),
    ]
    for plot in plots:
        if plot.curves:
            with mpl.rc_context(fname=PLOT_STYLE):
                svg = io.StringIO()
                # Without a date, so that the same evaluation has the same report.
                draw_figure(plot).savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
                yield plot.title, svg.getvalue()


def _metric_curves(sides: Sequence[ReportSide], metrics: Sequence[str], against: str) -> Iterator[Curve]:
    """Yield the curves of metrics over the load, or ``against`` another metric: one for each side and metric."""
    for side in sides:
        for name, line in zip(metrics, _LINES, strict=False):
            levels = [level for level in side.result.levels if {name, against or name} <= level.metrics.keys()]
            if not levels:
                continue
            title = find(name).title.rpartition(", ")[2] if name.endswith(PERCENTILES) else find(name).title
            label = title if len(sides) == 1 else side.label if len(metrics) == 1 else f"{side.label}: {title}"
            ys = [level.metrics[name] for level in levels]
            ends = [level.intervals.get(name, (y, y)) for level, y in zip(levels, ys, strict=True)]
            yield Curve(
                label,
                [level.metrics[against] if against else _offered(level) for level in levels],
                ys,
                {"color": side.color, "linestyle": line, "marker": "o", "markersize": 3.5},
                [level.load for level in levels] if against else (),
                (
                    [max(0.0, y - low) for y, (low, _) in zip(ys, ends, strict=True)],
                    [max(0.0, high - y) for y, (_, high) in zip(ys, ends, strict=True)],
                ),
            )


def _offered(level: Level) -> float:
    """Return the load as a number: users, or mean requests per second."""
    if level.concurrency is not None:
        return level.concurrency
    rate = level.request_rate or 0.0
    return rate if level.end_rate is None else (rate + level.end_rate) / 2


def _samples(sides: Sequence[ReportSide]) -> Iterator[tuple[str, Sample, dict[str, Any]]]:
    """Yield label, requests and style of each load. Higher loads are darker."""
    for side in sides:
        for index, (load, sample) in enumerate(side.samples.items(), start=1):
            style = {"color": side.color, "alpha": 0.35 + 0.65 * index / len(side.samples)}
            yield load if len(sides) == 1 else f"{side.label}, {load}", sample, style


def _distribution(sides: Sequence[ReportSide], name: str) -> Iterator[Curve]:
    """Yield the cumulative distribution of values, a curve for each load."""
    for label, sample, style in _samples(sides):
        values = sorted(value for each in sample.observations for value in each.latencies(name))
        if not values:
            continue
        # More points would not change the plot visibly.
        step = max(1, len(values) // _MOST_POINTS)
        ranks = [*range(step, len(values), step), len(values)]
        shares = [100 * rank / len(values) for rank in ranks]
        yield Curve(label, [values[rank - 1] for rank in ranks], shares, {**style, "drawstyle": "steps-post"})


def _over_time(sides: Sequence[ReportSide], name: str) -> Iterator[Curve]:
    """Yield the median of a latency of consecutive requests, a curve for each load."""
    for label, sample, style in _samples(sides):
        known = [(each.start, value) for each in sample.observations for value in each.latencies(name)]
        size = max(1, math.ceil(len(known) / _BINS))
        bins = [known[first : first + size] for first in range(0, len(known), size)]
        if len(bins) < 2:
            continue
        medians = [sorted(value for _, value in part)[len(part) // 2] for part in bins]
        yield Curve(label, [part[0][0] for part in bins], medians, style)


def draw_figure(plot: Plot) -> Figure:
    """Draw a plot with its legend below the axes, where it covers no curve."""
    from matplotlib.figure import Figure

    labels = [curve.label for curve in plot.curves]
    columns = max(1, min(len(labels), int(_INCHES[0] / (max(map(len, labels)) / _LEGEND_CHARACTERS + 0.5))))
    width, height = _INCHES
    height += math.ceil(len(labels) / columns) * _LEGEND_ROW
    figure = Figure(figsize=(width, height), facecolor=_CARD, layout="constrained")
    axes = figure.subplots()
    for curve in plot.curves:
        axes.plot(curve.x, curve.y, linewidth=1.4, label=curve.label, **curve.style)
        if curve.arms is not None and any(map(any, curve.arms)):
            # Without a second line in the legend.
            axes.errorbar(curve.x, curve.y, yerr=curve.arms, fmt="none", ecolor=curve.style["color"], capsize=2.5)
        for note, x, y in zip(curve.notes, curve.x, curve.y, strict=False):
            axes.annotate(note, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7, color=_FAINT)
    axes.set(title=plot.title, xlabel=plot.xlabel, ylabel=plot.ylabel)
    xs = sorted({value for curve in plot.curves for value in curve.x})
    if plot.objective is not None:
        axes.axhline(plot.objective, color=_OBJECTIVE, linewidth=1, linestyle=(0, (4, 3)))
        place = {"xytext": (-2, 3), "textcoords": "offset points", "ha": "right", "fontsize": 7, "color": _OBJECTIVE}
        axes.annotate("objective", (1, plot.objective), xycoords=("axes fraction", "data"), **place)
    if plot.limit is not None:
        axes.axvspan(*plot.limit, color=_OBJECTIVE, alpha=0.15, linewidth=0)
    if plot.xlabel == "concurrency":
        if xs[-1] / xs[0] > 8:
            axes.set_xscale("log", base=2)
        axes.set_xticks(xs, [f"{users:g}" for users in xs])
        axes.minorticks_off()
    else:
        _scale(axes, "x", xs, wide=plot.wide == "x")
    arms = [(curve.y, curve.arms[1] if curve.arms else [0.0] * len(curve.y)) for curve in plot.curves]
    ys = [y + arm for values, above in arms for y, arm in zip(values, above, strict=True)]
    _scale(axes, "y", [*ys, plot.objective] if plot.objective is not None else ys, wide=plot.wide == "y")
    figure.legend(loc="outside lower center", ncols=columns, handlelength=1.8, columnspacing=1.2, borderaxespad=0.3)
    return figure


def _scale(axes: Axes, direction: str, values: Sequence[float], *, wide: bool) -> None:
    """Begin an axis at 0, or make it logarithmic if it is ``wide`` and its values are far apart."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if not wide or min(values) <= 0 or max(values) / min(values) <= _WIDE:
        axes.set(**{f"{direction}lim": (0, max(values) * 1.06 or 1)})
        return
    axes.set(**{f"{direction}scale": "log"})
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
