"""Shows how far an evaluation is, on standard error."""

from __future__ import annotations

import statistics
import time
from collections import deque
from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from constructs_optim.recipe.evaluation.result import Level

from .load import MeasuredLevel, Record
from .options import Load
from .sides import Side

_REFRESH_SECONDS = 0.5
_RECENT = 200


class LiveProgress(AbstractContextManager["LiveProgress"]):
    """A bar a level, with the number of errors and the first tokens of the last requests.

    It is drawn between requests and at most twice a second: a thread that draws on its own would hold the interpreter
    while responses arrive.
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
        self._bar = TaskID(0)
        self._drawn = self._began = self._done = 0.0
        self._errors = 0
        self._seconds: float | None = None
        self._first_tokens: deque[float] = deque(maxlen=_RECENT)

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def level_began(self, side: Side, load: Load, level: MeasuredLevel) -> None:
        """A load is put on a side."""
        self._errors, self._seconds, self._began = 0, load.seconds, time.monotonic()
        self._first_tokens.clear()
        self._done = level.seconds if load.seconds is not None else len(level.records)
        total = load.total if load.seconds is None else round(load.seconds)
        description = _description(side, load.concurrency)
        self._bar = self._bars.add_task(description, total=total, completed=round(self._done), recent="warming up")
        self._bars.refresh()

    def request_ended(self, record: Record) -> None:
        """A request of that level has ended."""
        self._errors += record.error is not None
        if record.first_token is not None:
            self._first_tokens.append((record.first_token - record.start) * 1000)
        if self._seconds is None:
            self._done += 1
        now = time.monotonic()
        if now - self._drawn > _REFRESH_SECONDS:
            self._drawn = now
            done = self._done if self._seconds is None else min(self._done + now - self._began, self._seconds)
            self._bars.update(self._bar, completed=round(done), recent=self._recent(), refresh=True)

    def level_ended(self, side: Side, level: Level) -> None:
        """The level is over, or was given up or interrupted."""
        total = self._bars.tasks[-1].total
        completed = total if level.complete else None
        self._bars.update(self._bar, completed=completed, recent=self._recent(), refresh=True)
        if not self._console.is_terminal:
            requests = f"{level.metrics['client_invocations']:.0f} requests"
            description = _description(side, level.concurrency)
            self._console.print(f"{description}: {requests}, {self._recent()}", highlight=False, soft_wrap=True)

    def _recent(self) -> str:
        parts = [f"{self._errors} errors"] if self._errors else []
        if self._first_tokens:
            parts.append(f"first token {statistics.median(self._first_tokens):.0f} ms")
        return ", ".join(parts) or "no errors"


def _description(side: Side, users: int) -> str:
    return f"{side.subject.label}, {users} user{'s' if users > 1 else ''}"
