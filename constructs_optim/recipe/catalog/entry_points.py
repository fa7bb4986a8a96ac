"""How the entry points of AWS's containers of vLLM and SGLang turn a variable into arguments of the engine.

``entry_points.json`` has the translation of each release, with its source. LMI and Text Generation Inference read
variables themselves.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal, cast

from . import load
from .engine_arguments import Argument

Translation = Literal["lines", "words"]
# sagemaker_args.py, SINGLE_TOKEN_FLAGS: arguments whose JSON array stays one word.
_WHOLE = frozenset({"allowed_headers", "allowed_methods", "allowed_origins", "middleware"})


@cache
def of_release(server: str, release: str | None) -> Translation | None:
    """Return the translation of a server's release; None for a server without one, or an unknown release."""
    if release is None:
        return None
    found = [row for row in _rows(server) if _order(row["since"]) <= _order(release)]
    return cast("Translation", found[-1]["translation"]) if found else None


def passing_several(server: str) -> str | None:
    """Return the first release of a server whose entry point passes several values; None if none does."""
    return next((row["since"] for row in _rows(server) if row["translation"] == "words"), None)


def _rows(server: str) -> list[dict[str, Any]]:
    return [row for row in load("entry_points")["entry_points"] if row["server"] == server]


def words(translation: Translation, argument: str, value: str) -> list[str] | None:
    """Return the words that follow an argument; None if the entry point leaves the argument out."""
    if translation == "lines":
        return _of_lines(value)
    switch = value.strip().lower()
    if switch in ("true", "false") or not value:
        return None if switch == "false" else []
    if argument in _WHOLE:
        return [value]
    elements = _elements(value)
    return [value] if elements is None else [_word(each) for each in elements] or None


def written(translation: Translation, row: Argument | None, value: str) -> str:
    """Return a variable's value in a form that the entry point passes on with the same meaning.

    JSON of several lines is written on one line. For an argument that takes several values, an array of one value is
    written as the value.
    """
    if translation != "lines":
        return value
    if "\n" in value and (parsed := _json(value)) is not None:
        value = _word(parsed)
    elements = _elements(value)
    if row is not None and row.many and elements is not None and len(elements) == 1 and value.startswith("["):
        value = _word(elements[0])
    return value


def problem(
    server: str, translation: Translation, argument: str, row: Argument | None, value: str
) -> tuple[str, str] | None:
    """Return why a server's entry point does not pass a written value on, and what works; None if it does."""
    release = passing_several(server) if translation == "lines" else None
    newer = f", or the release {release} or newer" if release is not None else ""
    if translation == "lines":
        if "\n" in value:
            return "the container's entry point reads the first line of a value only", f"the value on one line{newer}"
        if _of_lines(value) not in ([value], [], None):
            fix = f"a value without it{newer}"
            if argument == "api_key":
                fix += "; a secret belongs in a header of the requests, or in front of the endpoint"
            return "the container's entry point drops the = at the end of a value", fix
    given, elements = words(translation, argument, value), _elements(value)
    if row is None or elements is None or argument in _WHOLE:
        return None
    if translation == "lines" and row.many:
        return (
            f"the container's entry point passes the {len(elements)} values as one word, which the argument reads as "
            "one value",
            f"one value{newer}",
        )
    if translation == "words" and not row.many and len(given or ()) > 1:
        return (
            f"the container's entry point passes the value as {len(elements)} words, and the argument takes one",
            "one value that is no JSON array, or leave it out",
        )
    return None


def _of_lines(value: str) -> list[str] | None:
    """Return the words of ``while IFS='=' read -r key value`` in bash, for one variable."""
    line = value.partition("\n")[0]
    # read removes one = at the end if it is the only one.
    if line.endswith("=") and "=" not in line[:-1]:
        line = line[:-1]
    if line.lower() in ("true", "false"):
        return None if line.lower() == "false" else []
    return [line] if line else []


def _elements(value: str) -> list[Any] | None:
    """Return the elements of a JSON array, or of several JSON objects one after the other; None for anything else."""
    text = value.strip()
    if text.startswith("[") and text.endswith("]"):
        parsed = _json(text)
        return cast("list[Any]", parsed) if isinstance(parsed, list) else None
    if not (text.startswith("{") and text.endswith("}")):
        return None
    decoder, objects, index = json.JSONDecoder(), list[Any](), 0
    while index < len(text):
        try:
            parsed, index = decoder.raw_decode(text, index)
        except (ValueError, RecursionError):
            return None
        objects.append(parsed)
        index += len(text[index:]) - len(text[index:].lstrip())
    return objects if len(objects) > 1 and all(isinstance(each, dict) for each in objects) else None


def _json(value: str) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _word(element: object) -> str:
    if isinstance(element, str):
        return element
    if element is None:
        return ""
    return json.dumps(element, separators=(",", ":"))


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())
