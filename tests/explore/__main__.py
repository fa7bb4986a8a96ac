"""``make explore``: millions of interleaved calls, and what does not hold after them."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

from .exploration import Found, Work, explored

_SHOWN = 20


def main() -> int:
    """Explore and print; returns whether every invariant held."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first life's; the next ones' follow")
    parser.add_argument("--calls", type=int, default=5_000_000, help="how many calls to AWS to interleave")
    parser.add_argument("--lives", type=int, help="how many lives to live at most")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trace", action="store_true", help="print every call; in one process")
    given = parser.parse_args()
    processes = 1 if given.trace or given.lives is not None else given.processes
    began = time.monotonic()
    work = [
        Work(given.seed + number, processes, given.calls // processes, given.lives, given.trace)
        for number in range(processes)
    ]
    found = Found()
    if processes == 1:
        found.add(explored(work[0]))
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            for part in pool.imap_unordered(explored, work):
                found.add(part)
    for seed, violations in found.violations[:_SHOWN]:
        _say(f"seed {seed}: {'; '.join(violations)}")
        _say(f"  its trace: python -m tests.explore --seed {seed} --lives 1 --trace")
    rate = found.calls / found.processor_seconds if found.processor_seconds else 0.0
    _say(", ".join(f"{count:,} {what}" for what, count in sorted(found.happened.items())))
    _say(
        f"{found.calls:,} calls interleaved in {found.lives:,} lives: {len(found.violations)} with violations, "
        f"{len(found.exempted)} with exempted ones (what cannot be known); {time.monotonic() - began:.0f} s, "
        f"{rate:,.0f} calls a second of one processor"
    )
    return 1 if found.violations else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
