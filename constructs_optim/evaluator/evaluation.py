"""An evaluation: one or two sides, each at every concurrency, from what is there already to the results."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from constructs_optim.recipe.evaluation.calculation import errors_by_kind, summarize
from constructs_optim.recipe.evaluation.result import (
    EvaluationResult,
    Level,
    Price,
    Subject,
    Workload,
)

from . import tokens
from .errors import EvaluationError
from .formats import Format, FormatName
from .load import Load, Segment, Sender
from .prompts import Prompt
from .records import Record
from .run_directory import MeasuredLevel, RunDirectory

MOST_LAG_MS = 10.0
"""Beyond it, what was measured says something of the machine that measured."""
_TRIES = 3


@dataclass
class Side:
    """What is evaluated.

    Attributes:
        name: of its folder: ``optimized``, ``baseline`` or, on its own, ``endpoint``.
        subject: what is told of it.
        sender: sends to it.
        tokenizer: the model's own. Default: the server's counts are taken.
        price: of all its instances. Default: not known; ``notes`` say why.
        notes: what a reader has to know.
    """

    name: str
    subject: Subject
    sender: Sender
    tokenizer: tokens.ModelTokenizer | None = None
    price: Price | None = None
    notes: list[str] = field(default_factory=list)


class Progress:
    """Is told how an evaluation goes; this one does nothing with it."""

    def level_began(self, side: Side, load: Load, done: MeasuredLevel) -> None:
        """A load is put on a side, of which some may be done already."""

    def request_ended(self, record: Record) -> None:
        """A request of that level has ended."""

    def level_ended(self, side: Side, level: Level) -> None:
        """What the level came to, or what there is of it."""


class Evaluation:
    """Measures its sides by turns: each concurrency of one side is followed by the same of the other.

    Whatever changes with time, such as other traffic or a warm cache, so falls on both.
    """

    def __init__(
        self, directory: RunDirectory, sides: Sequence[Side], loads: Sequence[Load], workload: Workload
    ) -> None:
        self._directory, self._workload = directory, workload
        self.sides: Sequence[Side] = sides
        self.loads: Sequence[Load] = loads
        self.interrupted = False

    async def run(self, progress: Progress) -> None:
        """Measure what has not been measured. Ctrl-C ends it; what was measured by then is there.

        Raises:
            EvaluationError: where it cannot go on; what was measured by then is there.
        """
        for load in self.loads:
            for side in self.sides:
                if not self.interrupted:
                    await self._measure(side, load, progress)

    def results(self, started: dt.datetime) -> list[EvaluationResult]:
        """What has been measured of each side, as far as it is there."""
        found: list[EvaluationResult] = []
        for side in self.sides:
            measured = [(load, self._directory.measured(side.name, load.concurrency)) for load in self.loads]
            levels = [(level(side, load.concurrency, done), done) for load, done in measured if done.records]
            counted_by = "tokenizer" if side.tokenizer else "server"
            told = {"tokens_counted_by": counted_by, "tokenizer": side.tokenizer.source if side.tokenizer else None}
            found.append(
                EvaluationResult(
                    subject=side.subject,
                    workload=self._workload.model_copy(update={**told, "format": side.sender.format.name.value}),
                    started=started,
                    levels=tuple(sorted((each for each, _ in levels), key=lambda each: each.concurrency)),
                    price=side.price,
                    notes=(*side.notes, *_notes(side, levels)),
                )
            )
        return found

    async def _measure(self, side: Side, load: Load, progress: Progress) -> None:
        done = self._directory.measured(side.name, load.concurrency)
        number = done.next_segment
        progress.level_began(side, load, done)
        if self._directory.remaining(load, done):
            segment = Segment()
            with self._directory.appended(side.name, load.concurrency) as file:

                def recorded(record: Record) -> None:
                    done.records.append(record)
                    file.add(record)
                    progress.request_ended(record)

                sending = asyncio.create_task(
                    side.sender.run(
                        load,
                        recorded,
                        number=number,
                        already=[record.prompt for record in done.records],
                        seconds_before=done.seconds,
                        segment=segment,
                    )
                )
                try:
                    with self._interruptible(sending):
                        await sending
                except asyncio.CancelledError:
                    if not self.interrupted:
                        raise
                finally:
                    file.end(number, segment)
            done.segments.append(segment)
        elif done.records and not done.complete:
            # It was killed between its last request and the note of its end.
            done.segments.append(Segment(complete=True))
        if done.records:
            await asyncio.to_thread(self._count, side, done)
            self._directory.rewritten(side.name, load.concurrency, done)
            progress.level_ended(side, level(side, load.concurrency, done))

    def _count(self, side: Side, done: MeasuredLevel) -> None:
        chat = side.sender.format.name is FormatName.OPENAI
        tokens.count(done.records, side.sender.prompts, side.tokenizer, chat=chat)

    @contextlib.contextmanager
    def _interruptible(self, sending: asyncio.Task[Segment]) -> Iterator[None]:
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


def level(side: Side, concurrency: int, done: MeasuredLevel) -> Level:
    """What was measured of a side at a concurrency."""
    requests = [record.request for record in done.records]
    price = side.price
    metrics = summarize(
        requests,
        done.seconds,
        concurrency,
        instance_price_per_hour=price.instance_price_per_hour if price else None,
        discount=price.discount if price else 0.0,
    )
    return Level(
        concurrency=concurrency,
        seconds=round(done.seconds, 3),
        metrics={name: round(value, 6) for name, value in metrics.items()},
        errors=errors_by_kind(requests),
        complete=done.complete,
        retries=sum(record.retried for record in done.records),
    )


async def understood_format(
    sender: Sender, formats: Sequence[Format], prompts: Sequence[Prompt], timeout_seconds: float
) -> Format:
    """The first format in which the target answers; a few prompts are tried, in case one of them is at fault.

    Raises:
        EvaluationError: where it answers in none, with what it said to each.
    """
    told: list[str] = []
    for tried in formats:
        sender.format = tried
        for prompt in prompts[:_TRIES]:
            _, answer = await sender.once(prompt, timeout_seconds)
            if answer.error is None and answer.first_token is not None:
                return tried
            told.append(f"  {tried.name}: {answer.error or 'empty'}: {answer.message or 'the answer has no token'}")
    distinct = "\n".join(dict.fromkeys(told))
    raise EvaluationError(f"the endpoint gives no answer that can be measured:\n{distinct}")


def _notes(side: Side, levels: Sequence[tuple[Level, MeasuredLevel]]) -> Iterator[str]:
    if side.tokenizer is None:
        yield "Tokens are those that the server counted: no tokenizer was given (--tokenizer)."
        if any("output_tokens" not in each.metrics and "time_to_first_token" in each.metrics for each, _ in levels):
            yield "The server counted no tokens either: metrics of tokens, and what follows from them, are missing."
    for each, done in levels:
        at = f"At concurrency {each.concurrency}"
        if done.lag_p99 > MOST_LAG_MS:
            yield f"{at} this machine was too busy: times may be up to {done.lag_p99:.0f} ms too long."
        yield from _doubts(at, each, done)
        if not each.complete:
            why = done.segments[-1].abandoned if done.segments else ""
            yield f"{at} the evaluation was not finished" + (f": {why}." if why else "; --resume goes on with it.")
        if len(done.segments) > 1:
            yield f"{at} the evaluation was interrupted and gone on with."


def _doubts(at: str, level: Level, done: MeasuredLevel) -> Iterator[str]:
    """What is odd about the answers at a concurrency."""
    measured = [record for record in done.records if record.request.is_measured]
    whole = sum(record.request.arrived_whole for record in measured)
    if whole:
        everything = whole == len(measured)
        who = "the server did not stream: all answers" if everything else f"{whole} of {len(measured)} answers"
        yield f"{at} {who} arrived in one piece, which leaves no inter-token latency to measure."
    if level.retries:
        yield (
            f"{at} {level.retries} of {len(done.records)} requests met a connection that the server had closed while "
            "it was idle, and were sent again."
        )
    uncounted = sum(record.server_output_tokens == 0 and bool(record.text or record.reasoning) for record in measured)
    if uncounted:
        yield f"{at} the server counted no tokens in {uncounted} answers that have text: its count of them is not used."
