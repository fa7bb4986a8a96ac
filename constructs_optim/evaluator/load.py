"""Generates the load: users who each send one request after another, or requests at scheduled times.

Users and requests are tasks of one event loop. It records the time when bytes arrive, and decodes a few pieces at a
time between arrivals.

Requests count only under full load. Users start one after the other, over the duration of a response, and each sends
its warm-up requests. Requests count when all users have finished their warm-up. Users continue to send until the last
counted response is complete, so that all counted requests have the same concurrency. An open loop keeps its rate in the
same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .arrivals import due_times
from .connection import Connection, Exchange, Server, Target
from .lag import Lag, mean_shares
from .options import ClosedLoop, EvaluationError, Generation, Load, OpenLoop, Replay
from .prompts import Prompt
from .requests import ErrorKind
from .streaming import Format, Record

_PIECES_AT_ONCE = 32
_LAG_EVERY_SECONDS = 0.02
_FEWEST_LAGS = 100
# Users who start simultaneously stay synchronized if the server's response times are even: all tokens would arrive at
# once, and this process would handle the last ones late.
_SPREAD_SECONDS = 0.1
# Users start over the time of a response, but at most over this time.
_MOST_SPREAD_SECONDS = 30.0
# A signature is valid for five minutes, and a response may take longer.
_FRESH_SECONDS = 60.0
# A deleted endpoint fails thousands of requests per second, so the load stops after this many consecutive failures. A
# throttling endpoint gets more time, because it recovers.
_MOST_FAILURES, _MOST_FAILURES_PER_USER, _THROTTLED_SECONDS = 20, 3, 5.0
# The precision of the event loop's timers. A request that is sent later than this after its due time is late.
_TIMER_SECONDS = 0.002
# Spare and maximum connections of an open loop, and files reserved for the rest of the process.
_SPARE_CONNECTIONS, _MOST_CONNECTIONS, _OTHER_FILES = 4, 8192, 64
_DIGITS = 6
_TRIES = 3
# A server that does not know a format refuses its requests, or responds in another one.
_UNKNOWN_FORMAT = {ErrorKind.CLIENT_ERROR, ErrorKind.MALFORMED_RESPONSE}
# The prompts of a load whose embeddings, scores or classes are kept: embeddings of thousands fill the memory, and a few
# hundred show how much two models agree.
_MOST_OUTPUTS = 500


@dataclass
class Segment:
    """The end of a load or of a part of it; ``abandoned`` is the reason for stopping early.

    ``lag_p99`` is the 99th percentile of the event loop's lag in milliseconds, which measured times include.
    ``late_p99`` is that of requests' delay after their due time, which their latency includes. ``lags`` are the
    distribution of the event loop's lag, and ``delays`` that of this machine's part of the delays, without waiting for
    a connection, both as ``mean_shares``. ``total`` is the planned number of requests, ``sent`` the number of all
    requests, and ``left_out`` the number that reached a cold endpoint. Meanwhile, the server completed ``served``
    requests, of any client, verified ``drafts`` and accepted ``accepted`` of their tokens, by its own counters. Without
    them, ``served`` is None.
    """

    complete: bool = False
    lag_p99: float = 0.0
    late_p99: float = 0.0
    lags: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    abandoned: str = ""
    total: int | None = None
    left_out: int = 0
    sent: int = 0
    served: float | None = None
    drafts: float = 0.0
    accepted: float = 0.0


@dataclass
class MeasuredLevel:
    """The requests of one side at one load, in one segment, or several if the load was resumed.

    ``records`` are the counted requests and those concurrent with them.
    """

    records: list[Record] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the whole load was sent."""
        return bool(self.segments) and self.segments[-1].complete

    @property
    def abandoned(self) -> str:
        """The reason for stopping the load early; empty if it ran to its end."""
        return self.segments[-1].abandoned if self.segments else ""

    @property
    def lag(self) -> Lag:
        """This machine's lag in the busiest segment."""
        return max((Lag(each.lags, each.delays) for each in self.segments), default=Lag(), key=lambda lag: lag.mean)

    @property
    def counted(self) -> list[Record]:
        """The counted requests."""
        return [record for record in self.records if record.counted]

    @property
    def windows(self) -> dict[int, tuple[float, float]]:
        """The time window of counted requests, by the number of the segment.

        If the load continued until the end, the window ends when the last one was sent, otherwise when all were
        complete.
        """
        found: dict[int, tuple[float, float]] = {}
        for number in sorted({record.segment for record in self.records if record.counted}):
            counted = [record for record in self.records if record.segment == number and record.counted]
            is_full = any(record.segment == number and not record.counted for record in self.records)
            begin, last = (choose(record.start for record in counted) for choose in (min, max))
            if not is_full or last - begin <= 0:
                last = max(record.end for record in counted)
            found[number] = begin, last
        return found

    @property
    def seconds(self) -> float:
        """The total length of the windows."""
        return sum(end - begin for begin, end in self.windows.values())

    def remains(self, load: Load) -> bool:
        """Return whether requests of a load remain to be sent."""
        if self.complete:
            return (load.total or 0) > (self.segments[-1].total or load.total or 0)
        if load.total is not None:
            return len(self.counted) < load.total
        return self.seconds < (load.seconds or 0)


