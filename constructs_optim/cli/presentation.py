"""The output of commands, and its options."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, Literal
from unicodedata import category

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from constructs_optim.explanation.formatting import wrapped
from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.report import refusal_report
from constructs_optim.runtime.store.artifact_store import Owner

if TYPE_CHECKING:
    from constructs_optim.operations.artifacts import ArtifactInventory

_GAP = "  "

Format = Literal["table", "json"]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]


def printable(text: str) -> str:
    """``text`` that rich prints literally: without markup, and without control codes of the terminal.

    Names come from templates, and from records of other accounts.
    """
    return escape("".join(char if char in "\n\t" or category(char)[0] != "C" else repr(char)[1:-1] for char in text))


def print_json(content: Any) -> None:
    """Print ``content`` for machines: JSON, dataclasses and pydantic models."""
    typer.echo(json.dumps(to_jsonable_python(content), indent=2))


@contextmanager
def refusals_printed(format: Format) -> Iterator[None]:
    """Print the rules that a recipe breaks, and end the command with status 2."""
    try:
        yield
    except RecipeError as error:
        if format == "json":
            print_json(refusal_report(error.violations))
        else:
            typer.echo(str(error), err=True)
        raise typer.Exit(2) from None


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, long: int = 1) -> None:
    """Print rows without breaking values; in a narrow terminal the last ``long`` columns have separate lines."""
    console = Console()
    # Files and pipes have no width.
    limit = console.width if console.is_terminal or "COLUMNS" in os.environ else sys.maxsize
    table = [[[heading] for heading in columns], *([cell.splitlines() or [""] for cell in row] for row in rows)]
    widths = [max(len(line) for row in table for line in row[column]) for column in range(len(columns))]
    is_narrow = sum(widths) + len(_GAP) * (len(widths) - 1) > limit
    aligned = len(columns) - long if is_narrow else len(columns)
    for number, row in enumerate(table):
        for line in zip_longest(*row[:aligned], fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(line, widths, strict=False))
            say(_GAP.join(padded).rstrip(), style=None if number else "bold")
        for line in (line for cell in row[aligned:] for line in cell if line and number):
            say(wrapped(line, limit, indent="    ", then="    "))


def print_fields(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values, a pair per row."""
    table = Table(show_header=False, show_lines=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, printable(value))
    Console().print(table)


def say(text: str, *, style: str | None = None) -> None:
    """Print a sentence, broken only where it has line breaks."""
    Console().print(printable(text), style=style, highlight=False, soft_wrap=True)


def say_hidden_owners(inventory: ArtifactInventory) -> None:
    """Note that there may be more owners where the account cannot read all records."""
    if inventory.owner_records.is_partial:
        say(
            f"note: {inventory.bucket} shows account {inventory.account} only its own references. Of other accounts' "
            "owners, only those that run an artifact's job are known."
        )


def confirm(question: str, done: str, *, yes: bool) -> None:
    """Prompt for confirmation unless ``yes``; the command ends without confirmation, or without a terminal."""
    try:
        if yes or typer.confirm(question):
            return
    except typer.Abort:
        pass
    say(f"Nothing was {done}.")
    raise typer.Exit(1)


def owner_name(owner: Owner) -> str:
    """A stack's resource, ``Chat / Llama70BJob``, with account and region where the stack's id is an ARN."""
    parts = owner.stack_id.split(":", 5)
    if len(parts) < 6:
        return f"{owner.stack_id} / {owner.logical_id}"
    name = parts[5].split("/")[1] if "/" in parts[5] else parts[5]
    return f"{name} / {owner.logical_id} ({parts[4]}, {parts[3]})"


def description(described: dict[str, Any]) -> str:
    """A recipe in one line: ``meta-textgeneration-llama-2-70b 4.0.0: AWQ INT4 (group size 128)``."""
    model, techniques = described.get("Model"), described.get("Techniques") or []
    return ": ".join(filter(None, [str(model or ""), " + ".join(map(str, techniques))]))
