"""What was observed of each request under one load, and what chance does to the metrics that follow from it.

Requests that follow one another are alike: they share the server's queue, its caches and its neighbours. So the sample
is cut into blocks of consecutive requests, and whole blocks are drawn again, with replacement (block bootstrap:
Künsch, Annals of Statistics 17 (1989), 1217-1241; Carlstein, Annals of Statistics 14 (1986), 1171-1179). Each drawing
gives every metric once more, and the spread of these values is the metric's standard error.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, pairwise
from operator import mul
from typing import Any, NamedTuple

MOST_BLOCKS = 20
"""How many blocks a sample has at most: enough for a standard error, and each long enough to hold what is alike."""
FEWEST_BLOCKS = 10
"""Below this, there is no standard error."""
PERCENTILES = (50, 90, 99)
FEWEST_BEYOND = 5
"""How many values have to be beyond a percentile for its standard error to mean anything."""
DRAWINGS = 400
LATENCIES = (
    "time_to_first_token",
    "inter_token_latency",
    "inter_chunk_latency",
    "longest_inter_chunk_latency",
    "client_latency",
)
_SEED = 20
# From so many values on, three digits are left of each: few hundred values to draw instead of many thousand.
_MANY = 5000
ALL_TOKENS = "total_tokens_per_second"
"""No published metric: what the price of all tokens follows from."""
# The metric of each rate, by what is counted.
_RATES = {
    "input_tokens": "input_tokens_per_second",
    "output_tokens": "output_tokens_per_second",
    "requests": "requests_per_second",
    "goodput": "goodput",
}
# Beyond it, the few blocks tell nothing of how far apart two independent ones are.
_MOST_CORRELATION = 0.9
# What differs by this share alone does not differ.
_ROUNDING = 1e-9
# The fewest degrees of freedom: with fewer, an interval tells nothing.
_LEAST_FREEDOM = 3


@dataclass(frozen=True, slots=True)
class Observation:
    """One request: when it was sent, in seconds, and its latencies in milliseconds, None where it has none.

    ``gaps`` are between one piece of the response and the next. ``within`` is the share of its time that is within the
    sample's. ``prompt`` identifies what was sent; None where that is not known. A request that failed has neither
    latencies nor tokens.
    """

    start: float
    time_to_first_token: float | None = None
    inter_token_latency: float | None = None
    client_latency: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    prompt: int | str | None = None
    gaps: tuple[float, ...] = ()
    within: float = 1.0
    meets_objectives: bool | None = None

    def inside(self, begin: float, end: float) -> Observation:
        """The observation for a sample that begins and ends at these seconds."""
        took = (self.client_latency or 0.0) / 1000
        start = max(self.start, begin)
        within = max(0.0, min(self.start + took, end) - start) / took if took > 0 else 1.0
        return replace(self, start=start - begin, within=min(1.0, within))

    def latencies(self, name: str) -> Iterable[float]:
        """Its values of a latency: of most, one or none."""
        if name == "inter_chunk_latency":
            return self.gaps
        if name == "longest_inter_chunk_latency":
            return (max(self.gaps),) if self.gaps else ()
        value = getattr(self, name)
        return () if value is None else (value,)

    def amount(self, kind: str) -> float | None:
        """What it adds to a rate; None where that is not known."""
        if kind == "requests":
            return None if self.client_latency is None else 1.0
        if kind == "goodput":
            return None if self.meets_objectives is None else float(self.meets_objectives)
        return getattr(self, kind)


class Sample:
    """The requests of one side at one load, and the ``seconds`` in which they were sent.

    Those ``around`` them do not count, but add to the rates what they have within these seconds.
    """

    def __init__(self, observations: Sequence[Observation], seconds: float, around: Sequence[Observation] = ()) -> None:
        self.observations = sorted(observations, key=lambda each: each.start)
        self.seconds = seconds
        self.blocks = blocks_of(len(observations))
        self.cuts = cuts(len(observations), self.blocks)
        self._around = around
        self._replicates: dict[int, list[dict[str, float]]] = {}

    def __len__(self) -> int:
        return len(self.observations)

    def paired_with(self, other: Sample) -> Sample | None:
        """The same sample, whose blocks have the prompts of the other's; None where they hardly had the same prompts.

        Users are sent prompts in an order that depends a little on how long each response takes, and what one side
        leaves out, as at its beginning, the other one may not.
        """
        blocks: list[list[Observation]] = [[] for _ in range(other.blocks)]
        places: dict[int | str | None, deque[int]] = defaultdict(deque)
        for block, (first, last) in enumerate(other.cuts):
            for each in other.observations[first:last]:
                places[each.prompt].append(block)
        places.pop(None, None)
        shared = 0
        for position, each in enumerate(self.observations):
            if places.get(each.prompt):
                shared += 1
                blocks[places[each.prompt].popleft()].append(each)
            elif blocks:
                blocks[position * other.blocks // len(self)].append(each)
        if not shared or shared < max(len(self), len(other)) / 2:
            return None
        paired = Sample((), self.seconds, self._around)
        paired.observations = [each for block in blocks for each in block]
        paired.blocks, paired.cuts = other.blocks, list(pairwise(accumulate(map(len, blocks), initial=0)))
        return paired

    def drawn(self, weights: Sequence[int] | None = None, *, coarse: bool = False) -> dict[str, float]:
        """The metrics, where each block counts as often as its weight says; once by default.

        ``coarse``: of many values, with three significant digits of each. That is enough for a standard error.
        """
        weights = weights or [1] * self.blocks
        values: dict[str, float] = {}
        for name, ordered in (self._coarse if coarse else self._ordered).items():
            values |= ordered.drawn(name, weights)
        seconds = self.seconds * sum(weights) / len(weights) if weights else 0.0
        for kind, blocks in self._amounts.items():
            tokens, waited, in_time = (sum(map(mul, weights, column)) for column in blocks)
            # Of good requests alone, there may truly be none.
            if seconds > 0 and blocks.in_time and (in_time or kind == "goodput"):
                values[_RATES[kind]] = in_time / seconds
            if tokens and waited > 0 and kind.endswith("_tokens"):
                values[f"{kind}_per_second_per_request"] = tokens * 1000 / waited
        rates = [values.get(_RATES[kind]) for kind in ("input_tokens", "output_tokens")]
        if None not in rates:
            values[ALL_TOKENS] = sum(rate or 0.0 for rate in rates)
        return values

    @property
    def mean_under_way(self) -> float:
        """How many requests were under way on average."""
        requests = (*self.observations, *self._around)
        return sum((each.client_latency or 0.0) * each.within for each in requests) / 1000 / self.seconds

    def replicates(self, stream: int = 0) -> Sequence[dict[str, float]]:
        """The metrics of each drawing of its blocks; those of another stream are independent of the first."""
        if stream not in self._replicates:
            self._replicates[stream] = [self.drawn(weights, coarse=True) for weights in drawings(self.blocks, stream)]
        return self._replicates[stream]

    def beyond(self, name: str) -> int | None:
        """How many values are beyond a percentile, of a metric that is one."""
        latency, _, percentile = name.rpartition("_p")
        if latency not in LATENCIES or not percentile.isdigit():
            return None
        return sum(self._ordered[latency].counts) * (100 - int(percentile)) // 100

    def needed(self, name: str) -> int:
        """How many requests it takes until enough values are beyond a percentile; 0 for other metrics."""
        percentile = name.rpartition("_p")[2] if self.beyond(name) is not None else ""
        return math.ceil(FEWEST_BEYOND * 100 / (100 - int(percentile))) if percentile else 0

    def dependence(self, name: str) -> float:
        """By which factor a variance is larger because a block is like the one before it; 1 where it is not.

        That of a first-order autoregression, for what is in the blocks' time where the metric is a rate, and otherwise
        for the means of their latencies, or client latencies.
        """
        kinds = [kind for kind, rate in _RATES.items() if rate == name or (name == ALL_TOKENS and "tokens" in kind)]
        columns = [self._amounts[kind].in_time for kind in kinds if kind in self._amounts]
        if columns and all(columns):
            return variance_inflation([math.fsum(amounts) for amounts in zip(*columns, strict=True)])
        latency = next((each for each in LATENCIES if name.startswith(each)), LATENCIES[-1])
        totals = self._ordered[latency].totals
        means = [total / count for _, (total, count) in sorted(totals.items())]
        return variance_inflation(means)

    def design_effect(self, happens: Callable[[Observation], object]) -> float:
        """By which factor a share of the requests varies more because they come together; 1 where they do not."""
        counted = [float(bool(happens(each))) for each in self.observations]
        if self.blocks < FEWEST_BLOCKS or not 0 < sum(counted) < len(self):
            return 1.0
        share, size, means = sum(counted) / len(self), len(self) / self.blocks, block_means(counted)
        spread = math.fsum((mean - share) ** 2 for mean in means) / (len(means) - 1)
        return max(1.0, spread * size / (share * (1 - share))) * variance_inflation(means)

    @cached_property
    def _ordered(self) -> dict[str, _Ordered]:
        """The values of each latency."""
        return {
            name: _Ordered.of(
                (value, block)
                for block, (first, last) in enumerate(self.cuts)
                for each in self.observations[first:last]
                for value in each.latencies(name)
            )
            for name in LATENCIES
        }

    @cached_property
    def _coarse(self) -> dict[str, _Ordered]:
        """The values of each latency that there are any of, rounded where there are many."""
        return {
            name: ordered.rounded() if len(ordered.values) > _MANY else ordered
            for name, ordered in self._ordered.items()
            if ordered.values
        }

    @cached_property
    def _amounts(self) -> dict[str, _Amounts]:
        """What each kind of tokens, and of requests, adds up to in each block.

        Users whose responses end together would fill one span and leave the next one empty, so that a request's tokens
        are spread over the time that it took. Requests are counted like tokens.
        """
        found: dict[str, _Amounts] = {}
        span = self.seconds / self.blocks if self.blocks else 0.0
        completed = [each for each in (*self.observations, *self._around) if each.client_latency is not None]
        for kind in _RATES:
            known = [
                [each for each in self.observations[first:last] if each.amount(kind) is not None]
                for first, last in self.cuts
            ]
            if not any(known):
                continue
            amounts = [each.amount(kind) for each in completed]
            # Of some requests alone, a rate would be too low.
            in_time = [] if None in amounts else [0.0] * self.blocks
            for each, amount in zip(completed, amounts, strict=True) if in_time else ():
                for block, share in _shares(each, span, self.blocks):
                    in_time[block] += share * (amount or 0.0)
            found[kind] = _Amounts(
                [sum(each.amount(kind) or 0.0 for each in block) for block in known],
                [sum(each.client_latency or 0.0 for each in block) for block in known],
                in_time,
            )
        return found


class _Amounts(NamedTuple):
    """Of each block: its tokens, the milliseconds of their requests, and the tokens of as long a span of time.

    ``in_time`` is empty where the tokens of some requests are not known.
    """

    tokens: list[float]
    waited: list[float]
    in_time: list[float]


def _shares(observation: Observation, span: float, spans: int) -> Iterator[tuple[int, float]]:
    """Which share of a request falls into each of a number of equal spans of time."""
    start, took = observation.start, (observation.client_latency or 0.0) / 1000 * observation.within
    if span <= 0 or took <= 0:
        yield min(spans - 1, int(start / span)) if span > 0 else 0, observation.within
        return
    end = start + took
    for block in range(min(spans - 1, int(start / span)), spans):
        until = end if block == spans - 1 else min(end, (block + 1) * span)
        yield block, observation.within * max(0.0, until - max(start, block * span)) / took
        if until >= end:
            return


@dataclass(frozen=True)
class _Ordered:
    """Values in their order, each with its block and how often it is there; and the sum and number of each block's."""

    values: list[float]
    blocks: list[int]
    counts: list[int]
    totals: dict[int, tuple[float, int]]

    @staticmethod
    def of(pairs: Iterable[tuple[float, int]]) -> _Ordered:
        """Put values with their blocks into their order."""
        return _Ordered.counted(Counter(pairs))

    def rounded(self) -> _Ordered:
        """The same with three significant digits."""
        found = Counter[tuple[float, int]]()
        for value, block, times in zip(self.values, self.blocks, self.counts, strict=True):
            found[float(f"{value:.2e}"), block] += times
        return _Ordered.counted(found)

    @staticmethod
    def counted(pairs: Counter[tuple[float, int]]) -> _Ordered:
        """Put values with their blocks into their order."""
        ordered = sorted(pairs.items())
        totals: dict[int, tuple[float, int]] = {}
        for (value, block), times in ordered:
            total, count = totals.get(block, (0.0, 0))
            totals[block] = total + value * times, count + times
        values, blocks = [value for (value, _), _ in ordered], [block for (_, block), _ in ordered]
        return _Ordered(values, blocks, [times for _, times in ordered], totals)

    @cached_property
    def _columns(self) -> tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...], bool]:
        """The blocks, their sums and their numbers, and whether each value is there once."""
        sums, numbers = zip(*self.totals.values(), strict=True) if self.totals else ((), ())
        return tuple(self.totals), sums, numbers, max(self.counts, default=1) == 1

    def drawn(self, name: str, weights: Sequence[int]) -> dict[str, float]:
        """Mean and percentiles, linearly interpolated as NumPy's are."""
        if not self.values:
            return {}
        blocks, sums, numbers, are_single = self._columns
        of_blocks = [weights[block] for block in blocks]
        count = sum(map(mul, of_blocks, numbers))
        if not count:
            return {}
        found = {name: sum(map(mul, of_blocks, sums)) / count}
        # The value of rank r is the first one up to which more than r are drawn.
        times = map(weights.__getitem__, self.blocks)
        drawn = list(accumulate(times if are_single else map(mul, times, self.counts)))
        for percent in PERCENTILES:
            rank = (count - 1) * percent / 100
            first = int(rank)
            place, share = bisect_right(drawn, first), rank - first
            value = self.values[place]
            if share:
                # Of the next rank.
                above = self.values[place if drawn[place] > first + 1 else bisect_right(drawn, first + 1, place)]
                value += (above - value) * share
            found[f"{name}_p{percent}"] = value
        return found