@dataclass
class Sender:
    """Sends prompts to one target, in one format.

    If set, ``unique`` and a unique number begin each request, so that no prefix cache contains it. ``response_seconds``
    is the time of a response without concurrent requests.
    """

    target: Target
    format: type[Format]
    prompts: Sequence[Prompt]
    generation: Generation = field(default_factory=Generation)
    unique: str = ""
    response_seconds: float = _SPREAD_SECONDS

    async def run(
        self,
        load: Load,
        level: MeasuredLevel,
        recorded: Callable[[Record], None] | None = None,
        sent_before: Iterable[int] = (),
    ) -> None:
        """Send the remaining requests of a load, as a new segment of its level, and call ``recorded`` with each.

        ``sent_before`` are the prompts of earlier levels, which are sent again only after all others.
        """
        segment, lags = Segment(total=load.total), list[float]()
        run = _Run(self, load, level, recorded, sent_before)
        recording = asyncio.create_task(run.record_all())
        watching = asyncio.create_task(_watch_lag(lags))
        try:
            await run.send_all()
            segment.abandoned = run.abandoned
            segment.complete = not run.abandoned
        finally:
            watching.cancel()
            run.exchanges.put_nowait(None)
            await _finish(recording)
            run.leave_out_unneeded()
            if len(lags) >= _FEWEST_LAGS:
                segment.lag_p99 = _p99(lags)
            segment.lags, segment.delays = mean_shares(lags), mean_shares(run.delays)
            segment.sent = run.sent
            if run.late:
                segment.late_p99 = _p99(run.late)
            level.segments.append(segment)

    async def choose_format(self, formats: Sequence[type[Format]], timeout_seconds: float) -> None:
        """Use the first format in which the target responds. Tries several prompts, because one may be faulty."""
        problems: list[str] = []
        kinds: set[ErrorKind | None] = set()
        for self.format in formats:
            if not self.format.streams and not kinds <= _UNKNOWN_FORMAT:
                # The model generates text, and something else is wrong.
                break
            example = [self.format.example] if self.format.example is not None else []
            for prompt in [*itertools.islice(filter(self.format.suits, self.prompts), _TRIES)] or example:
                connection = Connection(self.target.server)
                try:
                    request = await self.write(prompt.request(()))
                    record = await self.read(await connection.send(request, timeout_seconds), prompt)
                finally:
                    connection.close()
                if record.is_measured:
                    self.response_seconds = record.end - record.start
                    return
                kinds.add(record.error)
                reason = f"{record.error or 'empty'}: {record.message or 'the completion has no token'}"
                problems.append(f"  {self.format.name}: {reason}")
        distinct = "\n".join(dict.fromkeys(problems))
        expected = "completion" if formats[0].streams else "response"
        raise EvaluationError(f"the endpoint returns no {expected} that can be measured:\n{distinct}")

    async def write(self, prompt: Prompt) -> bytes:
        """Return the complete HTTP request for a prompt."""
        body = json.dumps(self.format.body(prompt, self.generation, self.target.model), separators=(",", ":"))
        return await self.target.request(body.encode(), self.format.path, streams=self.format.streams)

    async def read(self, exchange: Exchange, prompt: Prompt) -> Record:
        """Decode an exchange, a few pieces at a time, and return its record."""
        response = self.format(exchange)
        for number, (at, piece) in enumerate(exchange.pieces if exchange.status == 200 else (), start=1):
            response.feed(at, piece)
            if not number % _PIECES_AT_ONCE:
                await asyncio.sleep(0)
        record = response.finish()
        self.format.count(record, prompt, self.generation)
        return record


