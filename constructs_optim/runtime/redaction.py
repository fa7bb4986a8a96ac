"""What is kept out of logs, traces and stack events: credentials, tokens, pre-signed URLs, containers' environments.

Three nets, because none holds alone. A value under a secret's name is hidden whatever it is. The secrets of the event
at hand are known, so they are hidden wherever they turn up, in the text of an exception as well. And what looks like a
secret is hidden wherever it came from.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeGuard
from urllib.parse import parse_qsl, urlsplit

HIDDEN = "***"
"""What stands in a secret's place."""

IDENTIFIERS = frozenset(
    {
        "artifact_key",
        "function_arn",
        "function_name",
        "function_request_id",
        "job_name",
        "level",
        "location",
        "logical_id",
        "model_name",
        "request_id",
        "service",
        "stack_id",
        "timestamp",
        "xray_trace_id",
    }
)
"""Fields that lines are found by. A known secret is not looked for in them: a container may well be told its region."""

_SECRET_NAME = re.compile(
    r"response_?url|wait_?handle|passw(?:or)?d|secret|credential|authori[sz]ation|signature"
    r"|token(?!s|iz)|(?:api|access|private)[-_]?key",
    re.IGNORECASE,
)
_ENVIRONMENT = re.compile(r"environment", re.IGNORECASE)

# Shorter values are hidden under their name only: looked for in texts, they would be found in every artifact key.
_SHORTEST_SECRET = 6
_SHORTEST_SETTING = 8
_LONGEST_NUMBER = 11

_LONG = 200
_LETTERS = frozenset(string.ascii_letters + string.digits)
_IN_URLS = _LETTERS | frozenset("-._~:/?#[]@!$&()*+,;=%|")
_SHORT_FORMS = {"\n": ("n",), "\r": ("r",), "\t": ("t",), "\b": ("b",), "\f": ("f",), " ": (r"\+",)}

# The rest of a secret's name. What comes before need not be matched, and matching it would be quadratic.
_NAME = r"(?:passw(?:or)?d|secret|credential|signature|token(?!s|iz)|(?:api|access|private)[-_]?key)[\w.-]*"
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    # The query of a URL, which is where a pre-signed one has its signature, and the user before its host.
    (re.compile(r"""(\b[a-z][a-z0-9+.-]{0,20}://[^\s?"'<>\\]*)\?[^\s"'<>\\]*""", re.IGNORECASE), rf"\1?{HIDDEN}"),
    (re.compile(r"""(\b[a-z][a-z0-9+.-]{0,20}://)[^\s/?@"'<>\\]+@""", re.IGNORECASE), rf"\1{HIDDEN}@"),
    # NAME=value, as in a query, a shell and AWS's own messages; "NAME": "value", as in JSON and Python.
    (re.compile(rf"""({_NAME}=)[^\s"'&,;}}\]]+""", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"""({_NAME}["']\s*:\s*)(["']).*?\2""", re.IGNORECASE), rf"\1\2{HIDDEN}\2"),
    (re.compile(r"\b(bearer\s+)[\w.~+/=-]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), HIDDEN),
)


class Redactor:
    """Hides secrets. One serves one invocation at a time, as a Lambda function does."""

    def __init__(self) -> None:
        self._known: re.Pattern[str] | None = None

    def learn(self, event: object) -> None:
        """Know the secrets of ``event`` and of this process, and forget those of the event before."""
        # The longest first: the whole goes before its parts.
        found = sorted({*_secrets(event), *_secrets_of_process()}, key=lambda secret: (-len(secret), secret))
        self._known = re.compile("|".join(map(_in_any_form, found))) if found else None

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        return _without_shapes(self._known.sub(HIDDEN, text) if self._known is not None else text)

    def value(self, value: object, *, name: str = "") -> object:
        """``value`` without secrets: mappings and sequences all through, all else as JSON can have it."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if _is_mapping(value):
            return {str(self.value(str(key))): self._member(str(key), item) for key, item in value.items()}
        if _are_items(value):
            return [self.value(item) for item in value]
        return _without_shapes(str(value)) if name in IDENTIFIERS else self.text(str(value))

    def _member(self, name: str, value: object) -> object:
        if _is_secret(name) and value is not None:
            return HIDDEN
        if _ENVIRONMENT.search(name) and _is_mapping(value):
            return {str(key): HIDDEN for key in value}
        return self.value(value, name=name)


def _without_shapes(text: str) -> str:
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _secrets(value: object, *, secret: bool = False, setting: bool = False) -> Iterator[str]:
    """The texts of an event that are secrets: those under a secret's name, and the settings of an environment."""
    if _is_mapping(value):
        for key, item in value.items():
            name = str(key)
            yield from _secrets(
                item, secret=secret or _is_secret(name), setting=setting or bool(_ENVIRONMENT.search(name))
            )
    elif _are_items(value):
        for item in value:
            yield from _secrets(item, secret=secret, setting=setting)
    elif isinstance(value, str) and secret:
        yield from (part for part in (value, *_parts(value)) if _is_distinct(part, _SHORTEST_SECRET))
    elif isinstance(value, str) and setting and value not in _regions():
        yield from (value,) if _is_distinct(value, _SHORTEST_SETTING) else ()


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _are_items(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, list | tuple | set | frozenset)


def _regions() -> tuple[str | None, str | None]:
    return os.environ.get("AWS_REGION"), os.environ.get("AWS_DEFAULT_REGION")


def _parts(text: str) -> Iterator[str]:
    """The values of a pre-signed URL's query, which may turn up without the rest of it."""
    if "://" in text:
        yield from (value for name, value in parse_qsl(_query(text)) if _is_secret(name))


def _query(url: str) -> str:
    try:
        return urlsplit(url).query
    except ValueError:
        return ""


def _is_distinct(text: str, shortest: int) -> bool:
    return len(text) >= shortest and not (text.isdecimal() and len(text) <= _LONGEST_NUMBER)


def _secrets_of_process() -> Iterator[str]:
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        value = os.environ.get(name, "")
        if _is_distinct(value, _SHORTEST_SECRET):
            yield value


def _in_any_form(secret: str) -> str:
    """A pattern for ``secret`` as Python, JSON and URLs quote it, one inside the other."""
    # What long secrets are made of is quoted by nobody, and their patterns take tens of milliseconds to compile.
    as_it_is = _LETTERS if len(secret) <= _LONG else _IN_URLS
    # Quoting doubles backslashes, so one or more of them stand for any number. The quantifiers are possessive: each
    # backslash has one place, and no text takes long.
    short = re.sub(r"\\+", r"\\", secret)
    return "".join(re.escape(character) if character in as_it_is else _quoted(character) for character in short)


def _quoted(character: str) -> str:
    utf_8 = "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    utf_16 = character.encode("utf-16-be", "surrogatepass").hex()
    units = r"\\+".join(f"u{utf_16[start : start + 4]}" for start in range(0, len(utf_16), 4))
    escapes = f"(?i:{utf_8}|{units}|x{ord(character):02x}|u{ord(character):08x})"
    if character == "\\":
        return rf"(?:\\|{escapes})++"
    return rf"\\*+(?:{'|'.join([re.escape(character), escapes, *_SHORT_FORMS.get(character, ())])})"
