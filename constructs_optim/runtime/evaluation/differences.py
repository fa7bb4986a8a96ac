"""Tells real differences between two sides from chance: each metric's change with its interval, and a verdict.

A change is the ratio of a metric after to before. Its logarithm is about normal, with the standard error of the block
bootstrap (``samples``). If both sides were sent the same prompts, each resample takes the same prompts from both, so
that their common effect cancels out. Intervals hold for all comparisons at once (Bonferroni): the probability that any
of them misses its true value is at most 5%. They cover chance within a run and, ``across_runs``, the spread between
runs (``run_spread``).

Verdicts follow from the interval and a margin, the largest change that does not matter (two one-sided tests:
Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680):

- *same*: the whole interval is within the margin;
- *better* or *worse*: the whole interval is on one side of no change;
- *undecided*: anything else, with the number of requests on each side that would decide it with a probability of 90%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

from .definitions import COUNTS, SOURCES
from .run_spread import NO_SPREAD, RunSpread, run_spread
from .samples import (
    FEWEST_BEYOND,
    FEWEST_BLOCKS,
    LATENCIES,
    PERCENTILES,
    Observation,
    Sample,
    blocks_of,
    degrees_of_freedom,
    percentile_of,
    standard_error,
    student_quantile,
)

Verdict = Literal["better", "worse", "same", "undecided"]

MARGIN = 0.05
"""The default for the largest change that counts as none."""
LEVEL = 0.05
"""The highest probability that any of the comparisons finds a difference between equal sides."""
POWER = 0.9
"""The probability with which the suggested number of requests decides a comparison."""
ALLOWED_SHARE = 0.01
"""The largest change of such a share that counts as none."""
SAMPLED = frozenset(
    [
        *COUNTS,
        *SOURCES,
        *(f"{name}{which}" for name in LATENCIES for which in ("", *(f"_p{percent}" for percent in PERCENTILES))),
        *(f"{kind}_tokens_per_second{which}" for kind in ("input", "output") for which in ("", "_per_request")),
        "requests_per_second",
        "goodput",
    ]
)
"""The metrics that are calculated from single requests and therefore have an interval."""
_NORMAL = NormalDist()
# Of a logarithm: with a larger standard error, its distribution is not nearly normal.
_LARGEST_ERROR = 0.5
# The factor from one guess of the number of requests to the next.
_GROWTH = 1.1
# The largest suggested multiple of the requests that were sent, for sides that no number of requests may tell apart.
_MOST_TIMES = 1000.0


@dataclass(frozen=True)
class Difference:
    """A metric before and after, at one concurrency.

    Attributes:
        name: the metric's name.
        before, after: the metric's values.
        change: the relative change, 0.1 for an increase by a tenth; for counts, the change of the share of requests.
        low, high: the ends of the change's interval, which holds for all comparisons at once; None if it has none.
        detectable: the smallest change that this number of requests shows with a probability of 90%; None if the
            change has no interval.
        verdict: ``undecided`` if the change has no interval.
        requests: how many requests on each side would decide it or, if it has no interval, give it one. None if it is
            decided, or if more requests do not help.
        too_busy: whether it is undecided because the lag of the measuring machine may explain it.
    """

    name: str
    before: float
    after: float
    change: float | None
    low: float | None = None
    high: float | None = None
    detectable: float | None = None
    verdict: Verdict = "undecided"
    requests: int | None = None
    too_busy: bool = False


@dataclass(frozen=True)
class Measured:
    """A side at one concurrency: its metrics, and the requests behind them if they are known.

    ``runs`` are the metrics of each run if the side was measured several times.
    """

    metrics: Mapping[str, float]
    sample: Sample | None
    runs: Sequence[Mapping[str, float]] = ()

    @property
    def each_run(self) -> Sequence[Mapping[str, float]]:
        """The metrics of each run."""
        return self.runs or (self.metrics,)

    @staticmethod
    def of_runs(runs: Sequence[Measured]) -> Measured:
        """Return several runs as one side: counts are sums, percentiles those of all requests, the rest means.

        The means are geometric, because differences are those of logarithms.
        """
        if len(runs) == 1:
            return runs[0]
        samples = [run.sample for run in runs if run.sample is not None]
        names = {name: None for run in runs for name in run.metrics}
        metrics = {name: _of_runs(name, [run.metrics[name] for run in runs if name in run.metrics]) for name in names}
        sample = Sample.joined(samples) if samples else None
        if sample is not None and len(samples) == len(runs):
            metrics |= {
                name: value for name, value in sample.drawn().items() if name in metrics and percentile_of(name)
            }
        return Measured(metrics, sample, tuple(run.metrics for run in runs))


def _of_runs(name: str, values: Sequence[float]) -> float:
    if name in COUNTS or name == "client_invocations":
        return math.fsum(values)
    if min(values) > 0:
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


@dataclass(frozen=True)
class Comparison:
    """How sides are compared.

    Attributes:
        directions: the compared metrics, with 1 if more is better and -1 if less is better.
        concurrencies: the number of compared concurrencies.
        margin: the largest relative change that counts as none.
        across_runs: whether the sides were measured in different runs, whose spread the intervals include.
    """

    directions: Mapping[str, int]
    concurrencies: int = 1
    margin: float = MARGIN
    across_runs: bool = False

    @property
    def critical_level(self) -> float:
        """The level of each comparison. A metric derived from another one is not a comparison of its own."""
        return LEVEL / max(1, self.concurrencies * len({SOURCES.get(name, name) for name in self.directions}))

    def differences(self, before: Measured, after: Measured) -> Iterator[Difference]:
        """Yield the difference of each metric that both sides have."""
        names = [name for name in self.directions if name in before.metrics and name in after.metrics]
        samples = [side.sample for side in (before, after) if side.sample is not None]
        are_known = len(samples) == 2 and min(each.blocks for each in samples) >= FEWEST_BLOCKS
        errors: Mapping[str, StandardError] | None = None
        for name in names:
            old, new = before.metrics[name], after.metrics[name]
            if name in COUNTS:
                yield self._of_shares(name, before, after, samples)
                continue
            if name == "goodput" and (old <= 0) != (new <= 0) and are_known:
                yield self._of_none(old, new, samples)
                continue
            if old <= 0 or new <= 0:
                yield Difference(name, old, new, 0.0 if old == new else None)
                continue
            if errors is None:
                # Standard errors take hundreds of resamples; the cases above need none.
                errors = _ratio_errors(*samples) if are_known else {}
            if (error := errors.get(SOURCES.get(name, name))) is not None:
                spread = self._spread(name, before, after, error)
                yield self._of_ratio(name, old, new, replace(error, spread=spread))
            else:
                yield Difference(name, old, new, new / old - 1, requests=_fewest_requests(samples, name))

    def _spread(self, name: str, before: Measured, after: Measured, error: StandardError) -> RunSpread:
        """Return the spread of the ratio of two means of runs."""
        if not self.across_runs:
            return NO_SPREAD
        versions = before.each_run, after.each_run
        # The requests are those of one run before, and of all runs after.
        noise = error.value / math.sqrt(1 + 1 / len(versions[1]))
        return run_spread(name, versions, noise).of_means(*map(len, versions))

    def _of_ratio(self, name: str, old: float, new: float, error: StandardError) -> Difference:
        if error.value >= _LARGEST_ERROR:
            requests = self._deciding(replace(error, spread=NO_SPREAD))
            return Difference(name, old, new, new / old - 1, requests=requests)
        ratio = math.log(new / old)
        arm = error.arm(self.critical_level)
        low, high = ratio - arm, ratio + arm
        verdict = _verdict(low, high, math.log1p(self.margin), self.directions[name])
        return Difference(
            name,
            old,
            new,
            math.expm1(ratio),
            math.expm1(low),
            math.expm1(high),
            math.expm1(arm + _NORMAL.inv_cdf(POWER) * error.total),
            verdict,
            self._deciding(error) if verdict == "undecided" else None,
        )

    def _deciding(self, error: StandardError) -> int | None:
        """Return the number of requests that decides a comparison; None if the spread between runs is too large.

        With this number, the interval of equal sides lies within the margin, and that of a difference of twice the
        margin excludes zero, each with a probability of ``POWER``.
        """
        allowed, more = math.log1p(self.margin), error

        def reach(error: StandardError) -> float:
            return error.arm(self.critical_level) + _NORMAL.inv_cdf((1 + POWER) / 2) * error.total

        if reach(replace(error, value=0.0)) >= allowed:
            return None
        while reach(more) > allowed:
            more = more.of_more(_GROWTH)
        return max(int(error.requests) + 1, math.ceil(more.requests))

    def _of_shares(self, name: str, before: Measured, after: Measured, samples: Sequence[Sample]) -> Difference:
        """Compare shares, which may be zero, by Newcombe's interval.

        Source: Newcombe, Statistics in Medicine 17 (1998), 873-890, method 10. Failures come in clusters, which reduces
        the effective number of requests (design effect: Kish, Survey Sampling (1965)).
        """
        old, new = before.metrics[name], after.metrics[name]
        sent = [side.metrics.get("client_invocations", 0.0) for side in (before, after)]
        if not all(sent):
            return Difference(name, old, new, None)
        shares = old / sent[0], new / sent[1]
        effect = _design_effect(samples, lambda each: each.client_latency is None)
        critical = _NORMAL.inv_cdf(1 - self.critical_level / 2)

        def interval(times: float) -> tuple[float, float]:
            return _newcombe(shares, [count * times / effect for count in sent], critical)

        change, (low, high) = shares[1] - shares[0], interval(1.0)
        verdict, times = _decided(interval, ALLOWED_SHARE, self.directions[name])
        return Difference(
            name,
            old,
            new,
            change,
            low,
            high,
            (critical + _NORMAL.inv_cdf(POWER)) / critical * max(change - low, high - change),
            verdict,
            max(int(min(sent)) + 1, math.ceil(min(sent) * times)) if verdict == "undecided" else None,
        )

    def _of_none(self, old: float, new: float, samples: Sequence[Sample]) -> Difference:
        """Compare the shares of good requests, because goodput that is zero on one side has no ratio."""
        counts = [len(sample) for sample in samples]
        good = [sum(bool(each.meets_objectives) for each in sample.observations) for sample in samples]
        shares = good[0] / counts[0], good[1] / counts[1]
        effect = _design_effect(samples, lambda each: each.meets_objectives)
        critical = _NORMAL.inv_cdf(1 - self.critical_level / 2)

        def interval(times: float) -> tuple[float, float]:
            return _newcombe(shares, [count * times / effect for count in counts], critical)

        verdict, times = _decided(interval, 0.0, self.directions["goodput"], _MOST_TIMES)
        requests = math.ceil(min(counts) * times) if verdict == "undecided" else None
        return Difference("goodput", old, new, None if new > 0 else -1.0, verdict=verdict, requests=requests)


@dataclass(frozen=True)
class StandardError:
    """The standard error of a logarithm, with the numbers of requests and blocks behind it.

    ``dependence`` is the factor by which the similarity of successive blocks increases the variance. ``spread`` is that
    of runs, which more requests do not reduce.
    """

    value: float
    requests: float
    blocks: int
    dependence: float
    spread: RunSpread = NO_SPREAD

    @property
    def total(self) -> float:
        """The standard error with the spread of runs."""
        return math.hypot(self.value, self.spread.total)

    @staticmethod
    def of(name: str, logarithms: Sequence[float], samples: Sequence[Sample]) -> StandardError:
        """Return a metric's standard error, from its values in resamples of the samples' blocks."""
        blocks = min(sample.blocks for sample in samples)
        dependence = max(sample.dependence(name) for sample in samples)
        return StandardError(
            standard_error(logarithms, blocks) * math.sqrt(dependence),
            min(len(sample) for sample in samples),
            blocks,
            dependence,
        )

    def of_more(self, times: float) -> StandardError:
        """Return the expected standard error with ``times`` as many requests. Longer blocks are less correlated."""
        requests = self.requests * times
        return StandardError(
            self.value / math.sqrt(times),
            requests,
            blocks_of(int(requests)),
            1 + (self.dependence - 1) / times,
            self.spread,
        )

    def arm(self, level: float) -> float:
        """Return half the width of the interval at a level.

        The requests and the runs vary independently, so the squares of their parts add up (Zou and Donner, Statistics
        in Medicine 27 (2008), 1693-1702).
        """
        of_requests = student_quantile(1 - level / 2, degrees_of_freedom(self.blocks, self.dependence)) * self.value
        return math.hypot(of_requests, self.spread.arm(level / 2))


def _design_effect(samples: Sequence[Sample], happens: Callable[[Observation], object]) -> float:
    """Return the largest design effect, because a side without such an event does not show how events cluster."""
    return max((sample.design_effect(happens) for sample in samples), default=1.0)


def _newcombe(shares: tuple[float, float], counts: Sequence[float], critical: float) -> tuple[float, float]:
    (first, second), change = shares, shares[1] - shares[0]
    (low_1, high_1), (low_2, high_2) = (
        wilson(share, count, critical) for share, count in zip(shares, counts, strict=True)
    )
    low = change - math.hypot(second - low_2, high_1 - first)
    return low, change + math.hypot(high_2 - second, first - low_1)


def _verdict(low: float, high: float, allowed: float, direction: int) -> Verdict:
    if -allowed <= low and high <= allowed:
        return "same"
    if low > 0 or high < 0:
        return "better" if (low > 0) == (direction > 0) else "worse"
    return "undecided"


def _decided(
    interval: Callable[[float], tuple[float, float]], allowed: float, direction: int, most: float = math.inf
) -> tuple[Verdict, float]:
    """Return the verdict, and the multiple of the requests, up to ``most``, whose interval decides."""
    times = 1.0
    while _verdict(*interval(times), allowed, direction) == "undecided" and times < most:
        times *= _GROWTH
    return _verdict(*interval(1.0), allowed, direction), times


def wilson(share: float, count: float, critical: float) -> tuple[float, float]:
    """Return the interval of a share of ``count`` trials.

    Source: Wilson, Journal of the American Statistical Association 22 (1927), 209-212.
    """
    square = critical**2
    center = (share + square / (2 * count)) / (1 + square / count)
    arm = critical * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(0.0, center - arm), min(1.0, center + arm)


def intervals(measured: Measured) -> dict[str, tuple[float, float]]:
    """Return the 95% interval of each metric by itself, without the metrics that have none."""
    sample = measured.sample
    if sample is None or sample.blocks < FEWEST_BLOCKS:
        return {}
    errors = errors_of(sample)
    found: dict[str, tuple[float, float]] = {}
    for name, value in measured.metrics.items():
        error = errors.get(SOURCES.get(name, name))
        if value > 0 and error is not None and error.value < _LARGEST_ERROR:
            arm = error.arm(LEVEL)
            found[name] = value * math.exp(-arm), value * math.exp(arm)
    return found


def errors_of(sample: Sample) -> Mapping[str, StandardError]:
    """Return the standard errors of the metrics' logarithms, without the metrics that have none."""
    return _standard_errors([sample], sample.replicates())


