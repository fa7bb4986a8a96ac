"""Runs of a shadow with traffic whose pairs are not independent, and candidates that are equal, worse or slower.

Requests are those that clients send, in the order in which they send them. The shadow must find out by itself which of
them are repeated, belong to a conversation, or are made from the same template.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers
from random import Random

from row import Row, count

from constructs_optim.runtime.shadow.captures import Document
from constructs_optim.runtime.shadow.checks import Check
from constructs_optim.runtime.shadow.sequential_test import Counts
from constructs_optim.runtime.shadow.verdict import (
    Criteria,
    Observed,
    Outcome,
    add_minute,
    add_pair,
    add_requests,
    verdict,
)

_CRITERIA = Criteria([Check("judge")], margin=0.02, latency_tolerance=0.1)
_BEGAN = dt.datetime(2026, 7, 3, 9, tzinfo=dt.UTC)
_REQUESTS_A_MINUTE, _MINUTES_A_POLL = 20, 25
_DIFFERING = 0.1
_EXAMPLES = ("What is the sum of one and two?", "Three", "What is the sum of two and two?", "Four")
_WORDS = ("river", "table", "green", "slowly", "under", "letter", "window", "market", "signal", "copper", "north")

Sent = tuple[Document, int]
"""A request, and whether the candidate's answer to it is worse (1), equal (0) or better (-1)."""
Traffic = Callable[[Random, float], Iterator[Sent]]
"""Requests without an end; the number is the share of requests for which the candidate is worse."""
Series = Callable[[Random], Iterator[float]]
"""A value for each minute without an end."""


def rows(runs: int, seed: int) -> Iterator[Row]:
    """Yield the rows of equal candidates, then those of others."""
    for traffic, run in _EQUAL.items():
        yield Row("shadow", traffic, "equal: worse", count(runs, seed, run.gets("worse")), runs, most=0.05)
    for traffic, (run, outcome, least) in _OTHER.items():
        yield Row("shadow", traffic, outcome, count(runs, seed, run.gets(outcome)), runs, least=least)
    for traffic, (run, most) in _WORSE.items():
        yield Row("shadow", traffic, "pass", count(runs, seed, run.gets("pass")), runs, most=most)


# What clients send.


def _outcome(random: Random, worse_by: float, differing: float = _DIFFERING) -> int:
    drawn = random.random()
    return 1 if drawn < (differing + worse_by) / 2 else -1 if drawn < differing else 0


def _sentence(random: Random) -> str:
    return " ".join(random.choices(_WORDS, k=12))


