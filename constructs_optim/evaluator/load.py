"""The load: users who send one request after the other, each on a connection of its own.

All of them are tasks of one event loop, which takes the times as bytes arrive; what the answers mean is found out
between arrivals, a few pieces at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from constructs_optim.recipe.evaluation.calculation import percentile

from .answers import Answer, refused
from .connection import Connection, Exchange
from .formats import Format, Generation
from .prompts import Prompt
from .records import Record
from .targets import Target

_PIECES_AT_ONCE = 32
_LAG_EVERY_SECONDS = 0.02
_FEWEST_LAGS = 100
# Users who begin in the same moment, against a server that answers evenly, stay in step: tokens of all would arrive at
# once, and the last of them would be looked at late.
_SPREAD_SECONDS = 0.1
# A signature is good for five minutes, and an answer may take longer.
_FRESH_SECONDS = 60.0
# An endpoint that is gone fails thousands of requests a second: nothing more is learned from them.
_MOST_FAILURES, _MOST_FAILURES_A_USER = 20, 3


@dataclass(frozen=True)
class Load:
    """How much is sent.

    Attributes:
        concurrency: users at the same time.
        requests: of all users together; None where ``seconds`` limit it.
        seconds: in which requests are sent; those on their way at the end are waited for.
        warm_up: requests of each user before anything is counted.
        timeout_seconds: after which a request has failed.
    """

    concurrency: int
    requests: int | None = None
    seconds: float | None = None
    warm_up: int = 1
    timeout_seconds: float = 120.0


@dataclass
class Segment:
    """How a load went.

    Attributes:
        complete: whether everything was sent that was to be sent.
        abandoned: why it was given up before its end; empty where it was not.
        lag_p99: by how much this machine was late to look at what had arrived, in milliseconds: what it adds at most,
            but for one request in a hundred, to a time it took.
    """

    complete: bool = False
    lag_p99: float = 0.0
    abandoned: str = ""


@dataclass
class _Failures:
    """Requests that failed one after the other, of all users."""

    most: int
    in_a_row: int = 0
    told: str = ""

    def look_at(self, exchange: Exchange) -> None:
        if exchange.status == 200 and exchange.error is None:
            self.in_a_row = 0
            return
        self.in_a_row += 1
        if self.in_a_row >= self.most:
            refusal = refused(exchange) if exchange.status else None
            self.told = f"the last {self.in_a_row} requests all failed: {refusal[1] if refusal else exchange.message}"


@dataclass
class Sender:
    """Sends prompts to one target, in one format."""

    target: Target
    format: Format
    prompts: Sequence[Prompt]
    generation: Generation = field(default_factory=Generation)

    async def once(self, prompt: Prompt, timeout_seconds: float) -> tuple[Exchange, Answer]:
        """One request on a connection that is closed afterwards."""
        connection = Connection(self.target.server)
        try:
            exchange = await connection.send(await self._written(prompt), timeout_seconds)
        finally:
            connection.close()
        return exchange, await self._read(exchange)

    async def run(
        self,
        load: Load,
        recorded: Callable[[Record], None],
        *,
        number: int = 0,
        already: Sequence[int] = (),
        seconds_before: float = 0.0,
        segment: Segment | None = None,
    ) -> Segment:
        """Put a load on the target.

        Args:
            load: how much is sent.
            recorded: is told of each request, soon after it has ended.
            number: of the segment, where an evaluation is resumed.
            already: the prompts of segments before, by their places; they are not sent again.
            seconds_before: that segments before took.
            segment: what is told of it, also when it is interrupted. Default: a new one, which is returned.

        Raises:
            asyncio.CancelledError: when the evaluation is interrupted; requests on their way are forgotten, all others
                have been recorded by then.
            EvaluationError: where requests cannot be signed any more; likewise.
        """
        order = prompt_order(len(self.prompts), load.concurrency, already)
        connections = [Connection(self.target.server) for _ in range(load.concurrency)]
        answered: asyncio.Queue[tuple[int, Exchange] | None] = asyncio.Queue()
        lags: list[float] = []
        segment = segment or Segment()
        failures = _Failures(most=_MOST_FAILURES + _MOST_FAILURES_A_USER * load.concurrency)
        try:
            await _together(self._warm_up(load, connection, place) for place, connection in enumerate(connections))
            began = time.perf_counter()
            reader = asyncio.create_task(self._record(answered, recorded, number, began))
            watch = asyncio.create_task(_watch_lag(lags))
            left = None if load.requests is None else iter(range(load.requests - len(already)))
            deadline = None if load.seconds is None else began + load.seconds - seconds_before
            try:
                await _together(
                    self._user(
                        connection,
                        order,
                        left,
                        deadline,
                        load.timeout_seconds,
                        answered,
                        failures,
                        _SPREAD_SECONDS * place / load.concurrency,
                    )
                    for place, connection in enumerate(connections)
                )
                segment.abandoned = failures.told
                segment.complete = not failures.told
            finally:
                watch.cancel()
                answered.put_nowait(None)
                await _finished(reader)
        finally:
            for connection in connections:
                connection.close()
            if len(lags) >= _FEWEST_LAGS:
                segment.lag_p99 = percentile(sorted(lags), 99) * 1000
        return segment

    async def _user(
        self,
        connection: Connection,
        order: Iterator[int],
        left: Iterator[int] | None,
        deadline: float | None,
        timeout_seconds: float,
        answered: asyncio.Queue[tuple[int, Exchange] | None],
        failures: _Failures,
        wait: float,
    ) -> None:
        ready = await self._next(order, left)
        await asyncio.sleep(wait)
        while ready is not None and not failures.told and (deadline is None or time.perf_counter() < deadline):
            prompt, request, at = ready
            if time.perf_counter() - at > _FRESH_SECONDS:
                request = await self._written(self.prompts[prompt])
            # The next request is written, and signed, while this one is answered: users whose answers end at the same
            # moment would wait for each other otherwise, with their clocks running.
            writing = asyncio.create_task(self._next(order, left))
            try:
                exchange = await connection.send(request, timeout_seconds)
            except BaseException:
                writing.cancel()
                raise
            answered.put_nowait((prompt, exchange))
            failures.look_at(exchange)
            ready = await writing

    async def _next(self, order: Iterator[int], left: Iterator[int] | None) -> tuple[int, bytes, float] | None:
        if left is not None and next(left, None) is None:
            return None
        prompt = next(order)
        return prompt, await self._written(self.prompts[prompt]), time.perf_counter()

    async def _warm_up(self, load: Load, connection: Connection, place: int) -> None:
        for turn in range(load.warm_up):
            prompt = self.prompts[-1 - (place + turn * load.concurrency) % len(self.prompts)]
            await connection.send(await self._written(prompt), load.timeout_seconds)

    async def _record(
        self,
        answered: asyncio.Queue[tuple[int, Exchange] | None],
        recorded: Callable[[Record], None],
        number: int,
        began: float,
    ) -> None:
        while (found := await answered.get()) is not None:
            prompt, exchange = found
            recorded(Record.of(prompt, number, exchange, await self._read(exchange), began))

    async def _written(self, prompt: Prompt) -> bytes:
        return await self.target.request(self.format.body(prompt, self.generation, self.target.model), self.format)

    async def _read(self, exchange: Exchange) -> Answer:
        refusal = refused(exchange) if exchange.status else None
        if refusal is not None:
            answer = Answer()
            answer.fail(*refusal)
            return answer
        decoder = self.format.decoder()
        decoder.start(exchange.headers)
        for place, (at, piece) in enumerate(exchange.pieces, start=1):
            decoder.feed(at, piece)
            if not place % _PIECES_AT_ONCE:
                await asyncio.sleep(0)
        return decoder.finish(exchange)


def prompt_order(count: int, concurrency: int, already: Sequence[int] = ()) -> Iterator[int]:
    """Places of prompts without end: each prompt once before any comes again, mixed anew each time.

    It is the same for everything that is evaluated at a concurrency, so that a comparison asks the same in the same
    order.

    Args:
        count: of prompts.
        concurrency: for which the order is.
        already: places that have been asked; each is passed over as often as it is there.
    """
    mixed = random.Random(concurrency)  # noqa: S311 - no secret
    asked = Counter(already)
    while True:
        places = list(range(count))
        mixed.shuffle(places)
        for place in places:
            if asked[place]:
                asked[place] -= 1
            else:
                yield place


async def _together(tasks: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Run all; where one fails or the evaluation is interrupted, none is left behind."""
    running = [asyncio.create_task(task) for task in tasks]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _finished(reader: asyncio.Task[None]) -> None:
    """Wait for what has been answered to be recorded, also when this is interrupted."""
    while not reader.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(reader)
    reader.result()


async def _watch_lag(lags: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_EVERY_SECONDS
        await asyncio.sleep(_LAG_EVERY_SECONDS)
        lags.append(loop.time() - due)