def _ratio_errors(before: Sample, after: Sample) -> dict[str, StandardError]:
    """Return the standard errors of the ratios' logarithms, by metric."""
    paired = after.paired_with(before)
    others = paired.replicates() if paired is not None else after.replicates(1)
    ratios = [
        {name: new[name] / value if value else 0.0 for name, value in old.items() if name in new}
        for old, new in zip(before.replicates(), others, strict=True)
    ]
    return _standard_errors([before, paired or after], ratios)


def _standard_errors(samples: Sequence[Sample], drawn: Sequence[Mapping[str, float]]) -> dict[str, StandardError]:
    """Return the standard errors of the logarithms of metrics that are above zero in every resample."""
    found: dict[str, StandardError] = {}
    for name in set(drawn[0]).difference(*(_thin(sample, drawn[0]) for sample in samples)):
        values = [each.get(name, 0.0) for each in drawn]
        if min(values) > 0:
            found[name] = StandardError.of(name, [math.log(value) for value in values], samples)
    return found


def _thin(sample: Sample, names: Iterable[str]) -> set[str]:
    """Return the names of percentiles that have too few values beyond them."""
    return {name for name in names if (beyond := sample.beyond(name)) is not None and beyond < FEWEST_BEYOND}


def _fewest_requests(samples: Sequence[Sample], name: str) -> int | None:
    """Return the number of requests for which a metric has a standard error; None if it never has one."""
    if len(samples) < 2 or name not in SAMPLED:
        return None
    wanted = max(2 * FEWEST_BLOCKS, samples[0].needed(SOURCES.get(name, name)))
    # With enough requests, the metric has no standard error because some resamples lack its values.
    has = min(len(sample) for sample in samples)
    return wanted if has < wanted else 2 * has
