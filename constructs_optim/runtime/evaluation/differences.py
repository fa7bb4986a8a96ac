"""Whether two sides differ, or only seem to: the change of each metric with its interval, and a verdict.

A change is the ratio of a metric after and before. Its logarithm is about normal, with the standard error of the block
bootstrap (:mod:`samples`); where both sides were sent the same prompts in the same order, the same blocks are drawn of
both, so that what the prompts have in common cancels out. Intervals hold for all comparisons at once (Bonferroni): that
one of them misses its true value has a probability of 5 % at most.

Verdicts follow from the interval and a margin, the largest change that does not matter (two one-sided tests:
Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680):

- *same*: the whole interval is within the margin;
- *better* or *worse*: the whole interval is on one side of no change;
- *undecided*: anything else. So many requests on each side would decide it, with a probability of 90 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from .samples import (
    DRAWINGS,
    FEWEST_BEYOND,
    FEWEST_BLOCKS,
    LATENCIES,
    PERCENTILES,
    Sample,
    standard_error,
    student_quantile,
)

Verdict = Literal["better", "worse", "same", "undecided"]

MARGIN = 0.05
"""The largest change that counts as none, unless a caller says otherwise."""
LEVEL = 0.05
"""How often any of all comparisons calls sides different that are not, at most."""
POWER = 0.9
"""How often the requests that are asked for decide it."""
COUNTS = ("client_invocation_errors", "empty_inference_response", "tokenizer_failed")
"""Metrics that count requests: their shares are compared."""
ALLOWED_SHARE = 0.01
"""The largest change of such a share that counts as none."""
# Metrics that follow from another one and a constant: they change by the same factor, or its inverse.
_SOURCES = {
    "total_throughput": "inter_token_latency_p50",
    "blended_price_per_million_tokens": "inter_token_latency_p50",
    "price_per_million_input_tokens": "input_tokens_per_second",
    "price_per_million_output_tokens": "output_tokens_per_second",
    # Of a load's mix, which both sides have.
    "price_per_million_tokens": "output_tokens_per_second",
    "price_per_thousand_requests": "requests_per_second",
    "price_per_thousand_good_requests": "goodput",
}
SAMPLED = frozenset(
    [
        *COUNTS,
        *_SOURCES,
        *(f"{name}{which}" for name in LATENCIES for which in ("", *(f"_p{percent}" for percent in PERCENTILES))),
        *(f"{kind}_tokens_per_second{which}" for kind in ("input", "output") for which in ("", "_per_request")),
        "requests_per_second",
        "goodput",
    ]
)
"""The metrics that follow from single requests, and so have an interval."""
_NORMAL = NormalDist()
# Of a logarithm: beyond it, nothing is normal about it.
_LARGEST_ERROR = 0.5
# Of requests, from one guess of how many are needed to the next.
_GROWTH = 1.1


@dataclass(frozen=True)
class Difference:
    """A metric before and after, at one concurrency.

    Attributes:
        name: the metric's.
        before, after: its values.
        change: relative, 0.1 for an increase by a tenth; of a count, the change of its share of the requests.
        low, high: the ends of the change's interval, which holds for all comparisons at once; None without one.
        detectable: the smallest change that so many requests show with a probability of 90 %; None without an interval.
        verdict: ``undecided`` where there is no interval.
        requests: how many requests on each side would decide it; None where it is decided, or where requests do not.
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


@dataclass(frozen=True)
class Measured:
    """A side at one concurrency: its metrics, and the requests that they follow from, where these are known."""

    metrics: Mapping[str, float]
    sample: Sample | None


