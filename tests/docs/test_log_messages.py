"""The page about observability lists the messages that the Lambda functions log, and the metrics that they count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import get_args

import pytest

from constructs_optim.runtime.preflight.report import Level
from constructs_optim.runtime.telemetry import Counted
from tests.support.documents import CHECKOUT

_TABLE = re.compile(r"^\| message \| level \| when \|\n\| --- \| --- \| --- \|\n((?:\|.*\|\n)+)", re.MULTILINE)
_METRICS = re.compile(r"^\| metric \| `service` \| unit \| counts \|\n\|[ -|]+\|\n((?:\|.*\|\n)+)", re.MULTILINE)
_COUNT = re.compile(r"\bcount\(\"(\w+)\"")
_ROW = re.compile(r"^\| `([^`]+)` \| (INFO|ERROR|INFO or ERROR) \| .+ \|$")
SOURCES = sorted((CHECKOUT / "constructs_optim" / "runtime").rglob("*.py"))
# The kind's own event, which is a member of Counted.
_COUNTED = {"self.created"} | {f"Counted.{each.name}" for each in Counted}


def documented() -> list[tuple[str, str]]:
    """Each row's message and level."""
    tables = _TABLE.findall((CHECKOUT / "docs" / "observability.md").read_text())
    rows = [_ROW.match(line) for table in tables for line in table.splitlines()]
    assert rows
    assert all(rows), "a row has one message in backticks, a level, and when it is logged"
    return [(row[1], row[2]) for row in rows if row is not None]


def written(source: str) -> set[str]:
    """The messages that a module's calls of ``log`` write in place, without those of Counted."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    events = (call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "log")
    return {message for event in events for message in _messages(event)}


def _messages(event: ast.expr) -> Iterator[str]:
    match event:
        case ast.Constant(value=str(message)):
            yield message
        case ast.IfExp(body=first, orelse=second):
            yield from _messages(first)
            yield from _messages(second)
        case ast.JoinedStr(
            values=[ast.Constant(value=str(start)), ast.FormattedValue(value=ast.Attribute(attr="level"))]
        ):
            yield from (start + level for level in get_args(Level))
        case _:
            assert ast.unparse(event) in _COUNTED, f"{ast.unparse(event)}: use a text, or a member of Counted"


def levels(sources: Iterable[str]) -> dict[str, set[str]]:
    """The messages that are logged, with their levels."""
    found: dict[str, set[str]] = {}
    for event in Counted:
        found.setdefault(event.message, set()).add("ERROR" if event.is_failure else "INFO")
    for source in sources:
        for message in written(source):
            found.setdefault(message, set()).add("INFO")
    return found


def test_the_page_has_each_message_once_and_no_other() -> None:
    messages = [message for message, _ in documented()]
    assert len(messages) == len(set(messages))
    logged = levels(source.read_text() for source in SOURCES)
    assert set(logged) - set(messages) == set(), "logged, but not on the page"
    assert set(messages) - set(logged) == set(), "on the page, but not logged"


def test_the_page_has_the_level_of_each_message() -> None:
    logged = levels(source.read_text() for source in SOURCES)
    assert {message: set(level.split(" or ")) for message, level in documented()} == logged


def test_messages_are_found_in_each_form_of_a_call() -> None:
    assert written('if gone:\n    log("lost", reason=reason)') == {"lost"}
    assert written('log(Counted.crashed if error else "fine")') == {"fine"}
    assert written('log(f"preflight {finding.level}")') == {"preflight problem", "preflight advice"}
    assert written("log(self.created, name=name)\nmath.log(2)") == set()


def test_a_message_that_is_not_readable_in_the_source_is_refused() -> None:
    with pytest.raises(AssertionError, match="use a text"):
        written("log(message)")


def test_the_page_has_each_metric_and_no_other() -> None:
    (table,) = _METRICS.findall((CHECKOUT / "docs" / "observability.md").read_text())
    listed = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    counted = {event.metric for event in Counted} | {
        name for each in SOURCES for name in _COUNT.findall(each.read_text())
    }
    assert sorted(listed) == sorted(counted)
