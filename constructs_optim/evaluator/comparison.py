"""One evaluation beside another: what became better, and whether the answers are still the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

from constructs_optim.recipe.evaluation.calculation import better, relative_change
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.metrics.evaluation import EVALUATION

from .prompts import Prompt
from .records import Record

NOISE = 0.03
"""Changes of less than this share are not called better or worse."""
_MOST_EXAMPLES = 5
_MOST_WORDS = 2000


@dataclass(frozen=True)
class Change:
    """A metric at one concurrency.

    Attributes:
        name: of the metric.
        baseline: its value before.
        optimized: its value after.
        change: by what share it changed; None where it was zero.
        verdict: ``better``, ``worse``, ``same`` or, of what is neither, empty.
    """

    name: str
    baseline: float
    optimized: float
    change: float | None
    verdict: str


@dataclass(frozen=True)
class Difference:
    """A prompt that both sides answered, but not alike.

    Attributes:
        prompt: its place among the prompts.
        asked: its text.
        baseline: the baseline's answer.
        optimized: the other.
        similarity: the share of words that they have in common and in order.
    """

    prompt: int
    asked: str
    baseline: str
    optimized: str
    similarity: float


@dataclass(frozen=True)
class Answers:
    """How alike the answers are.

    Attributes:
        compared: prompts that both sides answered.
        identical: of these, with the very same text.
        similarity: the mean of all compared, 1 for identical ones; None where none was compared.
        repeated: by side, prompts that it answered more than once.
        consistent: by side, of these, with the same text each time. Where a side does not agree with itself, identity
            is more than can be asked for.
        reference: by side, the share of answers that contain the reference of their prompt; empty where there are none.
        differences: the most different first.
    """

    compared: int
    identical: int
    similarity: float | None
    repeated: dict[str, int]
    consistent: dict[str, int]
    reference: dict[str, float]
    differences: tuple[Difference, ...]


def changes(baseline: EvaluationResult, optimized: EvaluationResult) -> dict[int, list[Change]]:
    """What became of each metric that both have, by concurrency."""
    before = {level.concurrency: level.metrics for level in baseline.levels}
    after = {level.concurrency: level.metrics for level in optimized.levels}
    return {
        concurrency: [
            Change(
                metric.name,
                before[concurrency][metric.name],
                after[concurrency][metric.name],
                change := relative_change(before[concurrency], after[concurrency], metric.name),
                _verdict(better(metric), change, before[concurrency][metric.name], after[concurrency][metric.name]),
            )
            for metric in EVALUATION
            if metric.name in before[concurrency] and metric.name in after[concurrency]
        ]
        for concurrency in before
        if concurrency in after
    }


def answers(prompts: Sequence[Prompt], baseline: Sequence[Record], optimized: Sequence[Record]) -> Answers:
    """Compare the first answers that both sides gave to a prompt, those of the lowest concurrency first."""
    first, second = _said(baseline), _said(optimized)
    both = sorted(first.keys() & second.keys())
    different = [
        Difference(
            place, prompts[place].text, first[place][0], second[place][0], _alike(first[place][0], second[place][0])
        )
        for place in both
        if first[place][0] != second[place][0]
    ]
    total = len(both) - len(different) + sum(each.similarity for each in different)
    sides = {"baseline": first, "optimized": second}
    repeated = {side: [said for said in given.values() if len(said) > 1] for side, given in sides.items()}
    return Answers(
        compared=len(both),
        identical=len(both) - len(different),
        similarity=total / len(both) if both else None,
        repeated={side: len(given) for side, given in repeated.items()},
        consistent={side: sum(len(set(said)) == 1 for said in given) for side, given in repeated.items()},
        reference={side: share for side, given in sides.items() if (share := _matching(prompts, given)) is not None},
        differences=tuple(sorted(different, key=lambda each: each.similarity)[:_MOST_EXAMPLES]),
    )


def comparison_data(compared: Mapping[int, Sequence[Change]], found: Answers) -> dict[str, Any]:
    """A comparison as plain data, for machines to read."""
    return {
        "schema": 1,
        "noise": NOISE,
        "levels": [
            {"concurrency": concurrency, "changes": [asdict(change) for change in listed]}
            for concurrency, listed in compared.items()
        ],
        "answers": asdict(found),
    }


def _verdict(direction: int, change: float | None, before: float, after: float) -> str:
    if direction == 0:
        return ""
    if before == after or (change is not None and abs(change) < NOISE):
        return "same"
    return "better" if (after > before) == (direction > 0) else "worse"


def _said(records: Sequence[Record]) -> dict[int, list[str]]:
    """All answers to each prompt, in the order in which they were given."""
    found: dict[int, list[str]] = defaultdict(list)
    for record in records:
        if record.request.is_measured:
            found[record.prompt].append(record.text)
    return found


def _matching(prompts: Sequence[Prompt], said: Mapping[int, list[str]]) -> float | None:
    with_reference = [(prompts[place].reference, texts[0]) for place, texts in said.items() if prompts[place].reference]
    if not with_reference:
        return None
    return sum((reference or "").strip() in text for reference, text in with_reference) / len(with_reference)


def _alike(one: str, other: str) -> float:
    words = one.split()[:_MOST_WORDS], other.split()[:_MOST_WORDS]
    return SequenceMatcher(None, *words, autojunk=False).ratio()
