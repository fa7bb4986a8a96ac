"""The commands' output, and the options for it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any
from unicodedata import category

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.text import Text

from constructs_optim.explanation.formatting import wrapped
from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.report import refusal_report
from constructs_optim.runtime.store.artifact_store import Owner

if TYPE_CHECKING:
    from constructs_optim.operations.artifacts import ArtifactInventory

_GAP = "  "
_NUMBER = re.compile(r"[\d.,]*|–")
# By the first word of a status, in lower case.
_COLORS = {
    **dict.fromkeys(("ready", "sound", "completed", "inservice", "better"), "green"),
    **dict.fromkeys(("failed", "damaged", "problem", "refused", "orphaned", "worse"), "red"),
    **dict.fromkeys(
        ("in", "inprogress", "starting", "stopping", "stopped", "creating", "updating", "incomplete", "advice"),
        "yellow",
    ),
}

OUTPUT_PANEL = "Output"
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.", rich_help_panel=OUTPUT_PANEL)]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]


def printable(text: str) -> str:
    """Return ``text`` without terminal control codes: names come from templates and from other accounts' records."""
    return "".join(char if char in "\n\t" or category(char)[0] != "C" else repr(char)[1:-1] for char in text)


def print_json(content: Any) -> None:
    """Print ``content`` as JSON; it may contain dataclasses and pydantic models."""
    typer.echo(json.dumps(to_jsonable_python(content), indent=2))


@contextmanager
def refusals_printed(*, as_json: bool = False) -> Iterator[None]:
    """Print the rules that a recipe breaks, and end the command with status 2."""
    try:
        yield
    except RecipeError as error:
        if as_json:
            print_json(refusal_report(error))
        else:
            say(str(error), err=True)
        raise typer.Exit(2) from None


@contextmanager
def working(on: str) -> Iterator[None]:
    """Show a spinner while a block runs, on standard error and only on a terminal. The block must print nothing."""
    # The CDK CLI sets FORCE_COLOR for its child processes, which makes rich assume a terminal.
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(f"{on} …"):
        yield


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, long: int = 1, status: str | None = None
) -> None:
    """Print rows without breaking values.

    Args:
        columns: the headings.
        rows: the cells, which may have several lines.
        long: in a narrow terminal, at least the last ``long`` columns get lines of their own below the row.
        status: the heading of the column whose cells are colored by the status with which they begin.
    """
    limit = terminal_width()
    table = [[[heading] for heading in columns], *([cell.splitlines() or [""] for cell in row] for row in rows)]
    widths = [max(len(line) for row in table for line in row[column]) for column in range(len(columns))]
    fitting = (count for count in range(len(columns), 0, -1) if sum(widths[:count]) + len(_GAP) * (count - 1) <= limit)
    aligned = next(fitting, 1)
    if aligned < len(columns):
        aligned = max(1, min(aligned, len(columns) - long))
    long = len(columns) - aligned
    colored = columns.index(status) if status is not None else None
    numeric = [all(_NUMBER.fullmatch(line) for row in table[1:] for line in row[column]) for column in range(aligned)]
    for number, row in enumerate(table):
        for line in zip_longest(*row[:aligned], fillvalue=""):
            text = Text()
            for column, (part, width) in enumerate(zip(line, widths, strict=False)):
                color = _color(row[column][0]) if number and column == colored else None
                padded = part.rjust(width) if numeric[column] else part.ljust(width)
                text.append(printable(padded) + _GAP, style=color or "")
            text.rstrip()
            _print(text, style=None if number else "bold")
        for column in range(aligned, len(columns)):
            for line in row[column] if number else ():
                # With several such columns, the heading tells them apart.
                label = f"{columns[column]}: " if long > 1 and columns[column] else ""
                if line:
                    color = _color(line) if column == colored else None
                    _print(
                        Text(printable(wrapped(label + line, limit, indent="    ", then="      ")), style=color or "")
                    )


