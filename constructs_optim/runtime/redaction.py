"""Redacts secrets in logs, traces, and stack events by name, by value in the event, and by pattern."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeGuard
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
    r"response_?url|wait_?handle|passw(?:or)?d|passphrase|secret|credential|authori[sz]ation|signature"
    r"|token(?!s|iz)|(?:api|access|private)[-_]?key",
    re.IGNORECASE,
)
# Names that are secrets' only among environment variables: a recipe key, for example, is none.
_SECRET_VARIABLE = re.compile(r"(?:^|_)(?:auth|key|pass|pat|pwd)$", re.IGNORECASE)
_ENVIRONMENT = re.compile(r"environment", re.IGNORECASE)
# Shorter values are hidden only by name: they would match parts of artifact keys.
_SHORTEST_SECRET, _LONGEST_NUMBER = 6, 11

# Every repetition that can end without a match has a bound, or starts only where the characters before it end: the time
# is proportional to the text's length. Matching the beginning of a secret's name as well would take quadratic time.
_STRONG = r"(?:passw(?:or)?d|passphrase|secret|(?:api|access|private)[-_]?key)[\w.-]{0,40}"
_SCHEME = "(?:basic|bearer|digest|negotiate|token|apikey|aws4-hmac-sha256)"
_QUOTE = r"""\\{0,7}["']?"""
_NAME = rf"(?:{_STRONG}|(?:credential|signature|token(?!s|iz))[\w.-]{{0,40}})"


class _Shape(NamedTuple):
    """What a secret looks like in text, and what remains of it."""

    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str] = HIDDEN


def _shape(pattern: str, replacement: str | Callable[[re.Match[str]], str] = HIDDEN, flags: int = 0) -> _Shape:
    return _Shape(re.compile(pattern, flags), replacement)


_USER = re.compile(r"://[^\s/?@]+@")


def _public_url(match: re.Match[str]) -> str:
    """Return a URL without user information and query, which holds the signature of a pre-signed URL."""
    address, query, _ = match[0].partition("?")
    return _USER.sub(f"://{HIDDEN}@", address) + (f"?{HIDDEN}" if query else "")


def _random_as_hidden(match: re.Match[str]) -> str:
    return HIDDEN if _is_random(match[0]) else match[0]


# Names of models and buckets have hyphens or slashes.
_UNBROKEN = re.compile(r"[A-Za-z0-9+=]{20,}")
_LONG_WORD = re.compile(r"[a-z]{7}")


def _is_random(text: str) -> bool:
    """Return whether text looks random: upper case, lower case and digits, and no words or paths."""
    kinds = [any(map(test, text)) for test in (str.islower, str.isupper, str.isdecimal)]
    return all(kinds) and not _LONG_WORD.search(text) and text.count("/") <= 3