def variance_inflation(means: Sequence[float]) -> float:
    """By which factor a variance is larger because each mean is like the one before it: first-order autoregression.

    A trend is no likeness: a server that falls further behind during the whole measurement is taken for what it is. 1
    where there are fewer than :data:`FEWEST_BLOCKS`.
    """
    if len(means) < FEWEST_BLOCKS:
        return 1.0
    _, rest = trend(means)
    spread = math.fsum(each**2 for each in rest)
    if spread <= (_ROUNDING * math.fsum(means)) ** 2:
        return 1.0
    shared = math.fsum(first * second for first, second in pairwise(rest))
    # The mean, the slope and the correlation itself are estimated from the same few blocks: each lowers it by about
    # one in their number.
    correlation = shared / spread + 3 / len(means)
    correlation = min(_MOST_CORRELATION, max(0.0, correlation))
    return (1 + correlation) / (1 - correlation)


def trend(values: Sequence[float]) -> tuple[float, list[float]]:
    """The slope of the straight line through values at equal distances (least squares), and what it leaves of each."""
    center, middle = math.fsum(values) / len(values), (len(values) - 1) / 2
    spread = math.fsum((place - middle) ** 2 for place in range(len(values)))
    slope = math.fsum((place - middle) * value for place, value in enumerate(values)) / spread
    return slope, [value - center - slope * (place - middle) for place, value in enumerate(values)]


