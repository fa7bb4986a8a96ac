"""A dashboard's widgets as data, and the body they make: each can stand alone, or in a user's own dashboard.

Source of the format and its limits: Amazon CloudWatch API reference, "Dashboard Body Structure and Syntax".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch

from constructs_optim.constructs.stack.stack_context import PSEUDO, TOKEN

GRID_COLUMNS = 24
MOST_WIDGETS = 500
MOST_METRICS = 500
_START = "-PT3H"


@dataclass(frozen=True)
class Widget:
    """One widget of a CloudWatch dashboard. Names in it may be tokens.

    Attributes:
        name: its key in ``dashboard.widgets``.
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
        position = {"x": x, "y": y, "width": self.width, "height": self.height}
        return {"type": self.type, **position, "properties": self.properties}

    def to_widget(self) -> cloudwatch.IWidget:
        """The widget for an ``aws_cloudwatch.Dashboard``: ``dashboard.add_widgets(widget.to_widget())``."""
        return _CloudWatchWidget(self)


class _CloudWatchWidget(cloudwatch.ConcreteWidget):
    """A widget for the CDK's dashboards with its properties as they are: CDK's graphs have only those they know."""

    def __init__(self, widget: Widget) -> None:
        super().__init__(widget.width, widget.height)
        self._widget = widget

    def to_json(self) -> list[Any]:
        """The widget of the dashboard's body, at the position the CDK gave it."""
        return [self._widget.to_json(x=int(self._x or 0), y=int(self._y or 0))]


@dataclass(frozen=True)
class Segment:
    """Widgets below a heading; without a title, below none."""

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
    arranged_widgets: list[dict[str, Any]] = []
    names: set[str] = set()
    top = 0
    for segment in segments:
        if not segment.widgets:
            continue
        if segment.title is not None:
            properties = {"markdown": f"## {segment.title}", "background": "transparent"}
            arranged_widgets.append(Widget(segment.name, "text", properties, GRID_COLUMNS, 1).to_json(y=top))
            top += 1
        x = row_height = 0
        for widget in segment.widgets:
            _validate(widget, names)
            if x + widget.width > GRID_COLUMNS:
                x, top, row_height = 0, top + row_height, 0
            arranged_widgets.append(widget.to_json(x=x, y=top))
            x, row_height = x + widget.width, max(row_height, widget.height)
        top += row_height
    if len(arranged_widgets) > MOST_WIDGETS:
        raise ValueError(
            f"the dashboard has {len(arranged_widgets)} widgets with its headings, and CloudWatch shows {MOST_WIDGETS} "
            "at most: leave endpoints, segments or concurrencies out, or make a second dashboard"
        )
    return arranged_widgets


def _validate(widget: Widget, names: set[str]) -> None:
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


def dashboard_body(
    segments: Iterable[Segment], names: Mapping[str, str], texts: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The body of an ``AWS::CloudWatch::Dashboard``, as ``Fn::Sub``.

    Graphs are drawn at the period that suits the time range the viewer chose.

    Args:
        segments: what it shows, from top to bottom.
        names: what a placeholder is called, by the token that stands in it; others are numbered.
        texts: the same of texts that are known, and change with a recipe: a diff shows them, and not the whole body.

    Raises:
        ValueError: for more than CloudWatch shows, or two widgets of one name.
    """
    widgets = [_shortened(widget) for widget in arranged(segments)]
    body = {"start": _START, "periodOverride": "auto", "widgets": widgets}
    return _substituted(json.dumps(body, separators=(",", ":")), names, texts or {})


def _shortened(widget: dict[str, Any]) -> dict[str, Any]:
    rows = widget["properties"].get("metrics")
    if rows is None:
        return widget
    return {**widget, "properties": {**widget["properties"], "metrics": short_rows(rows)}}


def short_rows(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """A graph's ``metrics`` as CloudWatch's own editor writes them: a dot repeats the value above it.

    A template holds 1 MB, and of a dashboard most is the names and dimensions that its rows share. Only rows of metrics
    that follow each other and are equally long are shortened; an expression stands as it is, and so does what a user
    has shortened with three dots, which stand for as many values as the row above has more.
    """
    short: list[list[Any]] = []
    above: Sequence[Any] = ()
    for row in rows:
        if not row or "..." in row:
            short.append([*row])
            above = ()
            continue
        alike = len(row) == len(above)
        short.append(
            [
                "." if alike and isinstance(part, str) and part == above[index] else part
                for index, part in enumerate(row)
            ]
        )
        above = row if isinstance(row[0], str) else ()
    return short


def _substituted(text: str, names: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    """JSON with a named placeholder for each token in it, and for each of ``texts``, as ``Fn::Sub``."""
    pseudo = {
        PSEUDO.account: "AWS::AccountId",
        PSEUDO.partition: "AWS::Partition",
        PSEUDO.region: "AWS::Region",
        PSEUDO.stack_id: "AWS::StackId",
    }
    variables: dict[str, str] = {}
    written = {json.dumps(known)[1:-1]: name for known, name in texts.items() if known}
    # Of two texts that begin alike, the longer.
    literals = [re.escape(known) for known in sorted(written, key=len, reverse=True)]
    replaced = re.compile("|".join([TOKEN.pattern, *literals]))

    def placeholder(token: str) -> str:
        if token in pseudo:
            return f"${{{pseudo[token]}}}"
        name = written.get(token) or names.get(token) or f"Value{len(variables.keys() - texts.values()) + 1}"
        variables[name] = token
        return f"${{{name}}}"

    parts: list[str] = []
    end = 0
    for match in replaced.finditer(text):
        parts += [text[end : match.start()].replace("${", "${!"), placeholder(match[0])]
        end = match.end()
    parts.append(text[end:].replace("${", "${!"))
    template = "".join(parts)
    return {"Fn::Sub": [template, variables] if variables else template}
