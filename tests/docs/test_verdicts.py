"""The page with the rates of verdicts: its rows are those of the simulations, within what is allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ..support.checkout_programs import loaded

_BENCH = Path(__file__).parents[2] / "bench" / "verdicts"
RUN = "run: python bench/verdicts/rates.py --write"


@pytest.fixture(scope="module")
def bench() -> Any:
    return loaded(_BENCH / "rates.py")


def cells(bench: Any) -> list[list[str]]:
    """The page's rows: traffic, verdict, runs, share, interval, and what is allowed."""
    rows = [re.split(r" *\| *", line.strip("|\n "))[:6] for line in bench.PAGE.read_text().splitlines()]
    return [row + [""] * (6 - len(row)) for row in rows if len(row) > 3 and re.fullmatch(r"\d+ of \d+", row[2])]


def test_each_share_on_the_page_is_within_what_is_allowed(bench: Any) -> None:
    rows = cells(bench)
    assert len(rows) > 100, RUN
    for traffic, verdict, runs, share, _, allowed in rows:
        found, total = map(int, runs.split(" of "))
        assert (total, share) == (200, f"{found / total:.1%}"), traffic
        most = re.fullmatch(r"at most (\d+)%", allowed)
        least = re.fullmatch(r"at least (\d+)%", allowed)
        assert most or least or not allowed, allowed
        assert most is None or found / total <= int(most[1]) / 100, (traffic, verdict)
        assert least is None or found / total >= int(least[1]) / 100, (traffic, verdict)


@pytest.mark.exhaustive
def test_the_page_has_each_simulated_traffic_that_has_a_limit(bench: Any) -> None:
    simulated = [row for rows in bench.JUDGES.values() for row in rows(1, 1)]
    required = {
        (row.traffic, row.verdict, bench._cells(row)[-1])
        for row in simulated
        if row.most is not None or row.least is not None
    }
    assert required == {(row[0], row[1], row[5]) for row in cells(bench) if row[5]}, RUN
