"""Judges limits by one-sided tests: a value is refused only if it is beyond its limit by more than chance explains.

- A share of requests has the exact interval of a count (``shares``).
- A percentile is beyond its limit if more requests are than the percentile leaves, which is a share, too (Woodruff,
  Journal of the American Statistical Association 47 (1952), 635-646). This decides percentiles that have too few values
  beyond them for a standard error.
- Means, rates, and prices have the standard error of the block bootstrap (``samples``).
- Other metrics, such as an acceptance length, do not come from single requests, and are judged by their values.

Together, all limits at all concurrencies refuse an endpoint that meets them with a probability of at most 5%
(Bonferroni). The spread between runs is common to the metrics of a run, so it is counted once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from ..formula import calculate
from ..requests.run_properties import Limit
from .differences import COUNTS, LEVEL, POWER, SAMPLED, SOURCES, Measured, errors_of
from .formatting import number, users_of
from .repetitions import MOST_MEASUREMENTS, Refusal, Undecided, is_worth_repeating
from .run_spread import NO_SPREAD, RunSpread, run_spread
from .samples import Observation, Percentile, Sample, percentile_of
from .shares import clustering, lowest_share, probability_of_more

_NORMAL = NormalDist()
# The fewest blocks, of two requests each, that give a limit's interval. Student's distribution widens it.
_FEWEST_BLOCKS = 4
# The factor from one guess of a number to the next, and the largest multiple of what was measured.
_GROWTH, _MOST_TIMES = 1.1, 1000.0
_Arm = Callable[[float], float]
"""How far chance within a run may carry a value beyond its limit, for a multiple of the requests."""


def level_of(limits: Sequence[Limit], concurrencies: int) -> float:
    """Return the probability with which chance may carry one value beyond its limit."""
    return LEVEL / max(1, concurrencies * sum(_counted(each) is not None or each.formula in SAMPLED for each in limits))


def judged(
    limit: Limit, measured: Measured, before: Measured | None, users: int, level: float
) -> Refusal | Undecided | None:
    """Return the verdict on a limit; None if the value is within it. ``before`` shows the spread between runs, too."""
    value = calculate(limit.formula, measured.metrics)
    at = f"{limit.title or limit.formula} at {users_of(users)}"
    is_most = limit.at_most is not None
    bound = (limit.at_most if is_most else limit.at_least) or 0.0
    if value is None:
        why = "no request succeeded, its price is unknown, or nobody counted its tokens"
        return Refusal(f"{at} was not measured: {why}")
    if value <= bound if is_most else value >= bound:
        return None

    def shown(value: float) -> str:
        return f"{number(value)} {limit.unit}".strip()

    by = f"{abs(value / bound - 1):.0%} " if bound else ""
    told = f"{at} is {shown(value)}, {by}{'above the maximum' if is_most else 'below the minimum'} of {shown(bound)}"
    excess = _excess(limit, value, bound, measured, before, level)
    if excess is None:
        return Refusal(told)
    if math.isfinite(reach := excess.reach()):
        told += (
            f" (95% interval {'from' if is_most else 'to'} {shown(excess.end(value, -reach if is_most else reach))})"
        )
    if reach < excess.size:
        return Refusal(told)
    return Undecided(f"{told}, which may be chance alone{excess.needed}", excess.is_worth_repeating)


@dataclass(frozen=True)
class _Excess:
    """By how much a value is beyond its limit, and how much of that chance explains.

    Attributes:
        size: the distance from the limit, of the logarithm or of a share.
        within: the part that chance within the runs explains.
        spread: the spread between runs, which more requests do not reduce.
        runs, requests: the number of runs, and of requests in each of them.
        level: the level of this limit.
        is_share: whether the value is a share, otherwise ``size`` is that of a logarithm.
    """

    size: float
    within: _Arm
    spread: RunSpread
    runs: int
    requests: float
    level: float
    is_share: bool = False

    def reach(self, times: float = 1.0, runs: int | None = None) -> float:
        """Return what chance explains with ``times`` as many requests in each run.

        The two parts vary independently, so their squares add up (Zou and Donner, Statistics in Medicine 27 (2008),
        1693-1702).
        """
        runs = runs or self.runs
        between = self.spread.of_means(runs).arm(LEVEL)
        return math.hypot(self.within(times * runs / self.runs), between)

    def end(self, value: float, reach: float) -> float:
        """Return the end of the interval that is ``reach`` from the value."""
        return value + reach if self.is_share else value * math.exp(reach)

    @property
    def is_worth_repeating(self) -> bool:
        """Whether all measurements together have a fair chance to refuse the value."""
        error = self.within(1.0) / _NORMAL.inv_cdf(1 - self.level)
        error = math.hypot(error, self.spread.deviation / math.sqrt(self.runs))
        return is_worth_repeating(self.size, error, self.runs, self.reach(runs=MOST_MEASUREMENTS))

    @property
    def needed(self) -> str:
        """What would decide it with a probability of ``POWER``, in words."""
        if math.isinf(self.within(_MOST_TIMES)):
            return f": it takes at least {max(2 * _FEWEST_BLOCKS, math.ceil(2 * self.requests))} requests to tell"
        certain = self.size / (1 + _NORMAL.inv_cdf(POWER) / _NORMAL.inv_cdf(1 - self.level))
        times = 1.0
        while times < _MOST_TIMES and self.reach(times) > certain:
            times *= _GROWTH
        if times < _MOST_TIMES:
            return f": {math.ceil(self.requests * times):,} requests would decide it"
        runs = self.runs
        while runs < _MOST_TIMES and self.reach(runs=runs) > certain:
            runs = math.ceil(runs * _GROWTH)
        if runs < _MOST_TIMES:
            return (
                f": {runs:,} measurements would decide it, because those of one endpoint differ by about "
                f"{self.spread.deviation:.0%}"
            )
        return ""


def _excess(
    limit: Limit, value: float, bound: float, measured: Measured, before: Measured | None, level: float
) -> _Excess | None:
    """Return by how much a value is beyond its limit; None if chance has no part in it."""
    runs, sample, is_most = len(measured.each_run), measured.sample, limit.at_most is not None
    sent = measured.metrics.get("client_invocations") or (len(sample) if sample is not None else 0)
    if (counted := _counted(limit)) is not None and sent:
        reach = _reach_of_share(measured.metrics[counted], sent, sample, level)
        return _Excess(value - bound, reach, NO_SPREAD, runs, sent / runs, level, is_share=True)
    if limit.formula not in SAMPLED or value <= 0 or bound <= 0:
        return None
    size = abs(math.log(value / bound))
    within = _reach(limit.formula, size, is_most=is_most, sample=sample, level=level)
    noise = within(1.0) / _NORMAL.inv_cdf(1 - level) * math.sqrt(runs)
    versions = [side.each_run for side in (before, measured) if side is not None]
    return _Excess(size, within, run_spread(limit.formula, versions, noise), runs, sent / runs, level)


def _counted(limit: Limit) -> str | None:
    """Return the metric whose share of the requests has a maximum."""
    name, _, requests = limit.formula.partition(" / ")
    return name if name in COUNTS and requests == "client_invocations" and limit.at_most is not None else None


def _reach_of_share(count: float, sent: float, sample: Sample | None, level: float) -> _Arm:
    alike = _alike(sample, lambda each: each.client_latency is None, level) if sample is not None else 1.0
    return lambda times: count / sent - lowest_share(count * times / alike, sent * times / alike, level)


def _reach(formula: str, size: float, *, is_most: bool, sample: Sample | None, level: float) -> _Arm:
    if sample is None:
        # Requests are not stored if the tool recorded none, or more than can be read.
        return lambda times: 0.0
    name = SOURCES.get(formula, formula)
    percentile, drawn = percentile_of(name), sample.drawn().get(name)
    if drawn is None and percentile is not None:
        # Only requests that the sample leaves out have a value, such as the first of an endpoint that then fails.
        return lambda times: 0.0
    # A chunk is not a request. High latencies are bad, but a limit could demand them.
    if (
        percentile is not None
        and drawn is not None
        and percentile.latency != "inter_chunk_latency"
        and (is_most is not (formula == "total_throughput"))
    ):
        return _reach_of_percentile(percentile, drawn, size, sample, level)
    error = errors_of(sample).get(name) if sample.blocks >= _FEWEST_BLOCKS else None
    return lambda times: error.of_more(times).arm(2 * level) if error is not None else math.inf


def _reach_of_percentile(percentile: Percentile, value: float, size: float, sample: Sample, level: float) -> _Arm:
    values, left = sample.sorted_values(percentile.latency), 1 - percentile.percent / 100
    bound = value / math.exp(size)
    alike = _alike(sample, lambda each: any(one > bound for one in each.latencies(percentile.latency)), level)

    def reach(times: float) -> float:
        trials = len(values) * times / alike

        def is_beyond(count: int) -> bool:
            return probability_of_more(count * times / alike, trials, left) <= level

        if not is_beyond(len(values)):
            return math.inf
        few, enough = 0, len(values)
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if is_beyond(middle) else (middle, enough)
        end = values[len(values) - enough]
        return max(0.0, math.log(value / end)) if end > 0 else math.inf

    return reach


def _alike(sample: Sample, happens: Callable[[Observation], object], level: float) -> float:
    return clustering(sample.design_effect(happens), sample.blocks, level)
