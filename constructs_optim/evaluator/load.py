"""The load: users who send one request after the other, each on a connection of its own.

All of them are tasks of one event loop, which takes the times as bytes arrive; what the pieces mean is worked out
between arrivals, a few pieces at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from constructs_optim.recipe.evaluation.calculation import Request, percentile

from .connection import Connection, Exchange, Target
from .options import EvaluationError, Generation, Load
from .prompts import Prompt
from .streaming import Completion, Format, refusal

_PIECES_AT_ONCE = 32
_LAG_EVERY_SECONDS = 0.02
_FEWEST_LAGS = 100
# Users who begin in the same moment, against a server that responds evenly, stay in step: tokens of all would arrive at
# once, and the last of them would be handled late.
_SPREAD_SECONDS = 0.1
# A signature is good for five minutes, and a response may take longer.
_FRESH_SECONDS = 60.0
# An endpoint that is gone fails thousands of requests a second: nothing more is learned from them.
_MOST_FAILURES, _MOST_FAILURES_PER_USER = 20, 3
_DIGITS = 6
_TRIES = 3


@dataclass(kw_only=True)
class Record(Completion):
    """One request of an evaluation, and its completion. Times are seconds since its segment began.

    Attributes:
        prompt: index of its prompt.
        segment: an evaluation that is resumed goes on with the next one.
        start: when it was sent.
        end: when its response was complete, or when it failed.
        input_tokens: the count that metrics use: the tokenizer's, or the server's.
        output_tokens: likewise.
        first_tokens: tokens that arrived with the first; counted as ``output_tokens`` are.
        tokenizer_failed: whether the tokenizer could not parse the prompt or the completion.
        retried: whether it was sent a second time, because the server had closed the idle connection.
    """

    prompt: int
    segment: int
    start: float
    end: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    first_tokens: int = 1
    tokenizer_failed: bool = False
    retried: bool = False

    @classmethod
    def of(cls, prompt: int, segment: int, exchange: Exchange, completion: Completion, began: float) -> Record:
        """The record of an exchange in a segment that began at a time of ``time.perf_counter``."""
        times = {
            "start": exchange.start,
            "end": exchange.end,
            "first_token": completion.first_token,
            "last_token": completion.last_token,
        }
        since = {name: at if at is None else round(at - began, _DIGITS) for name, at in times.items()}
        first_tokens = max(completion.first_tokens, 1)
        known: dict[str, Any] = vars(completion) | since | {"first_tokens": first_tokens, "retried": exchange.retried}
        return cls(prompt=prompt, segment=segment, **known)

    @property
    def request(self) -> Request:
        """The part of it that metrics are calculated from."""
        return Request(**{part.name: getattr(self, part.name) for part in fields(Request)})


@dataclass
class Segment:
    """How a load went; ``abandoned`` is why it was given up before its end.

    ``lag_p99`` is how late this machine was to handle what had arrived, in milliseconds: the most that it adds to a
    time, but for one request in a hundred.
    """

    complete: bool = False
    lag_p99: float = 0.0
    abandoned: str = ""


@dataclass
class MeasuredLevel:
    """The requests of one side at one concurrency, in the segments of which it was made."""

    records: list[Record] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the whole load was sent."""
        return bool(self.segments) and self.segments[-1].complete

    @property
    def next_segment(self) -> int:
        """The number of the segment that resumes it."""
        return max((record.segment for record in self.records), default=-1) + 1

    @property
    def seconds(self) -> float:
        """From each segment's first request to its last response."""
        spans: dict[int, tuple[float, float]] = {}
        for record in self.records:
            first, last = spans.get(record.segment, (record.start, record.end))
            spans[record.segment] = min(first, record.start), max(last, record.end)
        return sum(last - first for first, last in spans.values())

    def remains(self, load: Load) -> bool:
        """Whether there is something left to send of a load."""
        if self.complete:
            return False
        if load.total is not None:
            return len(self.records) < load.total
        return load.seconds is None or self.seconds < load.seconds


