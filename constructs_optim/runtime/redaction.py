"""Redacts secrets in logs, traces, and stack events by name, by value in the event, and by pattern."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard
from urllib.parse import quote, quote_plus

from .documents import is_object
from .secret_shapes import HIDDEN, SHAPES, is_name_of_secret, is_random_value, is_reference, is_secret_by_name

IDENTIFIERS = frozenset({
    "artifact_key", "function_arn", "function_name", "function_request_id", "job_name", "level", "location",
    "logical_id", "model_name", "request_id", "service", "stack_id", "timestamp", "xray_trace_id",
})  # fmt: skip
"""Fields for queries, in which the event's values are not hidden: an environment may contain the Region."""

_ENVIRONMENT = re.compile(r"environment", re.IGNORECASE)
# Shorter values are hidden only by name: they would match parts of artifact keys.
_SHORTEST_SECRET, _LONGEST_NUMBER = 6, 11

# In fields that name resources, text of random letters is a name.
_NOT_IN_IDENTIFIERS = frozenset({"AWS secret access key"})


class Redactor:
    """Redacts the secrets of one invocation at a time."""

    def __init__(self) -> None:
        self._known: list[str] = []

    def learn(self, event: object) -> None:
        """Replace the known secrets with those of ``event`` and of this process."""
        credentials = {name: os.environ.get(name) for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")}
        forms = {form for secret in _secrets([event, credentials]) for form in _quoted(secret)}
        # Longest first, because a secret may contain another.
        self._known = sorted(forms, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return ``text`` without secrets."""
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        return _without_shapes(text)

    def value(self, value: object, *, name: str = "") -> object:
        """Return ``value`` without secrets, as a JSON value."""
        if value is not None and _may_be_secret(name, value):
            return HIDDEN
        if value is None or isinstance(value, bool | int | float):
            return value
        if is_object(value):
            if _ENVIRONMENT.search(name):
                return {str(key): HIDDEN for key in value}
            return {str(self.value(str(key))): self.value(item, name=str(key)) for key, item in value.items()}
        if _is_sequence(value):
            return [self.value(item) for item in value]
        return _without_shapes(str(value), _NOT_IN_IDENTIFIERS) if name in IDENTIFIERS else self.text(str(value))


def _without_shapes(text: str, excluded: frozenset[str] = frozenset()) -> str:
    for name, shape in SHAPES.items():
        if name not in excluded:
            text = shape.hidden_in(text)
    return text


def _secrets(value: object, *, is_secret: bool = False, in_environment: bool = False) -> Iterator[str]:
    """Yield the secrets in an event: values whose name is a secret's, and random text in an environment.

    Other settings of an environment are what messages are about: the ID of a model, or the name of a bucket.
    """
    if is_object(value):
        # Variables may be listed: {"Name": "HF_TOKEN", "Value": "..."}.
        label = str(value.get("Name", value.get("name", ""))) if in_environment else ""
        for name, item in value.items():
            names = [str(name), *([label] if name not in ("Name", "name") else [])]
            yield from _secrets(
                item,
                is_secret=is_secret or any(_may_be_secret(each, item, is_variable=in_environment) for each in names),
                in_environment=in_environment or bool(_ENVIRONMENT.search(str(name))),
            )
    elif _is_sequence(value):
        for item in value:
            yield from _secrets(item, is_secret=is_secret, in_environment=in_environment)
    elif isinstance(value, str) and len(value) >= _SHORTEST_SECRET and value != os.environ.get("AWS_REGION"):
        is_short_number = value.isdecimal() and len(value) <= _LONGEST_NUMBER
        # The ARN of a secret is what errors are about.
        is_arn = value.startswith("arn:") and is_reference(value)
        if not is_short_number and not is_arn and (is_secret or (in_environment and is_random_value(value))):
            yield value


def _may_be_secret(name: str, value: object, *, is_variable: bool = False) -> bool:
    """Return whether a value may be a secret, or contain one, by its name, and by itself if it is text."""
    if isinstance(value, str):
        return is_secret_by_name(name, value, is_variable=is_variable)
    return is_name_of_secret(name, is_variable=is_variable)


def _quoted(secret: str) -> set[str]:
    """Return the forms of ``secret``: as plain text, in nested JSON and Python literals, and URL-encoded."""
    forms = {secret}
    for _ in range(3):
        forms |= {quoted[1:-1] for form in forms for quoted in (json.dumps(form), repr(form))}
    encoded = secret.encode("utf-8", "surrogatepass")
    return forms | {quote(encoded), quote_plus(encoded)}


def _is_sequence(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, list | tuple | set | frozenset)