@dataclass
class _Request:
    """A request that is ready to be sent: a conversation's next turn, or its only one."""

    prompt: int
    conversation: int
    # The number of times that the prompt is sent, including this one.
    repeat: int
    counted: bool
    responses: tuple[str, ...] = ()
    content: bytes = b""
    written: float = 0.0


_Recording = asyncio.Future[Record]


class _Run:
    """The requests of one segment."""

    def __init__(
        self,
        sender: Sender,
        load: Load,
        level: MeasuredLevel,
        recorded: Callable[[Record], None] | None,
        sent_before: Iterable[int],
    ) -> None:
        self.exchanges: asyncio.Queue[tuple[_Request, Exchange, _Recording | None] | None] = asyncio.Queue()
        self.abandoned = ""
        self.sent = 0
        self.late: list[float] = []
        self.delays: list[float] = []
        self._sender, self._load, self._level, self._recorded = sender, load, level, recorded
        counted = [record.prompt for record in level.counted if not record.turn]
        self._order = prompt_order(len(sender.prompts), load.label, [*sent_before, *counted])
        # In reverse order, so that uncounted requests use other prompts than counted ones, if there are enough.
        first_round = itertools.islice(prompt_order(len(sender.prompts), load.label), len(sender.prompts))
        self._others = itertools.cycle(reversed([*first_round]))
        done = set(counted)
        self._replayed = [index for index in range(len(sender.prompts)) if index not in done]
        if isinstance(load, Replay):
            self._order = iter(self._replayed)
        self._number = max((record.segment for record in level.records), default=-1) + 1
        self._conversations = itertools.count()
        self._kept: set[int] = set()
        self._repeats: Counter[int] = Counter(sent_before)
        self._began = time.perf_counter()
        self._left = None if load.total is None else load.total - len(level.counted)
        self._seconds = None if load.seconds is None else load.seconds - level.seconds
        self._deadline: float | None = None
        # Whether the load surrounds the counted requests, which begin when ``_counting`` is set.
        self._keeps_on = load.warm_up > 0 and not isinstance(load, Replay)
        self._counting, self._is_complete = not self._keeps_on, False
        self._users_warm, self._under_way = 0, 0
        self._over = asyncio.Event()
        self._failed: BaseException | None = None
        self._failures, self._succeeded = 0, self._began
        users = load.concurrency if isinstance(load, ClosedLoop) else 1
        self._most_failures = _MOST_FAILURES + _MOST_FAILURES_PER_USER * users

    async def send_all(self) -> None:
        """Send all requests, until the last counted response is complete."""
        if isinstance(self._load, ClosedLoop):
            senders = [self._user(number, self._load.concurrency) for number in range(self._load.concurrency)]
        else:
            senders = [self._arrivals(self._load)]
        tasks = [asyncio.create_task(sender) for sender in senders]
        everything, over = asyncio.gather(*tasks), asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([everything, over], return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
            if self._failed is not None:
                raise self._failed
        finally:
            everything.cancel()
            over.cancel()
            await asyncio.gather(everything, over, *tasks, return_exceptions=True)

    async def record_all(self) -> None:
        """Read and record the exchanges as they end, until the queue has None."""
        while (ended := await self.exchanges.get()) is not None:
            request, exchange, waiting = ended
            record = await self._sender.read(exchange, self._sender.prompts[request.prompt])
            record.prompt, record.turn, record.counted = request.prompt, len(request.responses), request.counted
            record.segment, record.conversation = self._number, request.conversation
            if record.inputs is not None and not self._keeps_output(record):
                record.text = ""
            for name in ("start", "end", "first_token", "last_token"):
                at = getattr(record, name)
                setattr(record, name, None if at is None else round(at - self._began, _DIGITS))
            if waiting is not None and not waiting.done():
                waiting.set_result(record)
            if request.counted or not self._is_complete:
                self._level.records.append(record)
                if self._recorded is not None:
                    self._recorded(record)

    def _keeps_output(self, record: Record) -> bool:
        """Return whether to keep embeddings, scores or classes: those of a prompt's first counted request."""
        is_kept = record.counted and record.prompt not in self._kept and len(self._kept) < _MOST_OUTPUTS
        if is_kept and record.error is None:
            self._kept.add(record.prompt)
        return is_kept

    def leave_out_unneeded(self) -> None:
        """Forget requests that were complete before the first counted one was sent.

        If an endpoint fails before any counted request, all its requests count.
        """
        level, number = self._level, self._number
        ours = [record for record in level.records if record.segment == number]
        if self.abandoned and not any(record.counted for record in ours):
            for record in ours:
                record.counted = True
        first = min((record.start for record in ours if record.counted), default=math.inf)
        level.records[:] = [r for r in level.records if r.counted or r.segment != number or r.end > first]

    async def _user(self, number: int, concurrency: int) -> None:
        """Send one user's requests."""
        connection, sent = Connection(self._sender.target.server), 0
        spread = _SPREAD_SECONDS
        if self._load.warm_up:
            spread = min(max(spread, self._sender.response_seconds), _MOST_SPREAD_SECONDS)
        try:
            request = await self._next(time.perf_counter())
            await asyncio.sleep(spread * number / concurrency)
            while request is not None and not self._over.is_set():
                request = await self._as_due(request, time.perf_counter())
                if request is None:
                    return
                # Write and sign the next request during this one. Otherwise, users whose responses end together would
                # wait for each other, and the times would include the wait.
                is_last = self._is_last_turn(request)
                writing = asyncio.create_task(self._next(time.perf_counter())) if is_last else None
                try:
                    record = await self._exchange(connection, request)
                except BaseException:
                    if writing is not None:
                        writing.cancel()
                    raise
                sent += 1
                if sent == self._load.warm_up:
                    self._users_warm += 1
                    self._counting = self._counting or self._users_warm == concurrency
                request = await writing if writing is not None else await self._next_turn(request, record)
                if request is None and writing is None:
                    request = await self._next(time.perf_counter())
        finally:
            connection.close()

    async def _arrivals(self, load: OpenLoop | Replay) -> None:
        """Send requests when they are due."""
        pool, tasks = _Pool(self._sender.target.server), set[asyncio.Task[None]]()
        lead = self._sender.response_seconds * load.warm_up if isinstance(load, OpenLoop) else 0.0
        start = time.perf_counter()

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                self._failed = error
                self._over.set()

        try:
            for due in due_times(load, lead) if isinstance(load, OpenLoop) else self._recorded_times(load):
                self._counting = not self._is_complete and (self._counting or due >= lead)
                request = await self._next(start + due)
                if request is None:
                    break
                await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
                if self._over.is_set():
                    break
                task = asyncio.create_task(self._arrival(pool, request, start + due))
                tasks.add(task)
                task.add_done_callback(ended)
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            pool.close()

    def _recorded_times(self, load: Replay) -> Iterator[float]:
        """Yield the seconds from the start at which the remaining prompts are due."""
        left = [self._sender.prompts[index].at_seconds or 0.0 for index in self._replayed]
        for at in left:
            yield (at - left[0]) / load.speed

    async def _arrival(self, pool: _Pool, request: _Request, due: float) -> None:
        """Send a request and its conversation's later turns, each after the previous response."""
        self.delays.append(_beyond_timers(time.perf_counter() - due))
        connection = await pool.take()
        try:
            following: _Request | None = request
            while following is not None:
                is_last = self._is_last_turn(following)
                record = await self._exchange(connection, following, due if following is request else None)
                following = None if is_last else await self._next_turn(following, record)
        finally:
            pool.give_back(connection)

    async def _exchange(self, connection: Connection, request: _Request, due: float | None = None) -> _Recording | None:
        """Send a request. Return a future for its record if another turn needs it.

        Latency counts from the due time, so it includes waiting for a free connection.
        """
        if time.perf_counter() - request.written > _FRESH_SECONDS:
            request.content = await self._content(request)
        self.sent += 1
        exchange = await connection.send(request.content, self._load.timeout_seconds)
        if due is not None:
            late = max(0.0, exchange.start - due)
            self.late.append(late)
            if late > _TIMER_SECONDS:
                exchange.start = due
        waiting: _Recording | None = None
        if not self._is_last_turn(request):
            waiting = asyncio.get_running_loop().create_future()
        self.exchanges.put_nowait((request, exchange, waiting))
        self._failures = 0 if exchange.error is None else self._failures + 1
        if exchange.error is None:
            self._succeeded = exchange.end
        patience = _THROTTLED_SECONDS if exchange.error is ErrorKind.THROTTLED else 0.0
        is_over = self._failures >= self._most_failures and exchange.end - self._succeeded >= patience
        if is_over and not self.abandoned:
            self.abandoned = f"the last {self._failures} requests all failed: {exchange.message}"
            self._over.set()
        if request.counted:
            self._under_way -= 1
            self._end_if_complete()
        return waiting

    async def _as_due(self, request: _Request, now: float) -> _Request | None:
        """Return the prepared request, updated if counting began or ended since; None if the load is over."""
        if request.counted and self._deadline is not None and now >= self._deadline:
            request.counted = False
            self._under_way -= 1
            self._complete()
            return request if self._keeps_on else None
        if not request.counted and self._counting and not request.responses:
            return await self._next(now)
        return request

    async def _next(self, at: float) -> _Request | None:
        """Return the first request of a prompt, to be sent at a time; None if the load is over."""
        counted = self._takes(at)
        if not counted and self._is_complete and not self._keeps_on:
            return None
        prompt = next(self._order if counted else self._others)
        self._repeats[prompt] += 1
        request = _Request(prompt, next(self._conversations), self._repeats[prompt], counted)
        request.content = await self._content(request)
        return request

    async def _next_turn(self, request: _Request, recording: _Recording | None) -> _Request | None:
        """Return the next request of a conversation; None if the last one failed or the load is over."""
        record = await recording if recording is not None else None
        if record is None or not record.is_measured:
            return None
        turn = (self._sender.prompts[request.prompt].turns or ())[len(request.responses) + 1]
        await asyncio.sleep(turn.delay_seconds)
        counted = self._takes(time.perf_counter())
        if not counted and self._is_complete and not self._keeps_on:
            return None
        responses = (*request.responses, record.text)
        following = _Request(request.prompt, request.conversation, request.repeat, counted, responses)
        following.content = await self._content(following)
        return following

    def _is_last_turn(self, request: _Request) -> bool:
        turns = self._sender.prompts[request.prompt].turns
        return turns is None or len(request.responses) + 1 == len(turns)

    async def _content(self, request: _Request) -> bytes:
        request.written = time.perf_counter()
        prompt = self._sender.prompts[request.prompt].request(request.responses)
        if self._sender.unique:
            number = f"{self._load.file_name}-{self._number}-{request.prompt}-{request.repeat}"
            prompt = prompt.beginning_with(f"{self._sender.unique}-{number} ")
        return await self._sender.write(prompt)

    def _takes(self, at: float) -> bool:
        """Return whether a request at the time ``at`` counts, and reserve its place if it does."""
        if not self._counting or self._is_complete:
            return False
        if self._seconds is not None and self._deadline is None:
            self._deadline = at + self._seconds
        is_late = self._deadline is not None and at >= self._deadline
        if is_late or self._left == 0:
            self._complete()
            return False
        self._left = None if self._left is None else self._left - 1
        self._under_way += 1
        return True

    def _complete(self) -> None:
        """Stop counting requests."""
        self._is_complete = True
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self._is_complete and self._under_way == 0:
            self._over.set()


class _Pool:
    """The connections of an open loop: one for each concurrent request, and a few open spares."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._idle: list[Connection] = []
        self._known: list[Connection] = []
        self._free = asyncio.Semaphore(min(_MOST_CONNECTIONS, _most_files() - _OTHER_FILES))
        self._opening: set[asyncio.Task[None]] = set()

    async def take(self) -> Connection:
        """Return an unused connection, open if possible."""
        await self._free.acquire()
        # Prefer the last used one, because servers close idle connections.
        connection = next(
            (each for each in reversed(self._idle) if each.is_open), self._idle[0] if self._idle else None
        )
        if connection is not None:
            self._idle.remove(connection)
        if len(self._idle) + len(self._opening) < _SPARE_CONNECTIONS:
            task = asyncio.create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        return connection or self._new()

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next request."""
        self._idle.append(connection)
        self._free.release()

    def close(self) -> None:
        """Close all connections."""
        for task in self._opening:
            task.cancel()
        for connection in self._known:
            connection.close()

    async def _open(self) -> None:
        connection = self._new()
        await connection.open()
        self._idle.insert(0, connection)

    def _new(self) -> Connection:
        connection = Connection(self._server)
        self._known.append(connection)
        return connection


def _most_files() -> int:
    """Raise the limit of open files as far as allowed and needed, and return it."""
    try:
        import resource
    except ModuleNotFoundError:  # on Windows, where sockets are not files
        return _MOST_CONNECTIONS + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_CONNECTIONS + _OTHER_FILES
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def prompt_order(count: int, seed: str, sent: Iterable[int] = ()) -> Iterator[int]:
    """Yield prompts' indexes without end: all in random order, then all in another order.

    The seed is the name of the load, so that both sides of a comparison receive the same prompts in the same order.
    Indexes in ``sent`` are skipped as often as they occur.
    """
    generator = random.Random(seed)  # noqa: S311 - no secret
    skipped = Counter(sent)
    while True:
        indexes = list(range(count))
        generator.shuffle(indexes)
        for index in indexes:
            if skipped[index]:
                skipped[index] -= 1
            else:
                yield index


async def _finish(recording: asyncio.Task[None]) -> None:
    """Wait until all ended exchanges are recorded, even when interrupted."""
    while not recording.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(recording)
    recording.result()


async def _watch_lag(lags: list[float]) -> None:
    """Note the event loop's lag at regular times: a blocked loop misses several of them, and each counts."""
    due = time.perf_counter()
    while True:
        due += _LAG_EVERY_SECONDS
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        lags.append(_beyond_timers(time.perf_counter() - due))


def _beyond_timers(late: float) -> float:
    """Return how late a timer is, without what its precision explains. Arriving bytes wait for no timer."""
    return max(0.0, late - _TIMER_SECONDS)


def _p99(seconds: list[float]) -> float:
    """Return the 99th percentile in milliseconds, the value that 99% do not exceed."""
    return round(sorted(seconds)[math.ceil(0.99 * len(seconds)) - 1] * 1000, 3)