@dataclass
class Sender:
    """Sends prompts to one target, in one format."""

    target: Target
    format: Format
    prompts: Sequence[Prompt]
    generation: Generation = field(default_factory=Generation)

    async def run(self, load: Load, level: MeasuredLevel, recorded: Callable[[Record], None] | None = None) -> None:
        """Send the rest of a load, as one more segment of its level; ``recorded`` is called with each request."""
        segment, lags = Segment(), list[float]()
        connections = [Connection(self.target.server) for _ in range(load.concurrency)]
        try:
            await _gather_or_cancel(
                self._warm_up(load, user, connection) for user, connection in enumerate(connections)
            )
            run = _Run(self, load, level, recorded)
            recording = asyncio.create_task(run.record_all())
            watching = asyncio.create_task(_watch_lag(lags))
            try:
                await _gather_or_cancel(
                    run.user(connection, _SPREAD_SECONDS * user / load.concurrency)
                    for user, connection in enumerate(connections)
                )
                segment.abandoned = run.abandoned
                segment.complete = not run.abandoned
            finally:
                watching.cancel()
                run.exchanges.put_nowait(None)
                await _finish(recording)
        finally:
            for connection in connections:
                connection.close()
            if len(lags) >= _FEWEST_LAGS:
                segment.lag_p99 = percentile(sorted(lags), 99) * 1000
            level.segments.append(segment)

    async def choose_format(self, formats: Sequence[Format], timeout_seconds: float) -> None:
        """Use the first format in which the target responds; several prompts are tried, as one may be at fault."""
        problems: list[str] = []
        for self.format in formats:
            for prompt in self.prompts[:_TRIES]:
                completion = await self._try(prompt, timeout_seconds)
                if completion.error is None and completion.first_token is not None:
                    return
                reason = f"{completion.error or 'empty'}: {completion.message or 'the completion has no token'}"
                problems.append(f"  {self.format.name}: {reason}")
        distinct = "\n".join(dict.fromkeys(problems))
        raise EvaluationError(f"the endpoint returns no completion that can be measured:\n{distinct}")

    async def write(self, prompt: Prompt) -> bytes:
        """The whole HTTP request of a prompt."""
        return await self.target.request(self.format.body(prompt, self.generation, self.target.model), self.format.path)

    async def read(self, exchange: Exchange) -> Completion:
        """The completion of an exchange, a few pieces at a time."""
        refused = refusal(exchange)
        if refused is not None:
            completion = Completion()
            completion.fail(*refused)
            return completion
        decoder = self.format.decoder()
        decoder.start(exchange.headers)
        for number, (at, piece) in enumerate(exchange.pieces, start=1):
            decoder.feed(at, piece)
            if not number % _PIECES_AT_ONCE:
                await asyncio.sleep(0)
        return decoder.finish(exchange)

    async def _try(self, prompt: Prompt, timeout_seconds: float) -> Completion:
        connection = Connection(self.target.server)
        try:
            exchange = await connection.send(await self.write(prompt), timeout_seconds)
        finally:
            connection.close()
        return await self.read(exchange)

    async def _warm_up(self, load: Load, user: int, connection: Connection) -> None:
        for turn in range(load.warm_up):
            prompt = self.prompts[-1 - (user + turn * load.concurrency) % len(self.prompts)]
            await connection.send(await self.write(prompt), load.timeout_seconds)


class _Run:
    """The requests of one segment, which its users share."""

    def __init__(
        self, sender: Sender, load: Load, level: MeasuredLevel, recorded: Callable[[Record], None] | None
    ) -> None:
        self.exchanges: asyncio.Queue[tuple[int, Exchange] | None] = asyncio.Queue()
        self.abandoned = ""
        self._sender, self._timeout, self._level, self._recorded = sender, load.timeout_seconds, level, recorded
        self._order = prompt_order(len(sender.prompts), load.concurrency, [record.prompt for record in level.records])
        self._number, self._began = level.next_segment, time.perf_counter()
        self._left = None if load.total is None else load.total - len(level.records)
        self._deadline = None if load.seconds is None else self._began + load.seconds - level.seconds
        self._failures, self._most_failures = 0, _MOST_FAILURES + _MOST_FAILURES_PER_USER * load.concurrency

    async def user(self, connection: Connection, delay: float) -> None:
        """Send requests, one after the other, until there is nothing left to send."""
        ready = await self._next()
        await asyncio.sleep(delay)
        while ready is not None and not self.abandoned:
            prompt, request, written = ready
            now = time.perf_counter()
            if self._deadline is not None and now >= self._deadline:
                return
            if now - written > _FRESH_SECONDS:
                request = await self._sender.write(self._sender.prompts[prompt])
            # The next request is written, and signed, while this one is under way: users whose responses end at the
            # same moment would wait for each other otherwise, with their clocks running.
            writing = asyncio.create_task(self._next())
            try:
                exchange = await connection.send(request, self._timeout)
            except BaseException:
                writing.cancel()
                raise
            self.exchanges.put_nowait((prompt, exchange))
            self._count_failure(exchange)
            ready = await writing

    async def record_all(self) -> None:
        """Read and record the exchanges as they end, until None follows."""
        while (ended := await self.exchanges.get()) is not None:
            prompt, exchange = ended
            completion = await self._sender.read(exchange)
            record = Record.of(prompt, self._number, exchange, completion, self._began)
            self._level.records.append(record)
            if self._recorded is not None:
                self._recorded(record)

    async def _next(self) -> tuple[int, bytes, float] | None:
        """The next prompt's index, its request, and when that was written."""
        if self._left is not None:
            if self._left <= 0:
                return None
            self._left -= 1
        prompt = next(self._order)
        return prompt, await self._sender.write(self._sender.prompts[prompt]), time.perf_counter()

    def _count_failure(self, exchange: Exchange) -> None:
        if exchange.status == 200 and exchange.error is None:
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= self._most_failures:
            refused = refusal(exchange)
            reason = refused[1] if refused else exchange.message
            self.abandoned = f"the last {self._failures} requests all failed: {reason}"


def prompt_order(count: int, concurrency: int, answered: Sequence[int] = ()) -> Iterator[int]:
    """Indexes of prompts without end: each prompt once before any comes again, shuffled anew each time.

    The concurrency seeds the order, so that a comparison sends the same in the same order. Each index in ``answered``
    is skipped as often as it occurs.
    """
    generator = random.Random(concurrency)  # noqa: S311 - no secret
    skipped = Counter(answered)
    while True:
        indexes = list(range(count))
        generator.shuffle(indexes)
        for index in indexes:
            if skipped[index]:
                skipped[index] -= 1
            else:
                yield index


async def _gather_or_cancel(coroutines: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Run all; where one fails or the evaluation is interrupted, none is left behind."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _finish(recording: asyncio.Task[None]) -> None:
    """Wait for ended exchanges to be recorded, also when this is interrupted."""
    while not recording.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(recording)
    recording.result()


async def _watch_lag(lags: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_EVERY_SECONDS
        await asyncio.sleep(_LAG_EVERY_SECONDS)
        lags.append(loop.time() - due)
