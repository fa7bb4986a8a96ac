"""Docstrings whose layout a formatter could destroy."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    file
    for folder in ("constructs_optim", "constructs_optim_local", "tooling", "bench", "examples")
    for file in sorted((ROOT / folder).rglob("*.py"))
]
_COLUMNS = re.compile(r"\S {3,}\S")
_FRAME = re.compile(r"=+( +=+)+")


def run_together(docstring: str) -> Iterator[str]:
    """Lines with columns that are neither in a table nor indented."""
    is_in_table = False
    for before, line in itertools.pairwise(["", *docstring.splitlines()]):
        if _FRAME.fullmatch(line):
            is_in_table = not before.strip() or not is_in_table
        elif _COLUMNS.search(line) and not line.startswith("    ") and not is_in_table:
            yield line


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def test_no_table_of_a_docstring_is_reflowed_into_a_paragraph() -> None:
    found = {
        f"{file.relative_to(ROOT)}: {line}"
        for file in FILES
        for docstring in docstrings(file.read_text(encoding="utf-8"))
        for line in run_together(docstring)
    }
    assert not found


@pytest.mark.parametrize(
    ("docstring", "is_found"),
    [
        ("Files.\n\nrun.json      the options prompts.jsonl\na copy of it", True),
        ("Files.\n\n    run.json      the options\n", False),
        ("Files.\n\n========  =====\nrun.json  that\nx         this\n========  =====\n", False),
        ("Files.\n\n===  ===\na    b\n===  ===\n\nrun.json     the options", True),
    ],
)
def test_columns_outside_of_tables_are_found(docstring: str, is_found: bool) -> None:
    assert bool(list(run_together(docstring))) is is_found
