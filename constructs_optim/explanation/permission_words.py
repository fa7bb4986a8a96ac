"""Changes of permissions as rows of a table, with what changes in each of them."""

from __future__ import annotations

from dataclasses import dataclass

from .report import PermissionReport, StatementReport

_MARKS = {"added": "+", "removed": "-", "widened": "~", "narrowed": "~", "changed": "~"}


@dataclass(frozen=True)
class PermissionRow:
    """A row: each cell is a list of values, with ``+`` or ``-`` before what a changed statement gains or loses."""

    mark: str
    owner: str
    change: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    principals: tuple[str, ...]
    conditions: tuple[str, ...]


def permission_row(change: PermissionReport) -> PermissionRow:
    """The row of a change."""
    shown = change.after or change.before
    assert shown is not None  # noqa: S101 - a change is of something
    before = change.before if change.after is not None else None
    kind = "" if change.kind == "permissions" else f" ({change.kind})"
    return PermissionRow(
        mark=_MARKS[change.direction],
        owner=change.owner + kind,
        change=change.direction,
        effect=shown.effect,
        actions=_values(before, shown, "actions"),
        resources=_values(before, shown, "resources"),
        principals=_values(before, shown, "principals"),
        conditions=_values(before, shown, "conditions"),
    )


def _values(before: StatementReport | None, after: StatementReport, name: str) -> tuple[str, ...]:
    new: tuple[str, ...] = getattr(after, name)
    if before is None:
        return new
    old: tuple[str, ...] = getattr(before, name)
    return (
        *(value if value in old else f"+ {value}" for value in new),
        *(f"- {value}" for value in old if value not in new),
    )
