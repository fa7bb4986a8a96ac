"""Searches for the highest request rate at which an endpoint meets its objectives.

A rate meets them if the share of requests within the objectives is at least the attainment, with statistical
confidence. It misses them if the share is lower. Rates double until one misses the objectives; then the search bisects
on a logarithmic scale. Past an undecided rate, it first looks for a lower one that meets the objectives. Requests that
share a queue are correlated, so they carry less information than independent ones. A rate is undecided if the lag of
this machine may be why its requests meet the objectives or miss them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, groupby
from statistics import NormalDist
from typing import Literal

from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.evaluation.result import RateLimit, load_label
from constructs_optim.runtime.evaluation.differences import wilson
from constructs_optim.runtime.evaluation.samples import Sample, block_means, variance_inflation

from .load import MeasuredLevel
from .options import OpenLoop
from .steady_state import Drift, drift_of
from .summary import sample_of

Attainment = Literal["meets", "misses", "undecided", "too busy"]

_LEVEL = 0.01
_CRITICAL = NormalDist().inv_cdf(1 - _LEVEL / 2)
# The search ends if the rate that misses is at most this many times the rate that meets. Rates next to an undecided one
# are probably undecided, too, and cost the most requests: a wider distance is enough there.
_RESOLUTION = 1.05
_RESOLUTION_NEXT_TO_UNDECIDED = 1.2
_FARTHEST = 2.0**10
# For an undecided rate, the number of requests doubles, this many times.
_MOST_EXTENSIONS = 2
_DIGITS = 3
# With so many undecided rates, the search looks for none below or above all others: maybe none can be decided.
_MOST_UNDECIDED = 2
# More requests than necessary if all meet the objectives, because some might not.
_SPARE = 1.5


def attainment(level: MeasuredLevel, objectives: LatencyObjectives) -> Attainment:
    """Return whether a level's requests meet the objectives. Failed requests miss them.

    An endpoint whose latency keeps rising is overloaded, even if its first requests meet the objectives. If an
    objective cannot be measured, the result is undecided. It is "too busy" if it may differ without this machine's lag.
    """
    if level.abandoned:
        return "misses"
    if is_immeasurable(level, objectives):
        return "undecided"
    sample = sample_of(level, objectives)
    found = _attained(sample, objectives, drift_of(level))
    if found == "undecided":
        return found
    shortest, longest = level.lag.bounds(sample, objectives)
    without_lag = (shortest, drift_of(level, level.lag)) if found == "misses" else (longest, drift_of(level))
    return found if _attained(without_lag[0], objectives, without_lag[1]) == found else "too busy"


def _attained(
    sample: Sample, objectives: LatencyObjectives, drift: Drift | None
) -> Literal["meets", "misses", "undecided"]:
    met = [float(bool(each.meets_objectives)) for each in sample.observations]
    share, independent = sum(met) / len(met), len(met) / variance_inflation(block_means(met))
    low, high = wilson(share, independent, _CRITICAL)
    if high < objectives.attainment:
        return "misses"
    if drift is not None and not drift.is_steady and drift.change > 0:
        return "misses"
    return "meets" if low >= objectives.attainment else "undecided"


def misses_alone(level: MeasuredLevel, objectives: LatencyObjectives) -> bool:
    """Return whether requests without concurrent ones miss the objectives; then no lower rate would meet them.

    They do not if the lag of this machine may be why.
    """
    records = sorted(level.records, key=lambda record: (record.segment, record.start))
    alone = MeasuredLevel(segments=level.segments)
    for _, found in groupby(records, lambda record: record.segment):
        together = list(found)
        busy_until = accumulate((record.end for record in together), max, initial=-math.inf)
        following = [*(record.start for record in together[1:]), math.inf]
        alone.records += [
            replace(record, counted=True)
            for record, busy, after in zip(together, busy_until, following, strict=False)
            if record.is_measured and busy <= record.start and record.end <= after
        ]
    if not alone.records:
        return False
    shortest = level.lag.bounds(sample_of(alone, objectives), objectives).shortest.observations
    met = sum(each.meets_objectives is not False for each in shortest)
    _, high = wilson(met / len(shortest), len(shortest), _CRITICAL)
    return high < objectives.attainment


def fewest_requests(objectives: LatencyObjectives) -> int:
    """Return how many requests show that a rate meets the objectives, if all of them do."""
    return math.ceil(_CRITICAL**2 * objectives.attainment / (1 - objectives.attainment) * _SPARE)


def next_load(found: Mapping[float, Attainment], sent: Mapping[float, OpenLoop], like: OpenLoop) -> OpenLoop | None:
    """Return the next load to measure, starting with ``like``; None if the search is over.

    ``found`` is the outcome of each rate so far, and ``sent`` its load.
    """
    if not found:
        return like
    limit = limit_of(found)
    for rate in limit.undecided:
        load = sent[rate]
        # More requests do not make this machine less busy.
        if found[rate] != "too busy" and (load.total or 0) < (like_at(like, rate).total or 0) * 2**_MOST_EXTENSIONS:
            return load.model_copy(update={"requests": 2 * (load.total or 0)})
    rate = _next_rate(limit)
    if rate is None:
        return None
    rate = float(f"{rate:.{_DIGITS}g}")
    if rate in found or not 1 / _FARTHEST <= rate / like.request_rate <= _FARTHEST:
        return None
    return like_at(like, rate)


def _next_rate(limit: RateLimit) -> float | None:
    """Return a rate below or above all others, or next to a decided one; None if no further rate narrows the limit."""
    is_open = len(limit.undecided) < _MOST_UNDECIDED
    if is_open and limit.meets is None:
        return min([*limit.undecided, limit.misses or math.inf]) / 2
    if is_open and limit.misses is None:
        return 2 * max([*limit.undecided, limit.meets or 0])
    rates = [rate for rate in (limit.meets, *limit.undecided, limit.misses) if rate is not None]
    sides = [rates[:2]] * (limit.meets is not None) + [rates[-2:]] * (limit.misses is not None)
    resolution = _RESOLUTION_NEXT_TO_UNDECIDED if limit.undecided else _RESOLUTION
    for low, high in sides:
        if high > low * resolution:
            return math.sqrt(low * high)
    return None


def is_immeasurable(level: MeasuredLevel, objectives: LatencyObjectives) -> bool:
    """Return whether some request does not show if it meets the objectives. More requests would not change that."""
    return any(objectives.are_met(record) is None for record in level.counted if record.is_measured)


def limit_of(found: Mapping[float, Attainment]) -> RateLimit:
    """Return the rates around the limit. A rate that meets the objectives above one that misses them is ignored."""
    misses = min((rate for rate, verdict in found.items() if verdict == "misses"), default=None)
    met = [rate for rate, verdict in found.items() if verdict == "meets" and (misses is None or rate < misses)]
    meets = max(met, default=None)
    between = [rate for rate in found if (meets or 0) < rate < (misses or math.inf)]
    too_busy = (rate for rate in between if found[rate] == "too busy")
    return RateLimit(meets=meets, misses=misses, undecided=tuple(sorted(between)), too_busy=tuple(sorted(too_busy)))


def like_at(load: OpenLoop, rate: float) -> OpenLoop:
    """Return the same load at another rate."""
    return load.model_copy(update={"request_rate": rate})


def described(limit: RateLimit, objectives: LatencyObjectives) -> str:
    """Describe the limit in one sentence."""
    named = {"time_to_first_token": "first token", "inter_token_latency": "each further token"}
    limits = objectives.limits.items()
    kept = ", ".join(f"{named.get(name, 'the whole response')} within {most:g} ms" for name, most in limits)
    share = f"{100 * objectives.attainment:.3g}% of the requests have {kept}"
    rates = ", ".join(f"{rate:g}" for rate in limit.undecided)
    undecided = f"undecided at {rates} request{'s' * (limit.undecided != (1,))}/s"
    if limit.too_busy:
        which = "" if limit.too_busy == limit.undecided else f" at {', '.join(f'{rate:g}' for rate in limit.too_busy)}"
        undecided += f" (this machine was too busy{which})"
    if limit.meets is None and limit.misses is None:
        return f"whether {share} is {undecided if rates else 'undecided'}"
    if limit.meets is None:
        described = f"fewer than {share}{' at' if rates else ', even at'} {load_label(None, limit.misses)}"
    elif limit.misses is None:
        described = f"{share} at {load_label(None, limit.meets)}{'' if rates else ', the highest measured rate'}"
    else:
        described = f"{share} up to {load_label(None, limit.meets)}, and fewer at {limit.misses:g}"
    return f"{described}; {undecided}" if rates else described
