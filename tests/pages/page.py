"""What a reader of a page does: saves files, runs commands, and compares what they print.

A comment above a fence, as in ``<!-- any order; columns 100 -->``, says how its block differs from a plain one:

- ``not run: <reason>``: the block is not run. The reason names the tests that run its commands.
- ``given <state>``: what the reader's account has before the block. ``given.py`` lists the states.
- ``answers <word>``: what the reader answers to a command's question.
- ``fails``: the last command ends with another exit status than 0.
- ``durations vary``: the output has how long ago things happened, and how long they took.
- ``any order``: the output's lines come in any order.
- ``columns <number>``: the terminal's width. Default: 80.
- ``keeps running``: the command runs in a terminal of its own until the page ends, or until another one of this kind.
  The reader copies the lines that set variables from its output into the terminal of the other commands.
- ``printed``: the block is a part of the last command's output.
- ``with <placeholder>=<value>``: what a reader writes in place of a word of the block.

A fence with ``title="<name>"`` is a file that the reader saves, or, in ``diff``, changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.documents import CHECKOUT, Command, Snippet, commands, pages, snippets

NOT_RUN = "not run: "
ELISION = "..."
_CONSOLE = ("console", "bash", "sh", "shell")
_LOOKS_LIKE_COMMANDS = re.compile(r"\$ |(?:constructs-optim|pip|npm|npx|cdk|aws|terraform) [a-z-]")
# Everywhere in the pages.
PLACEHOLDERS = {"/path/to/checkout": str(CHECKOUT)}


class PageError(AssertionError):
    """A page cannot be followed. The message names the block and says why."""


@dataclass(frozen=True)
class SavedFile:
    """A file that the reader saves.

    Attributes:
        at: the block.
        name: the file's path in the reader's directory.
        text: its content, or the lines of a ``diff``.
        changes: whether the text is a change of the file.
    """

    at: Snippet
    name: str
    text: str
    changes: bool


@dataclass(frozen=True)
class Console:
    """Commands, in one terminal."""

    at: Snippet
    commands: tuple[Command, ...]
    fails: bool = False
    any_order: bool = False
    durations_vary: bool = False
    keeps_running: bool = False
    columns: int = 80
    given: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Printed:
    """A part of what the last command printed."""

    at: Snippet
    text: str


@dataclass(frozen=True)
class Marker:
    """What the comment above a fence says."""

    reason: str = ""
    options: frozenset[str] = frozenset()
    columns: int = 80
    given: str = ""
    answer: str = ""
    placeholders: dict[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def of(snippet: Snippet) -> Marker:
        """Read a block's comment.

        Raises:
            PageError: if the comment has an unknown part, or a block is not run for no reason.
        """
        text = snippet.marker
        if text.startswith(NOT_RUN.strip()):
            reason = text.removeprefix(NOT_RUN.strip()).strip()
            if not reason:
                raise PageError(f"{snippet}: a block that is not run needs a reason")
            return Marker(reason=reason)
        options, columns, placeholders = set[str](), 80, dict[str, str]()
        given = answer = ""
        for part in filter(None, (each.strip() for each in text.split(";"))):
            if part in ("fails", "any order", "keeps running", "printed", "durations vary"):
                options.add(part)
            elif found := re.fullmatch(r"columns (\d+)", part):
                columns = int(found[1])
            elif found := re.fullmatch(r"given (.+)", part):
                given = found[1]
            elif found := re.fullmatch(r"answers (\w+)", part):
                answer = found[1]
            elif found := re.fullmatch(r"with ([^=]+)=(.+)", part):
                placeholders[found[1]] = found[2]
            else:
                raise PageError(f"{snippet} has an unknown marker: {part}")
        return Marker("", frozenset(options), columns, given, answer, placeholders)


def is_console(snippet: Snippet) -> bool:
    """Whether a block has commands, also one that does not say so."""
    if snippet.language in _CONSOLE:
        return True
    return snippet.language == "" and any(_LOOKS_LIKE_COMMANDS.match(line) for line in snippet.code.splitlines())


def steps(page: Path) -> Iterator[SavedFile | Console | Printed]:
    """What a reader does, in the page's order.

    Raises:
        PageError: if a block has an unknown marker, or commands without prompts.
    """
    for snippet in snippets(page):
        if snippet.title:
            yield SavedFile(snippet, snippet.title, _filled(snippet.code, {}), changes=snippet.language == "diff")
        elif is_console(snippet):
            if not (marker := Marker.of(snippet)).reason:
                yield _console(snippet, marker)
        elif snippet.marker == "printed" or snippet.marker.startswith("printed;"):
            yield Printed(snippet, _filled(snippet.code, Marker.of(snippet).placeholders))


def _console(snippet: Snippet, marker: Marker) -> Console:
    if snippet.language != "console":
        raise PageError(f"{snippet} has commands: its language is console, and each begins with a prompt")
    try:
        found = commands(_filled(snippet.code, marker.placeholders))
    except ValueError as error:
        raise PageError(f"{snippet}: {error}") from None
    return Console(
        snippet,
        tuple(found),
        fails="fails" in marker.options,
        durations_vary="durations vary" in marker.options,
        any_order="any order" in marker.options,
        keeps_running="keeps running" in marker.options,
        columns=marker.columns,
        given=marker.given,
        answer=marker.answer,
    )


def is_followed(page: Path) -> bool:
    """Whether a page has commands that are run."""
    return any(
        is_console(snippet) and not snippet.title and not snippet.marker.startswith(NOT_RUN)
        for snippet in snippets(page)
    )


def not_run(page: Path) -> Iterator[tuple[Console, str]]:
    """The blocks of commands that are not run, with their reasons."""
    for snippet in snippets(page):
        if is_console(snippet) and not snippet.title and (marker := Marker.of(snippet)).reason:
            yield _console(snippet, marker), marker.reason


def all_pages() -> list[Path]:
    """Every page that shows commands to a reader."""
    readmes = [CHECKOUT / name / "README.md" for name in ("constructs_optim_local", "terraform", "typescript")]
    return [*pages(), CHECKOUT / "SECURITY.md", *readmes]


def _filled(text: str, placeholders: dict[str, str]) -> str:
    for name, value in {**PLACEHOLDERS, **placeholders}.items():
        text = text.replace(name, value)
    return text
