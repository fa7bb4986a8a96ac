"""The plots of a report, each as one SVG."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.metrics import find
from constructs_optim.recipe.metrics.evaluation import PERCENTILES

from .run_directory import MeasuredLevel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#7f7f7f", "#2ca02c")
"""Of the baseline and of what is compared with it: the same as in dashboards."""
_INK, _FAINT, _GRID, _CARD = "#16191f", "#687078", "#e3e6e8", "#ffffff"
_INCHES = (5.6, 3.3)
_BOX = (0.12, 0.15, 0.85, 0.74)
_LEGEND_ROW = 0.17
"""Inches that a row of a legend takes."""
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _FAINT,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": _INK,
    "text.color": _INK,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.8,
    "legend.labelcolor": _FAINT,
    "legend.fontsize": 7.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "constructs-optim",
}
_WIDE = 20
"""By what factor values differ before they are drawn on a logarithmic scale."""
_LINES = {"p50": "-", "p90": "--", "p99": ":"}


@dataclass(frozen=True)
class Shown:
    """One side of a report.

    Attributes:
        result: what was found.
        measured: its requests, by concurrency.
        color: in plots.
    """

    result: EvaluationResult
    measured: Mapping[int, MeasuredLevel]
    color: str

    @property
    def label(self) -> str:
        """What people call it."""
        return self.result.subject.label

    def values(self, name: str) -> tuple[list[int], list[float]]:
        """A metric over the concurrencies where it is known."""
        known = [(each.concurrency, each.metrics[name]) for each in self.result.levels if name in each.metrics]
        return [at for at, _ in known], [value for _, value in known]


def plots(sides: Sequence[Shown]) -> dict[str, str]:
    """Every plot for which there are values, by title, as SVG."""
    drawn: dict[str, Callable[[Axes], bool]] = {
        "Time to first token": lambda axes: _percentiles(axes, sides, "time_to_first_token"),
        "Inter-token latency": lambda axes: _percentiles(axes, sides, "inter_token_latency"),
        "Client latency": lambda axes: _percentiles(axes, sides, "client_latency"),
        "Throughput": lambda axes: _lines(axes, sides, {"output_tokens_per_second": "-", "total_throughput": ":"}),
        "Throughput of a request": lambda axes: _lines(axes, sides, {"output_tokens_per_second_per_request": "-"}),
        "Distribution of time to first token": lambda axes: _distribution(axes, sides, "time_to_first_token"),
        "Distribution of inter-token latency": lambda axes: _distribution(axes, sides, "inter_token_latency"),
        "Price": lambda axes: _lines(
            axes,
            sides,
            {
                "price_per_million_output_tokens": "-",
                "price_per_million_input_tokens": "--",
                "blended_price_per_million_tokens": ":",
            },
        ),
        "Cost against latency": lambda axes: _frontier(axes, sides),
    }
    return {title: svg for title, draw in drawn.items() if (svg := _svg(title, draw)) is not None}


def _svg(title: str, draw: Callable[[Axes], bool]) -> str | None:
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        figure = _figure(title, draw)
        if figure is None:
            return None
        raw = io.StringIO()
        # Without a date: the same evaluation is the same report.
        figure.savefig(raw, format="svg", facecolor=_CARD, metadata={"Date": None, "Creator": None})
    return raw.getvalue()


def _figure(title: str, draw: Callable[[Axes], bool]) -> Figure | None:
    """A plot, with its legend below the axes, where no curve is."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, facecolor=_CARD)
    axes = figure.add_axes(_BOX, facecolor=_CARD)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
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


def _percentiles(axes: Axes, sides: Sequence[Shown], name: str) -> bool:
    found = _lines(axes, sides, {f"{name}_{which}": _LINES[which] for which in PERCENTILES}, shortened=True)
    axes.set_ylabel("ms")
    return found


