"""Print how often the gate, its limits, the shadow, the comparison and the warm-up reach false and true verdicts.

    python bench/verdicts/rates.py                  # 200 runs a row, for a few minutes
    python bench/verdicts/rates.py --only shadow    # one judge's rows

Each row simulates requests with known properties, and lets the product judge them. The program exits with 1 if a share
is beyond its limit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
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

JUDGES: Mapping[str, Rows] = {
    "limit": gate.limits,
    "gate": gate.regressions,
    "shadow": shadow.rows,
    "comparison": comparison.rows,
    "lag": lag.rows,
    "warm-up": warm_up.rows,
}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(JUDGES))
    arguments = parser.parse_args()
    chosen = [rows for name, rows in JUDGES.items() if arguments.only in (None, name)]
    with ProcessPoolExecutor() as processes:
        waiting = [processes.submit(_simulated, rows, arguments.runs, arguments.seed) for rows in chosen]
        rows = [row for each in waiting for row in each.result()]
    table = Table("Judge", "Traffic", "Verdict", "Runs", "Share", "95% interval", "Allowed", "", box=None)
    for row in rows:
        low, high = row.interval
        table.add_row(
            row.judge,
            row.traffic,
            row.verdict,
            f"{row.found} of {row.runs}",
            f"{row.share:.1%}",
            f"{low:.1%} to {high:.1%}",
            "" if row.most is None else f"at most {row.most:.0%}",
            "" if row.least is None else f"at least {row.least:.0%}",
        )
    Console(width=160).print(table)
    beyond = [row for row in rows if not row.holds]
    for row in beyond:
        print(f"beyond its limit: {row.judge}, {row.traffic}, {row.verdict}: {row.share:.1%}")
    return 1 if beyond else 0


def _simulated(rows: Rows, runs: int, seed: int) -> list[Row]:
    return list(rows(runs, seed))


if __name__ == "__main__":
    sys.exit(main())