def degrees_of_freedom(blocks: int, dependence: float) -> int:
    """Those of a standard error from so many blocks. Where blocks are alike, there are fewer independent ones."""
    return min(blocks - 1, max(_LEAST_FREEDOM, int(blocks / dependence) - 1))


@cache
def drawings(blocks: int, stream: int = 0) -> Sequence[Sequence[int]]:
    """How often each of the blocks is drawn, :data:`DRAWINGS` times; another stream is independent of the first."""
    generator = random.Random(_SEED + stream)  # noqa: S311 - no secret
    found: list[list[int]] = []
    for _ in range(DRAWINGS):
        weights = [0] * blocks
        for block in generator.choices(range(blocks), k=blocks):
            weights[block] += 1
        found.append(weights)
    return found


def standard_error(values: Sequence[float], blocks: int) -> float:
    """The standard error of a metric, from its values in drawings of that many blocks."""
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    # Drawing from the sample itself varies less than drawing from what it was drawn from.
    return math.sqrt(spread * blocks / (blocks - 1))


@cache
def student_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t distribution for a probability from 0.5 on, exclusive of 1."""
    low, high = 0.0, math.pi / 2
    # By the angle whose tangent is t / sqrt(freedom): as many halvings as a double has digits.
    for _ in range(53):
        angle = (low + high) / 2
        low, high = (angle, high) if _student_probability(angle, freedom) < probability else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _student_probability(angle: float, freedom: int) -> float:
    """Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4."""
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for number in range(2 + odd, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (number - 1) / number
    within = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
    return (1 + within) / 2


def blocks_of(count: int) -> int:
    """Into how many blocks so many values are cut."""
    return min(MOST_BLOCKS, max(1, count // 2)) if count else 0


def cuts(count: int, blocks: int) -> list[tuple[int, int]]:
    """The first and the last position, exclusive, of each of a number of blocks of about the same size."""
    edges = [count * block // blocks for block in range(blocks + 1)] if blocks else []
    return list(pairwise(edges))


def block_means(values: Sequence[float]) -> list[float]:
    """The mean of each block of values in their order."""
    return [math.fsum(values[first:last]) / (last - first) for first, last in cuts(len(values), blocks_of(len(values)))]


_STORED = (
    "start",
    "within",
    "time_to_first_token",
    "inter_token_latency",
    "client_latency",
    "input_tokens",
    "output_tokens",
    "prompt",
)


def stored(samples: Mapping[int, tuple[Sequence[Observation], float]]) -> dict[str, Any]:
    """Observations and seconds by concurrency, as a document for :func:`samples_of`."""
    return {
        "columns": list(_STORED),
        "levels": [
            {
                "concurrency": concurrency,
                "seconds": seconds,
                "requests": [
                    [round(value, 6) if isinstance(value := getattr(each, name), float) else value for name in _STORED]
                    for each in observations
                ],
            }
            for concurrency, (observations, seconds) in samples.items()
        ],
    }


def samples_of(document: Mapping[str, Any]) -> Iterator[tuple[int, Sample]]:
    """The samples of a document, by concurrency. Columns that are not known are left out."""
    columns = document.get("columns", [])
    for level in document.get("levels", []):
        rows = [{n: v for n, v in zip(columns, row, strict=True) if n in _STORED} for row in level["requests"]]
        yield level["concurrency"], Sample([Observation(**row) for row in rows], level["seconds"])
