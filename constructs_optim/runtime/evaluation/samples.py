"""Observations of single requests under one load, and the standard errors of the metrics calculated from them.

Consecutive requests are alike: they share the server's queue, its caches, and its neighbors. So the sample is cut into
blocks of consecutive requests, and whole blocks are drawn with replacement (block bootstrap: Künsch, Annals of
Statistics 17 (1989), 1217-1241; Carlstein, Annals of Statistics 14 (1986), 1171-1179). Each resample gives another
value of every metric, and the spread of these values is the metric's standard error.
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
from statistics import fmean
from typing import Any, NamedTuple

MOST_BLOCKS = 20
"""The most blocks of a sample: enough for a standard error, and few enough that each block spans similar requests."""
FEWEST_BLOCKS = 10
"""The fewest blocks that give a standard error."""
PERCENTILES = (50, 90, 99)
FEWEST_BEYOND = 5
"""The fewest values beyond a percentile for which its standard error is meaningful."""
DRAWINGS = 400
LATENCIES = (
    "time_to_first_token",
    "inter_token_latency",
    "inter_chunk_latency",
    "longest_inter_chunk_latency",
    "client_latency",
)
_SEED = 20
# Above this number, values are rounded to three digits, which leaves a few hundred to draw instead of many thousand.
_MANY = 5000
ALL_TOKENS = "total_tokens_per_second"
"""Not a published metric: the price of all tokens is calculated from it."""
# The metric of each rate, by what the rate counts.
_RATES = {
    "input_tokens": "input_tokens_per_second",
    "output_tokens": "output_tokens_per_second",
    "requests": "requests_per_second",
    "inputs": "inputs_per_second",
    "goodput": "goodput",
}
# The highest correlation that can be estimated from so few blocks.
_MOST_CORRELATION = 0.9
# A relative difference this small is rounding.
_ROUNDING = 1e-9
# The fewest degrees of freedom: with fewer, an interval is meaningless.
_LEAST_FREEDOM = 3


@dataclass(frozen=True, slots=True)
class Observation:
    """One request: when it was sent, in seconds, and its latencies in milliseconds; None for latencies it lacks.

    A request that was sent before the sample's time has a negative ``start``. ``gaps`` are the times between the chunks
    of the response. ``inputs`` are the texts or documents of a request for embeddings, scores or classes. ``within`` is
    the share of the request's time that lies within the sample's. ``prompt`` identifies the prompt; None if unknown. A
    failed request has no latencies or tokens.
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
    inputs: float | None = None

    def inside(self, begin: float, end: float) -> Observation:
        """Return the observation relative to a sample that runs from ``begin`` to ``end``, in seconds."""
        took = (self.client_latency or 0.0) / 1000
        within = max(0.0, min(self.start + took, end) - max(self.start, begin)) / took if took > 0 else 1.0
        return replace(self, start=self.start - begin, within=min(1.0, within))

    def until(self, end: float) -> Observation:
        """Return the observation in a sample that ends earlier, after ``end`` seconds."""
        start, seconds = max(0.0, self.start), (self.client_latency or 0.0) / 1000 * self.within
        if start + seconds <= end:
            return self
        return replace(self, within=self.within * max(0.0, end - start) / seconds)

    def latencies(self, name: str) -> Iterable[float]:
        """Return the request's values of a latency; most latencies have one or none."""
        if name == "inter_chunk_latency":
            return self.gaps
        if name == "longest_inter_chunk_latency":
            return (max(self.gaps),) if self.gaps else ()
        value = getattr(self, name)
        return () if value is None else (value,)

    def amount(self, kind: str) -> float | None:
        """Return the request's contribution to a rate; None if unknown."""
        if kind == "requests":
            return None if self.client_latency is None else 1.0
        if kind == "goodput":
            return None if self.meets_objectives is None else float(self.meets_objectives)
        return getattr(self, kind)


