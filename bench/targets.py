"""What is promised of a benchmark's figures, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Target:
    """One thing that is promised, and whether it holds."""

    name: str
    measured: str
    limit: str
    holds: bool


def target_table(targets: Iterable[Target]) -> Table:
    """All of them, for people."""
    table = Table(title="targets")
    for heading in ("what", "measured", "target", "holds"):
        table.add_column(heading)
    for target in targets:
        table.add_row(target.name, target.measured, target.limit, "[green]yes[/]" if target.holds else "[red]no[/]")
    return table
