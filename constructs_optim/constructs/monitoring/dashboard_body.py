"""A dashboard's body as one string with placeholders: in a template and its diff it reads like the dashboard it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from constructs_optim.constructs.stack.stack_facts import PSEUDO, TOKEN

from .dashboard_widget import Segment, arranged

_START = "-PT3H"


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
    return substituted(json.dumps(body, separators=(",", ":")), names, texts or {})


def _shortened(widget: dict[str, Any]) -> dict[str, Any]:
    rows = widget["properties"].get("metrics")
    if rows is None:
        return widget
    return {**widget, "properties": {**widget["properties"], "metrics": short_rows(rows)}}


def short_rows(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """A graph's ``metrics`` as CloudWatch's own editor writes them: a dot is what the row above has in that place.

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
                "." if alike and isinstance(part, str) and part == above[place] else part
                for place, part in enumerate(row)
            ]
        )
        above = row if isinstance(row[0], str) else ()
    return short


def substituted(text: str, names: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
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
    for found in replaced.finditer(text):
        parts += [text[end : found.start()].replace("${", "${!"), placeholder(found[0])]
        end = found.end()
    parts.append(text[end:].replace("${", "${!"))
    template = "".join(parts)
    return {"Fn::Sub": [template, variables] if variables else template}
