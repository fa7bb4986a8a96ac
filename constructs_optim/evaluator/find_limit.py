"""Searches for the highest request rate at which an endpoint meets its objectives.

A rate meets them where the share of requests that do is at least the attainment, whatever chance did; it misses them
where that share is below. Rates double until one misses them, and are halved between on a logarithmic scale after that.
Requests that share a queue are alike, so that they tell less than as many independent ones would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate, groupby
from statistics import NormalDist
from typing import Literal

from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.evaluation.result import RateLimit, load_label
from constructs_optim.runtime.evaluation.differences import wilson
from constructs_optim.runtime.evaluation.samples import block_means, variance_inflation

from .load import MeasuredLevel
from .options import OpenLoop
from .steady_state import drift_of

Attainment = Literal["meets", "misses", "undecided"]

_LEVEL = 0.01
_CRITICAL = NormalDist().inv_cdf(1 - _LEVEL / 2)
# The search ends where the rate that misses is at most this many times the one that meets.
_RESOLUTION = 1.05
_FARTHEST = 2.0**10
# Where a rate is undecided, as many requests more are sent as were before, so many times.
_MOST_EXTENSIONS = 2
_DIGITS = 3
# More requests than decide it where all meet the objectives, as some may not.
_SPARE = 1.5


def attainment(level: MeasuredLevel, objectives: LatencyObjectives) -> Attainment:
    """Whether a level's requests meet the objectives; failed ones do not.

    An endpoint whose latency keeps rising is overloaded, however well its first requests did. Where an objective cannot
    be measured, nothing is decided.
    """
    if level.abandoned:
        return "misses"
    records = sorted(level.counted, key=lambda record: record.start)
    verdicts = [objectives.are_met(record) if record.is_measured else False for record in records]
    if None in verdicts:
        return "undecided"
    met = [float(verdict is True) for verdict in verdicts]
    share, independent = sum(met) / len(met), len(met) / variance_inflation(block_means(met))
    low, high = wilson(share, independent, _CRITICAL)
    if high < objectives.attainment:
        return "misses"
    drift = drift_of(level)
    if drift is not None and not drift.is_steady and drift.change > 0:
        return "misses"
    return "meets" if low >= objectives.attainment else "undecided"


def misses_alone(level: MeasuredLevel, objectives: LatencyObjectives) -> bool:
    """Whether requests that had the endpoint to themselves miss the objectives: no lower rate would meet them."""
    records = sorted(level.records, key=lambda record: (record.segment, record.start))
    alone: list[bool] = []
    for _, found in groupby(records, lambda record: record.segment):
        together = list(found)
        busy_until = accumulate((record.end for record in together), max, initial=-math.inf)
        following = [*(record.start for record in together[1:]), math.inf]
        alone += [
            objectives.are_met(record) is not False
            for record, busy, after in zip(together, busy_until, following, strict=False)
            if record.is_measured and busy <= record.start and record.end <= after
        ]
    if not alone:
        return False
    _, high = wilson(sum(alone) / len(alone), len(alone), _CRITICAL)
    return high < objectives.attainment


def fewest_requests(objectives: LatencyObjectives) -> int:
    """How many requests decide that a rate meets the objectives, where all of them do."""
    return math.ceil(_CRITICAL**2 * objectives.attainment / (1 - objectives.attainment) * _SPARE)


def next_load(found: Mapping[float, Attainment], sent: Mapping[float, OpenLoop], like: OpenLoop) -> OpenLoop | None:
    """The next load to measure, where ``like`` is the first one; None where the search is over.

    ``found`` is what came of each rate so far, of the load in ``sent``.
    """
    if not found:
        return like
    limit = limit_of(found)
    for rate in limit.undecided:
        load = sent[rate]
        if (load.total or 0) < (like_at(like, rate).total or 0) * 2**_MOST_EXTENSIONS:
            return load.model_copy(update={"requests": 2 * (load.total or 0)})
    if limit.undecided:
        return None
    if limit.misses is None:
        rate = (limit.meets or like.request_rate) * 2
    elif limit.meets is None:
        rate = limit.misses / 2
    elif limit.misses <= limit.meets * _RESOLUTION:
        return None
    else:
        rate = math.sqrt(limit.meets * limit.misses)
    rate = float(f"{rate:.{_DIGITS}g}")
    if rate in found or not 1 / _FARTHEST <= rate / like.request_rate <= _FARTHEST:
        return None
    return like_at(like, rate)


def limit_of(found: Mapping[float, Attainment]) -> RateLimit:
    """Between which rates the limit is: a rate that meets the objectives above one that misses them was luck."""
    misses = min((rate for rate, verdict in found.items() if verdict == "misses"), default=None)
    met = [rate for rate, verdict in found.items() if verdict == "meets" and (misses is None or rate < misses)]
    meets = max(met, default=None)
    between = [rate for rate in found if (meets or 0) < rate < (misses or math.inf)]
    return RateLimit(meets=meets, misses=misses, undecided=tuple(sorted(between)))


def like_at(load: OpenLoop, rate: float) -> OpenLoop:
    """The same load at another rate."""
    return load.model_copy(update={"request_rate": rate})


def described(limit: RateLimit, objectives: LatencyObjectives) -> str:
    """The limit in a sentence."""
    named = {"time_to_first_token": "first token", "inter_token_latency": "each further token"}
    limits = objectives.limits.items()
    kept = ", ".join(f"{named.get(name, 'the whole response')} within {most:g} ms" for name, most in limits)
    share = f"{100 * objectives.attainment:.3g}% of the requests have {kept}"
    if limit.meets is None and limit.undecided:
        return f"whether {share} is undecided at {load_label(None, limit.undecided[0])}"
    if limit.meets is None:
        return f"fewer than {share}" + (f", even at {load_label(None, limit.misses)}" if limit.misses else "")
    if limit.misses is None:
        return f"{share} at {load_label(None, limit.meets)}, the highest rate that was measured"
    return f"{share} up to {load_label(None, limit.meets)}, and fewer at {limit.misses:g}"