def _lines(axes: Axes, sides: Sequence[Shown], names: Mapping[str, str], *, shortened: bool = False) -> bool:
    found, priced = False, any("price" in name for name in names)
    for side in sides:
        for name, style in names.items():
            at, values = side.values(name)
            if not values:
                continue
            found = True
            title = find(name).title
            what = title.rpartition(", ")[2] if shortened else title
            label = what if len(sides) == 1 else side.label if len(names) == 1 else f"{side.label}: {what}"
            axes.plot(at, values, style, color=side.color, marker="o", markersize=3.5, linewidth=1.5, label=label)
    if found:
        _over_concurrency(axes, sides)
        drawn = [value for side in sides for name in names for value in side.values(name)[1]]
        if priced and max(drawn) / min(drawn) > _WIDE:
            _logarithmic(axes, "y")
        else:
            axes.set_ylim(0, max(drawn) * 1.12 or 1)
        if not shortened:
            axes.set_ylabel(_UNITS.get(find(next(iter(names))).shown_unit.value, ""))
    return found


_UNITS = {"Count/Second": "tokens/s", "US dollars": "US dollars per million tokens"}


def _logarithmic(axes: Axes, which: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _over_concurrency(axes: Axes, sides: Sequence[Shown]) -> None:
    levels = sorted({level.concurrency for side in sides for level in side.result.levels})
    if levels[-1] / levels[0] > 8:
        axes.set_xscale("log", base=2)
    axes.set_xticks(levels, [str(level) for level in levels])
    axes.minorticks_off()
    axes.set_xlabel("concurrency")


def _distribution(axes: Axes, sides: Sequence[Shown], name: str) -> bool:
    """What share of requests was at least that fast: a line for each concurrency, the darker the more users."""
    found = False
    for side in sides:
        for place, (concurrency, level) in enumerate(sorted(side.measured.items())):
            requests = [record.request for record in level.records]
            values = sorted(
                value for each in requests if each.is_measured and (value := getattr(each, name)) is not None
            )
            if not values:
                continue
            found = True
            users = f"{concurrency} user{'s' if concurrency > 1 else ''}"
            label = users if len(sides) == 1 else f"{side.label}, {users}"
            shares = [100 * (rank + 1) / len(values) for rank in range(len(values))]
            strength = 0.35 + 0.65 * (place + 1) / len(side.measured)
            axes.step(values, shares, where="post", color=side.color, alpha=strength, linewidth=1.4, label=label)
    if found:
        left, right = axes.get_xlim()
        if left > 0 and right / left > _WIDE:
            _logarithmic(axes, "x")
        else:
            axes.set_xlim(0, right * 1.05)
        axes.set_ylim(0, 102)
        axes.set(xlabel="ms", ylabel="% of requests")
    return found


def _frontier(axes: Axes, sides: Sequence[Shown]) -> bool:
    """What a million output tokens cost, against how long users wait for an answer: left and low is good."""
    found = False
    for side in sides:
        points = [
            (level.metrics["client_latency_p50"], level.metrics["price_per_million_output_tokens"], level.concurrency)
            for level in side.result.levels
            if {"client_latency_p50", "price_per_million_output_tokens"} <= level.metrics.keys()
        ]
        if not points:
            continue
        found = True
        axes.plot(
            [x for x, _, _ in points],
            [y for _, y, _ in points],
            color=side.color,
            marker="o",
            markersize=4,
            linewidth=1.3,
            label=side.label,
        )
        for latency, price, concurrency in points:
            axes.annotate(
                str(concurrency), (latency, price), xytext=(4, 4), textcoords="offset points", fontsize=7, color=_FAINT
            )
    if found:
        prices = [value for side in sides for value in side.values("price_per_million_output_tokens")[1]]
        if max(prices) / min(prices) > _WIDE:
            _logarithmic(axes, "y")
        else:
            axes.set_ylim(0, math.ceil(max(prices) * 1.15 * 100) / 100)
        axes.set(xlabel="client latency, p50 (ms); numbers are users", ylabel="US dollars per million output tokens")
    return found
