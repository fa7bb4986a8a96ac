"""Whether embeddings, scores or classes agree with references as much as a gate requires."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from .formatting import counted
from .pooled_outputs import PooledTask, agreement
from .repetitions import Refusal
from .samples import student_quantile

_LEVEL = 0.05
MEASURES: Mapping[PooledTask, str] = {
    "embed": "the cosine similarity of embeddings to",
    "rerank": "the share of document pairs in the order of",
    "classify": "the share of the same classes as",
}
"""What an agreement is, in words that what it is compared with completes."""


class Mean(NamedTuple):
    """The mean agreement of prompts, which are a sample of all that the endpoint will get, and its 95% interval.

    The interval is Student's t; that of a single prompt has no width.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the mean of at least one value."""
        mean, freedom = math.fsum(values) / len(values), len(values) - 1
        spread = math.fsum((value - mean) ** 2 for value in values) / freedom if freedom else 0.0
        arm = student_quantile(1 - _LEVEL / 2, freedom) * math.sqrt(spread / len(values)) if spread else 0.0
        return cls(mean, mean - arm, mean + arm)


def agreement_verdicts(
    task: PooledTask,
    answers: Sequence[str | None],
    references: Sequence[str | None],
    least: float,
    source: str,
) -> Iterator[Refusal]:
    """Yield what speaks against the answers: missing ones, and a mean agreement below ``least``.

    The prompts are the user's own, and another measurement would get the same answers. So their mean decides; its
    interval says what other prompts of the kind might show.
    """
    if failed := sum(answer is None for answer in answers):
        yield Refusal(f"{failed} of {len(answers)} prompts got no answer for {task}")
    values = [
        agreement(task, answer, reference)
        for answer, reference in zip(answers, references, strict=False)
        if answer is not None and reference is not None
    ]
    if not values or (mean := Mean.of(values)).value >= least:
        return
    interval = f" (95% interval {mean.low:.4f} to {mean.high:.4f})" if len(values) > 1 else ""
    yield Refusal(
        f"{MEASURES[task]} {source} is {mean.value:.4f} on average of {counted(len(values), 'prompt', 'prompts')}"
        f"{interval}, but at least {least:g} is required"
    )
