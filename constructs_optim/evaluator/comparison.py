"""A comparison of two evaluations: differences of metrics, and similarity of completions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from constructs_optim.recipe.evaluation.result import EvaluationResult, Level
from constructs_optim.recipe.metrics import EVALUATION
from constructs_optim.runtime.evaluation.differences import LEVEL, MARGIN, Comparison, Difference, Measured
from constructs_optim.runtime.evaluation.samples import Sample
from constructs_optim.runtime.evaluation.token_counts import NOTABLE_DIFFERENCE

from .lag import Lag
from .output_agreement import OutputAgreement
from .prompts import Prompt
from .streaming import Record
from .summary import summarize

_MOST_EXAMPLES = 5
_MOST_WORDS = 2000


@dataclass(frozen=True)
class DifferentCompletion:
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
    ``repeated`` is the number of prompts, by side, with several completions, of which ``consistent`` had the same text
    every time. The completions of an inconsistent side cannot be identical to another side's. ``reference`` is the
    share of completions, by side, that contain their prompt's reference. The largest ``differences`` come first.
    """

    compared: int
    identical: int
    similarity: float | None
    repeated: dict[str, int]
    consistent: dict[str, int]
    reference: dict[str, float]
    differences: tuple[DifferentCompletion, ...]


class ComparedLoad(BaseModel):
    """The differences of all metrics under one load; ``paired`` is whether both sides received the same prompts."""

    load: str
    paired: bool
    differences: tuple[Difference, ...]


class ComparisonDocument(BaseModel):
    """``comparison.json``: two sides' differences and their completions, or the agreement of their ``outputs``.

    Intervals are simultaneous, with a probability of 1 - ``level``. ``margin`` is the largest relative change that
    counts as no change. ``notes`` say what else makes the sides differ.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    schema_version: Literal[3] = Field(default=3, alias="schema")
    margin: float
    level: float = LEVEL
    levels: tuple[ComparedLoad, ...]
    completions: CompletionComparison | None = None
    outputs: OutputAgreement | None = None
    notes: tuple[str, ...] = ()


def counting_notes(baseline: EvaluationResult, optimized: EvaluationResult) -> Iterator[str]:
    """Yield a note for each kind of tokens that the two sides count in different ways."""
    before, after = baseline.workload.token_counts, optimized.workload.token_counts
    for kind in before.keys() & after.keys():
        shares = [each.by_server / (each.by_server + each.by_tokenizer) for each in (before[kind], after[kind])]
        if abs(shares[0] - shares[1]) > NOTABLE_DIFFERENCE:
            yield (
                f"The server counted the {kind} tokens of {shares[0]:.0%} of the baseline's requests and of "
                f"{shares[1]:.0%} of the optimized side's, and the tokenizer those of the others. The two may count "
                "differently, so metrics of tokens may differ for this reason alone."
            )


def compare_metrics(
    baseline: EvaluationResult,
    optimized: EvaluationResult,
    samples: Mapping[str, Mapping[str, Sample]],
    lags: Mapping[str, Mapping[str, Lag]],
    margin: float = MARGIN,
) -> tuple[ComparedLoad, ...]:
    """Return the differences of the metrics that both sides have.

    ``samples`` are each side's, by load, and ``lags`` those of this machine. A difference that a lag may explain is
    undecided.
    """
    levels = {level.load: level for level in baseline.levels}
    both = [(levels[level.load], level) for level in optimized.levels if level.load in levels]
    known = {name for pair in both for name in pair[0].metrics.keys() & pair[1].metrics.keys()}
    directions = {metric.name: metric.direction for metric in EVALUATION if metric.name in known and metric.direction}
    comparison = Comparison(directions, len(both), margin)
    compared: list[ComparedLoad] = []
    for before, after in both:
        old, new = samples["baseline"][before.load], samples["optimized"][after.load]
        found = comparison.differences(Measured(before.metrics, old), Measured(after.metrics, new))
        paired = new.paired_with(old) is not None
        first = _ranges(baseline, before, old, lags["baseline"][before.load])
        second = _ranges(optimized, after, new, lags["optimized"][after.load])
        judged = (_judged(each, first.get(each.name), second.get(each.name), margin) for each in found)
        compared.append(ComparedLoad(load=before.load, paired=paired, differences=tuple(judged)))
    return tuple(compared)


_Range = tuple[float, float]


def _ranges(result: EvaluationResult, level: Level, sample: Sample, lag: Lag) -> dict[str, _Range]:
    """Return the lowest and highest value that each metric may have without the lag."""
    candidates = [
        summarize((), each, level.concurrency, result.price)
        for each in (sample, *lag.bounds(sample, result.objectives))
    ]
    found: dict[str, _Range] = {}
    for name in level.metrics:
        values = [metrics[name] for metrics in candidates if name in metrics]
        found |= {name: (min(values), max(values))} if values else {}
    return found


def _judged(difference: Difference, before: _Range | None, after: _Range | None, margin: float) -> Difference:
    """Return the difference, undecided if the lag may explain it or prevents any decision."""
    if before is None or after is None or (before[0] == before[1] and after[0] == after[1]):
        return difference
    too_busy = replace(difference, verdict="undecided", requests=None, too_busy=True)
    if difference.low is None or difference.high is None:
        # A goodput of zero on one side is decided by shares. The lag may be why no request was good.
        is_decided = difference.verdict in ("better", "worse")
        return too_busy if is_decided and before[1] > 0 and after[1] > 0 else difference
    less = _log(after[0] / difference.after) - _log(before[1] / difference.before)
    more = _log(after[1] / difference.after) - _log(before[0] / difference.before)
    # More requests only help if they can decide.
    ends = (difference.low, difference.high) if difference.verdict != "undecided" else (difference.change or 0.0,) * 2
    low, high, allowed = math.log1p(ends[0]) + less, math.log1p(ends[1]) + more, math.log1p(margin)
    is_same, differs = -allowed <= low and high <= allowed, low > 0 or high < 0
    holds = {"same": is_same, "undecided": is_same or differs}.get(difference.verdict, differs)
    return difference if holds else too_busy


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def compare_completions(
    prompts: Sequence[Prompt], baseline: Sequence[Record], optimized: Sequence[Record]
) -> CompletionComparison:
    """Compare the first completions of each prompt, starting with the lowest concurrency."""
    completions = {"baseline": _completions(baseline), "optimized": _completions(optimized)}
    first, second = completions.values()
    both = sorted(first.keys() & second.keys())
    differences = [
        DifferentCompletion(prompt, prompts[prompt].text, before, after, _similarity(before, after))
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


def _completions(records: Sequence[Record]) -> dict[int, list[str]]:
    """Return all texts by prompt, in the order of arrival; a text includes the model's reasoning.

    For conversations, only the first turn: later turns depend on earlier responses.
    """
    texts: dict[int, list[str]] = defaultdict(list)
    for record in records:
        if record.is_measured and record.turn == 0:
            texts[record.prompt].append("\n".join(filter(None, [record.reasoning, record.text])))
    return texts


def _share_with_reference(prompts: Sequence[Prompt], completions: Mapping[int, list[str]]) -> float | None:
    references = [
        (reference.strip(), texts[0])
        for prompt, texts in completions.items()
        if isinstance(reference := prompts[prompt].reference, str) and reference
    ]
    return sum(reference in text for reference, text in references) / len(references) if references else None


def _similarity(before: str, after: str) -> float:
    words = before.split()[:_MOST_WORDS], after.split()[:_MOST_WORDS]
    return SequenceMatcher(None, *words, autojunk=False).ratio()
