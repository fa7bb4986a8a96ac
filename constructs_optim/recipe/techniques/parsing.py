"""Techniques written as text: ``kind=variant[,setting=value]``, for instance ``quantization=awq,group_size=64``.

A setting that is a list is given once for each item. Numbers, true and false are read as such.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any

from constructs_optim.recipe.given import is_list

from . import REGISTRY
from .base import Technique

_EXAMPLE = "quantization=awq,group_size=64"


def parse(text: str) -> Technique | str:
    """The technique; the text itself where it names none, for a rule to report with all else that is wrong."""
    try:
        return _parsed(text)
    except _Unparsed:
        return text


def what_is_wrong(text: str) -> str:
    """What would work instead of a text that :func:`parse` gave back."""
    try:
        _parsed(text)
    except _Unparsed as problem:
        return str(problem)
    return f"in Python {in_code(text)}"


def in_code(text: str) -> str | None:
    """What a text that names a technique, or its variant, is in Python: ``Quantization.awq()``; None where it does not.

    The end of a path that is known names it as well: ``Quantization.awq`` and ``awq`` are one.
    """
    words = re.split(r"[=.,(]", text.lower().replace("-", "_"))
    variants = {name: factory for factories in REGISTRY.values() for name, factory in factories.items()}
    named = next((variants[word.strip()] for word in words if word.strip() in variants), None)
    return made_by(named) if named is not None else None


def made_by(factory: Callable[..., Any]) -> str:
    """A factory as it is called, with what it cannot do without."""
    needed = [p.name for p in inspect.signature(factory).parameters.values() if p.default is inspect.Parameter.empty]
    return f"{factory.__qualname__}({', '.join(f'{name}=...' for name in needed)})"


class _Unparsed(Exception):
    pass


def _parsed(text: str) -> Technique:
    head, *given = [part.strip() for part in text.split(",")]
    kind, _, variant = head.lower().replace("-", "_").partition("=")
    if kind not in REGISTRY:
        meant = in_code(text)
        if meant is not None:
            raise _Unparsed(f"in Python {meant}; on the command line {_EXAMPLE} and the like")
        raise _Unparsed(f"a kind of technique: {', '.join(REGISTRY)}; for instance {_EXAMPLE}")
    factories = REGISTRY[kind]
    # A kind with one variant of its own name needs no variant.
    factory = factories.get(variant or (kind if kind in factories else ""))
    if factory is None:
        raise _Unparsed(f"a variant of {kind}: {', '.join(f'{kind}={name}' for name in factories)}")
    known = inspect.signature(factory).parameters
    settings: dict[str, Any] = {}
    for part in given:
        name, separator, value = part.partition("=")
        if not separator or name not in known:
            raise _Unparsed(f"settings of {head}: {', '.join(known)}")
        previous = settings.get(name)
        read = _value(value)
        settings[name] = [*_as_list(previous), read] if name in settings else _first(factory, name, read)
    missing = [name for name, p in known.items() if p.default is inspect.Parameter.empty and name not in settings]
    if missing:
        raise _Unparsed(f"{head} needs {', '.join(f'{name}=...' for name in missing)}")
    return factory(**settings)


def _first(factory: Callable[..., Technique], name: str, value: Any) -> Any:
    """A list of one, where the setting is a list."""
    return [value] if isinstance(inspect.signature(factory).parameters[name].default, tuple) else value


def _as_list(value: object) -> list[object]:
    return value if is_list(value) else [value]


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
