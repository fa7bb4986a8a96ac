"""Limits of the services on a template's resources, which ministack lacks. ``policies.py`` has those of policies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from constructs_optim_local.cloudformation.limits import most

from .policies import handler_message, limit_resource

Properties = dict[str, Any]
# A service's own message for a member of a request that is too long.
_TOO_LONG = (
    "1 validation error detected: Value at '{}' failed to satisfy constraint: Member must have length less than or "
    "equal to {}"
)


def limit_resources() -> None:
    """Fail the resources that exceed a limit. Called once, before the first request."""
    for type_name, words in _REFUSED.items():

        def refused(
            physical_id: str, old: Properties, new: Properties, words: Callable[[Properties], Iterator[str]] = words
        ) -> str:
            return next(words(new), "")

        limit_resource(type_name, refused)


def _key(properties: Properties) -> Iterator[str]:
    """Yield KMS's refusal. Its API reference documents the error for PutKeyPolicy; the message is assumed."""
    if len(_text(properties.get("KeyPolicy", {})).encode()) > most("key policy"):
        yield handler_message("Kms", "The key policy exceeds the maximum size.", "ServiceLimitExceeded", 400)


def _dashboard(properties: Properties) -> Iterator[str]:
    """Yield CloudWatch's refusals. The form is that of other invalid bodies; the messages are assumed."""
    body = properties.get("DashboardBody", {})
    try:
        widgets = (json.loads(body) if isinstance(body, str) else body).get("widgets", [])
    except ValueError:
        return
    rows = [widget.get("properties", {}).get("metrics", []) for widget in widgets]
    # Expressions are not metrics.
    metrics = [sum(not (row and isinstance(row[0], dict)) for row in graph) for graph in rows]
    for name, number in (
        ("dashboard widgets", len(widgets)),
        ("metrics of a widget", max(metrics, default=0)),
        ("metrics of a dashboard", sum(metrics)),
    ):
        if number > most(name):
            words = f"The dashboard body is invalid: {name}, {number}, exceed the maximum of {most(name)}"
            yield handler_message("CloudWatch", words, "InvalidRequest", 400)


def _alarm(properties: Properties) -> Iterator[str]:
    longest = most("alarm description")
    if len(str(properties.get("AlarmDescription", ""))) > longest:
        yield handler_message("CloudWatch", _TOO_LONG.format("alarmDescription", longest), "InvalidRequest", 400)


def _function(properties: Properties) -> Iterator[str]:
    """Yield Lambda's refusal.

    Source of the message: https://github.com/github-aws-runners/terraform-aws-github-runner/issues/3594.
    """
    variables = _text(properties.get("Environment", {}).get("Variables", {}))
    if len(variables.encode()) > most("function environment"):
        words = (
            "Lambda was unable to configure your environment variables because the environment variables you have "
            f"provided exceeded the 4KB limit. String measured: {variables}"
        )
        yield handler_message("Lambda", words, "InvalidRequest", 400)


def _role(properties: Properties) -> Iterator[str]:
    """Yield IAM's refusals of tags. Their form is that of other members which are too long."""
    tags = [tag for tag in properties.get("Tags", []) if isinstance(tag, dict)]
    if len(tags) > most("tags"):
        yield handler_message("Iam", _TOO_LONG.format("tags", most("tags")), "InvalidRequest", 400)
    for number, tag in enumerate(tags, 1):
        for member in ("Key", "Value"):
            longest = most(f"tag {member.lower()}")
            if len(str(tag.get(member, ""))) > longest:
                place = f"tags.{number}.member.{member.lower()}"
                yield handler_message("Iam", _TOO_LONG.format(place, longest), "InvalidRequest", 400)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_REFUSED: Mapping[str, Callable[[Properties], Iterator[str]]] = {
    "AWS::CloudWatch::Alarm": _alarm,
    "AWS::CloudWatch::Dashboard": _dashboard,
    "AWS::IAM::Role": _role,
    "AWS::KMS::Key": _key,
    "AWS::Lambda::Function": _function,
}
