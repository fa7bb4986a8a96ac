"""Print how often the gate, its limits, the shadow, the comparison and the warm-up reach false and true verdicts.

    python bench/verdicts/rates.py                  # 200 runs a row, for half an hour on two cores
    python bench/verdicts/rates.py --only shadow    # one judge's rows
    python bench/verdicts/rates.py --write          # all rows, also as the table of docs/verdicts.md

Each row simulates requests with known properties, and lets the product judge them. The program exits with 1 if a share
is beyond its limit.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import comparison
import gate
import lag
import shadow
import warm_up
from row import Row, Rows

# The longest first, so that the processes end together.
JUDGES: Mapping[str, Rows] = {
    "limit": gate.limits,
    "shadow": shadow.rows,
    "gate": gate.regressions,
    "comparison": comparison.rows,
    "lag": lag.rows,
    "warm-up": warm_up.rows,
}
TITLES = {
    "shadow": "Shadow tests",
    "gate": "Gates: regressions",
    "limit": "Gates: limits",
    "comparison": "Comparisons",
    "lag": "Comparisons on a busy machine",
    "warm-up": "The warm-up",
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "verdicts.md"
_BLOCK = re.compile(r"(?<=<!-- Generated: python bench/verdicts/rates.py --write -->\n).*(?=<!-- end -->\n)", re.DOTALL)
_COLUMNS = ("Traffic", "Verdict", "Runs", "Share", "95% interval", "Allowed")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(JUDGES))
    parser.add_argument("--write", action="store_true", help="write the rows of all judges into docs/verdicts.md")
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write needs the rows of all judges, without --only")
    chosen = [rows for name, rows in JUDGES.items() if arguments.only in (None, name)]
    with ProcessPoolExecutor() as processes:
        waiting = [processes.submit(_simulated, rows, arguments.runs, arguments.seed) for rows in chosen]
        rows = [row for each in waiting for row in each.result()]
    table = Table("Judge", *_COLUMNS, box=None)
    for row in rows:
        table.add_row(row.judge, *_cells(row))
    Console(width=160).print(table)
    if arguments.write:
        content = "".join(f"{line}\n" for line in _page(rows, arguments.seed))
        PAGE.write_text(_BLOCK.sub(lambda _: content, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    beyond = [row for row in rows if not row.holds]
    for row in beyond:
        print(f"beyond its limit: {row.judge}, {row.traffic}, {row.verdict}: {row.share:.1%}")
    return 1 if beyond else 0


def _simulated(rows: Rows, runs: int, seed: int) -> list[Row]:
    return list(rows(runs, seed))


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.interval
    allowed = f"at most {row.most:.0%}" if row.most is not None else ""
    allowed = f"at least {row.least:.0%}" if row.least is not None else allowed
    return (
        row.traffic,
        row.verdict,
        f"{row.found} of {row.runs}",
        f"{row.share:.1%}",
        f"{low:.1%} to {high:.1%}",
        allowed,
    )


def _page(rows: Sequence[Row], seed: int) -> Iterator[str]:
    """Yield the lines of the page's tables."""
    yield f"Seed {seed}. Rows without an allowed share show what happens, and are no test."
    by_judge = {judge: list(found) for judge, found in groupby(rows, lambda row: row.judge)}
    for judge, title in TITLES.items():
        yield from (
            "",
            f"## {title}",
            "",
            f"| {' | '.join(_COLUMNS).lower()} |",
            "| --- | --- | ---: | ---: | --- | --- |",
        )
        yield from (f"| {' | '.join(_cells(row))} |" for row in by_judge[judge])
    yield ""


if __name__ == "__main__":
    sys.exit(main())
