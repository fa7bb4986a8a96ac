"""The sizes on the page about performance are those of the benchmark's templates, and its apps can be deployed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ..support.checkout_programs import loaded

_BENCH = Path(__file__).parents[2] / "bench" / "template_figures.py"
_SHARE = 0.1


@pytest.fixture(scope="module")
def bench() -> Any:
    return loaded(_BENCH)


@pytest.fixture(scope="module")
def figures(bench: Any) -> Any:
    return bench.figures()


def cells(table: str) -> list[list[float]]:
    """The numbers of each row of a table."""
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", row.partition(" | ")[2])] for row in rows]


def test_the_page_has_the_sizes_of_the_templates(bench: Any, figures: Any) -> None:
    shown, now = cells(bench.written(bench.PAGE.read_text())), cells(bench.table(figures))
    assert len(shown) == len(now) == len(bench.KINDS)
    for old, new in zip(shown, now, strict=True):
        assert old == pytest.approx(new, rel=_SHARE, abs=1), "run: python bench/template_figures.py"


def test_a_figure_that_drifted_is_noticed(bench: Any, figures: Any) -> None:
    (first, *_), (other, *_) = cells(bench.table(figures)), cells(bench.table(figures))
    other = [other[0] * 1.2, *other[1:]]
    assert other != pytest.approx(first, rel=_SHARE, abs=1)


def test_every_stack_of_the_benchmark_can_be_deployed(bench: Any, figures: Any) -> None:
    for kind, each in figures.items():
        assert each.full.resources <= bench.MOST_RESOURCES, kind
        assert each.full.written <= bench.MOST_BYTES, kind