class Sample:
    """The requests of one side at one load, and the ``seconds`` in which they were sent.

    The requests ``around`` them, and those that were sent earlier, do not count, but their parts within these seconds
    add to the rates.
    """

    def __init__(self, observations: Sequence[Observation], seconds: float, around: Sequence[Observation] = ()) -> None:
        self.observations = sorted((each for each in observations if each.start >= 0), key=lambda each: each.start)
        self.seconds = seconds
        self.blocks = blocks_of(len(self.observations))
        self.cuts = cuts(len(self.observations), self.blocks)
        self.around = (*around, *(each for each in observations if each.start < 0))
        self._parts: Sequence[Sample] = ()
        self._replicates: dict[int, list[dict[str, float]]] = {}

    @staticmethod
    def joined(samples: Sequence[Sample]) -> Sample:
        """Return the requests of several samples as one, as if each sample began when the one before it ended.

        Requests are alike within a sample. That those of one sample differ from another's is not such a likeness.
        """
        observations: list[Observation] = []
        around: list[Observation] = []
        begin = 0.0
        for sample in samples:
            observations += [replace(each, start=begin + each.start) for each in sample.observations]
            around += [replace(each, start=begin + max(0.0, each.start)) for each in sample.around]
            begin += sample.seconds
        joined = Sample(observations, begin, around)
        joined._parts = samples
        return joined

    def __len__(self) -> int:
        return len(self.observations)

    def with_observations(self, observations: Sequence[Observation], seconds: float) -> Sample:
        """Return the sample with other observations of its requests, in so many seconds."""
        return Sample(observations, seconds, self.around)

    def paired_with(self, other: Sample) -> Sample | None:
        """Return this sample in blocks with the same prompts as the other's; None if less than half are the same.

        The order of the prompts depends slightly on how long each response takes, and one side may leave out prompts,
        such as the first ones, that the other side has.
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
        paired = Sample((), self.seconds, self.around)
        paired._parts = self._parts
        paired.observations = [each for block in blocks for each in block]
        paired.blocks, paired.cuts = other.blocks, list(pairwise(accumulate(map(len, blocks), initial=0)))
        return paired

    def drawn(self, weights: Sequence[int] | None = None, *, coarse: bool = False) -> dict[str, float]:
        """Return the metrics, with each block counted ``weights`` times, by default once.

        ``coarse``: round each value to three significant digits if there are many, which suffices for a standard error.
        """
        weights = weights or [1] * self.blocks
        values: dict[str, float] = {}
        for name, ordered in (self._coarse if coarse else self._ordered).items():
            values |= ordered.drawn(name, weights)
        seconds = self.seconds * sum(weights) / len(weights) if weights else 0.0
        for kind, blocks in self._amounts.items():
            tokens, waited, in_time = (sum(map(mul, weights, column)) for column in blocks)
            # Only the number of good requests may really be zero.
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
        """The average number of requests in flight."""
        requests = (*self.observations, *self.around)
        return sum((each.client_latency or 0.0) * each.within for each in requests) / 1000 / self.seconds

    def replicates(self, stream: int = 0) -> Sequence[dict[str, float]]:
        """Return the metrics of each resample of the blocks. Resamples of different streams are independent."""
        if stream not in self._replicates:
            self._replicates[stream] = [self.drawn(weights, coarse=True) for weights in drawings(self.blocks, stream)]
        return self._replicates[stream]

    def sorted_values(self, latency: str) -> list[float]:
        """Return the values of a latency, the lowest first."""
        ordered = self._ordered[latency]
        return [value for value, count in zip(ordered.values, ordered.counts, strict=True) for _ in range(count)]

    def beyond(self, name: str) -> int | None:
        """Return how many values are beyond a percentile; None if the metric is not a percentile."""
        if (percentile := percentile_of(name)) is None:
            return None
        return sum(self._ordered[percentile.latency].counts) * (100 - percentile.percent) // 100

    def needed(self, name: str) -> int:
        """Return the number of requests with enough values beyond a percentile; 0 for other metrics."""
        percentile = percentile_of(name)
        return math.ceil(FEWEST_BEYOND * 100 / (100 - percentile.percent)) if percentile is not None else 0

    def dependence(self, name: str) -> float:
        """Return the factor by which the similarity of successive blocks increases a metric's variance; 1 without any.

        The factor is that of a first-order autoregression: of the amounts in the blocks' time for a rate, otherwise of
        the blocks' mean latencies (client latencies if the metric has none of its own).
        """
        if self._parts:
            return fmean(part.dependence(name) for part in self._parts)
        kinds = [kind for kind, rate in _RATES.items() if rate == name or (name == ALL_TOKENS and "tokens" in kind)]
        columns = [self._amounts[kind].in_time for kind in kinds if kind in self._amounts]
        if columns and all(columns):
            return variance_inflation([math.fsum(amounts) for amounts in zip(*columns, strict=True)])
        latency = next((each for each in LATENCIES if name.startswith(each)), LATENCIES[-1])
        totals = self._ordered[latency].totals
        means = [total / count for _, (total, count) in sorted(totals.items())]
        return variance_inflation(means)

    def design_effect(self, happens: Callable[[Observation], object]) -> float:
        """Return the factor by which clustering increases the variance of a share of the requests; 1 without any."""
        if self._parts:
            events = [1 + sum(bool(happens(each)) for each in part.observations) for part in self._parts]
            return fmean([part.design_effect(happens) for part in self._parts], weights=events)
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
        """The values of each latency that has any, rounded if there are many."""
        return {
            name: ordered.rounded() if len(ordered.values) > _MANY else ordered
            for name, ordered in self._ordered.items()
            if ordered.values
        }

    @cached_property
    def _amounts(self) -> dict[str, _Amounts]:
        """The sums of each kind of tokens and requests in each block.

        A request's tokens are spread over the time that it took: otherwise users whose responses end together would
        fill one span and leave the next one empty. Requests are counted like tokens.
        """
        found: dict[str, _Amounts] = {}
        span = self.seconds / self.blocks if self.blocks else 0.0
        completed = [each for each in (*self.observations, *self.around) if each.client_latency is not None]
        for kind in _RATES:
            known = [
                [each for each in self.observations[first:last] if each.amount(kind) is not None]
                for first, last in self.cuts
            ]
            if not any(known):
                continue
            amounts = [each.amount(kind) for each in completed]
            # If the amounts of some requests are unknown, a rate would be too low.
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
    """Lists with a value for each block of requests.

    Attributes:
        tokens: tokens of the block's requests.
        waited: total latency of the block's requests, in milliseconds.
        in_time: tokens in one of as many equal spans of time; empty if the tokens of some requests are unknown.
    """

    tokens: list[float]
    waited: list[float]
    in_time: list[float]


def _shares(observation: Observation, span: float, spans: int) -> Iterator[tuple[int, float]]:
    """Yield the equal spans of time in which a request runs, each with the share of the request in it."""
    start, took = max(0.0, observation.start), (observation.client_latency or 0.0) / 1000 * observation.within
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
    """Sorted values, each with its block and count, and the sum and number of each block's values."""

    values: list[float]
    blocks: list[int]
    counts: list[int]
    totals: dict[int, tuple[float, int]]

    @staticmethod
    def of(pairs: Iterable[tuple[float, int]]) -> _Ordered:
        """Sort values with their blocks."""
        return _Ordered.counted(Counter(pairs))

    def rounded(self) -> _Ordered:
        """Return the values rounded to three significant digits."""
        found = Counter[tuple[float, int]]()
        for value, block, times in zip(self.values, self.blocks, self.counts, strict=True):
            found[float(f"{value:.2e}"), block] += times
        return _Ordered.counted(found)

    @staticmethod
    def counted(pairs: Counter[tuple[float, int]]) -> _Ordered:
        """Sort counted values with their blocks."""
        ordered = sorted(pairs.items())
        totals: dict[int, tuple[float, int]] = {}
        for (value, block), times in ordered:
            total, count = totals.get(block, (0.0, 0))
            totals[block] = total + value * times, count + times
        values, blocks = [value for (value, _), _ in ordered], [block for (_, block), _ in ordered]
        return _Ordered(values, blocks, [times for _, times in ordered], totals)

    @cached_property
    def _columns(self) -> tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...], bool]:
        """The blocks, their sums and numbers of values, and whether every value occurs only once."""
        sums, numbers = zip(*self.totals.values(), strict=True) if self.totals else ((), ())
        return tuple(self.totals), sums, numbers, max(self.counts, default=1) == 1

    def drawn(self, name: str, weights: Sequence[int]) -> dict[str, float]:
        """Return the mean and the percentiles, with NumPy's linear interpolation."""
        blocks, sums, numbers, are_single = self._columns
        of_blocks = [weights[block] for block in blocks]
        count = sum(map(mul, of_blocks, numbers))
        if not count:
            return {}
        found = {name: sum(map(mul, of_blocks, sums)) / count}
        # The value of rank r is the first whose cumulative count of drawn values exceeds r.
        times = map(weights.__getitem__, self.blocks)
        drawn = list(accumulate(times if are_single else map(mul, times, self.counts)))
        for percent in PERCENTILES:
            rank = (count - 1) * percent / 100
            first = int(rank)
            place, share = bisect_right(drawn, first), rank - first
            value = self.values[place]
            if share:
                # The value of the next rank.
                above = self.values[place if drawn[place] > first + 1 else bisect_right(drawn, first + 1, place)]
                value += (above - value) * share
            found[f"{name}_p{percent}"] = value
        return found


