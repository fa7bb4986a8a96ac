"""What users gave, before anything of it is checked: its types are promises that rules hold it to.

Techniques are made without pydantic's validation, so that rules report all that is wrong with a recipe at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard


def as_given(value: object) -> object:
    """``value``, of which nothing is known: whatever its type says, a user may have given something else."""
    return value


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Whether ``value`` is a mapping, of anything to anything."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Whether ``value`` is a sequence, of anything; a text is one."""
    return isinstance(value, Sequence)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether ``value`` is a list, of anything."""
    return isinstance(value, list)


def is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    """Whether ``value`` is a tuple, of anything."""
    return isinstance(value, tuple)


def is_list_or_tuple(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Whether ``value`` is a list or a tuple, of anything."""
    return isinstance(value, (list, tuple))
