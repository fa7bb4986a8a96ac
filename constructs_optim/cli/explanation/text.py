"""Prints an explanation in a terminal: refusals first, the conclusion last, and no name broken at the edge."""

from __future__ import annotations

import sys
from collections import Counter

from rich.console import Console
from rich.table import Table

from constructs_optim.explanation.formatting import counted
from constructs_optim.explanation.rendering.outline import (
    Block,
    Heading,
    Items,
    Paragraph,
    StatementRow,
    Statements,
    Topics,
    granting,
    outline,
)
from constructs_optim.explanation.report import Report

from ..presentation import printable, wrapped

_STYLES = {"+": "green", "-": "red", "~": "yellow"}
_REFUSED = "bold red"
# Two borders, two columns with a space on either side, and the line between them.
_BOX = 7


def print_explanation(report: Report, *, permissions: bool) -> None:
    """Print a report; ``permissions``: also each statement of new stacks, and not only how many there are."""
    for refusal in report.refusals:
        _print(refusal, style=_REFUSED)
    if report.against is not None:
        _print(f"Compared with {report.against}.")
    for block in outline(report):
        _print_block(block, permissions)
    _print(_conclusion(report), style=_REFUSED if report.refusals else "bold")


def _print_block(block: Block, permissions: bool) -> None:
    match block:
        case Heading(text):
            _print(text, style="bold")
        case Paragraph(text):
            _print(text)
        case Items(texts):
            for text in texts:
                _print(text, indent="  ")
        case Topics():
            _print_topics(block)
        case Statements(rows, is_new) if is_new and not permissions:
            for owner, count in Counter(row.change.owner for row in rows).items():
                _print(f"{owner}: {counted(count, 'statement')}", indent="  ")
            _print("--permissions shows them.", indent="  ")
        case Statements(rows):
            by_owner: dict[str, list[StatementRow]] = {}
            for row in rows:
                by_owner.setdefault(row.change.owner, []).append(row)
            for owner, some in by_owner.items():
                _print(owner, indent="  ", style="bold")
                for row in some:
                    _print_statement(row)


def _print_statement(row: StatementRow) -> None:
    statement, style = row.statement, _STYLES[row.mark]
    _print(f"{row.mark} {statement.effect}{row.kind}", indent="  ", style=style)
    parts = (
        ("", statement.actions),
        ("on ", statement.resources),
        ("to ", statement.principals),
        ("if ", statement.conditions),
    )
    for preposition, values in parts:
        for value in values:
            # A name stays on the line of its preposition, even where the terminal has to wrap it.
            _print(f"{preposition}{value}", indent="    ", style=style, is_name=" " not in value)


def _print_topics(topics: Topics) -> None:
    console = Console()
    width = console.width - _BOX - max((len(topic) for topic, _ in topics.rows), default=0)
    table = Table(show_header=False, show_lines=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    for topic, texts in topics.rows:
        table.add_row(topic.lower(), printable("\n".join(wrapped(text, width) for text in texts)))
    # A name that is longer than the box makes it wider: the terminal wraps it, and it can be copied.
    width = max(console.width, Console(width=10_000).measure(table).maximum)
    console.print(table, width=width, crop=False, soft_wrap=width > console.width)


def _print(text: str, *, indent: str = "", style: str | None = None, is_name: bool = False) -> None:
    console = Console()
    then = f"{indent}  " if indent else ""
    lines = wrapped(text, sys.maxsize if is_name else console.width, indent=indent, then=then)
    console.print(printable(lines), style=style, highlight=False, soft_wrap=True)


def _conclusion(report: Report) -> str:
    if report.refusals:
        return f"AWS refuses this deployment for {counted(len(report.refusals), 'reason')}: see the top."
    if not report.has_changes:
        return "Nothing changes."
    changes = Counter(endpoint.change for endpoint in report.endpoints)
    endpoints = ", ".join(f"{counted(count, 'endpoint')} {change}" for change, count in changes.items())
    parts = [endpoints or "No endpoint"]
    if any(endpoint.is_interrupted for endpoint in report.endpoints):
        parts.append("requests are interrupted")
    if not report.may_run_jobs:
        parts.append("no job runs")
    else:
        parts.append("a new job runs" if any(job.outcome == "new_job" for job in report.jobs) else "a job may run")
    more = sum(change.grants_more for change in report.permissions)
    parts.append(granting(more, counted(more, "statement") if more else "nothing"))
    return f"{'; '.join(parts)}."