class Percentile(NamedTuple):
    """A percentile of a latency, such as 99."""

    latency: str
    percent: int


def percentile_of(name: str) -> Percentile | None:
    """Return the percentile that a metric is; None if it is not one."""
    latency, _, percent = name.rpartition("_p")
    return Percentile(latency, int(percent)) if latency in LATENCIES and percent.isdigit() else None


def variance_inflation(means: Sequence[float]) -> float:
    """Return the factor by which a first-order autoregression of the means increases the variance.

    The factor is 1 for fewer than ``FEWEST_BLOCKS`` means. A trend does not count as similarity, for example of a
    server that falls further behind during the whole measurement.
    """
    if len(means) < FEWEST_BLOCKS:
        return 1.0
    _, rest = trend(means)
    spread = math.fsum(each**2 for each in rest)
    if spread <= (_ROUNDING * math.fsum(means)) ** 2:
        return 1.0
    shared = math.fsum(first * second for first, second in pairwise(rest))
    # The mean, the slope, and the correlation are estimated from the same few blocks. Each estimate lowers the
    # correlation by about 1 / blocks.
    correlation = shared / spread + 3 / len(means)
    correlation = min(_MOST_CORRELATION, max(0.0, correlation))
    return (1 + correlation) / (1 - correlation)


def trend(values: Sequence[float]) -> tuple[float, list[float]]:
    """Return the slope of the least-squares line through equally spaced values, and the residuals."""
    center, middle = math.fsum(values) / len(values), (len(values) - 1) / 2
    spread = math.fsum((place - middle) ** 2 for place in range(len(values)))
    slope = math.fsum((place - middle) * value for place, value in enumerate(values)) / spread
    return slope, [value - center - slope * (place - middle) for place, value in enumerate(values)]


