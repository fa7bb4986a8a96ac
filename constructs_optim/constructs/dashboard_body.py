"""A dashboard's body as one string with placeholders: in a template and its diff it reads like the dashboard it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache

from aws_cdk import Aws, Fn

from .dashboard_widget import Segment, arranged

# How the CDK writes a token in text (aws-cdk-lib/core/lib/private/encoding.ts).
_TOKEN = re.compile(r"\$\{Token\[[a-zA-Z0-9:._-]+\]\}")
_START = "-PT3H"


@cache
def pseudo_parameters() -> dict[str, str]:
    """The tokens of CloudFormation's own parameters, by what they are called in a template; the same in all apps."""
    return {"AWS::Region": Aws.REGION, "AWS::StackId": Aws.STACK_ID}


def region() -> str:
    """The region a dashboard's stack is deployed in (a token): a template deployed elsewhere shows what is there."""
    return pseudo_parameters()["AWS::Region"]


def dashboard_body(segments: Iterable[Segment], names: Mapping[str, str]) -> str:
    """The body of an ``AWS::CloudWatch::Dashboard`` (a token).

    Graphs are drawn at the period that suits the time range the viewer chose.

    Args:
        segments: what it shows, from top to bottom.
        names: what a placeholder is called, by the token that stands in it; others are numbered.

    Raises:
        ValueError: for more than CloudWatch shows, or two widgets of one name.
    """
    body = {"start": _START, "periodOverride": "auto", "widgets": arranged(segments)}
    return substituted(json.dumps(body, separators=(",", ":")), names)


def substituted(text: str, names: Mapping[str, str]) -> str:
    """``text`` with a named placeholder for each token in it."""
    pseudo = {token: name for name, token in pseudo_parameters().items()}
    variables: dict[str, str] = {}

    def placeholder(token: str) -> str:
        if token in pseudo:
            return f"${{{pseudo[token]}}}"
        name = names.get(token) or f"Value{len(variables) + 1}"
        variables[name] = token
        return f"${{{name}}}"

    parts: list[str] = []
    end = 0
    for found in _TOKEN.finditer(text):
        parts += [text[end : found.start()].replace("${", "${!"), placeholder(found[0])]
        end = found.end()
    parts.append(text[end:].replace("${", "${!"))
    return Fn.sub("".join(parts), variables or None)
