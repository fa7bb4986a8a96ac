"""``constructs-optim catalog``: what the planner knows."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from constructs_optim.recipe.metrics import metrics_page
from constructs_optim.recipe.report import catalog_report, rules_page


class What(StrEnum):
    """A part of the catalog."""

    models = "models"
    instances = "instances"
    images = "images"
    metrics = "metrics"
    rules = "rules"


class Format(StrEnum):
    """How it is printed; markdown for metrics and rules only."""

    table = "table"
    json = "json"
    markdown = "markdown"


# Columns that are narrower than this on average are not read.
_NARROWEST = 12
_PAGES = {What.metrics: metrics_page, What.rules: rules_page}


def catalog_command(
    what: Annotated[What, typer.Argument(help="models, instances, images, metrics or rules.")],
    format: Annotated[Format, typer.Option(help="How to print it; markdown for metrics and rules.")] = Format.table,
) -> None:
    """List the models, instance types, container images, metrics or rules that the planner knows."""
    if format is Format.markdown:
        if what not in _PAGES:
            raise typer.BadParameter("only metrics and rules are printed as markdown")
        typer.echo(_PAGES[what](), nl=False)
        return
    rows = catalog_report(what.value)
    if format is Format.json:
        typer.echo(json.dumps(rows, indent=1))
        return
    console = Console()
    shown = rows if len(rows[0]) * _NARROWEST <= console.width else [_in_two_columns(row) for row in rows]
    table = Table()
    for column in shown[0]:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in shown:
        table.add_row(*(_cell(value) for value in row.values()))
    console.print(table)


def _in_two_columns(row: dict[str, Any]) -> dict[str, str]:
    """A row of which the name, or id, stands whole and beside it all that is known: so it can be read anywhere."""
    (first, name), *rest = row.items()
    known = [f"{column.replace('_', ' ')} {_cell(value)}" for column, value in rest if value not in (None, "", ())]
    return {first: name, "what is known of it": "; ".join(known)}


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(str(item) for item in value)
        case dict():
            return ", ".join(f"{name}: {_cell(item)}" for name, item in value.items() if item is not None)
        case _:
            return str(value)