def degrees_of_freedom(blocks: int, dependence: float) -> int:
    """Return the degrees of freedom of a standard error from ``blocks``; fewer are independent if blocks are alike."""
    return min(blocks - 1, max(_LEAST_FREEDOM, int(blocks / dependence) - 1))


@cache
def drawings(blocks: int, stream: int) -> Sequence[Sequence[int]]:
    """Return how often each block is drawn, for ``DRAWINGS`` resamples. Different streams are independent."""
    generator = random.Random(_SEED + stream)  # noqa: S311 - no secret
    found: list[list[int]] = []
    for _ in range(DRAWINGS):
        weights = [0] * blocks
        for block in generator.choices(range(blocks), k=blocks):
            weights[block] += 1
        found.append(weights)
    return found


def standard_error(values: Sequence[float], blocks: int) -> float:
    """Return the standard error of a metric, from its values in resamples of ``blocks`` blocks."""
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    # Resamples of a sample vary less than samples of its population.
    return math.sqrt(spread * blocks / (blocks - 1))


@cache
def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution for a probability of at least 0.5 and below 1."""
    low, high = 0.0, math.pi / 2
    # Bisects the angle whose tangent is t / sqrt(freedom), as often as a double has binary digits.
    for _ in range(53):
        angle = (low + high) / 2
        low, high = (angle, high) if _student_probability(angle, freedom) < probability else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _student_probability(angle: float, freedom: int) -> float:
    """Return the cumulative probability of the t whose angle this is.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for number in range(2 + odd, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (number - 1) / number
    within = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
    return (1 + within) / 2


def blocks_of(count: int) -> int:
    """Return the number of blocks for ``count`` values."""
    return min(MOST_BLOCKS, max(1, count // 2)) if count else 0


def cuts(count: int, blocks: int) -> list[tuple[int, int]]:
    """Return the first position and the position after the last for each block; all have about the same size."""
    edges = [count * block // blocks for block in range(blocks + 1)] if blocks else []
    return list(pairwise(edges))


def block_means(values: Sequence[float]) -> list[float]:
    """Return the mean of each block of values, in their order."""
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
    "inputs",
)


def first_of(observations: Sequence[Observation], seconds: float, most: int) -> tuple[Sequence[Observation], float]:
    """Return at most ``most`` requests of a sample, the first ones, and the seconds in which they were sent."""
    ordered = sorted(observations, key=lambda each: each.start)
    if len(ordered) <= most:
        return observations, seconds
    return [each.until(ordered[most].start) for each in ordered[:most]], ordered[most].start


def stored(samples: Mapping[int, tuple[Sequence[Observation], float]]) -> dict[str, Any]:
    """Return observations and seconds by concurrency as a document for ``samples_of``."""
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
    """Yield the samples of a document with their concurrencies; unknown columns are ignored."""
    columns = document.get("columns", [])
    for level in document.get("levels", []):
        rows = [{n: v for n, v in zip(columns, row, strict=True) if n in _STORED} for row in level["requests"]]
        yield level["concurrency"], Sample([Observation(**row) for row in rows], level["seconds"])
