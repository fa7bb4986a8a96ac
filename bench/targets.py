"""Targets of a benchmark's figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Target:
    """One target, and whether it is met."""

    name: str
    measured: str
    limit: str
    holds: bool


def target_table(targets: Iterable[Target]) -> Table:
    """Return a table of targets."""
    table = Table(title="targets")
    for heading in ("what", "measured", "target", "holds"):
        table.add_column(heading)
    for target in targets:
        table.add_row(target.name, target.measured, target.limit, "[green]yes[/]" if target.holds else "[red]no[/]")
    return table
