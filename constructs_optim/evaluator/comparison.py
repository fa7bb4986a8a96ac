"""A comparison of two evaluations: changes of metrics, and similarity of completions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from constructs_optim.recipe.evaluation.calculation import direction, relative_change
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.metrics import EVALUATION

from .prompts import Prompt
from .streaming import Record

NOISE = 0.03
"""Changes below this share are reported as the same."""
_MOST_EXAMPLES = 5
_MOST_WORDS = 2000


@dataclass(frozen=True)
class Change:
    """A metric at one concurrency.

    ``change`` is relative, None where the baseline is zero; ``verdict`` is ``better``, ``worse``, ``same``, or empty
    for metrics without a direction.
    """

    name: str
    baseline: float
    optimized: float
    change: float | None
    verdict: str


@dataclass(frozen=True)
class Difference:
    """A prompt's two different completions. ``similarity`` is the share of words in common and in order."""

    prompt: int
    asked: str
    baseline: str
    optimized: str
    similarity: float


@dataclass(frozen=True)
class CompletionComparison:
    """The similarity of two sides' completions, for the ``compared`` prompts that both completed.

    ``identical`` completions have exactly the same text; ``similarity`` is the mean of all, 1 for identical texts.
    ``repeated`` are, by side, prompts completed more than once, of which ``consistent`` had the same text every time:
    the completions of a side that is not consistent cannot be identical with another side's. ``reference`` is, by side,
    the share of completions that contain the reference of their prompt. The largest ``differences`` come first.
    """

    compared: int
    identical: int
    similarity: float | None
    repeated: dict[str, int]
    consistent: dict[str, int]
    reference: dict[str, float]
    differences: tuple[Difference, ...]


def compare_metrics(baseline: EvaluationResult, optimized: EvaluationResult) -> dict[int, list[Change]]:
    """The changes of the metrics that both have, by concurrency."""
    after = {level.concurrency: level.metrics for level in optimized.levels}
    return {
        level.concurrency: list(_changes(level.metrics, after[level.concurrency]))
        for level in baseline.levels
        if level.concurrency in after
    }


def compare_completions(
    prompts: Sequence[Prompt], baseline: Sequence[Record], optimized: Sequence[Record]
) -> CompletionComparison:
    """Compare the first completions of each prompt, those of the lowest concurrency first."""
    completions = {"baseline": _completions(baseline), "optimized": _completions(optimized)}
    first, second = completions.values()
    both = sorted(first.keys() & second.keys())
    differences = [
        Difference(prompt, prompts[prompt].text, before, after, _similarity(before, after))
        for prompt in both
        if (before := first[prompt][0]) != (after := second[prompt][0])
    ]
    identical = len(both) - len(differences)
    total = identical + sum(difference.similarity for difference in differences)
    repeated = {
        side: [texts for texts in by_prompt.values() if len(texts) > 1] for side, by_prompt in completions.items()
    }
    return CompletionComparison(
        compared=len(both),
        identical=identical,
        similarity=total / len(both) if both else None,
        repeated={side: len(all_texts) for side, all_texts in repeated.items()},
        consistent={side: sum(len(set(texts)) == 1 for texts in all_texts) for side, all_texts in repeated.items()},
        reference={
            side: share
            for side, by_prompt in completions.items()
            if (share := _share_with_reference(prompts, by_prompt)) is not None
        },
        differences=tuple(sorted(differences, key=lambda difference: difference.similarity)[:_MOST_EXAMPLES]),
    )


def _changes(before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[Change]:
    for metric in EVALUATION:
        if metric.name not in before or metric.name not in after:
            continue
        old, new = before[metric.name], after[metric.name]
        change, sign = relative_change(before, after, metric.name), direction(metric)
        if sign == 0:
            verdict = ""
        elif old == new or (change is not None and abs(change) < NOISE):
            verdict = "same"
        else:
            verdict = "better" if (new > old) == (sign > 0) else "worse"
        yield Change(metric.name, old, new, change, verdict)


def _completions(records: Sequence[Record]) -> dict[int, list[str]]:
    """All texts by prompt, in the order of arrival."""
    texts: dict[int, list[str]] = defaultdict(list)
    for record in records:
        if record.is_measured:
            texts[record.prompt].append(record.text)
    return texts


def _share_with_reference(prompts: Sequence[Prompt], completions: Mapping[int, list[str]]) -> float | None:
    references = [
        (reference.strip(), texts[0])
        for prompt, texts in completions.items()
        if (reference := prompts[prompt].reference)
    ]
    return sum(reference in text for reference, text in references) / len(references) if references else None


def _similarity(before: str, after: str) -> float:
    words = before.split()[:_MOST_WORDS], after.split()[:_MOST_WORDS]
    return SequenceMatcher(None, *words, autojunk=False).ratio()
