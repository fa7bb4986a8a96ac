"""``make faults``: every fault at every step, the resulting figures, and a verdict in the last line.

All that is printed is in the log as well.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from constructs_optim_local.cloud import LocalCloud

from . import matrix
from .scenarios import SCENARIOS
from .stacks import local_cloud
from .trial import PHASES, Outcome, Trials

_WIDTH = 120
_LOG = Path("cdk.out/faults.log")
_PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
_BLOCK = re.compile(r"(?<=<!-- written by make faults -->\n).*?(?=<!-- end -->)", re.DOTALL)


class Workers:
    """Several local clouds side by side; each does one thing at a time."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, initializer=self._start)
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._clouds: list[LocalCloud] = []

    def _start(self) -> None:
        cloud = local_cloud()
        with self._lock:
            self._clouds.append(cloud)
            self._mine.trials = Trials(cloud, place=str(len(self._clouds)))

    def submit(self, work: Callable[[Trials], Outcome]) -> Future[Outcome]:
        """Submit work to one of the clouds."""
        return self._pool.submit(lambda: work(self._mine.trials))

    def plan(self, phases: Iterable[str]) -> list[Callable[[Trials], Outcome]]:
        """The trials of all phases, found by clean runs; of a phase without a clean run, what went wrong in it."""
        return [work for works in self._pool.map(self._plan, phases) for work in works]

    def _plan(self, phase: str) -> list[Callable[[Trials], Outcome]]:
        try:
            return [lambda on, trial=trial: on.run(trial) for trial in matrix.trials(self._mine.trials, phase)]
        except matrix.NoCleanRun as broken:
            outcome = broken.outcome
            return [lambda _: outcome]

    def close(self) -> None:
        """End the clouds."""
        self._pool.shutdown(cancel_futures=True)
        for cloud in self._clouds:
            cloud.stop()


class Log:
    """Prints to the terminal and to a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._consoles = (Console(width=_WIDTH), Console(width=_WIDTH, file=self._file))

    def print(self, what: str | Table, **options: Any) -> None:
        """Print it to both, at once: who waits for the terminal or reads the file sees the same."""
        for console in self._consoles:
            console.print(what, **options)
        self._file.flush()


def main() -> int:
    """Run and print; returns 0 if every deployment recovered, 1 if one did not, and 2 if the harness failed."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--clouds", type=int, default=2, help="how many local clouds work side by side")
    parser.add_argument("--phase", action="append", choices=PHASES, help="only the calls of this phase")
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), help="only this scenario")
    parser.add_argument("--log", type=Path, default=_LOG, help="the file to which the output is written as well")
    given = parser.parse_args()
    log, only = Log(given.log), given.phase or given.scenario
    started = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        with contextlib.closing(Workers(given.clouds)) as workers:
            scenarios = given.scenario or ([] if given.phase else sorted(SCENARIOS))
            work = [lambda on, name=name: on.judge(name, lambda: SCENARIOS[name](on)) for name in scenarios]
            work += workers.plan(given.phase or ([] if only else PHASES))
            for future in [workers.submit(one) for one in work]:
                outcomes.append(future.result())
                _show(outcomes[-1], log)
    except Exception:
        log.print(traceback.format_exc(), style="red", highlight=False, markup=False)
        log.print(f"Verdict: none, because the harness failed after {len(outcomes)} lives. Log: {given.log}")
        return 2
    status = conclude(outcomes, time.monotonic() - started, log, f"Log: {given.log}")
    if status == 0 and not only:
        _PAGE.write_text(written(_PAGE.read_text(encoding="utf-8"), outcomes), encoding="utf-8")
    return status


def conclude(outcomes: list[Outcome], seconds: float, log: Log, end: str) -> int:
    """Print the figures, what did not survive, and the verdict with ``end``; returns 0 if all survived, otherwise 1."""
    log.print(_summary(outcomes, seconds))
    broken = [outcome for outcome in outcomes if outcome.problems]
    for outcome in broken:
        _show(outcome, log)
    verdict = f"{len(broken)} of {len(outcomes)} did not survive, see above" if broken else "all survived"
    log.print(f"Verdict: {verdict}. {end}", highlight=False)
    return 1 if broken else 0


def written(page: str, outcomes: list[Outcome]) -> str:
    """Return the page about reliability with the figures of a whole run that all survived."""
    pairs = sum(len(outcome.faults) for outcome in outcomes)
    steps = frozenset[str]().union(*(outcome.steps for outcome in outcomes))
    sentence = (
        f"The last whole run had {pairs} pairs of a fault and a step, {len(steps)} steps, and "
        f"{len(outcomes)} life cycles of stacks.\n"
        "All survived; no job was orphaned, and no artifact was lost.\n"
    )
    return _BLOCK.sub(lambda _: f"\n{sentence}\n", page)


def _show(outcome: Outcome, log: Log) -> None:
    mark = "[red]BROKEN[/]  " if outcome.problems else "survived"
    log.print(f"{mark} {outcome.seconds:5.1f} s  {outcome.name}", highlight=False)
    for problem in outcome.problems:
        log.print(f"         {problem}", style="red", highlight=False, markup=False)


def _summary(outcomes: list[Outcome], seconds: float) -> Table:
    tried = Counter(fault for outcome in outcomes for fault in outcome.faults)
    survived = Counter(fault for outcome in outcomes if not outcome.problems for fault in outcome.faults)
    table = Table(title="Faults", show_header=False)
    table.add_row("faults injected (fault x step pairs)", str(tried.total()))
    for fault, count in sorted(tried.items()):
        table.add_row(f"  {fault}", f"{survived[fault]} of {count} survived")
    steps = frozenset[str]().union(*(outcome.steps for outcome in outcomes))
    table.add_row("steps covered", str(len(steps)))
    table.add_row("stacks' lives tried", str(len(outcomes)))
    table.add_row("survived", f"{survived.total()} ({100 * survived.total() / max(tried.total(), 1):.0f}%)")
    table.add_row("orphaned jobs", str(sum(outcome.orphaned_jobs for outcome in outcomes)))
    table.add_row("lost artifacts", str(sum(outcome.lost_artifacts for outcome in outcomes)))
    table.add_row("time", f"{int(seconds) // 60} min {int(seconds) % 60} s")
    return table


if __name__ == "__main__":
    sys.exit(main())
