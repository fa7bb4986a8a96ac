"""An evaluation: one or two sides, each at every concurrency, from requests to results."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from pydantic import JsonValue
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from constructs_optim.recipe.evaluation.calculation import errors_by_kind, summarize
from constructs_optim.recipe.evaluation.result import EvaluationResult, Level, Price, Workload

from .load import MeasuredLevel, Record, Segment
from .options import FormatName, Load, Options
from .prompts import digest
from .run_directory import RunDirectory
from .sides import Side
from .tokens import count_tokens

# Beyond it, the machine that measured shows in what was measured.
_MOST_LAG_MS = 10.0
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


class Evaluation:
    """Measures its sides by turns: each concurrency of one side is followed by the same of the other.

    Changes over time, such as other traffic or a warm cache, so fall on both.
    """

    def __init__(self, directory: RunDirectory, options: Options, sides: Sequence[Side], tool: str) -> None:
        """Create an evaluation of one side, or of the baseline and the other; ``tool`` is name and version."""
        self._directory, self._options, self._tool = directory, options, tool
        self.sides: Sequence[Side] = sides
        self.interrupted = False

    async def run(self, progress: LiveProgress) -> None:
        """Measure what has not been measured yet. Ctrl-C ends it and keeps what was measured."""
        for load in self._options.loads:
            for side in self.sides:
                if not self.interrupted:
                    await self._measure(side, load, progress)

    def results(self) -> list[EvaluationResult]:
        """The result of each side, as far as it has been measured."""
        return [self._result(side) for side in self.sides]

    def _result(self, side: Side) -> EvaluationResult:
        measured = [
            (summarize_level(side.price, load.concurrency, level), level)
            for load in self._options.loads
            if (level := self._directory.measured(side.name, load.concurrency)).records
        ]
        return EvaluationResult(
            subject=side.subject,
            workload=self._workload(side),
            started=self._options.started,
            levels=tuple(level for level, _ in measured),
            price=side.price,
            notes=(*side.notes, *_notes(side, measured)),
        )

    def _workload(self, side: Side) -> Workload:
        generation, load, prompts = self._options.generation, self._options.loads[0], side.sender.prompts
        parameters = {"max_tokens": generation.max_tokens, "temperature": generation.temperature}
        requests = {load.total for load in self._options.loads}
        return Workload(
            prompts=len(prompts),
            prompts_digest=digest(prompts),
            tool=self._tool,
            format=side.sender.format.name.value,
            parameters=parameters | {name: _as_scalar(value) for name, value in generation.parameters.items()},
            requests=load.total if len(requests) == 1 else None,
            seconds=load.seconds,
            warm_up=load.warm_up,
            timeout_seconds=load.timeout_seconds,
            tokens_counted_by="tokenizer" if side.tokenizer else "server",
            tokenizer=side.tokenizer.source if side.tokenizer else None,
        )

    async def _measure(self, side: Side, load: Load, progress: LiveProgress) -> None:
        level = self._directory.measured(side.name, load.concurrency)
        progress.level_began(side, load, level)
        if level.remains(load):
            await self._send(side, load, level, progress)
        elif level.records and not level.complete:
            # It was killed between its last request and the note of its end.
            level.segments.append(Segment(complete=True))
        if level.records:
            chat = side.sender.format.name is FormatName.OPENAI
            await asyncio.to_thread(count_tokens, level.records, side.sender.prompts, side.tokenizer, chat=chat)
            self._directory.rewrite(side.name, load.concurrency, level)
            progress.level_ended(side, summarize_level(side.price, load.concurrency, level))

    async def _send(self, side: Side, load: Load, level: MeasuredLevel, progress: LiveProgress) -> None:
        with self._directory.append(side.name, load.concurrency, level) as write:

            def recorded(record: Record) -> None:
                write(record)
                progress.request_ended(record)

            sending = asyncio.create_task(side.sender.run(load, level, recorded))
            try:
                with self._interruptible(sending):
                    await sending
            except asyncio.CancelledError:
                if not self.interrupted:
                    raise

    @contextlib.contextmanager
    def _interruptible(self, sending: asyncio.Task[None]) -> Iterator[None]:
        def interrupt() -> None:
            self.interrupted = True
            sending.cancel()

        loop = asyncio.get_running_loop()
        try:
            loop.add_signal_handler(signal.SIGINT, interrupt)
        except (NotImplementedError, RuntimeError, ValueError):
            # Windows, or another thread than the main one: Ctrl-C ends the program there, and --resume goes on.
            yield
            return
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


def summarize_level(price: Price | None, concurrency: int, level: MeasuredLevel) -> Level:
    """The metrics of a side at a concurrency, by the price of all its instances."""
    requests = [record.request for record in level.records]
    metrics = summarize(
        requests,
        level.seconds,
        concurrency,
        instance_price_per_hour=price.instance_price_per_hour if price else None,
        discount=price.discount if price else 0.0,
    )
    return Level(
        concurrency=concurrency,
        seconds=round(level.seconds, 3),
        metrics={name: round(value, 6) for name, value in metrics.items()},
        errors=errors_by_kind(requests),
        complete=level.complete,
        retries=sum(record.retried for record in level.records),
    )


def _as_scalar(value: JsonValue) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else json.dumps(value)


def _notes(side: Side, levels: Sequence[tuple[Level, MeasuredLevel]]) -> Iterator[str]:
    if side.tokenizer is None:
        yield "Tokens are those that the server counted: no tokenizer was named (tokenizer=...)."
        if any("output_tokens" not in level.metrics and "time_to_first_token" in level.metrics for level, _ in levels):
            yield "The server counted no tokens either: metrics of tokens, and what follows from them, are missing."
    for level, measured in levels:
        for note in _level_notes(level, measured):
            yield f"At concurrency {level.concurrency} {note}"


def _level_notes(level: Level, measured: MeasuredLevel) -> Iterator[str]:
    lag = max((segment.lag_p99 for segment in measured.segments), default=0.0)
    if lag > _MOST_LAG_MS:
        yield f"this machine was too busy: times may be up to {lag:.0f} ms too long."
    successful = [record for record in measured.records if record.request.is_measured]
    whole = sum(record.request.arrived_whole for record in successful)
    if whole:
        share = f"{whole} of {len(successful)}" if whole < len(successful) else "the server did not stream: all"
        yield f"{share} completions arrived in one piece, which leaves no inter-token latency to measure."
    if level.retries:
        yield (
            f"{level.retries} of {len(measured.records)} requests met a connection that the server had closed while "
            "it was idle, and were sent again."
        )
    uncounted = sum(record.server_output_tokens == 0 and bool(record.text or record.reasoning) for record in successful)
    if uncounted:
        yield f"the server counted no tokens in {uncounted} completions that have text: its count of them is not used."
    if not level.complete:
        reason = measured.segments[-1].abandoned if measured.segments else ""
        yield "the evaluation was not finished" + (f": {reason}." if reason else "; --resume goes on with it.")
    if len(measured.segments) > 1:
        yield "the evaluation was interrupted and resumed."
