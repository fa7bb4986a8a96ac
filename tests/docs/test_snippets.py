"""The code in the documents: Python snippets run, and the command line parses the commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main
from typer.testing import CliRunner

from constructs_optim.cli.main import app as command_line
from constructs_optim.constructs.declaration.document import Document
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack, schema
from tests.support.documents import CHECKOUT, Snippet, pages, snippets

from .snippet_names import names_of

PYTHON = [snippet for page in pages() for snippet in snippets(page) if snippet.language == "python"]
FILES = [
    snippet
    for page in pages()
    for snippet in snippets(page)
    if snippet.language == "yaml" and "\nendpoints:" in snippet.code
]
COMMANDS = [
    (page, command)
    for page in pages()
    for snippet in snippets(page)
    if snippet.language in ("", "console")
    for command in re.findall(
        r"^(?:\$ )?(?:\.venv/bin/)?(constructs-optim (?:[^\n]*\\\n)*[^\n]*)", snippet.code, flags=re.MULTILINE
    )
]


def run(snippet: Snippet) -> dict[str, Any]:
    """Run a snippet after the snippets that it continues, with the names of a reader's app."""
    names = run(before(snippet)) if snippet.marker == "continued" else names_of(snippet)
    exec(compile(snippet.code, str(snippet), "exec"), names)
    return names


def before(snippet: Snippet) -> Snippet:
    """The previous Python snippet on the page."""
    on_page = [each for each in PYTHON if each.page == snippet.page and each.line < snippet.line]
    assert on_page, f"{snippet} continues nothing"
    return on_page[-1]


@pytest.mark.parametrize("snippet", PYTHON, ids=str)
def test_a_python_snippet_runs_and_its_app_is_synthesized(snippet: Snippet) -> None:
    if snippet.marker.startswith("not run: "):
        compile(snippet.code, str(snippet), "exec")
        return
    assert snippet.marker in ("", "continued"), f"{snippet} has an unknown marker: {snippet.marker}"
    names = run(snippet)
    if app := names.get("app"):
        app.synth()


@pytest.mark.parametrize("snippet", FILES, ids=str)
def test_a_file_of_endpoints_is_synthesized(snippet: Snippet) -> None:
    document = Document.parsed(snippet.code, str(snippet))
    jsonschema.Draft202012Validator(schema()).validate(document.data)
    DeclaredStack(document).app.synth()


def leaf(words: list[str]) -> tuple[Any, list[str]]:
    """The sub-command that words name, and the remaining words."""
    group = typer.main.get_command(command_line)
    while words and hasattr(group, "commands") and words[0] in group.commands:
        group = group.commands[words.pop(0)]
    return group, words


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda value: getattr(value, "name", None))
def test_a_documented_command_and_its_options_exist(page: Path, command: str) -> None:
    words = shlex.split(command.replace("\\\n", " "), comments=True)[1:]
    for end in ("|", ">", "&&", ";", "--"):
        words = words[: words.index(end)] if end in words else words
    found, left = leaf(words)
    is_group = hasattr(found, "commands")
    assert not is_group or not left or left[0].startswith("-"), f"{command}: {left[0]} does not exist"
    options = {name for each in found.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
    used = {word.split("=")[0] for word in left if word.startswith("--")}
    assert used <= options, f"{command}: {', '.join(sorted(used - options))} does not exist"


def test_the_command_page_lists_each_command() -> None:
    text = (CHECKOUT / "docs" / "reference" / "command.md").read_text()
    listed = set(re.findall(r"^\| `constructs-optim ([\w-]+)`", text, flags=re.MULTILINE))
    assert listed == set(typer.main.get_command(command_line).commands)  # type: ignore[attr-defined]


def test_the_documents_have_python_and_command_snippets() -> None:
    assert len(PYTHON) >= 20
    assert len(COMMANDS) >= 10
    assert CliRunner().invoke(command_line, ["plan", "--no-such-option"]).exit_code == 2
