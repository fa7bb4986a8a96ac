"""The requests of a benchmark, generated from the performance of the served model.

Users send a request, wait for its response and send the next. With a request rate, requests are sent on schedule,
however many are in flight. For any number of requests, their mean and median times equal the performance's. The same
benchmark always has the same result.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

from constructs_optim_local.sagemaker.hosting.performance import Performance, Served, share_of, tokens_of

from .workload_spec import Workload

_NORMAL = NormalDist()
# With any spread, no request is faster than this share of the mean.
_LEAST_SHARE = 0.1
# The largest number of requests of a benchmark by time: more would not change the statistics.
_MOST_REQUESTS = 20_000


class Failure(StrEnum):
    """The reason why a request failed."""

    error = "error"
    timeout = "timeout"


@dataclass(frozen=True)
class Request:
    """One request of a benchmark. Times are in milliseconds; ``start`` counts from the benchmark's start.

    ``failure`` is None for a successful request, and ``prompt`` is None for a synthetic prompt.
    """

    number: int
    start: float
    input_tokens: int
    output_tokens: int
    time_to_first_token: float
    inter_token_latency: float
    target: str
    failure: Failure | None = None
    prompt: str | None = None

    @property
    def latency(self) -> float:
        """The time from sending the request to its last token."""
        return self.time_to_first_token + self.inter_token_latency * max(0, self.output_tokens - 1)

    @property
    def end(self) -> float:
        """The time when the response was complete or the request failed."""
        return self.start + (self.time_to_first_token if self.failure else self.latency)


@dataclass(frozen=True)
class Measurement:
    """The result of a benchmark with a number of users."""

    concurrency: int
    requests: tuple[Request, ...]

    @property
    def completed(self) -> list[Request]:
        """The successful requests."""
        return [request for request in self.requests if request.failure is None]

    @property
    def seconds(self) -> float:
        """The seconds from the first request to the last response."""
        return max((request.end for request in self.requests), default=0.0) / 1000


def measured(
    workload: Workload,
    concurrency: int,
    targets: Sequence[Served],
    performance: Callable[[Served, float], Performance],
    prompts: Sequence[str] = (),
) -> Measurement:
    """Return a benchmark of ``targets``, which take turns.

    Args:
        workload: the requests to send.
        concurrency: number of concurrent users.
        targets: the models that respond; at least one.
        performance: returns the numbers of a target for prompts of a number of tokens.
        prompts: the texts to send in a cycle; if empty, synthetic prompts.
    """
    count = workload.request_count(concurrency)
    drawn = count if count is not None else _estimated_count(workload, concurrency, targets[0], performance)
    random_order = random.Random(f"{workload.seed}/{concurrency}")  # noqa: S311 - a simulation
    inputs = _drawn(*workload.input_tokens, drawn, random_order)
    outputs = _drawn(*workload.output_tokens, drawn, random_order)
    first, between = _drawn_shares(drawn, random_order), _drawn_shares(drawn, random_order)
    patience = workload.parameters.get("request_timeout_seconds")
    picks = workload.parameters.get("model_selection_strategy") == "random"
    finished: list[Request] = []
    failures = _Failures()
    for number, start in enumerate(_starts(workload, concurrency, drawn, finished)):
        if workload.duration is not None and start / 1000 >= workload.duration:
            break
        target = random_order.choice(targets) if picks else targets[number % len(targets)]
        prompt = prompts[number % len(prompts)] if prompts else None
        tokens = tokens_of(prompt) if prompt is not None else inputs[number]
        numbers = performance(target, tokens)
        ttft, itl = numbers.under(concurrency / target.copies / len(targets))
        sent = Request(
            number=number,
            start=start,
            input_tokens=tokens,
            output_tokens=outputs[number],
            time_to_first_token=ttft * max(_LEAST_SHARE, 1 + numbers.spread * first[number]),
            inter_token_latency=itl * max(_LEAST_SHARE, 1 + numbers.spread * between[number]),
            target=target.name,
            failure=Failure.error if failures.next(target.name, numbers.error_rate) else None,
            prompt=prompt,
        )
        late = patience is not None and sent.latency > patience * 1000
        finished.append(replace(sent, failure=sent.failure or Failure.timeout) if late else sent)
    return Measurement(concurrency, tuple(finished))


def made_up_prompt(number: int, tokens: int) -> str:
    """Return a synthetic prompt of a length, which its number determines."""
    word = f"{int(share_of(str(number), about='prompt') * 2**16):04x}"
    return " ".join([word[:3]] * tokens)


class _Failures:
    """Spreads failures evenly: of n requests, the error rate times n fail, rounded."""

    def __init__(self) -> None:
        self._owed: dict[str, float] = {}

    def next(self, target: str, rate: float) -> bool:
        owed = self._owed.get(target, 0.5) + rate
        failed = owed >= 1
        self._owed[target] = owed - failed
        return failed


def _starts(workload: Workload, concurrency: int, count: int, finished: list[Request]) -> Iterator[float]:
    """Yield when each request is sent, in milliseconds; ``made`` holds the earlier requests."""
    rate = workload.parameters.get("request_rate")
    if rate:
        pause = 1000 / rate
        if workload.parameters.get("request_rate_mode", "poisson") == "constant":
            yield from (pause * number for number in range(count))
            return
        arrivals, at = random.Random(f"{workload.seed}/arrivals"), 0.0  # noqa: S311 - a simulation
        for _ in range(count):
            yield at
            at += arrivals.expovariate(1 / pause)
        return
    free = [0.0] * min(concurrency, count)
    heapq.heapify(free)
    for number in range(count):
        yield heapq.heappop(free)
        if len(finished) > number:
            heapq.heappush(free, finished[number].end)


def _estimated_count(
    workload: Workload, concurrency: int, target: Served, performance: Callable[[Served, float], Performance]
) -> int:
    """Return a sufficient number of requests for a benchmark by time."""
    ttft, itl = performance(target, workload.input_tokens[0]).under(concurrency / target.copies)
    shortest = max(1.0, (ttft + itl * max(0.0, workload.output_tokens[0] - 1)) * _LEAST_SHARE)
    rate = workload.parameters.get("request_rate")
    each_second = 2 * rate if rate else concurrency * 1000 / shortest
    return max(concurrency, min(_MOST_REQUESTS, math.ceil((workload.duration or 0.0) * each_second)))


def _drawn(mean: float, deviation: float, count: int, order: random.Random) -> list[int]:
    values = [max(1, round(mean + deviation * share)) for share in _shares(count)]
    order.shuffle(values)
    return values


def _drawn_shares(count: int, order: random.Random) -> list[float]:
    shares = _shares(count)
    order.shuffle(shares)
    return shares


def _shares(count: int) -> list[float]:
    """Return normally distributed deviations with mean zero."""
    return [_NORMAL.inv_cdf((index + 0.5) / count) for index in range(count)]
