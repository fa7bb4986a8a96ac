"""The copies of a model and their requests, in batches that slow down with each request.

While a batch has ``b`` requests, each generates a token every ``t(b)`` seconds. So the batch's work advances by the
elapsed time divided by ``t(b)``, and a request ends when the work of its tokens is done. A copy therefore needs only
one event when a request arrives and one when it ends, regardless of the batch's changes in between.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial

from constructs_optim.recipe.forecast import Forecaster


@dataclass(frozen=True)
class Speed:
    """The speed of a copy by the number of requests in its batch: seconds per token, and to the first token.

    ``token[b]`` and ``first[b]`` are for ``b`` requests. ``first`` is for a prompt that takes ``mean_prompt`` seconds
    and does not wait. ``prompt`` returns the seconds for which a prompt of a given length delays later ones.
    """

    token: list[float]
    first: list[float]
    prompt: Callable[[int], float]
    mean_prompt: float

    @property
    def most_requests(self) -> int:
        """The maximum number of requests in a batch."""
        return len(self.token) - 1

    @classmethod
    def of(cls, forecasts: Forecaster, input_tokens: float, slower: tuple[float, float] = (1.0, 1.0)) -> Speed:
        """Return the forecast speed; ``slower`` has factors for the times to the first token and between tokens."""
        first, token = [0.0], [0.0]
        best = forecasts.best
        for batch in range(1, int(forecasts.most_requests) + 1):
            state = forecasts.at_batch(batch)
            # No server is faster than physics allows.
            first.append(max(state[0] * slower[0], best.time_to_first_token))
            token.append(max(state[1] * slower[1], best.inter_token_latency))
        prompt = lru_cache(maxsize=2**16)(partial(forecasts.prompt, slower=slower[0]))
        return cls(token, first, prompt, forecasts.prompt(input_tokens, slower[0]))


@dataclass
class Served:
    """The results of the requests that a fleet received, in seconds."""

    first: list[float] = field(default_factory=list[float])
    """Times to the first token, including waits."""
    between: list[float] = field(default_factory=list[float])
    """Mean times between tokens."""
    waits: list[float] = field(default_factory=list[float])
    """Times until a batch had room, for requests that waited."""
    failed: int = 0
    """The number of requests that found no copy, or whose prompts are too long."""


class Copy:
    """One copy in service: its batch, and the requests that wait for it."""

    __slots__ = (
        "_ends",
        "_prompts_end",
        "_speed",
        "_work",
        "event",
        "is_leaving",
        "longest",
        "number",
        "pool",
        "requests",
        "updated",
        "waiting",
    )

    def __init__(self, number: int, pool: int, speed: Speed, longest: int | None, now: float) -> None:
        self.number, self.pool, self._speed = number, pool, speed
        self.longest = longest if longest is not None else math.inf
        """The maximum tokens of a request."""
        self.updated = now
        """When a request last arrived or ended."""
        self.requests = 0
        """The number of requests in its batch or waiting."""
        self._work = 0.0
        # Prompts are computed one after another.
        self._prompts_end = now
        # The work at which each request ends, its arrival in the batch, time to the first token, and output tokens.
        self._ends: list[tuple[float, float, float, int]] = []
        self.waiting: deque[tuple[float, int, int]] = deque()
        self.is_leaving = False
        self.event = 0
        """The number of the event that ends its next request; earlier events are obsolete."""

    @property
    def next_end(self) -> float:
        """When the next request ends, if no other arrives before."""
        if not self._ends:
            return math.inf
        return self.updated + max(0.0, self._ends[0][0] - self._work) * self._speed.token[len(self._ends)]

    def take(self, at: float, input_tokens: int, output_tokens: int, now: float, served: Served) -> None:
        """Add a request that arrived at ``at`` to the batch or the queue; its prompt must fit the context."""
        output_tokens = int(min(output_tokens, self.longest - input_tokens))
        self.requests += 1
        if len(self._ends) >= self._speed.most_requests:
            self.waiting.append((at, input_tokens, output_tokens))
            return
        self._pass(now)
        speed, batch = self._speed, len(self._ends) + 1
        prompt, begun = speed.prompt(input_tokens), max(now, self._prompts_end)
        self._prompts_end = begun + prompt
        first = begun - now + max(speed.first[batch] + prompt - speed.mean_prompt, speed.token[batch])
        if now > at:
            served.waits.append(now - at)
        served.first.append(now - at + first)
        work = self._work + first / speed.token[batch] + output_tokens - 1
        heapq.heappush(self._ends, (work, now, first, output_tokens))

    def end(self, now: float, served: Served) -> None:
        """End the request that is complete, and start one from the queue."""
        self._pass(now)
        _, began, first, tokens = heapq.heappop(self._ends)
        if tokens > 1:
            served.between.append(max(0.0, now - began - first) / (tokens - 1))
        self.requests -= 1
        if self.waiting:
            self.requests -= 1
            self.take(*self.waiting.popleft(), now, served)

    def _pass(self, now: float) -> None:
        if self._ends:
            self._work += (now - self.updated) / self._speed.token[len(self._ends)]
        self.updated = now

    def left(self) -> Iterator[tuple[float, int, int]]:
        """Yield the waiting requests, which other copies take over when this copy leaves."""
        while self.waiting:
            self.requests -= 1
            yield self.waiting.popleft()
