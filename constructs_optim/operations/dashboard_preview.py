"""Dashboards of a synthesized app as they will be, before anything is deployed: read from its templates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constructs_optim.templates.json_values import as_object
from constructs_optim.templates.references import Reference, readable_id, references
from constructs_optim.templates.resource_types import DASHBOARD
from constructs_optim.templates.template import Template
from constructs_optim.templates.text import TextRenderer

_PSEUDO_PARAMETERS = {
    "AWS::AccountId": "111122223333",
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::StackName": "stack",
    "AWS::StackId": "stack",
    "AWS::URLSuffix": "amazonaws.com",
}


class PreviewError(ValueError):
    """There is nothing to preview, or it cannot be read: the text says what, and what would work."""


@dataclass(frozen=True)
class DashboardPreview:
    """A dashboard of a template, with readable names where a deployment's will stand.

    Attributes:
        stack: the template's name.
        logical_id: the dashboard's logical id in it.
        start: how far it looks back, as ``-PT3H``.
        widgets: its widgets, as a dashboard's body holds them.
        placeholders: what each placeholder stands for here.
    """

    stack: str
    logical_id: str
    start: str
    widgets: tuple[dict[str, Any], ...]
    placeholders: Mapping[str, str]

    @property
    def name(self) -> str:
        """For files: stack and logical id without its hash."""
        return f"{self.stack}-{readable_id(self.logical_id)}"


def dashboards_of(
    assembly: Path, *, stack: str | None = None, dashboard: str | None = None, values: Mapping[str, str] | None = None
) -> list[DashboardPreview]:
    """The dashboards of a synthesized app, those of nested assemblies and stacks included.

    Args:
        assembly: the folder that ``cdk synth`` wrote.
        stack: only that stack's. Default: all.
        dashboard: only that one, by its logical id, with or without the hash. Default: all.
        values: the values of placeholders. Default: names made of logical ids.

    Raises:
        PreviewError: where there is no app or no such dashboard, or a template that cannot be read.
    """
    templates = sorted(assembly.glob("**/*.template.json")) if assembly.is_dir() else []
    if not templates:
        raise PreviewError(f"{assembly} has no synthesized templates: run `cdk synth` first, or name its output folder")
    found = [one for path in templates for one in _of_template(path, dict(values or {}))]
    if not found:
        raise PreviewError(f"the templates of {assembly} have no dashboard ({DASHBOARD})")
    chosen = [
        one
        for one in found
        if stack in (None, one.stack) and dashboard in (None, one.logical_id, readable_id(one.logical_id))
    ]
    if not chosen:
        there = ", ".join(f"{one.stack} {one.logical_id}" for one in found)
        raise PreviewError(f"there is no such dashboard in {assembly}; there are: {there}")
    return chosen


def _of_template(path: Path, values: Mapping[str, str]) -> Iterator[DashboardPreview]:
    try:
        template = Template(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise PreviewError(f"{path} is no template: {error}") from None
    stack = path.name.removesuffix(".template.json").removesuffix(".nested")
    for resource in template.of_type(DASHBOARD):
        names = _ReadableNames(template, values)
        try:
            body = json.loads(names.text(resource.properties["DashboardBody"]))
        except ValueError as error:
            raise PreviewError(f"the body of {stack} {resource.logical_id} is no JSON: {error}") from None
        widgets = tuple(_positioned(body.get("widgets", [])))
        yield DashboardPreview(stack, resource.logical_id, body.get("start", "-PT3H"), widgets, names.used)


class _ReadableNames(TextRenderer):
    """Writes a readable name for what only a deployment knows, and records each."""

    def __init__(self, template: Template, values: Mapping[str, str]) -> None:
        self._parameters, self._values = template.section("Parameters"), values
        self.used: dict[str, str] = {}

    def reference(self, reference: Reference) -> str:
        """The value that was given for it, or a name made of its logical id."""
        name = reference.target
        default = as_object(self._parameters.get(name)).get("Default")
        text = str(self._values.get(name) or _PSEUDO_PARAMETERS.get(name) or default or readable_id(name))
        self.used.setdefault(name, text)
        return text

    def variable(self, name: str, value: Any) -> str:
        """The value that was given for it, or its own."""
        self.used[name] = self._values.get(name) or self.text(value)
        return self.used[name]

    def imported(self, name: Any) -> str:
        """The export without the stack before it."""
        return self.text(name).rpartition(":")[2]

    def data(self, value: Any) -> str:
        """The name of what a function such as ``Fn::Select`` takes its value from."""
        named = (one for one in references(value, pseudo_parameters=True) if not one.target.startswith("Mappings."))
        reference = next(named, None)
        return self.reference(reference) if reference is not None else "unknown"


def _positioned(widgets: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Widgets with position and size: CloudWatch puts one without a position beside or below the one before."""
    x = y = row = 0
    for widget in widgets:
        width, height = widget.get("width", 6), widget.get("height", 6)
        if "x" in widget or "y" in widget:
            x, y = widget.get("x", 0), widget.get("y", 0)
        elif x + width > 24:
            x, y, row = 0, y + row, 0
        yield {**widget, "x": x, "y": y, "width": width, "height": height}
        x, row = x + width, max(row, height)
