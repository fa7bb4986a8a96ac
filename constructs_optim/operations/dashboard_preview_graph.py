"""A graph's lines, calculated: what is left to do is to draw them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .dashboard_preview_data import MetricSource, Row, TimeRange, metric_rows
from .dashboard_preview_math import UnknownExpression, calculated

_DIVIDED = re.compile(r"([a-z]\w*) / (\d+)")
_PALETTE = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)


@dataclass(frozen=True)
class DrawnLine:
    """A label, a color and a value for each time, None where there is none."""

    label: str
    color: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Graph:
    """A metric widget, ready to be drawn.

    Attributes:
        title: what is written above it.
        view: ``timeSeries``, or how else values are shown.
        stacked: whether lines are areas on top of each other.
        unit: of the axis, may be empty.
        lowest: the axis's lower end, None where the values say.
        highest: its upper end, None where the values say.
        lines: what it shows.
        times: the time of each value.
        thresholds: horizontal marks: a value and what it means.
        deployments: vertical marks: a time and what happened.
        notes: what could not be drawn, and why.
    """

    title: str
    view: str
    stacked: bool
    unit: str
    lowest: float | None
    highest: float | None
    lines: tuple[DrawnLine, ...]
    times: Sequence[dt.datetime]
    thresholds: tuple[tuple[float, str], ...]
    deployments: tuple[tuple[dt.datetime, str], ...]
    notes: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no line has a value."""
        return not any(value is not None for line in self.lines for value in line.values)


def graph_of(properties: Mapping[str, Any], source: MetricSource, span: TimeRange) -> Graph:
    """Calculate what a metric widget shows."""
    rows = metric_rows(properties)
    scales = _scales(rows)
    sides: list[tuple[str | None, str | None]] = []
    series: dict[str, Sequence[float | None]] = {}
    plain: dict[int, Sequence[float | None]] = {}
    for place, row in enumerate(rows):
        if not isinstance(row, Row):
            continue
        named = dict(row.dimensions)
        side = (named.get("InferenceComponentName") or named.get("EndpointName"), named.get("ArtifactKey"))
        if side not in sides:
            sides.append(side)
        plain[place] = source.values(row, span, scale=scales.get(row.id or "", 1), rank=sides.index(side))
        if row.id is not None:
            series[row.id] = plain[place]
    lines: list[DrawnLine] = []
    notes: list[str] = []
    for place, row in enumerate(rows):
        rendering = row.rendering if isinstance(row, Row) else row
        if rendering.get("visible") is False:
            continue
        label = str(rendering.get("label") or (row.metric_name if isinstance(row, Row) else rendering.get("id", "")))
        try:
            values = (
                plain[place]
                if isinstance(row, Row)
                else calculated(str(rendering["expression"]), series, period_seconds=span.period_seconds)
            )
        except UnknownExpression as unknown:
            notes.append(f"{label}: {unknown}")
            continue
        if not isinstance(row, Row) and isinstance(rendering.get("id"), str):
            series[rendering["id"]] = values
        color = rendering.get("color") or _PALETTE[len(lines) % len(_PALETTE)]
        lines.append(DrawnLine(label, str(color), values))
    left, marks = properties.get("yAxis", {}).get("left", {}), properties.get("annotations", {})
    return Graph(
        title=str(properties.get("title", "")),
        view=str(properties.get("view", "timeSeries")),
        stacked=bool(properties.get("stacked")),
        unit=str(left.get("label", "")),
        lowest=left.get("min"),
        highest=left.get("max"),
        lines=tuple(lines),
        times=span.times,
        thresholds=tuple(
            (float(mark["value"]), str(mark.get("label", "")))
            for mark in marks.get("horizontal", [])
            if isinstance(mark, dict)
        ),
        deployments=tuple(
            (dt.datetime.fromisoformat(mark["value"]), str(mark.get("label", "")))
            for mark in marks.get("vertical", [])
            if isinstance(mark, dict)
        ),
        notes=tuple(notes),
    )


def _scales(rows: Sequence[Row | Mapping[str, Any]]) -> dict[str, float]:
    """By how much an expression divides a metric: what was added up over so many GPUs or vCPUs."""
    found: dict[str, float] = {}
    for row in rows:
        matched = None if isinstance(row, Row) else _DIVIDED.fullmatch(str(row.get("expression", "")))
        if matched is not None:
            found[matched[1]] = float(matched[2])
    return found