SHAPES: dict[str, _Shape] = {
    "private key": _shape(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^-]*(?:-(?!-)[^-]*)*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"
    ),
    "URL": _shape(r"""\b[a-z][a-z0-9+.-]{0,20}://[^\s"'<>\\]*""", _public_url, re.IGNORECASE),
    "authorization": _shape(
        rf"""(authorization{_QUOTE}\s{{0,4}}[:=]\s{{0,4}}{_QUOTE}(?:{_SCHEME}\s{{1,4}})?)"""
        r"""[^\s"',;\\]+(?: [\w.~+/=-]{16,})?""",
        rf"\1{HIDDEN}",
        re.IGNORECASE,
    ),
    # As in queries, shells, and AWS's messages.
    "name=value": _shape(rf"""({_NAME}=)[^\s"'&,;}}\]]+""", rf"\1{HIDDEN}", re.IGNORECASE),
    # As in JSON and Python, and in JSON inside of JSON, whose quotes are escaped.
    "quoted value": _shape(
        rf"""({_NAME}{_QUOTE}\s{{0,9}}[:=]\s{{0,9}})(\\{{0,7}}["']).*?(?<!\\)\2""",
        rf"\1\2{HIDDEN}\2",
        re.IGNORECASE,
    ),
    # As in headers and YAML. Words about tokens are ordinary, so their values must have a digit.
    "name: value": _shape(
        rf"""({_STRONG}["']?:\s{{0,9}})(?!["'\\\s])[^\s"',;}}\]]{{4,}}""", rf"\1{HIDDEN}", re.IGNORECASE
    ),
    "token: value": _shape(
        rf"""({_NAME}["']?:\s{{0,9}})(?=[^\s\d]{{0,80}}\d)(?!\d{{1,11}}\b)[^\s"',;}}\]]{{8,}}""",
        rf"\1{HIDDEN}",
        re.IGNORECASE,
    ),
    "--option value": _shape(rf"""(--[\w-]{{0,30}}{_NAME}\s{{1,9}})(?!-)[^\s"']+""", rf"\1{HIDDEN}", re.IGNORECASE),
    "bearer": _shape(r"\b(bearer\s{1,9})[\w.~+/=-]+", rf"\1{HIDDEN}", re.IGNORECASE),
    # sagemaker-core's token generator, and Bedrock's of the same form.
    "AWS bearer token": _shape(r"\b(?:sagemaker|bedrock)-api-key-[\w.~+/=-]+"),
    "AWS access key ID": _shape(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "AWS secret access key": _shape(r"(?<![\w/+=.-])[A-Za-z0-9/+]{40}(?![\w/+=.-])", _random_as_hidden),
    # GitHub's documentation, "About authentication to GitHub": token formats.
    "GitHub": _shape(r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,})"),
    "GitLab": _shape(r"\bglpat-[\w-]{16,}"),
    "Slack": _shape(r"\bxox[abeprs]-[\w-]{10,}"),
    "Hugging Face": _shape(r"\b(?:hf|api_org)_[A-Za-z0-9]{8,}"),
    "sk-": _shape(r"(?<![\w-])[sr]k[-_][\w-]{16,}"),
    "Google": _shape(r"\bAIza[\w-]{30,}"),
    "npm and PyPI": _shape(r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,})"),
    # RFC 7519: three parts in base64url, of which the first begins with {".
    "JSON Web Token": _shape(r"(?<![\w-])eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*"),
}
"""What secrets look like. The tests have examples of each, and of text that looks similar."""
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
        return _without_shapes(str(value), _NOT_IN_IDENTIFIERS) if name in IDENTIFIERS else self.text(str(value))


def _without_shapes(text: str, excluded: frozenset[str] = frozenset()) -> str:
    for name, (pattern, replacement) in SHAPES.items():
        if name not in excluded:
            text = pattern.sub(replacement, text)
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
                is_secret=is_secret or any(_is_secret_name(each, is_variable=in_environment) for each in names),
                in_environment=in_environment or bool(_ENVIRONMENT.search(str(name))),
            )
    elif _is_sequence(value):
        for item in value:
            yield from _secrets(item, is_secret=is_secret, in_environment=in_environment)
    elif isinstance(value, str) and len(value) >= _SHORTEST_SECRET and value != os.environ.get("AWS_REGION"):
        is_short_number = value.isdecimal() and len(value) <= _LONGEST_NUMBER
        if not is_short_number and (is_secret or (in_environment and _UNBROKEN.fullmatch(value) and _is_random(value))):
            yield value


def _is_secret_name(name: str, *, is_variable: bool) -> bool:
    return bool(_SECRET_NAME.search(name) or (is_variable and _SECRET_VARIABLE.search(name)))


def _quoted(secret: str) -> set[str]:
    """Return the forms of ``secret``: as plain text, in nested JSON and Python literals, and URL-encoded."""
    forms = {secret}
    for _ in range(3):
        forms |= {quoted[1:-1] for form in forms for quoted in (json.dumps(form), repr(form))}
    encoded = secret.encode("utf-8", "surrogatepass")
    return forms | {quote(encoded), quote_plus(encoded)}


def _is_sequence(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, list | tuple | set | frozenset)