@dataclass(frozen=True)
class Comparison:
    """How sides are compared.

    Attributes:
        directions: the compared metrics, each with 1 where more is better and -1 where less is.
        concurrencies: how many concurrencies are compared.
        margin: the largest relative change that counts as none.
    """

    directions: Mapping[str, int]
    concurrencies: int = 1
    margin: float = MARGIN

    @property
    def critical_level(self) -> float:
        """The level of each comparison. What follows from another metric by a formula is no comparison of its own."""
        return LEVEL / max(1, self.concurrencies * len({_SOURCES.get(name, name) for name in self.directions}))

    def differences(self, before: Measured, after: Measured) -> Iterator[Difference]:
        """The difference of each metric that both sides have."""
        names = [name for name in self.directions if name in before.metrics and name in after.metrics]
        errors, blocks = _standard_errors(before.sample, after.sample, names)
        for name in names:
            old, new = before.metrics[name], after.metrics[name]
            if name in COUNTS:
                yield self._of_shares(name, before, after)
            elif (old <= 0) != (new <= 0) and name in SAMPLED and blocks:
                # A rate that is zero on one side alone has no ratio, and leaves no doubt.
                rose = new > 0
                verdict: Verdict = "better" if rose == (self.directions[name] > 0) else "worse"
                yield Difference(name, old, new, None if rose else -1.0, verdict=verdict)
            elif old <= 0 or new <= 0:
                yield Difference(name, old, new, 0.0 if old == new else None)
            elif (error := errors.get(_SOURCES.get(name, name))) is not None:
                yield self._of_ratio(name, old, new, error, blocks, _fewest(before.sample, after.sample))
            else:
                yield Difference(name, old, new, new / old - 1, requests=_enough(before.sample, after.sample, name))

    def _of_ratio(self, name: str, old: float, new: float, error: float, blocks: int, count: int) -> Difference:
        ratio, allowed = math.log(new / old), math.log1p(self.margin)
        critical = student_quantile(1 - self.critical_level / 2, blocks - 1)
        low, high = ratio - critical * error, ratio + critical * error
        verdict = _verdict(low, high, allowed, self.directions[name])
        # With as many, the interval is within the margin where there is no difference, and off zero where it is twice
        # the margin.
        wanted = allowed / (critical + _NORMAL.inv_cdf((1 + POWER) / 2))
        return Difference(
            name,
            old,
            new,
            math.expm1(ratio),
            math.expm1(low),
            math.expm1(high),
            math.expm1((critical + _NORMAL.inv_cdf(POWER)) * error),
            verdict,
            max(count + 1, math.ceil(count * (error / wanted) ** 2)) if verdict == "undecided" else None,
        )

    def _of_shares(self, name: str, before: Measured, after: Measured) -> Difference:
        """Newcombe's interval (Statistics in Medicine 17 (1998), 873-890, method 10): exact shares may be zero.

        Failures come together, so that requests count as fewer (design effect: Kish, Survey Sampling (1965)).
        """
        old, new = before.metrics[name], after.metrics[name]
        sent = [side.metrics.get("client_invocations", 0.0) for side in (before, after)]
        if not all(sent):
            return Difference(name, old, new, None)
        shares = old / sent[0], new / sent[1]
        # Of both, as a side without failures says nothing about how they come.
        effect = max(side.sample.design_effect if side.sample is not None else 1.0 for side in (before, after))
        critical = _NORMAL.inv_cdf(1 - self.critical_level / 2)

        def interval(times: float) -> tuple[float, float]:
            return _newcombe(shares, [count * times / effect for count in sent], critical)

        change, (low, high) = shares[1] - shares[0], interval(1.0)
        verdict = _verdict(low, high, ALLOWED_SHARE, self.directions[name])
        times = 1.0
        while verdict == "undecided" and _verdict(*interval(times), ALLOWED_SHARE, self.directions[name]) == verdict:
            times *= _GROWTH
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


def wilson(share: float, count: float, critical: float) -> tuple[float, float]:
    """The interval of a share of that many.

    Source: Wilson, Journal of the American Statistical Association 22 (1927), 209-212.
    """
    square = critical**2
    center = (share + square / (2 * count)) / (1 + square / count)
    arm = critical * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(0.0, center - arm), min(1.0, center + arm)


def intervals(measured: Measured) -> dict[str, tuple[float, float]]:
    """The interval of each metric by itself, with a probability of 95 %; without those that have none."""
    sample = measured.sample
    if sample is None or sample.blocks < FEWEST_BLOCKS:
        return {}
    logs: dict[str, list[float]] = {}
    thin = _thin(sample, sample.drawn())
    for drawn in sample.replicates():
        for name, value in drawn.items():
            if value > 0 and name not in thin:
                logs.setdefault(name, []).append(math.log(value))
    critical = student_quantile(1 - LEVEL / 2, sample.blocks - 1)
    found: dict[str, tuple[float, float]] = {}
    for name, value in measured.metrics.items():
        source = _SOURCES.get(name, name)
        if value <= 0 or len(values := logs.get(source, [])) < DRAWINGS:
            continue
        error = standard_error(values, sample.blocks) * math.sqrt(sample.dependence(source))
        if error < _LARGEST_ERROR:
            found[name] = value * math.exp(-critical * error), value * math.exp(critical * error)
    return found


def _standard_errors(before: Sample | None, after: Sample | None, names: Sequence[str]) -> tuple[dict[str, float], int]:
    """Those of the logarithms of the ratios, by metric, and how many blocks they are from."""
    if before is None or after is None or (blocks := min(before.blocks, after.blocks)) < FEWEST_BLOCKS:
        return {}, 0
    ratios: dict[str, list[float]] = {}
    others = after.replicates(0 if before.is_paired_with(after) else 1)
    sources = {_SOURCES.get(name, name) for name in names}
    sources -= _thin(before, sources) | _thin(after, sources)
    for old, new in zip(before.replicates(), others, strict=True):
        for name in sources:
            if old.get(name, 0.0) > 0 and new.get(name, 0.0) > 0:
                ratios.setdefault(name, []).append(math.log(new[name] / old[name]))
    return {
        name: standard_error(values, blocks) * math.sqrt(max(before.dependence(name), after.dependence(name)))
        for name, values in ratios.items()
        if len(values) > 1
    }, blocks


def _fewest(before: Sample | None, after: Sample | None) -> int:
    return min((len(side) for side in (before, after) if side is not None), default=0)


def _thin(sample: Sample, names: Iterable[str]) -> set[str]:
    """The percentiles among these metrics with too few values beyond them."""
    return {name for name in names if (beyond := sample.beyond(name)) is not None and beyond < FEWEST_BEYOND}


def _enough(before: Sample | None, after: Sample | None, name: str) -> int | None:
    """How many requests there have to be before a metric has a standard error; None where it never has one."""
    if before is None or after is None or name not in SAMPLED:
        return None
    return max(2 * FEWEST_BLOCKS, before.needed(_SOURCES.get(name, name)))
