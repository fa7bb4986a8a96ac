"""Draws a preview with matplotlib: the whole dashboard as a PNG, and each graph as an SVG for the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from .dashboard_preview import DashboardPreview
from .dashboard_preview_graph import Graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAMPLE = "sample data"
_COLUMNS, _COLUMN_INCHES, _ROW_INCHES, _MARGIN, _TOP = 24, 0.62, 0.42, 0.12, 0.55
_DPI = 80
_COLORS = 256
_INK, _FAINT, _GRID, _PAGE, _CARD = "#16191f", "#687078", "#e3e6e8", "#f2f3f3", "#ffffff"
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _FAINT,
    "axes.titlesize": 9.5,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "svg.fonttype": "none",
    "svg.hashsalt": "constructs-optim",
}
_STEPS = (1, 2, 2.5, 5, 10)
_MOST_LEGEND_ENTRIES = 12
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def png(preview: DashboardPreview, graphs: Mapping[int, Graph], *, recorded: bool) -> bytes:
    """The whole dashboard as a picture of at most 256 colors.

    Args:
        preview: the dashboard.
        graphs: of its metric widgets, by their place among its widgets.
        recorded: whether the metrics are recorded ones; samples are marked.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from PIL import Image

    rows = max((widget["y"] + widget["height"] for widget in preview.widgets), default=1)
    width, height = _COLUMNS * _COLUMN_INCHES, rows * _ROW_INCHES + _TOP
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), dpi=_DPI, facecolor=_PAGE)
        title = f"{preview.stack} / {preview.logical_id}"
        figure.text(0.01, 1 - 0.3 / height, title, fontsize=10, color=_FAINT, va="center")
        note = "recorded metrics" if recorded else f"{SAMPLE.upper()}: nothing was measured"
        figure.text(0.99, 1 - 0.3 / height, note, fontsize=10, color="#b7410e", ha="right", va="center", weight="bold")
        for place, widget in enumerate(preview.widgets):
            left, top = widget["x"] * _COLUMN_INCHES, _TOP + widget["y"] * _ROW_INCHES
            box = (left, height - top - widget["height"] * _ROW_INCHES, widget["width"] * _COLUMN_INCHES)
            inches = (*box, widget["height"] * _ROW_INCHES)
            _WIDGETS.get(widget["type"], _unknown)(figure, inches, widget, graphs.get(place))
        raw = io.BytesIO()
        figure.savefig(raw, format="png", facecolor=_PAGE)
    small = io.BytesIO()
    Image.open(raw).convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def svg(graph: Graph, *, columns: int, rows: int) -> str:
    """One graph, as large as its widget."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        inches = (columns * _COLUMN_INCHES, rows * _ROW_INCHES)
        figure = Figure(figsize=inches, facecolor=_CARD)
        _graph(figure, (0, 0, *inches), {}, graph)
        raw = io.StringIO()
        # Without a date: the same preview is the same file.
        figure.savefig(raw, format="svg", facecolor=_CARD, metadata={"Date": None, "Creator": None})
    return raw.getvalue()


Inches = tuple[float, float, float, float]


def _card(figure: Figure, inches: Inches, *, filled: bool = True) -> None:
    from matplotlib.patches import Rectangle

    width, height = figure.get_size_inches()
    gap = 0.04
    figure.add_artist(
        Rectangle(
            ((inches[0] + gap) / width, (inches[1] + gap) / height),
            (inches[2] - 2 * gap) / width,
            (inches[3] - 2 * gap) / height,
            facecolor=_CARD if filled else "none",
            edgecolor=_GRID if filled else "none",
            linewidth=0.8,
            zorder=-2,
        )
    )


def _graph(figure: Figure, inches: Inches, _: Mapping[str, Any], graph: Graph | None) -> None:
    assert graph is not None  # noqa: S101 - every metric widget has one
    _card(figure, inches)
    labels = [line.label for line in graph.lines][:_MOST_LEGEND_ENTRIES]
    per_row = max(1, int((inches[2] - 0.6) / (0.42 + 0.072 * max(map(len, labels), default=1))))
    bars = graph.view == "bar"
    legend_rows = 0 if bars else -(-len(labels) // per_row)
    bottom = 0.36 + 0.17 * legend_rows
    left = min(0.3 + 0.062 * max(map(len, labels), default=0), inches[2] / 2) if bars else 0.62
    figure_width, figure_height = figure.get_size_inches()
    axes: Axes = figure.add_axes(
        (
            (inches[0] + left) / figure_width,
            (inches[1] + bottom) / figure_height,
            max(inches[2] - left - 0.3, 0.3) / figure_width,
            max(inches[3] - bottom - 0.42, 0.2) / figure_height,
        ),
        facecolor=_CARD,
    )
    unit = f"  ({graph.unit})" if graph.unit else ""
    figure.text(
        (inches[0] + _MARGIN) / figure_width,
        (inches[1] + inches[3] - 0.22) / figure_height,
        f"{graph.title}{unit}",
        fontsize=9,
        color=_INK,
        weight="bold",
        va="center",
        zorder=3,
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=7.5)
    axes.grid(axis="x" if bars else "y", color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    if graph.is_empty:
        axes.set(xticks=[], yticks=[])
        said = "\n".join(graph.notes) or "no data"
        axes.text(0.5, 0.5, said, ha="center", va="center", transform=axes.transAxes, color=_FAINT, wrap=True)
        return
    if bars:
        _draw_bars(axes, graph)
        return
    _draw_lines(axes, graph)
    if graph.notes:
        axes.text(0.01, 0.02, "\n".join(graph.notes), transform=axes.transAxes, color=_FAINT, fontsize=6.5)
    if labels:
        axes.legend(
            *(found[:_MOST_LEGEND_ENTRIES] for found in _handles(axes)),
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.24 / max(inches[3] - bottom - 0.42, 0.2)),
            ncols=min(per_row, len(labels)),
            frameon=False,
            fontsize=7.5,
            handlelength=1.1,
            columnspacing=1.0,
            borderaxespad=0,
            labelcolor=_FAINT,
        )


def _handles(axes: Axes) -> tuple[list[Any], list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    return list(handles), list(labels)


def _draw_lines(axes: Axes, graph: Graph) -> None:
    from matplotlib.dates import DateFormatter, date2num
    from matplotlib.ticker import MaxNLocator

    times = list(date2num(list(graph.times)))
    gap = float("nan")
    drawn = [[gap if value is None else value for value in line.values] for line in graph.lines]
    if graph.stacked and graph.lines:
        heights = [[0.0 if value is None else value for value in line.values] for line in graph.lines]
        axes.stackplot(
            times,
            *heights,
            labels=[line.label for line in graph.lines],
            colors=[line.color for line in graph.lines],
            alpha=0.75,
        )
    else:
        for line, values in zip(graph.lines, drawn, strict=True):
            axes.plot(times, values, color=line.color, linewidth=1.3, label=line.label)
    for value, label in graph.thresholds:
        axes.axhline(value, color="#7f7f7f", linewidth=0.9, linestyle="--")
        axes.text(times[0], value, f" {label}", fontsize=6.5, color="#7f7f7f", va="bottom", clip_on=True)
    for at, label in graph.deployments:
        where = float(date2num(at))
        if times[0] <= where <= times[-1]:
            axes.axvline(where, color="#9467bd", linewidth=1)
            axes.text(
                where, 0.97, f" {label}", transform=axes.get_xaxis_transform(), fontsize=6.5, color="#9467bd", va="top"
            )
    axes.set_xlim(times[0], times[-1])
    known = [value for line in graph.lines for value in line.values if value is not None]
    highest = max([*known, *(value for value, _ in graph.thresholds)])
    axes.set_ylim(graph.lowest or 0, graph.highest or (None if graph.stacked else highest * 1.15 or 1))
    days = (graph.times[-1] - graph.times[0]).total_seconds() > 2 * 86_400
    axes.xaxis.set_major_locator(MaxNLocator(5) if days else _hours(times))
    axes.xaxis.set_major_formatter(DateFormatter("%d %b" if days else "%H:%M"))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
    axes.yaxis.set_major_formatter(_readable)


def _hours(times: list[float]) -> Any:
    from matplotlib.dates import AutoDateLocator

    return AutoDateLocator(minticks=3, maxticks=5 if times else 3)


def _draw_bars(axes: Axes, graph: Graph) -> None:
    from matplotlib.ticker import MaxNLocator

    known = [(line, [value for value in line.values if value is not None]) for line in graph.lines]
    shown = [(line, sum(values) / len(values)) for line, values in known if values]
    places = list(range(len(shown)))
    highest = max((value for _, value in shown), default=0)
    axes.barh(places, [value for _, value in shown], color=[line.color for line, _ in shown], height=0.72)
    for place, (_, value) in zip(places, shown, strict=True):
        axes.text(value + (highest or 1) * 0.02, place, _readable(value), va="center", fontsize=7, color=_INK)
    axes.invert_yaxis()
    axes.set_yticks(places, [line.label for line, _ in shown])
    axes.set_xlim(0, highest * 1.22 or 1)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=_STEPS))
    axes.xaxis.set_major_formatter(_readable)


def _readable(value: float, _place: float = 0) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _text(figure: Figure, inches: Inches, widget: Mapping[str, Any], _: Graph | None) -> None:
    properties = widget["properties"]
    _card(figure, inches, filled=properties.get("background") != "transparent")
    width, height = figure.get_size_inches()
    top = inches[1] + inches[3] - 0.14
    for line in properties["markdown"].splitlines():
        if not line.strip():
            continue
        level = len(line) - len(line.lstrip("#"))
        size = {1: 14, 2: 11.5, 3: 9.5}.get(level, 8.5)
        said = _LINK.sub(r"\1", line.lstrip("# ")).replace("`", "").replace("**", "")
        longest = int((inches[2] - 0.3) / (size * 0.0088))
        figure.text(
            (inches[0] + _MARGIN) / width,
            top / height,
            said if len(said) <= longest else f"{said[: longest - 1]}…",
            fontsize=size,
            color=_INK if level or "](" not in line else "#0073bb",
            weight="bold" if level else "normal",
            va="top",
        )
        top -= size / 72 + 0.13


def _log(figure: Figure, inches: Inches, widget: Mapping[str, Any], _: Graph | None) -> None:
    properties = widget["properties"]
    lines = [part.strip() for part in properties["query"].replace("\n", " ").split("|")]
    _listed(figure, inches, f"{properties.get('title', 'Logs')}  (log query)", lines, family="DejaVu Sans Mono")


def _alarm(figure: Figure, inches: Inches, widget: Mapping[str, Any], _: Graph | None) -> None:
    properties = widget["properties"]
    names = [str(arn).rpartition(":alarm:")[2] for arn in properties.get("alarms", [])]
    beside_each_other = wrap("   ".join(f"●\u00a0{name}" for name in names), int((inches[2] - 0.3) / 0.074))
    _listed(figure, inches, str(properties.get("title", "Alarms")), beside_each_other)


def _unknown(figure: Figure, inches: Inches, widget: Mapping[str, Any], _: Graph | None) -> None:
    _listed(figure, inches, str(widget["properties"].get("title", widget["type"])), ["drawn in CloudWatch only"])


def _listed(figure: Figure, inches: Inches, title: str, lines: list[str], *, family: str = "DejaVu Sans") -> None:
    _card(figure, inches)
    width, height = figure.get_size_inches()
    top = inches[1] + inches[3] - 0.22
    left = (inches[0] + _MARGIN) / width
    figure.text(left, top / height, title, fontsize=9, color=_INK, weight="bold", va="center")
    longest = int((inches[2] - 0.3) / 0.074)
    room = max(int((inches[3] - 0.42) / 0.19), 1)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… and {len(lines) - room + 1} more"]
    for line in lines:
        top -= 0.19
        said = line if len(line) <= longest else f"{line[: longest - 1]}…"
        figure.text(left, top / height, said, fontsize=7.5, color=_FAINT, va="center", family=family)


_WIDGETS: dict[str, Callable[[Figure, Inches, Mapping[str, Any], Graph | None], None]] = {
    "metric": _graph,
    "text": _text,
    "log": _log,
    "alarm": _alarm,
}
