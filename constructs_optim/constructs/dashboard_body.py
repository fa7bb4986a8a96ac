"""A dashboard's body as one string with placeholders: in a template and its diff it reads like the dashboard it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .dashboard_widget import Segment, arranged
from .stack_facts import PSEUDO, TOKEN

_START = "-PT3H"


def dashboard_body(segments: Iterable[Segment], names: Mapping[str, str]) -> dict[str, Any]:
    """The body of an ``AWS::CloudWatch::Dashboard``, as ``Fn::Sub``.

    Graphs are drawn at the period that suits the time range the viewer chose.

    Args:
        segments: what it shows, from top to bottom.
        names: what a placeholder is called, by the token that stands in it; others are numbered.

    Raises:
        ValueError: for more than CloudWatch shows, or two widgets of one name.
    """
    body = {"start": _START, "periodOverride": "auto", "widgets": arranged(segments)}
    return substituted(json.dumps(body, separators=(",", ":")), names)


def substituted(text: str, names: Mapping[str, str]) -> dict[str, Any]:
    """``text`` with a named placeholder for each token in it, as ``Fn::Sub``."""
    pseudo = {PSEUDO.region: "AWS::Region", PSEUDO.stack_id: "AWS::StackId"}
    variables: dict[str, str] = {}

    def placeholder(token: str) -> str:
        if token in pseudo:
            return f"${{{pseudo[token]}}}"
        name = names.get(token) or f"Value{len(variables) + 1}"
        variables[name] = token
        return f"${{{name}}}"

    parts: list[str] = []
    end = 0
    for found in TOKEN.finditer(text):
        parts += [text[end : found.start()].replace("${", "${!"), placeholder(found[0])]
        end = found.end()
    parts.append(text[end:].replace("${", "${!"))
    template = "".join(parts)
    return {"Fn::Sub": [template, variables] if variables else template}
