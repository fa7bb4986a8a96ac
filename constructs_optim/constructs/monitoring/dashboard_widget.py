"""A dashboard's widgets as data: each can stand alone, in a row of others, or in a user's own dashboard.

Source of the format and its limits: Amazon CloudWatch API reference, "Dashboard Body Structure and Syntax".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch

GRID_COLUMNS = 24
MOST_WIDGETS = 500
MOST_METRICS = 500


@dataclass(frozen=True)
class Widget:
    """One widget of a CloudWatch dashboard. Names in it may be tokens.

    Attributes:
        name: what it is taken by, from ``dashboard.widgets``.
        type: ``metric``, ``text``, ``log`` or ``alarm``.
        properties: its ``properties`` in a dashboard's body.
        width: columns of the grid's 24.
        height: rows of the grid.
    """

    name: str
    type: str
    properties: dict[str, Any] = field(repr=False)
    width: int = 8
    height: int = 6

    def to_json(self, *, x: int = 0, y: int = 0) -> dict[str, Any]:
        """The widget as a dashboard's body holds it, at column ``x`` and row ``y``."""
        place = {"x": x, "y": y, "width": self.width, "height": self.height}
        return {"type": self.type, **place, "properties": self.properties}

    def to_widget(self) -> cloudwatch.IWidget:
        """The widget for an ``aws_cloudwatch.Dashboard``: ``dashboard.add_widgets(widget.to_widget())``."""
        from .cloudwatch_widget import CloudWatchWidget

        return CloudWatchWidget(self)


@dataclass(frozen=True)
class Segment:
    """Widgets that tell of one thing, with a heading above them; without a title, with none."""

    name: str
    title: str | None
    widgets: tuple[Widget, ...]


def text(name: str, markdown: str, *, width: int = GRID_COLUMNS, height: int = 2) -> Widget:
    """A widget of Markdown."""
    return Widget(name, "text", {"markdown": markdown}, width, height)


def arranged(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """The segments below each other, each with its widgets from left to right and in as many rows as they take.

    Raises:
        ValueError: for more widgets than a dashboard has, more metrics than a graph has, or two of one name.
    """
    placed: list[dict[str, Any]] = []
    names: set[str] = set()
    top = 0
    for segment in segments:
        if not segment.widgets:
            continue
        if segment.title is not None:
            properties = {"markdown": f"## {segment.title}", "background": "transparent"}
            placed.append(Widget(segment.name, "text", properties, GRID_COLUMNS, 1).to_json(y=top))
            top += 1
        x = row_height = 0
        for widget in segment.widgets:
            _check(widget, names)
            if x + widget.width > GRID_COLUMNS:
                x, top, row_height = 0, top + row_height, 0
            placed.append(widget.to_json(x=x, y=top))
            x, row_height = x + widget.width, max(row_height, widget.height)
        top += row_height
    if len(placed) > MOST_WIDGETS:
        raise ValueError(
            f"the dashboard has {len(placed)} widgets with its headings, and CloudWatch shows {MOST_WIDGETS} at most: "
            "leave endpoints, segments or concurrencies out, or make a second dashboard"
        )
    return placed


def _check(widget: Widget, names: set[str]) -> None:
    if widget.name in names:
        raise ValueError(f"the dashboard has a widget {widget.name!r} already: give each a name of its own")
    names.add(widget.name)
    if not 1 <= widget.width <= GRID_COLUMNS:
        raise ValueError(f"the widget {widget.name!r} is {widget.width} columns wide, and there are {GRID_COLUMNS}")
    metrics = len(widget.properties.get("metrics", ()))
    if metrics > MOST_METRICS:
        raise ValueError(
            f"the widget {widget.name!r} has {metrics} metrics, and CloudWatch draws {MOST_METRICS} at most in one "
            "graph: leave endpoints out, or make a second dashboard"
        )
