"""Dashboards of a synthesized app as they will be, before anything is deployed: read from its templates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TYPE = "AWS::CloudWatch::Dashboard"
_PLACEHOLDER = re.compile(r"\$\{(!?)([A-Za-z0-9:._]+)\}")
# The CDK ends logical ids with eight digits of a hash.
_HASH = re.compile(r"[0-9A-F]{8}$")
_PSEUDO = {
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
        return f"{self.stack}-{_HASH.sub('', self.logical_id)}"


def dashboards_of(
    assembly: Path, *, stack: str | None = None, dashboard: str | None = None, values: Mapping[str, str] | None = None
) -> list[DashboardPreview]:
    """The dashboards of a synthesized app, those of nested assemblies and stacks included.

    Args:
        assembly: the folder that ``cdk synth`` wrote.
        stack: only that stack's. Default: all.
        dashboard: only that one, by its logical id, with or without the hash. Default: all.
        values: what to put in the place of placeholders. Default: names made of logical ids.

    Raises:
        PreviewError: where there is no app or no such dashboard, or a template that cannot be read.
    """
    templates = sorted(assembly.glob("**/*.template.json")) if assembly.is_dir() else []
    if not templates:
        raise PreviewError(f"{assembly} has no synthesized templates: run `cdk synth` first, or name its output folder")
    found = [one for path in templates for one in _of_template(path, dict(values or {}))]
    if not found:
        raise PreviewError(f"the templates of {assembly} have no dashboard ({_TYPE})")
    chosen = [
        one
        for one in found
        if stack in (None, one.stack) and dashboard in (None, one.logical_id, _HASH.sub("", one.logical_id))
    ]
    if not chosen:
        there = ", ".join(f"{one.stack} {one.logical_id}" for one in found)
        raise PreviewError(f"there is no such dashboard in {assembly}; there are: {there}")
    return chosen


def _of_template(path: Path, values: Mapping[str, str]) -> Iterator[DashboardPreview]:
    try:
        template = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PreviewError(f"{path} is no template: {error}") from None
    stack = path.name.removesuffix(".template.json").removesuffix(".nested")
    for logical_id, resource in template.get("Resources", {}).items():
        if resource.get("Type") != _TYPE:
            continue
        names = _Names(template, values)
        text = names.text(resource["Properties"]["DashboardBody"])
        try:
            body = json.loads(text)
        except ValueError as error:
            raise PreviewError(f"the body of {stack} {logical_id} is no JSON: {error}") from None
        yield DashboardPreview(
            stack, logical_id, body.get("start", "-PT3H"), tuple(_placed(body.get("widgets", []))), names.used
        )


class _Names:
    """Puts readable names in the place of what only a deployment knows."""

    def __init__(self, template: Mapping[str, Any], values: Mapping[str, str]) -> None:
        self._parameters = template.get("Parameters", {})
        self._values = values
        self.used: dict[str, str] = {}

    def text(self, value: Any) -> str:
        """A template's value as text, after its intrinsic functions."""
        match value:
            case str():
                return value
            case {"Ref": name} | {"Fn::GetAtt": [name, *_]}:
                return self._named(str(name))
            case {"Fn::Sub": [pattern, variables]}:
                return self._substituted(str(pattern), variables)
            case {"Fn::Sub": pattern}:
                return self._substituted(str(pattern), {})
            case {"Fn::Join": [separator, parts]}:
                return str(separator).join(self.text(part) for part in parts)
            case {"Fn::ImportValue": inner}:
                return self.text(inner).rpartition(":")[2]
            case dict() | list():
                reference = next(_references(value), None)
                return self.text(reference) if reference is not None else "unknown"
            case _:
                return str(value)

    def _substituted(self, pattern: str, variables: Mapping[str, Any]) -> str:
        def one(found: re.Match[str]) -> str:
            escaped, name = found.groups()
            if escaped:
                return f"${{{name}}}"
            if name in variables:
                self.used[name] = self._values.get(name) or self.text(variables[name])
                return self.used[name]
            return self._named(name.partition(".")[0])

        # Other escapes than of names, such as labels with functions: ${!PROP('Dim.X')}.
        return _PLACEHOLDER.sub(one, pattern).replace("${!", "${")

    def _named(self, name: str) -> str:
        default = self._parameters.get(name, {}).get("Default")
        named = self._values.get(name) or _PSEUDO.get(name) or default or _HASH.sub("", name)
        self.used.setdefault(name, str(named))
        return str(named)


def _references(value: Any) -> Iterator[dict[str, Any]]:
    """What a function such as Fn::Select refers to."""
    if isinstance(value, dict) and ("Ref" in value or "Fn::GetAtt" in value):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _references(part)


def _placed(widgets: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Widgets with all of their place: CloudWatch puts one without it beside or below the one before."""
    x = y = row = 0
    for widget in widgets:
        width, height = widget.get("width", 6), widget.get("height", 6)
        if "x" in widget or "y" in widget:
            x, y = widget.get("x", 0), widget.get("y", 0)
        elif x + width > 24:
            x, y, row = 0, y + row, 0
        yield {**widget, "x": x, "y": y, "width": width, "height": height}
        x, row = x + width, max(row, height)