def _chat(*texts: str, **parameters: object) -> Document:
    """A chat in which user and model take turns."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)], **parameters}


def _distinct(random: Random, worse_by: float) -> Iterator[Sent]:
    for number in numbers():
        yield _chat(f"Question {number}: {_sentence(random)}"), _outcome(random, worse_by)


@dataclass(frozen=True)
class _Repeated:
    """A share of the requests repeats some prompts, whose answers are the same each time.

    ``suffix`` is what the client adds to the prompt, given the number of the request.
    """

    share: float
    prompts: int
    suffix: Callable[[int], str] = lambda number: ""
    parameters: Callable[[int], Document] = lambda number: {"temperature": 0}

    def __call__(self, random: Random, worse_by: float) -> Iterator[Sent]:
        fixed = [(_sentence(random), _outcome(random, worse_by)) for _ in range(self.prompts)]
        for number, other in enumerate(_distinct(random, worse_by)):
            if random.random() < self.share:
                text, outcome = random.choice(fixed)
                yield _chat(text + self.suffix(number), **self.parameters(number)), outcome
            else:
                yield other


def _number(number: int) -> str:
    return f" (request {number})"


def _limit(number: int) -> Document:
    return {"max_tokens": 1 + number % 50}


def _date(number: int) -> str:
    return f"\nToday is {_BEGAN + dt.timedelta(minutes=number // _REQUESTS_A_MINUTE):%A, %B %d, %Y, %H:%M}."


@dataclass(frozen=True)
class _Conversations:
    """Conversations of several users at once, which are under way when the run begins.

    A turn's outcome is the conversation's with the probability ``shared``, but the candidate fails in all turns from
    ``failing_from`` on. ``differing`` is the share of the other turns in which the answers differ. ``examples`` are the
    questions and answers with which each conversation starts.
    """

    turns: int
    shared: float
    users: int = 15
    examples: tuple[str, ...] = ()
    differing: float = _DIFFERING
    failing_from: float = math.inf

    def __call__(self, random: Random, worse_by: float) -> Iterator[Sent]:
        under_way = [self._conversation(random, worse_by) for _ in range(self.users)]
        for conversation in under_way:
            for _ in range(random.randrange(self.turns)):
                next(conversation)
        while True:
            user = random.randrange(self.users)
            sent = next(under_way[user], None)
            if sent is None:
                under_way[user] = self._conversation(random, worse_by)
            else:
                yield sent

    def _conversation(self, random: Random, worse_by: float) -> Iterator[Sent]:
        common, texts = _outcome(random, worse_by, self.differing), list(self.examples)
        for turn in range(1, self.turns + 1):
            texts.append(_sentence(random))
            outcome = common if random.random() < self.shared else _outcome(random, worse_by, self.differing)
            yield _chat(*texts), 1 if turn >= self.failing_from else outcome
            texts.append(_sentence(random))


@dataclass(frozen=True)
class _Tasks:
    """Some tasks, each with an example of its own before the question.

    A request's outcome is the task's with the probability ``shared``, unless the candidate fails in ``all`` of them.
    """

    shared: float = 0.0
    all: bool = False
    tasks: int = 15

    def __call__(self, random: Random, worse_by: float) -> Iterator[Sent]:
        tasks = [(_sentence(random), _sentence(random), _outcome(random, worse_by)) for _ in range(self.tasks)]
        for number in numbers():
            asked, answered, common = random.choice(tasks)
            outcome = common if random.random() < self.shared else _outcome(random, worse_by)
            yield _chat(asked, answered, f"Question {number}: {_sentence(random)}"), 1 if self.all else outcome


def _batches(random: Random, worse_by: float) -> Iterator[Sent]:
    """In turn, twenty minutes of requests that have nothing in common, and of a batch whose documents are alike."""
    for requests in (_distinct(random, worse_by) for _ in numbers()):
        size = 20 * _REQUESTS_A_MINUTE
        yield from (next(requests) for _ in range(size))
        outcome = _outcome(random, worse_by)
        yield from ((next(requests)[0], outcome if random.random() < 0.3 else 0) for _ in range(size))


# Latencies and failures of a side, minute by minute.


def _noise(random: Random, deviation: float = 0.1) -> Iterator[float]:
    while True:
        yield random.gauss(0, deviation)


def _wandering(random: Random, correlation: float, deviation: float, noise: float = 0.0) -> Iterator[float]:
    """An autoregression of the first order, with independent noise beside it."""
    value = random.gauss(0, deviation)
    while True:
        yield value + random.gauss(0, noise)
        value = correlation * value + random.gauss(0, deviation * math.sqrt(1 - correlation**2))


def _steady(random: Random, share: float = 0.002) -> Iterator[float]:
    while True:
        yield share


def _bursts(random: Random, share: float, minutes: int, failing: float = 1.0) -> Iterator[float]:
    """The share of failing requests: bursts begin at any minute, also before the run, and may overlap."""
    chance, left = share / minutes / failing, 0
    if random.random() < share / failing:
        left = random.randrange(1, minutes + 1)
    while True:
        if random.random() < chance:
            left = minutes
        yield failing if left > 0 else 0.0
        left -= 1


@dataclass(frozen=True)
class _Run:
    """A run of ``pairs``, which the shadow judges every 25 minutes, as its watcher does, until it has decided."""

    traffic: Traffic = _distinct
    latency: Series = _noise
    failing: Series = _steady
    pairs: int = 4_000
    worse_by: float = 0.0
    slower: float = 1.0
    more_failing: float = 0.0

    def gets(self, outcome: Outcome) -> Callable[[Random], bool]:
        """Return whether a run gets this verdict."""
        return lambda random: self._verdict(random) == outcome

    def _verdict(self, random: Random) -> Outcome:
        observed, sent = Observed(), self.traffic(random, self.worse_by)
        latencies = self.latency(random), self.latency(random)
        failing = self.failing(random), self.failing(random)
        found: Outcome = "not decided"
        for minute in range(self.pairs // _REQUESTS_A_MINUTE):
            for _ in range(_REQUESTS_A_MINUTE):
                request, outcome = next(sent)
                counted = Counts(worse=outcome > 0, equal=outcome == 0, better=outcome < 0)
                add_pair(observed, _CRITERIA, request, minute, partial(_judged, counted))
            add_minute(observed, _CRITERIA, math.exp(next(latencies[0])), math.exp(next(latencies[1])) * self.slower)
            shares = next(failing[0]), min(1.0, next(failing[1]) + self.more_failing)
            failed = [sum(random.random() < share for _ in range(_REQUESTS_A_MINUTE)) for share in shares]
            add_requests(observed, minute, (_REQUESTS_A_MINUTE, failed[0]), (_REQUESTS_A_MINUTE, failed[1]))
            if (minute + 1) % _MINUTES_A_POLL == 0:
                found = verdict(observed, _CRITERIA).outcome
                if found != "not decided":
                    break
        return found


def _judged(counted: Counts, check: Check) -> Counts:
    return counted


_EQUAL: dict[str, _Run] = {
    "independent": _Run(),
    "10% repeat 5 prompts": _Run(_Repeated(0.1, 5)),
    "30% repeat 20 prompts": _Run(_Repeated(0.3, 20)),
    "50% repeat 100 prompts": _Run(_Repeated(0.5, 100)),
    "90% repeat 1,000 prompts": _Run(_Repeated(0.9, 1_000)),
    "conversations of 5 turns, correlation 0.3": _Run(_Conversations(5, math.sqrt(0.3))),
    "conversations of 10 turns, correlation 0.5": _Run(_Conversations(10, math.sqrt(0.5))),
    "conversations of 5 turns with one outcome": _Run(_Conversations(5, 1.0)),
    "conversations of 20 turns with one outcome": _Run(_Conversations(20, 1.0)),
    "1% fail, in bursts of 5 minutes": _Run(failing=partial(_bursts, share=0.01, minutes=5)),
    "0.2% fail, in bursts of 5 minutes": _Run(failing=partial(_bursts, share=0.002, minutes=5)),
    "latency AR(0.98), 25%": _Run(latency=partial(_wandering, correlation=0.98, deviation=0.25)),
    "30% repeat 20 prompts with the date": _Run(_Repeated(0.3, 20, suffix=_date), pairs=2_000),
    "30% repeat 20 prompts with a number": _Run(_Repeated(0.3, 20, suffix=_number), pairs=2_000),
    "40% probe with a prompt and a number": _Run(_Repeated(0.4, 1, suffix=_number), pairs=2_000),
    "50% probe with 3 prompts and a limit of tokens": _Run(_Repeated(0.5, 3, parameters=_limit), pairs=2_000),
    "conversations of 20 turns after two examples": _Run(_Conversations(20, 1.0, examples=_EXAMPLES), pairs=2_000),
    "15 tasks with an example each": _Run(_Tasks()),
    "15 tasks with an example each, correlation 0.3": _Run(_Tasks(math.sqrt(0.3))),
    "one user's conversations of 50 turns with one outcome": _Run(_Conversations(50, 1.0, users=1), pairs=1_000),
    "batches of 20 minutes, correlation 0.3": _Run(_batches),
    "3% fail, in bursts of an hour": _Run(failing=partial(_bursts, share=0.03, minutes=60, failing=0.5)),
    "latency AR(0.98), 25%, and noise of 5%": _Run(
        latency=partial(_wandering, correlation=0.98, deviation=0.25, noise=0.05)
    ),
    "latency AR(0.999), 25%": _Run(latency=partial(_wandering, correlation=0.999, deviation=0.25)),
}
_OTHER: dict[str, tuple[_Run, Outcome, float | None]] = {
    "equal, independent, 8,000 pairs": (_Run(pairs=8_000), "pass", 0.8),
    "2 points worse, 4,000 pairs": (_Run(worse_by=0.02), "worse", 0.8),
    "5 points worse, 500 pairs": (_Run(worse_by=0.05, pairs=500), "worse", 0.8),
    "5 points worse, 30% repeat 20 prompts, 1,000 pairs": (
        _Run(_Repeated(0.3, 20), worse_by=0.05, pairs=1_000),
        "worse",
        0.8,
    ),
    "5 points worse, conversations of 5 turns, correlation 0.3, 4,000 pairs": (
        _Run(_Conversations(5, math.sqrt(0.3)), worse_by=0.05),
        "worse",
        0.8,
    ),
    "fails from turn 2 of 8, turns 15 minutes apart, 4,000 pairs": (
        _Run(_Conversations(8, 0.0, users=300, failing_from=2)),
        "worse",
        0.8,
    ),
    "fails from turn 5 of 8, turns 15 minutes apart, 4,000 pairs": (
        _Run(_Conversations(8, 0.0, users=300, failing_from=5)),
        "worse",
        0.8,
    ),
    "fails in all of 15 tasks with an example each, 1,000 pairs": (_Run(_Tasks(all=True), pairs=1_000), "worse", 0.8),
    "30% slower, 200 minutes": (_Run(slower=1.3), "worse", 0.9),
    "2 points more fail, 200 minutes": (_Run(more_failing=0.02), "worse", 0.9),
}
# Candidates that are worse, and the largest share of runs in which they may pass.
_WORSE: dict[str, tuple[_Run, float]] = {
    "fails from turn 2 of 8, turns 15 minutes apart, 4,000 pairs": (
        _Run(_Conversations(8, 0.0, users=300, failing_from=2)),
        0.0,
    ),
    "fails from turn 5 of 8, turns 15 minutes apart, 4,000 pairs": (
        _Run(_Conversations(8, 0.0, users=300, failing_from=5)),
        0.0,
    ),
    "fails in 2% of conversations of 8 turns, 4,000 pairs": (
        _Run(_Conversations(8, 1.0, differing=0.02), worse_by=0.02),
        0.05,
    ),
}
