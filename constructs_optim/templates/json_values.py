"""Parts of a template's JSON, of which no type is certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the value is a JSON object."""
    return isinstance(value, Mapping)


def is_array(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether the value is a JSON array."""
    return isinstance(value, list | tuple)


def as_object(value: object) -> Mapping[str, Any]:
    """The value where it is an object, and an empty one where it is anything else."""
    return value if is_object(value) else {}


def as_array(value: object) -> Sequence[Any]:
    """The value where it is an array, and an empty one where it is anything else."""
    return value if is_array(value) else ()


def literal(value: object) -> str | None:
    """The text of a text or a number; None for anything else, such as a value that only a deployment knows."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def number(value: object) -> int | None:
    """A whole number, which CloudFormation takes as text as well; None for anything else."""
    text = literal(int(value) if isinstance(value, float) and value.is_integer() else value)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