def print_fields(rows: Iterable[tuple[str, str]]) -> None:
    """Print pairs of names and values, one in a row; a value with a word too long for its column goes below."""
    pairs = list(rows)
    width, limit = max(len(name) for name, _ in pairs) + len(_GAP), terminal_width()
    for name, value in pairs:
        head, column = name.ljust(width), width
        if max(map(len, value.split()), default=0) > limit - width:
            _print(Text(name, style="bold"))
            head, column = "  ", 2
        for line in value.splitlines() or [""]:
            for part in wrapped(line, limit - column).splitlines() if len(line) > limit - column else [line]:
                color = (_color(part) if name in ("State", "Status") else None) or ""
                _print(Text.assemble((head, "bold"), (printable(part), color)))
                head = " " * column


def _color(status: str) -> str | None:
    return _COLORS.get(status.split(maxsplit=1)[0].strip(":,").lower()) if status.strip() else None


def terminal_width(*, err: bool = False) -> int:
    """Return the terminal's width in columns; files and pipes have no limit."""
    console = Console(stderr=err)
    return console.width if console.is_terminal or "COLUMNS" in os.environ else sys.maxsize


def say(text: str, *, style: str | None = None, err: bool = False) -> None:
    """Print sentences, with each line wrapped at the terminal's width and indented like the line."""
    limit = terminal_width(err=err)
    for line in text.splitlines() or [""]:
        indent = line[: len(line) - len(line.lstrip())]
        fitted = wrapped(line, limit, then=indent) if len(line) > limit and " " in line.strip() else line
        _print(Text(printable(fitted)), style=style, err=err)


def say_command(*parts: str) -> None:
    """Print a command to copy; full lines end in a backslash."""
    limit, line = terminal_width(), "  constructs-optim"
    # An option and its value stay on one line if they fit.
    for part in (word for each in parts for word in ([each] if len(each) + 6 <= limit else each.split())):
        if len(line) + len(part) + 3 > limit and line.strip():
            _print(Text(f"{printable(line)} \\"), style="cyan")
            line = "   "
        line += f" {part}"
    _print(Text(printable(line)), style="cyan")


def _print(text: Text, *, style: str | None = None, err: bool = False) -> None:
    Console(stderr=err).print(text, style=style, soft_wrap=True)


def say_hidden_owners(inventory: ArtifactInventory) -> None:
    """Note that there may be more owners if the account cannot read all records."""
    if inventory.owner_records.is_partial:
        say(
            f"Note: account {inventory.account} can read only its own references in {inventory.bucket}. Owners in "
            "other accounts are shown only if they run an artifact's job."
        )


def refuse_prompt(*, as_json: bool, yes: bool) -> None:
    """Refuse ``--json`` without ``--yes`` for a command that prompts, because the question is not JSON."""
    if as_json and not yes:
        raise typer.BadParameter("--json cannot prompt for confirmation: add --yes")


def confirm(question: str, done: str, *, yes: bool) -> None:
    """Prompt for confirmation unless ``yes``; end the command if there is no confirmation or no terminal."""
    try:
        if yes or typer.confirm(question):
            return
    except typer.Abort:
        pass
    say(f"Nothing was {done}.")
    raise typer.Exit(1)


def owner_name(owner: Owner) -> str:
    """Return a stack's resource, ``Chat / Llama70BJob``, with account and Region if the stack's ID is an ARN."""
    parts = owner.stack_id.split(":", 5)
    if len(parts) < 6:
        return f"{owner.stack_id} / {owner.logical_id}"
    name = parts[5].split("/")[1] if "/" in parts[5] else parts[5]
    return f"{name} / {owner.logical_id} ({parts[4]}, {parts[3]})"


def description(described: Mapping[str, Any]) -> str:
    """Return a recipe in one line: ``meta-textgeneration-llama-2-70b 4.0.0: AWQ INT4 (group size 128)``."""
    model, techniques = described.get("Model"), described.get("Techniques") or []
    return ": ".join(filter(None, [str(model or ""), " + ".join(map(str, techniques))]))
