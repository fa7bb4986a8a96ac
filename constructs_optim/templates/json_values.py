"""Readers for parts of a template's JSON whose types are unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether the value is a JSON object."""
    return isinstance(value, Mapping)


def is_array(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether the value is a JSON array."""
    return isinstance(value, list | tuple)


def as_object(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty object."""
    return value if is_object(value) else {}


def as_array(value: object) -> Sequence[Any]:
    """Return the value if it is an array, otherwise an empty array."""
    return value if is_array(value) else ()


def literal(value: object) -> str | None:
    """Return a string, or a number as text; None for anything else, such as a value known only at deployment."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def number(value: object) -> int | None:
    """Return a whole number, which may be text as in CloudFormation; None for anything else."""
    text = literal(int(value) if isinstance(value, float) and value.is_integer() else value)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
