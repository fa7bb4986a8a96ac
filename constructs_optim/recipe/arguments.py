"""Arguments of constructs that are not of the kind they take, for a rule to report with all else that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WrongKind:
    """An argument that is something else.

    Attributes:
        location: its name, such as ``max_runtime``.
        value: what was given.
        wanted: what it takes, such as ``a Duration``.
        example: what would work, as it is written.
    """

    location: str
    value: Any
    wanted: str
    example: str


@dataclass(frozen=True)
class Arguments:
    """The arguments that are of a wrong kind, of one call."""

    wrong: Sequence[WrongKind] = ()
