"""The steady state of a server with continuous batching: its batch, latencies and throughput under load.

Passes that generate tokens alternate with passes over prompts: a request with ``n`` output tokens takes part in
``n - 1`` passes, between which the server computes the prompts of other requests. With a batch of ``b`` requests, a
pass time ``t`` and a time ``p`` that a prompt adds, the rate is ``b / ((n - 1) t + b p)`` requests per second. The rest
follows from Little's law. Prompts wait for earlier prompts as in a queue with one server and constant service time
(M/D/1). Requests that arrive at random wait for room in the batch as in a queue with a server for each of its ``c``
places (M/M/c, because lengths differ, in Sakasegawa's approximation, 1977).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .roofline import Copy, Efficiency, ForwardPass

_HALVINGS = 30
LEAST_BATCH = 1e-6
# Closer to full utilization, the queue of prompts grows without limit, so this counts as the server's limit.
_BUSIEST = 0.98


@dataclass(frozen=True)
class Steady:
    """A steady state: mean latencies in seconds, requests per second, and requests in a batch."""

    time_to_first_token: float
    inter_token_latency: float
    requests_per_second: float
    batch: float


class Server:
    """One copy of a model that serves requests of the same lengths, in tokens.

    ``most_requests`` is the engine's batch limit; the KV cache can reduce it.
    """

    def __init__(
        self, copy: Copy, efficiency: Efficiency, input_tokens: float, output_tokens: float, most_requests: float
    ) -> None:
        passes = ForwardPass(copy, efficiency)
        self._passes, self._efficiency = passes, efficiency
        # A response of one token counts as two, because it is in a batch too.
        self._decoded = max(1.0, output_tokens - 1)
        # On average, half of a request's output exists.
        self._context, self._input_tokens = input_tokens + output_tokens / 2, input_tokens
        self._prompt, self._further = passes.prompt(input_tokens), passes.further_prompt(input_tokens)
        fitting = copy.cache_room / max(1.0, copy.request_bytes(input_tokens + output_tokens))
        self.most_requests = max(1.0, min(most_requests, fitting))

    def with_users(self, users: float) -> Steady:
        """Return the state with ``users``, each of whom sends a request when the previous response is complete."""
        limit = min(users, self.most_requests)

        def missing(batch: float) -> float:
            rate = self._rate(batch)
            return batch + rate * self._first_token(batch, users, rate) - users

        batch = _root(missing, limit)
        state = self._state(batch, users)
        if users > self.most_requests and batch >= 0.999 * limit:
            waited = users / state.requests_per_second - self._decoded * state.inter_token_latency
            first = max(state.time_to_first_token, waited)
            return Steady(first, state.inter_token_latency, state.requests_per_second, batch)
        return state

    def at_rate(self, requests_per_second: float) -> Steady:
        """Return the state if requests arrive at random at this rate, or at the server's maximum if that is lower."""
        return self.with_batch(_root(lambda batch: self._rate(batch) - requests_per_second, self.most_requests))

    def at_limit(self) -> Steady:
        """Return the state at the server's maximum number of requests."""
        return self.with_batch(self.most_requests)

    def with_batch(self, batch: float) -> Steady:
        """Return the state if requests arrive at random, at the rate that gives this mean batch size."""
        return self._state(batch, math.inf)

    def prompt(self, input_tokens: float) -> float:
        """Return the seconds that a prompt of another length takes, next to other prompts."""
        return self._passes.further_prompt(input_tokens)

    @property
    def most_possible(self) -> float:
        """The maximum requests per second that ``PHYSICS`` allows with batches of this size."""
        batch = self.most_requests
        return batch / self._passes.least_turn(batch, self._context, self._decoded, self._input_tokens)

    def _state(self, batch: float, users: float) -> Steady:
        rate = self._rate(batch)
        return Steady(self._first_token(batch, users, rate), batch / rate / self._decoded, rate, batch)

    def _rate(self, batch: float) -> float:
        return batch / (self._decoded * self._passes.token(batch, self._context) + batch * self._further)

    def first_token_alone(self, batch: float) -> float:
        """Return the seconds to the first token of a request that waits for no other, in a batch of this size."""
        return self._alone(batch, self._rate(batch))

    def _alone(self, batch: float, rate: float) -> float:
        # The passes that also compute prompts take as long as the time between two tokens.
        passes = batch / rate / self._decoded if batch > 1 else 0.0
        return self._efficiency.server_seconds + self._prompt + self._efficiency.awaited_passes * passes

    def _first_token(self, batch: float, users: float, rate: float) -> float:
        # A user's own requests do not wait for each other.
        others = max(0.0, 1 - 1 / users)
        busy = min(rate * self._further, _BUSIEST) * others
        waited = self._prompt * busy / (2 * (1 - busy))
        if math.isfinite(users):
            waited += self._further * self._efficiency.together * max(0.0, batch - 1) / 2
        else:
            waited += self._for_room(batch, rate)
        return self._alone(batch, rate) + waited

    def _for_room(self, batch: float, rate: float) -> float:
        """Return the mean wait for a place in the batch, if requests arrive at random."""
        places, busy = self.most_requests, min(batch / self.most_requests, _BUSIEST)
        return batch / rate * busy ** (math.sqrt(2 * (places + 1)) - 1) / (places * (1 - busy))


def _root(rising: Callable[[float], float], most: float) -> float:
    """Return the root of a rising function, at most ``most``."""
    low, high = LEAST_BATCH, most
    if rising(high) < 0:
        return high
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return high
