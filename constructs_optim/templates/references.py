"""A value's references to other parts of its template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .json_values import as_object, is_array

PLACEHOLDER = re.compile(r"\$\{(!?)([^}]+)\}")
"""A placeholder of ``Fn::Sub``: whether it is escaped, and the name."""
# The CDK appends eight digits of a hash to logical IDs.
_HASH = re.compile(r"[0-9A-F]{8}$")


@dataclass(frozen=True)
class Reference:
    """A reference to a logical ID, a pseudo parameter, or ``Mappings.<name>``; ``attribute`` is None for a ``Ref``."""

    target: str
    attribute: str | None = None

    @classmethod
    def named(cls, name: str) -> Reference:
        """Return the reference for a name in ``Fn::Sub`` or short ``Fn::GetAtt``: ``Queue`` or ``Queue.Arn``."""
        target, _, attribute = name.partition(".")
        return cls(target, attribute or None)


def referenced_ids(value: Any) -> frozenset[str]:
    """Return the targets of a value's references."""
    return frozenset(reference.target for reference in references(value))


def direct_reference(value: Any) -> Reference | None:
    """Return the reference if a value is a ``Ref`` or ``Fn::GetAtt``; None for anything else."""
    match value:
        case {"Ref": str() as name} if len(value) == 1:
            return Reference(name)
        case {"Fn::GetAtt": [str() as name, *attribute]} if len(value) == 1:
            return Reference(name, ".".join(str(part) for part in attribute) or None)
        case {"Fn::GetAtt": str() as name} if len(value) == 1:
            return Reference.named(name)
        case _:
            return None


def references(value: Any) -> Iterator[Reference]:
    """Yield all references in a value."""
    direct = direct_reference(value)
    if direct is not None:
        yield direct
        return
    match value:
        case {"Fn::FindInMap": [str() as name, *keys]} if len(value) == 1:
            yield Reference(f"Mappings.{name}")
            yield from references(keys)
        case {"Fn::Sub": str() as pattern} if len(value) == 1:
            yield from _substituted(pattern, {})
        case {"Fn::Sub": [str() as pattern, variables]} if len(value) == 1:
            yield from _substituted(pattern, variables)
        case _:
            for item in value if is_array(value) else as_object(value).values():
                yield from references(item)


def _substituted(pattern: str, variables: Any) -> Iterator[Reference]:
    for escaped, name in PLACEHOLDER.findall(pattern):
        if not escaped and name not in as_object(variables):
            yield Reference.named(name)
    yield from references(variables)


def readable_id(logical_id: str) -> str:
    """Return a logical ID without the CDK's hash at its end."""
    return _HASH.sub("", logical_id) or logical_id
