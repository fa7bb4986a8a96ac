"""How an evaluation goes, on a terminal."""

from __future__ import annotations

import statistics
import time
from collections import deque
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from constructs_optim.evaluator import evaluation
from constructs_optim.evaluator.evaluation import Side
from constructs_optim.evaluator.load import Load
from constructs_optim.evaluator.records import Record
from constructs_optim.evaluator.run_directory import MeasuredLevel
from constructs_optim.recipe.evaluation.result import Level

_REFRESH_SECONDS = 0.5
_RECENT = 200


class LiveProgress(evaluation.Progress):
    """A bar a level, with what the last requests came to.

    It is drawn between requests and at most twice a second: a thread that draws on its own would hold the interpreter
    while answers arrive.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[recent]}"),
            console=self._console,
            auto_refresh=False,
            disable=not self._console.is_terminal,
        )
        self._bar: TaskID | None = None
        self._drawn = self._began = 0.0
        self._errors = 0
        self._seconds: float | None = None
        self._done = 0.0
        self._first_tokens: deque[float] = deque(maxlen=_RECENT)

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def level_began(self, side: Side, load: Load, done: MeasuredLevel) -> None:
        """A load is put on a side, of which some may be done already."""
        self._errors, self._seconds, self._began = 0, load.seconds, time.monotonic()
        self._first_tokens.clear()
        self._done = done.seconds if load.seconds is not None else len(done.records)
        total = load.requests if load.seconds is None else round(load.seconds)
        described = f"{side.subject.label}, {load.concurrency} user{'s' if load.concurrency > 1 else ''}"
        self._bar = self._bars.add_task(described, total=total, completed=round(self._done), recent="warming up")
        self._bars.refresh()

    def request_ended(self, record: Record) -> None:
        """A request of that level has ended."""
        self._errors += record.error is not None
        if record.first_token is not None:
            self._first_tokens.append((record.first_token - record.start) * 1000)
        if self._seconds is None:
            self._done += 1
        now = time.monotonic()
        if self._bar is not None and now - self._drawn > _REFRESH_SECONDS:
            self._drawn = now
            done = self._done if self._seconds is None else min(self._done + now - self._began, self._seconds)
            self._bars.update(self._bar, completed=round(done), recent=self._recent())
            self._bars.refresh()

    def level_ended(self, side: Side, level: Level) -> None:
        """What the level came to, or what there is of it."""
        if self._bar is None:
            return
        total = self._bars.tasks[self._bars.task_ids.index(self._bar)].total
        self._bars.update(self._bar, completed=total if level.complete else None, recent=self._recent())
        self._bars.refresh()
        if not self._console.is_terminal:
            described = f"{side.subject.label}, {level.concurrency} user{'s' if level.concurrency > 1 else ''}"
            requests = f"{level.metrics['client_invocations']:.0f} requests"
            self._console.print(f"{described}: {requests}, {self._recent()}", highlight=False, soft_wrap=True)

    def _recent(self) -> str:
        said = [f"{self._errors} errors"] if self._errors else []
        if self._first_tokens:
            said.append(f"first token {statistics.median(self._first_tokens):.0f} ms")
        return ", ".join(said) or "no errors"
