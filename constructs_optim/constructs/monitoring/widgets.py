"""A dashboard's widgets as data, and its body. Each widget can also be used in another dashboard.

Source of the format and its limits: Amazon CloudWatch API reference, "Dashboard Body Structure and Syntax".
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from constructs_optim.constructs.stack.stack_context import PSEUDO, late_text
from constructs_optim.constructs.validation.template_size import refusal
from constructs_optim.recipe.tokens import TOKEN
from constructs_optim.templates.limits import excesses_of_widgets

GRID_COLUMNS = 24
_START = "-PT3H"


@dataclass(frozen=True)
class Widget:
    """A widget of a CloudWatch dashboard: ``metric``, ``text``, ``log`` or ``alarm``. It may contain tokens.

    ``name`` is its key in ``dashboard.widgets``, ``width`` counts columns of the grid's 24, and ``height`` its rows.
    """

    name: str
    type: str
    properties: dict[str, Any] = field(repr=False)
    width: int = 8
    height: int = 6

    def to_json(self, *, x: int = 0, y: int = 0) -> dict[str, Any]:
        """Return the widget as part of a dashboard's body, at column ``x`` and row ``y``."""
        position = {"x": x, "y": y, "width": self.width, "height": self.height}
        return {"type": self.type, **position, "properties": self.properties}

    def to_widget(self) -> cloudwatch.IWidget:
        """Return the widget for an ``aws_cloudwatch.Dashboard``: ``dashboard.add_widgets(widget.to_widget())``."""
        return _CloudWatchWidget(self)


class _CloudWatchWidget(cloudwatch.ConcreteWidget):
    """A widget for the CDK's dashboards that keeps all properties; CDK graphs only keep those they know."""

    def __init__(self, widget: Widget) -> None:
        super().__init__(widget.width, widget.height)
        self._widget = widget

    def to_json(self) -> list[Any]:
        """Return the widget for the dashboard's body, at the position the CDK gave it."""
        return [self._widget.to_json(x=int(self._x or 0), y=int(self._y or 0))]


@dataclass(frozen=True)
class Segment:
    """Widgets below a heading; without a title, there is no heading."""

    name: str
    title: str | None
    widgets: tuple[Widget, ...]


class Dashboard(Construct):
    """A CloudWatch dashboard of segments. Its body is written at synthesis, to include later declarations."""

    def __init__(self, scope: Construct, id: str, dashboard_name: str | None) -> None:
        super().__init__(scope, id)
        self._resource = cloudwatch.CfnDashboard(
            self, "Resource", dashboard_body=late_text(self._body), dashboard_name=dashboard_name
        )

    @property
    def dashboard_name(self) -> str:
        """The dashboard's name (a token)."""
        return self._resource.ref

    @property
    @abstractmethod
    def segments(self) -> tuple[Segment, ...]:
        """The dashboard's segments, from top to bottom."""

    @property
    def widgets(self) -> dict[str, Widget]:
        """The dashboard's widgets by name: ``model_latency``, in a fleet ``endpoint_1_latency``, and so on.

        ``widgets["model_latency"].to_widget()`` is a widget for an ``aws_cloudwatch.Dashboard``, and ``.to_json()`` a
        part of a ``CfnDashboard``'s body.
        """
        return {widget.name: widget for segment in self.segments for widget in segment.widgets}

    @abstractmethod
    def _body(self) -> dict[str, Any]:
        """Return the body; see ``dashboard_body``."""


def text(name: str, markdown: str, *, width: int = GRID_COLUMNS, height: int = 2) -> Widget:
    """Return a widget with Markdown text."""
    return Widget(name, "text", {"markdown": markdown}, width, height)


def arranged(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Lay out segments from top to bottom and widgets from left to right; refuse more than CloudWatch shows."""
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
            if widget.name in names:
                raise ValueError(f"the dashboard already has a widget {widget.name!r}: names must be unique")
            names.add(widget.name)
            if not 1 <= widget.width <= GRID_COLUMNS:
                raise ValueError(
                    f"the widget {widget.name!r} is {widget.width} columns wide, and the maximum is {GRID_COLUMNS}"
                )
            if x + widget.width > GRID_COLUMNS:
                x, top, row_height = 0, top + row_height, 0
            arranged_widgets.append(widget.to_json(x=x, y=top))
            x, row_height = x + widget.width, max(row_height, widget.height)
        top += row_height
    for excess in excesses_of_widgets(arranged_widgets):
        raise ValueError(refusal(excess, {}))
    return arranged_widgets


def dashboard_body(
    segments: Iterable[Segment], names: Mapping[str, str], texts: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the body of an ``AWS::CloudWatch::Dashboard``, as ``Fn::Sub``.

    ``names`` maps tokens to the names of placeholders; other tokens are numbered. ``texts`` maps texts that change with
    a recipe to names, so that a diff shows these texts instead of the whole body.
    """
    widgets = arranged(segments)
    for widget in widgets:
        if "metrics" in widget["properties"]:
            widget["properties"] = {**widget["properties"], "metrics": short_rows(widget["properties"]["metrics"])}
    body = {"start": _START, "periodOverride": "auto", "widgets": widgets}
    return _substituted(json.dumps(body, separators=(",", ":")), names, texts or {})


def short_rows(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return a graph's ``metrics`` shortened like CloudWatch's editor: a dot repeats the value above it.

    A template is limited to 1 MB, and most of a dashboard consists of names and dimensions that its rows share. Only
    consecutive rows of the same length are shortened, not expressions or rows that a user shortened with three dots.
    """
    short: list[list[Any]] = []
    above: Sequence[Any] = ()
    for row in rows:
        plain = row if row and "..." not in row and isinstance(row[0], str) else ()
        pairs = zip(plain, above, strict=True) if len(plain) == len(above) else ()
        short.append(["." if isinstance(part, str) and part == before else part for part, before in pairs] or [*row])
        above = plain
    return short


def _substituted(text: str, names: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return JSON as ``Fn::Sub``, with a named placeholder for each token and each of ``texts``."""
    pseudo = {
        PSEUDO.account: "AWS::AccountId",
        PSEUDO.partition: "AWS::Partition",
        PSEUDO.region: "AWS::Region",
        PSEUDO.stack_id: "AWS::StackId",
    }
    variables: dict[str, str] = {}
    written = {json.dumps(known)[1:-1]: name for known, name in texts.items() if known}
    # Longer texts first, because a text may begin with another one.
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
