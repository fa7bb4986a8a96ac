"""An evaluation: one or two sides at every concurrency, from requests to results."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from constructs_optim.recipe.evaluation.calculation import errors_by_kind, summarize
from constructs_optim.recipe.evaluation.result import EvaluationResult, Level, Price, Workload

from .drafts import count_drafts
from .load import MeasuredLevel, Segment
from .options import FormatName, Load, Options
from .prompts import digest
from .run_directory import RunDirectory
from .sides import Side
from .streaming import Record
from .tokens import count_tokens

# A larger lag of this machine distorts the measured times.
_MOST_LAG_MS = 10.0
_REFRESH_SECONDS = 0.5


class LiveProgress(Progress):
    """A bar for each level, with its number of errors.

    It is drawn between requests and at most twice a second: a drawing thread would hold the interpreter lock while
    responses arrive.
    """

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
        errors, console = TextColumn("{task.fields[errors]} errors"), Console(stderr=True)
        super().__init__(*columns, errors, console=console, auto_refresh=False, disable=not console.is_terminal)
        self._drawn = 0.0

    def level_began(self, side: Side, load: Load, level: MeasuredLevel) -> None:
        """Add the bar of a level, which has no end where time limits it."""
        description = f"{side.subject.label}, {load.concurrency} user{'s' if load.concurrency > 1 else ''}"
        self.add_task(description, total=load.total, completed=len(level.records), errors=0)
        self.refresh()

    def request_ended(self, record: Record) -> None:
        """Count a request of the current level."""
        bar = self.tasks[-1]
        self.update(bar.id, advance=1, errors=bar.fields["errors"] + (record.error is not None))
        now = time.monotonic()
        if now - self._drawn > _REFRESH_SECONDS:
            self._drawn = now
            self.refresh()

    def level_ended(self, requests: int) -> None:
        """Complete the level's bar; without a terminal, print a line instead."""
        bar = self.tasks[-1]
        self.update(bar.id, total=requests, completed=requests, refresh=True)
        if self.disable:
            line = f"{bar.description}: {requests} requests, {bar.fields['errors']} errors"
            self.console.print(line, highlight=False, soft_wrap=True)


@dataclass
class Evaluation:
    """Measures one side, or the baseline and the optimized side in alternation.

    Both are measured at a concurrency before the next one, so that changes over time, such as other traffic or a warm
    cache, affect both.
    """

    directory: RunDirectory
    options: Options
    sides: Sequence[Side]
    interrupted: bool = False

    async def run(self, progress: LiveProgress) -> None:
        """Measure the levels that have not been measured yet. Ctrl-C ends it and keeps the finished requests."""
        for load in self.options.loads:
            for side in self.sides:
                if not self.interrupted:
                    await self._measure(side, load, progress)

    def result(self, side: Side) -> EvaluationResult:
        """The result of a side, as far as it has been measured."""
        measured = [
            (summarize_level(side.price, load.concurrency, level), level)
            for load in self.options.loads
            if (level := self.directory.measured(side.name, load.concurrency)).records
        ]
        return EvaluationResult(
            subject=side.subject,
            workload=self._workload(side),
            started=self.options.started,
            levels=tuple(level for level, _ in measured),
            price=side.price,
            notes=(*side.notes, *_notes(side, measured)),
        )

    def _workload(self, side: Side) -> Workload:
        generation, load, prompts = self.options.generation, self.options.loads[0], side.sender.prompts
        parameters = {
            name: value if isinstance(value, str | int | float | bool) else json.dumps(value)
            for name, value in generation.parameters.items()
        }
        requests = {load.total for load in self.options.loads}
        return Workload(
            prompts=len(prompts),
            prompts_digest=digest(prompts),
            tool=f"constructs-optim {version('constructs-optim')}",
            format=side.sender.format.name.value,
            parameters={"max_tokens": generation.max_tokens, "temperature": generation.temperature} | parameters,
            requests=load.total if len(requests) == 1 else None,
            seconds=load.seconds,
            warm_up=load.warm_up,
            timeout_seconds=load.timeout_seconds,
            tokens_counted_by="tokenizer" if side.tokenizer else "server",
            tokenizer=side.tokenizer.source if side.tokenizer else None,
        )

    async def _measure(self, side: Side, load: Load, progress: LiveProgress) -> None:
        level = self.directory.measured(side.name, load.concurrency)
        progress.level_began(side, load, level)
        if level.remains(load):
            with self.directory.append(side.name, load.concurrency, level) as write:

                def recorded(record: Record) -> None:
                    write(record)
                    progress.request_ended(record)

                before = await count_drafts(side.subject.url)
                try:
                    await side.sender.run(load, level, recorded)
                    counted = (await count_drafts(side.subject.url)).since(before)
                    level.segments[-1].drafts, level.segments[-1].accepted = counted.drafts, counted.accepted
                except asyncio.CancelledError:
                    # Ctrl-C: the event loop's runner cancels its main task.
                    self.interrupted = True
        elif level.records and not level.complete:
            # The process was killed between the last request and the segment's end.
            level.segments.append(Segment(complete=True))
        if level.records:
            chat = side.sender.format.name is FormatName.OPENAI
            await asyncio.to_thread(count_tokens, level.records, side.sender.prompts, side.tokenizer, chat=chat)
            self.directory.rewrite(side.name, load.concurrency, level)
            progress.level_ended(len(level.records))


def summarize_level(price: Price | None, concurrency: int, level: MeasuredLevel) -> Level:
    """The metrics of a side at a concurrency, by the price of all its instances."""
    metrics = summarize(
        level.records,
        level.seconds,
        concurrency,
        instance_price_per_hour=price.instance_price_per_hour if price else None,
        discount=price.discount if price else 0.0,
    )
    if drafts := sum(segment.drafts for segment in level.segments):
        accepted = sum(segment.accepted for segment in level.segments)
        metrics |= {"acceptance_length": 1 + accepted / drafts, "drafts": drafts}
    return Level(
        concurrency=concurrency,
        seconds=round(level.seconds, 3),
        metrics={name: round(value, 6) for name, value in metrics.items()},
        errors=errors_by_kind(level.records),
        complete=level.complete,
        retries=sum(record.retried for record in level.records),
    )


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
    successful = [record for record in measured.records if record.is_measured]
    whole = sum(record.arrived_whole for record in successful)
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
        yield "the evaluation was not finished" + (f": {reason}." if reason else "; --resume continues it.")
    if len(measured.segments) > 1:
        yield "the evaluation was interrupted and resumed."
