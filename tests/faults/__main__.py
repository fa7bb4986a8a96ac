"""``make faults``: every fault at every step, and the resulting figures."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from constructs_optim_local.cloud import LocalCloud

from . import matrix
from .scenarios import SCENARIOS
from .stacks import local_cloud
from .trial import PHASES, Outcome, Trials

_console = Console(width=120)


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
        """The trials of all phases, found by clean runs."""
        found = self._pool.map(lambda phase: matrix.trials(self._mine.trials, phase), phases)
        return [lambda on, trial=trial: on.run(trial) for trials in found for trial in trials]

    def stop(self) -> None:
        """End the clouds."""
        self._pool.shutdown(cancel_futures=True)
        for cloud in self._clouds:
            cloud.stop()


def main() -> int:
    """Run and print; returns whether every deployment recovered."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--clouds", type=int, default=2, help="how many local clouds work side by side")
    parser.add_argument("--phase", action="append", choices=PHASES, help="only the calls of this phase")
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), help="only this scenario")
    given = parser.parse_args()
    started = time.monotonic()
    workers = Workers(given.clouds)
    outcomes: list[Outcome] = []
    try:
        only = given.phase or given.scenario
        scenarios = given.scenario or ([] if given.phase else sorted(SCENARIOS))
        work = [lambda on, name=name: on.judge(name, lambda: SCENARIOS[name](on)) for name in scenarios]
        work += workers.plan(given.phase or ([] if only else PHASES))
        for future in [workers.submit(one) for one in work]:
            outcome = future.result()
            outcomes.append(outcome)
            mark = "[red]BROKEN[/]  " if outcome.problems else "survived"
            _console.print(f"{mark} {outcome.seconds:5.1f} s  {outcome.name}", highlight=False)
            for problem in outcome.problems:
                _console.print(f"         {problem}", style="red", highlight=False, markup=False)
    finally:
        workers.stop()
    _console.print(_summary(outcomes, time.monotonic() - started))
    return 1 if any(outcome.problems for outcome in outcomes) else 0


def _summary(outcomes: list[Outcome], seconds: float) -> Table:
    pairs = sum(outcome.covered for outcome in outcomes)
    survived = sum(outcome.covered for outcome in outcomes if not outcome.problems)
    table = Table(title="Faults", show_header=False)
    steps = frozenset[str]().union(*(outcome.steps for outcome in outcomes))
    table.add_row("faults injected (fault x step pairs)", str(pairs))
    table.add_row("steps covered", str(len(steps)))
    table.add_row("stacks' lives tried", str(len(outcomes)))
    table.add_row("survived", f"{survived} ({100 * survived / max(pairs, 1):.0f}%)")
    table.add_row("orphaned jobs", str(sum(outcome.orphaned_jobs for outcome in outcomes)))
    table.add_row("lost artifacts", str(sum(outcome.lost_artifacts for outcome in outcomes)))
    table.add_row("time", f"{int(seconds) // 60} min {int(seconds) % 60} s")
    return table


if __name__ == "__main__":
    sys.exit(main())
