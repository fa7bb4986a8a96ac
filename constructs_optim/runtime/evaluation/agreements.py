"""Whether embeddings, scores or classes agree with references as much as a gate requires."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from .pooled_outputs import PooledTask, agreement
from .repetitions import Refusal, Undecided
from .samples import student_quantile

_LEVEL = 0.05
_MEASURES: Mapping[PooledTask, str] = {
    "embed": "the cosine similarity of embeddings to",
    "rerank": "the share of document pairs in the order of",
    "classify": "the share of the same classes as",
}


def agreement_verdicts(
    task: PooledTask,
    answers: Sequence[str | None],
    references: Sequence[str | None],
    least: float,
    source: str,
) -> Iterator[Refusal | Undecided]:
    """Yield what speaks against the answers: missing ones, and a mean agreement below ``least``.

    The prompts are a sample of all that the endpoint will get. So the mean has a 95% interval, by Student's t
    distribution, and only an interval below ``least`` is a refusal. Another measurement would get the same answers.
    """
    if failed := sum(answer is None for answer in answers):
        yield Refusal(f"{failed} of {len(answers)} prompts got no answer for {task}")
    values = [
        agreement(task, answer, reference)
        for answer, reference in zip(answers, references, strict=False)
        if answer is not None and reference is not None
    ]
    if not values or (mean := math.fsum(values) / len(values)) >= least:
        return
    arm = _arm(values, mean)
    found = f"{_MEASURES[task]} {source} is {mean:.4f} on average of {len(values)} prompts"
    if mean + arm < least:
        yield Refusal(f"{found} (95% interval up to {mean + arm:.4f}), but at least {least:g} is required")
    else:
        yield Undecided(
            f"{found}, and {least:g} is required, which its 95% interval of {mean - arm:.4f} to {mean + arm:.4f} "
            "includes: more prompts would decide",
            is_worth_repeating=False,
        )


def _arm(values: Sequence[float], mean: float) -> float:
    """Return half the width of the interval of a mean; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    freedom = len(values) - 1
    spread = math.fsum((value - mean) ** 2 for value in values) / freedom
    return student_quantile(1 - _LEVEL / 2, freedom) * math.sqrt(spread / len(values))
