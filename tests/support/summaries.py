"""Metrics of requests that are written down by hand."""

from __future__ import annotations

from collections.abc import Sequence

from constructs_optim.evaluator.requests import Request
from constructs_optim.evaluator.summary import observation_of, summarize
from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.evaluation.result import Price
from constructs_optim.runtime.evaluation.samples import Sample


def summarized(
    requests: Sequence[Request],
    seconds: float,
    concurrency: int | None,
    *,
    instance_price_per_hour: float | None = None,
    discount: float = 0.0,
    objectives: LatencyObjectives | None = None,
    around: Sequence[Request] = (),
) -> dict[str, float]:
    """The metrics of requests in so many seconds from 0."""
    price = None
    if instance_price_per_hour is not None:
        price = Price(instance_price_per_hour=instance_price_per_hour, discount=discount, source="stated")
    observed, others = (
        [observation_of(each, 0.0, seconds, objectives=objectives) for each in part] for part in (requests, around)
    )
    return summarize(requests, Sample(observed, seconds, others), concurrency, price)
