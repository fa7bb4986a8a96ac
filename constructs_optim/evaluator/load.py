"""The load: users who send one request after the other, on a connection per user.

All of them are tasks of one event loop, which takes the times as bytes arrive; pieces are decoded between arrivals, a
few at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from constructs_optim.recipe.evaluation.calculation import percentile

from .connection import Connection, Exchange, Target
from .options import EvaluationError, Generation, Load
from .prompts import Prompt
from .streaming import Format, Record

_PIECES_AT_ONCE = 32
_LAG_EVERY_SECONDS = 0.02
_FEWEST_LAGS = 100
# Users who start at the same moment stay synchronized against a server with even response times: all tokens would
# arrive at once, and the last of them would be handled late.
_SPREAD_SECONDS = 0.1
# A signature is valid for five minutes, and a response may take longer.
_FRESH_SECONDS = 60.0
# A deleted endpoint fails thousands of requests a second: the load stops after this many consecutive failures.
_MOST_FAILURES, _MOST_FAILURES_PER_USER = 20, 3
_DIGITS = 6
_TRIES = 3


@dataclass
class Segment:
    """The end of a load, or of a part of it; ``abandoned`` is the reason why it was stopped early.

    ``lag_p99`` is the 99th percentile of the event loop's lag in milliseconds, which measured times include.
    ``drafts`` were verified by the server meanwhile, with ``accepted`` tokens of them.
    """

    complete: bool = False
    lag_p99: float = 0.0
    abandoned: str = ""
    drafts: float = 0.0
    accepted: float = 0.0


@dataclass
class MeasuredLevel:
    """The requests of one side at one concurrency, in one segment or, where it was resumed, in several."""

    records: list[Record] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the whole load was sent."""
        return bool(self.segments) and self.segments[-1].complete

    @property
    def seconds(self) -> float:
        """The total time of the segments, each from its first request to its last response."""
        spans: dict[int, tuple[float, float]] = {}
        for record in self.records:
            first, last = spans.get(record.segment, (record.start, record.end))
            spans[record.segment] = min(first, record.start), max(last, record.end)
        return sum(last - first for first, last in spans.values())

    @property
    def segment_numbers(self) -> list[int]:
        """The numbers of the segments that have requests, in their order."""
        return sorted({record.segment for record in self.records})

    def remains(self, load: Load) -> bool:
        """Whether requests of a load are left to send."""
        if self.complete:
            return False
        if load.total is not None:
            return len(self.records) < load.total
        return self.seconds < (load.seconds or 0)


@dataclass
class Sender:
    """Sends prompts to one target, in one format."""

    target: Target
    format: type[Format]
    prompts: Sequence[Prompt]
    generation: Generation = field(default_factory=Generation)

    async def run(self, load: Load, level: MeasuredLevel, recorded: Callable[[Record], None] | None = None) -> None:
        """Send the remaining requests of a load, as a new segment of its level; ``recorded`` is called with each."""
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
                segment.lag_p99 = round(percentile(sorted(lags), 99) * 1000, 3)
            level.segments.append(segment)

    async def choose_format(self, formats: Sequence[type[Format]], timeout_seconds: float) -> None:
        """Use the first format that the target responds in; several prompts are tried, as one may be faulty."""
        problems: list[str] = []
        for self.format in formats:
            for prompt in self.prompts[:_TRIES]:
                connection = Connection(self.target.server)
                try:
                    record = await self.read(await connection.send(await self.write(prompt), timeout_seconds))
                finally:
                    connection.close()
                if record.error is None and record.first_token is not None:
                    return
                reason = f"{record.error or 'empty'}: {record.message or 'the completion has no token'}"
                problems.append(f"  {self.format.name}: {reason}")
        distinct = "\n".join(dict.fromkeys(problems))
        raise EvaluationError(f"the endpoint returns no completion that can be measured:\n{distinct}")

    async def write(self, prompt: Prompt) -> bytes:
        """The whole HTTP request of a prompt."""
        body = json.dumps(self.format.body(prompt, self.generation, self.target.model), separators=(",", ":"))
        return await self.target.request(body.encode(), self.format.path)

    async def read(self, exchange: Exchange) -> Record:
        """The record of an exchange, a few pieces at a time."""
        response = self.format(exchange)
        for number, (at, piece) in enumerate(exchange.pieces if exchange.status == 200 else (), start=1):
            response.feed(at, piece)
            if not number % _PIECES_AT_ONCE:
                await asyncio.sleep(0)
        return response.finish()

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
        self._number = max((record.segment for record in level.records), default=-1) + 1
        self._began = time.perf_counter()
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
            # The next request is written and signed during this one: users whose responses end at the same moment would
            # otherwise wait for each other, and the times would include the wait.
            writing = asyncio.create_task(self._next())
            try:
                exchange = await connection.send(request, self._timeout)
            except BaseException:
                writing.cancel()
                raise
            self.exchanges.put_nowait((prompt, exchange))
            self._failures = 0 if exchange.error is None else self._failures + 1
            if self._failures >= self._most_failures:
                self.abandoned = f"the last {self._failures} requests all failed: {exchange.message}"
            ready = await writing

    async def record_all(self) -> None:
        """Read and record the exchanges as they end, until None follows."""
        while (ended := await self.exchanges.get()) is not None:
            prompt, exchange = ended
            record = await self._sender.read(exchange)
            record.prompt, record.segment = prompt, self._number
            for name in ("start", "end", "first_token", "last_token"):
                at = getattr(record, name)
                setattr(record, name, None if at is None else round(at - self._began, _DIGITS))
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


def prompt_order(count: int, concurrency: int, sent: Sequence[int] = ()) -> Iterator[int]:
    """An endless sequence of prompts' indexes: all prompts in random order, then all in another order.

    The concurrency seeds the order, so that both sides of a comparison receive the same prompts in the same order.
    Indexes in ``sent`` are skipped as often as they occur.
    """
    generator = random.Random(concurrency)  # noqa: S311 - no secret
    skipped = Counter(sent)
    while True:
        indexes = list(range(count))
        generator.shuffle(indexes)
        for index in indexes:
            if skipped[index]:
                skipped[index] -= 1
            else:
                yield index


async def _gather_or_cancel(coroutines: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Run all concurrently; a failure or an interruption cancels all."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _finish(recording: asyncio.Task[None]) -> None:
    """Wait until all ended exchanges are recorded, even when interrupted."""
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
