"""Tests that run the commands of a block in place of the runner, which the block's comment names.

A command is one of a test if the test, or what it uses of its file, has the command's words: its sub-commands and the
names of its options, as text or as names of methods. Values may differ.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer.main

from constructs_optim.cli.main import app
from tests.support.documents import CHECKOUT

from .page import Console, steps

_REFERENCE = re.compile(r"tests/[\w/]+\.py::\w+|docs/[\w/-]+\.md|\.ci/run")
_MAKEFILE = (CHECKOUT / "Makefile").read_text()
_SETTING = re.compile(r"export |\w+=")


def references(reason: str) -> list[str]:
    """The tests that a comment names, as ``tests/file.py::test_name``; other pages, or the script of CI."""
    return _REFERENCE.findall(reason)


def commands_without(step: Console, tests: list[str]) -> list[str]:
    """The commands of a block that none of the tests runs."""
    known = [words for test in tests for words in (_words_of_page(test) if test.endswith(".md") else [words_of(test)])]
    return [
        command.copied
        for command in step.commands
        if not _SETTING.match(command.copied)
        and not all(any(wanted <= words for words in known) for wanted in _wanted(command.copied))
    ]


def _words_of_page(page: str) -> Iterator[set[str]]:
    """The words of each command that a page runs."""
    for step in steps(CHECKOUT / page):
        if isinstance(step, Console):
            for command in step.commands:
                yield from _wanted(command.copied)


@cache
def words_of(test: str) -> frozenset[str]:
    """The words of a test and, of its file, of what it uses.

    Raises:
        AssertionError: if there is no such test.
    """
    path, _, name = test.partition("::")
    text = (CHECKOUT / path).read_text()
    if not name:
        return frozenset(text.split())
    module = ast.parse(text)
    defined = {each: node for node in ast.walk(module) for each in _names(node)}
    assert name in defined, f"there is no {test}"
    seen, words, left = set[str](), set[str](), [name]
    # What drives the CDK CLI.
    words |= {"cdk"} if "DeployedStack" in text else set()
    while left:
        if (name := left.pop()) in seen or name not in defined:
            continue
        seen.add(name)
        for node in ast.walk(defined[name]):
            match node:
                case ast.Constant(value=str(constant)):
                    words |= set(re.split(r"[\s='\"]+", constant))
                case ast.Attribute(attr=attribute):
                    words.add(attribute)
                    left.append(attribute)
                case ast.Name(id=used) | ast.arg(arg=used):
                    left.append(used)
                case _:
                    pass
    return frozenset(words)


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass


def _wanted(command: str) -> Iterator[set[str]]:
    """The words of a command, and of one that it starts."""
    words = [word for word in shlex.split(command.replace("\\\n", " ")) if word not in ("eval", "npx")]
    started = words[words.index("--") + 1 :] if "--" in words else []
    program, *words = words[: len(words) - len(started)]
    options = {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}
    match program.rpartition("/")[2]:
        case "constructs-optim":
            yield {*_sub_commands(words), *options}
        case "make" if found := re.search(
            rf"^{words[0]}:.*\n(?:\t.*\n)*?\t.*(constructs-optim .*)", _MAKEFILE, re.MULTILINE
        ):
            yield from _wanted(found[1])
        case "make":
            yield {"make", words[0]}
        case name:
            yield {name, words[0], *options}
    if started:
        yield from _wanted(shlex.join(started))


def _sub_commands(words: list[str]) -> Iterator[str]:
    group: Any = typer.main.get_command(app)
    for word in words:
        if word not in getattr(group, "commands", {}):
            return
        group = group.commands[word]
        yield word
