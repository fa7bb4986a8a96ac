"""``make explore``: millions of interleaved calls, and what does not hold after them."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
import time
from dataclasses import dataclass, field

from .actors import Chances
from .binding import bound
from .life import live

_SHOWN = 20


@dataclass
class Found:
    """What some lives came to."""

    lives: int = 0
    calls: int = 0
    processor_seconds: float = 0.0
    violations: list[tuple[int, tuple[str, ...]]] = field(default_factory=list[tuple[int, tuple[str, ...]]])
    exempted: collections.Counter[str] = field(default_factory=collections.Counter[str])

    def add(self, other: Found) -> None:
        """Count those of another process as well."""
        self.lives += other.lives
        self.calls += other.calls
        self.processor_seconds += other.processor_seconds
        self.violations += other.violations
        self.exempted += other.exempted


def explore(
    first: int,
    step: int,
    calls: int,
    lives: int | None = None,
    *,
    chances: Chances | None = None,
    until: str | None = None,
    trace: bool = False,
) -> Found:
    """Live from every ``step``-th seed, until so many calls were made or so many lives lived.

    With ``until``, no further than to a violation that has these words.
    """
    found = Found()
    began = time.process_time()
    with bound() as binding:
        seed = first
        while found.calls < calls and (lives is None or found.lives < lives):
            life = live(seed, binding, chances=chances, trace=trace)
            found.lives += 1
            found.calls += life.calls
            if life.violations and life.exempted:
                found.exempted[life.exempted] += 1
            elif life.violations:
                found.violations.append((seed, life.violations))
                if until and any(until in sentence for sentence in life.violations):
                    break
            if trace:
                sys.stdout.writelines(f"{line}\n" for line in life.lines)
            seed += step
    found.processor_seconds = time.process_time() - began
    return found


def main() -> int:
    """Explore, print, and say whether everything held."""
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
        (given.seed + number, processes, given.calls // processes, given.lives, given.trace)
        for number in range(processes)
    ]
    found = Found()
    if processes == 1:
        found.add(_explored(work[0]))
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            for part in pool.imap_unordered(_explored, work):
                found.add(part)
    for seed, violations in found.violations[:_SHOWN]:
        _say(f"seed {seed}: {'; '.join(violations)}")
        _say(f"  its trace: python -m tests.explore --seed {seed} --lives 1 --trace")
    rate = found.calls / found.processor_seconds if found.processor_seconds else 0.0
    _say(
        f"{found.calls:,} calls interleaved in {found.lives:,} lives: {len(found.violations)} with violations, "
        f"{sum(found.exempted.values())} exempted {dict(found.exempted) or ''}; {time.monotonic() - began:.0f} s, "
        f"{rate:,.0f} calls a second of one processor"
    )
    return 1 if found.violations else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _explored(work: tuple[int, int, int, int | None, bool]) -> Found:
    first, step, calls, lives, trace = work
    return explore(first, step, calls, lives, trace=trace)


if __name__ == "__main__":
    sys.exit(main())
