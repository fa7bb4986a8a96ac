"""Redacts secrets in logs, traces, and stack events by name, by value in the event, and by pattern."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard
from urllib.parse import quote, quote_plus

from .documents import is_object

HIDDEN = "***"
"""The replacement for a secret."""

IDENTIFIERS = frozenset({
    "artifact_key", "function_arn", "function_name", "function_request_id", "job_name", "level", "location",
    "logical_id", "model_name", "request_id", "service", "stack_id", "timestamp", "xray_trace_id",
})  # fmt: skip
"""Fields for queries, in which the event's values are not hidden: an environment may contain the Region."""

_SECRET_NAME = re.compile(
    r"response_?url|wait_?handle|passw(?:or)?d|secret|credential|authori[sz]ation|signature"
    r"|token(?!s|iz)|(?:api|access|private)[-_]?key",
    re.IGNORECASE,
)
_ENVIRONMENT = re.compile(r"environment", re.IGNORECASE)
# Shorter values are hidden only by name: they would match parts of artifact keys.
_SHORTEST_SECRET, _SHORTEST_SETTING, _LONGEST_NUMBER = 6, 8, 11

# Matches the end of a secret's name: matching its beginning as well would take quadratic time.
_NAME = r"(?:passw(?:or)?d|secret|credential|signature|token(?!s|iz)|(?:api|access|private)[-_]?key)[\w.-]*"
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    # A URL's query, which holds the signature of a pre-signed URL, and its user information.
    (re.compile(r"""(\b[a-z][a-z0-9+.-]{0,20}://[^\s?"'<>\\]*)\?[^\s"'<>\\]*""", re.IGNORECASE), rf"\1?{HIDDEN}"),
    (re.compile(r"""(\b[a-z][a-z0-9+.-]{0,20}://)[^\s/?@"'<>\\]+@""", re.IGNORECASE), rf"\1{HIDDEN}@"),
    # NAME=value, as in queries, shells, and AWS's messages; "NAME": "value", as in JSON and Python.
    (re.compile(rf"""({_NAME}=)[^\s"'&,;}}\]]+""", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"""({_NAME}["']\s*:\s*)(["']).*?\2""", re.IGNORECASE), rf"\1\2{HIDDEN}\2"),
    (re.compile(r"\b(bearer\s+)[\w.~+/=-]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), HIDDEN),
)


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
        if value is not None and _SECRET_NAME.search(name):
            return HIDDEN
        if value is None or isinstance(value, bool | int | float):
            return value
        if is_object(value):
            if _ENVIRONMENT.search(name):
                return {str(key): HIDDEN for key in value}
            return {str(self.value(str(key))): self.value(item, name=str(key)) for key, item in value.items()}
        if _is_sequence(value):
            return [self.value(item) for item in value]
        return _without_shapes(str(value)) if name in IDENTIFIERS else self.text(str(value))


def _without_shapes(text: str) -> str:
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text


def _secrets(value: object, shortest: int = 0) -> Iterator[str]:
    """Yield the secrets and environment settings in an event that have at least ``shortest`` characters."""
    if is_object(value):
        for name, item in value.items():
            if _SECRET_NAME.search(str(name)) or shortest == _SHORTEST_SECRET:
                yield from _secrets(item, _SHORTEST_SECRET)
            else:
                yield from _secrets(item, _SHORTEST_SETTING if _ENVIRONMENT.search(str(name)) else shortest)
    elif _is_sequence(value):
        for item in value:
            yield from _secrets(item, shortest)
    elif isinstance(value, str) and 0 < shortest <= len(value) and value != os.environ.get("AWS_REGION"):
        yield from () if value.isdecimal() and len(value) <= _LONGEST_NUMBER else (value,)


def _quoted(secret: str) -> set[str]:
    """Return the forms of ``secret``: as plain text, in nested JSON and Python literals, and URL-encoded."""
    forms = {secret}
    for _ in range(3):
        forms |= {quoted[1:-1] for form in forms for quoted in (json.dumps(form), repr(form))}
    encoded = secret.encode("utf-8", "surrogatepass")
    return forms | {quote(encoded), quote_plus(encoded)}


def _is_sequence(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, list | tuple | set | frozenset)
