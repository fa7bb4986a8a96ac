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
from itertools import dropwhile, groupby
from typing import Any

import typer.main

from constructs_optim.cli.main import app
from tests.support.documents import CHECKOUT

from .page import Console, steps

_REFERENCE = re.compile(r"tests/[\w/]+\.py::\w+|docs/[\w/-]+\.md|\.ci/run")
_MAKEFILE = (CHECKOUT / "Makefile").read_text()
_ASSIGNMENT = re.compile(r"\w+=")
_SEPARATORS = ";&|"


def references(reason: str) -> list[str]:
    """The tests that a comment names, as ``tests/file.py::test_name``; other pages, or the script of CI."""
    return _REFERENCE.findall(reason)


def commands_without(step: Console, tests: list[str]) -> list[str]:
    """The commands of a block that none of the tests runs."""
    known = [words for test in tests for words in (_words_of_page(test) if test.endswith(".md") else [words_of(test)])]
    return [
        command.copied
        for command in step.commands
        if not all(any(wanted <= words for words in known) for wanted in _wanted(command.copied))
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
        return frozenset(word for line in text.splitlines() for word in line.partition("#")[0].split())
    defined = {each: node for node in ast.walk(ast.parse(text)) for each in _names(node)}
    is_test = name.startswith("test_") and isinstance(defined.get(name), ast.FunctionDef | ast.AsyncFunctionDef)
    assert is_test, f"there is no test {test}"
    seen, words, left = set[str](), set[str](), [name]
    while left:
        if (name := left.pop()) in seen:
            continue
        seen.add(name)
        for node in _code(defined[name]) if name in defined else ():
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
    # What drives the CDK CLI.
    return frozenset(words | {"cdk"} if "DeployedStack" in seen else words)


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those inside, without the prose: docstrings, and what assertions say."""
    yield node
    for child in ast.iter_child_nodes(node):
        match node, child:
            case _, ast.Expr(value=ast.Constant()):
                pass
            case ast.Assert(msg=said), _ if child is said:
                pass
            case _:
                yield from _code(child)


def _wanted(line: str) -> Iterator[set[str]]:
    """The words of each command of a line, and of those that they start."""
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace_split, lexer.commenters = True, ""
    for separates, words in groupby(lexer, lambda word: set(word) <= set(_SEPARATORS)):
        if not separates:
            yield from _wanted_of_one(list(words))


def _wanted_of_one(words: list[str]) -> Iterator[set[str]]:
    words = list(dropwhile(lambda word: _ASSIGNMENT.match(word) or word in ("eval", "npx"), words))
    started = words[words.index("--") + 1 :] if "--" in words else []
    program, *words = words[: len(words) - len(started)] or ["export"]
    options = {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}
    arguments = [word for word in words if not word.startswith("-")]
    match program.rpartition("/")[2]:
        case "export":
            pass
        case "constructs-optim":
            yield {*_sub_commands(arguments), *options}
        case "make" if arguments:
            for target in arguments:
                recipe = rf"^{re.escape(target)}:.*\n(?:\t.*\n)*?\t.*(constructs-optim .*)"
                found = re.search(recipe, _MAKEFILE, re.MULTILINE)
                yield from _wanted(found[1]) if found else [{"make", target}]
        case name:
            yield {name, *arguments[:1], *options}
    if started:
        yield from _wanted_of_one(started)


def _sub_commands(words: list[str]) -> Iterator[str]:
    group: Any = typer.main.get_command(app)
    for word in words:
        if word not in getattr(group, "commands", {}):
            return
        group = group.commands[word]
        yield word
