"""The code blocks of the Markdown files, with the markers that say how to check them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent

# A marker is a comment in the line above the fence: neither GitHub nor the site shows it.
_FENCE = re.compile(
    r"^(?P<indent>[ ]*)(?:<!-- (?P<marker>[^\n]*) -->\n(?P=indent))?```(?P<language>\w*)(?P<information>[^\n]*)\n"
    r"(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)

_TITLE = re.compile(r' title="([^"]+)"')


@dataclass(frozen=True)
class Snippet:
    """A fenced block.

    Args:
        page: The file that it stands in.
        line: The line of its first line of code, from 1 on.
        language: What the fence says: ``python``, ``console``; empty where it says nothing.
        marker: The comment above it: ``continued``, ``not run: <reason>``; empty where there is none.
        code: Its lines, without the fence's indentation.
        title: The file that it is; empty where the fence names none.
    """

    page: Path
    line: int
    language: str
    marker: str
    code: str
    title: str = ""

    def __str__(self) -> str:
        page = self.page.relative_to(CHECKOUT) if self.page.is_relative_to(CHECKOUT) else self.page
        return f"{page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, without its prompt, and the output that the page shows below it."""

    text: str
    output: str

    @property
    def copied(self) -> str:
        """The command as a shell takes it, without the comment at its end."""
        return re.sub(r"[ ]+# .*$", "", self.text)


def commands(console: str) -> list[Command]:
    """The commands of a console block. A line after a backslash at a line's end continues the command."""
    found: list[tuple[list[str], list[str]]] = []
    for line in console.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif found and not found[-1][1] and found[-1][0][-1].endswith("\\"):
            found[-1][0].append(line)
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"a console block starts with output: {line}")
    return [Command("\n".join(text), "".join(f"{line}\n" for line in output)) for text, output in found]


def pages() -> list[Path]:
    """The Markdown files that users and contributors read."""
    documents = sorted((CHECKOUT / "docs").rglob("*.md"))
    return [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *documents]


def snippets(page: Path) -> Iterator[Snippet]:
    """The fenced blocks of a page, from its first to its last."""
    text = page.read_text()
    for found in _FENCE.finditer(text):
        code = "\n".join(line.removeprefix(found["indent"]) for line in found["code"].splitlines()) + "\n"
        line = text.count("\n", 0, found.start("code")) + 1
        title = _TITLE.search(found["information"])
        yield Snippet(page, line, found["language"], found["marker"] or "", code, title[1] if title else "")


def first_example(page: Path = CHECKOUT / "docs" / "getting-started.md") -> str:
    """The first app of a page. Default: of Getting started."""
    return next(snippet.code for snippet in snippets(page) if snippet.language == "python")


def readme_example() -> str:
    """The README's app."""
    return first_example(CHECKOUT / "README.md")
