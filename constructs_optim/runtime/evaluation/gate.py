"""Judges an evaluation by limits, and by comparing its metrics and completions with those of the replaced endpoint."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ..requests.run_properties import EvaluationRequest, Gate, Quality
from ..store.run_records import (
    COMPLETIONS,
    CURRENT,
    REQUESTS,
    RESULT,
    Answers,
    Decision,
    Measurements,
    RunRecords,
    StoredSamples,
    run_of,
)
from .agreements import agreement_verdicts
from .differences import Difference, Measured
from .forecasts import missed, other_fleet
from .limits import judged, level_of
from .pooled_outputs import PooledTask
from .regressions import Regressions, comparison_of
from .repetitions import MOST_MEASUREMENTS, Refusal, Undecided
from .samples import samples_of

_NEXT_STEP = "Next: keep the recipe that was in service, or change the requirements or the recipe and deploy again"
Levels = Mapping[int, Measured]
"""The measurements by concurrency."""
_NOTHING = Measured({}, None)


class Completions(NamedTuple):
    """Answers, and references for the same prompts, from the prompts file or from the replaced endpoint."""

    completions: Sequence[str | None]
    references: Sequence[str | None]
    # True if neither side's techniques change the weights.
    same_weights: bool
    reference_name: str
    task: Literal["generate"] | PooledTask = "generate"


class Findings(NamedTuple):
    """The requirements that are not met, those that the requests do not decide, and each metric's difference.

    ``is_worth_repeating``: whether another measurement may decide what is undecided.
    """

    misses: list[str]
    undecided: list[str]
    differences: Mapping[int, Sequence[Difference]]
    is_worth_repeating: bool = False


def find(gate: Gate, levels: Levels, before: Levels, completions: Completions | None) -> Findings:
    """Return the findings, with a message for every unmet requirement that names the metric, value, and difference."""
    concurrencies = [gate.at_concurrency] if gate.at_concurrency is not None else sorted(levels)
    verdicts = [*_limits(gate, levels, before, concurrencies)]
    compared = [users for users in concurrencies if users in before]
    differences: dict[int, Sequence[Difference]] = {}
    if gate.max_regression is not None and compared:
        comparison = comparison_of(gate.compared, gate.max_regression, len(compared))
        for users in compared:
            sides = before[users], levels.get(users, _NOTHING)
            differences[users] = list(comparison.differences(*sides))
            regressions = Regressions(users, *sides, comparison, gate.max_regression)
            verdicts += regressions.judged(gate.compared, differences[users])
    if gate.quality is not None and completions is not None and completions.task != "generate":
        answers, references = completions.completions, completions.references
        least, source = gate.quality.min_agreement, completions.reference_name
        verdicts += agreement_verdicts(completions.task, answers, references, least, source)
    misses = [each.told for each in verdicts if isinstance(each, Refusal)]
    if gate.quality is not None and completions is not None and completions.task == "generate":
        misses += _different(gate.quality, completions)
    undecided = [each for each in verdicts if isinstance(each, Undecided)]
    told, is_worth_repeating = [each.told for each in undecided], any(each.is_worth_repeating for each in undecided)
    return Findings(misses, told, differences, is_worth_repeating)


def _limits(gate: Gate, levels: Levels, before: Levels, concurrencies: Sequence[int]) -> Iterator[Refusal | Undecided]:
    level = level_of(gate.limits, len(concurrencies))
    for users in concurrencies:
        for limit in gate.limits:
            if (verdict := judged(limit, levels.get(users, _NOTHING), before.get(users), users, level)) is not None:
                yield verdict


def _different(quality: Quality, compared: Completions) -> Iterator[str]:
    completions, source = compared.completions, compared.reference_name
    if failed := sum(completion is None for completion in completions):
        yield f"{failed} of {len(completions)} prompts got no completion"
    pairs = [
        (number, completion, reference)
        for number, (completion, reference) in enumerate(zip(completions, compared.references, strict=False), 1)
        if completion is not None and reference is not None
    ]
    different = [pair for pair in pairs if pair[1] != pair[2]]
    if not different:
        return
    first = f"(prompt {different[0][0]} is the first with a different completion)"
    share = 1 - len(different) / len(pairs)
    if compared.same_weights and share < quality.min_identical:
        yield (
            f"{share:.1%} of {len(pairs)} completions are identical to {source}, but techniques that do not change "
            f"the weights require {quality.min_identical:.1%} {first}"
        )
    differences = sum(
        1 - difflib.SequenceMatcher(None, completion.split(), reference.split(), autojunk=False).ratio()
        for _, completion, reference in different
    )
    if not compared.same_weights and differences / len(pairs) > quality.max_difference:
        yield (
            f"completions differ from {source} by {differences / len(pairs):.1%} of their words on average, but at "
            f"most {quality.max_difference:.1%} is allowed {first}"
        )


class Verdict(NamedTuple):
    """The requirements that a run does not meet, and the accepted evaluation of the replaced endpoint, if any."""

    found: Findings
    # The reason for the stack; None if all requirements are met.
    refusal: str | None
    before: str | None

    @property
    def misses(self) -> list[str]:
        """A message for each unmet requirement."""
        return self.found.misses

    @property
    def is_worth_repeating(self) -> bool:
        """Whether another measurement may change the verdict."""
        return self.found.is_worth_repeating and not self.misses


def judge(request: EvaluationRequest, records: RunRecords, before: RunRecords | None, run: str) -> Verdict:
    """Return the verdict on a run; ``before`` has the replaced endpoint's records, used if they were accepted."""
    earlier = before.get(CURRENT, Decision) if before is not None else None
    if earlier is None or not earlier.accepted:
        before = earlier = None
    found = Findings([], [], {})
    if request.gate is not None:
        compared = _compared(request, records, run, before, earlier) if request.gate.quality is not None else None
        compared = compared._replace(task=request.task) if compared is not None else None
        replaced: Levels = {}
        if before is not None and earlier is not None:
            # The requests of many runs are too many to read, and their spread is that of the runs' metrics.
            replaced = _levels(before, earlier.measurements, with_requests=earlier.measurements[-1:])
        measurements = measurements_of(records, run)
        levels = _levels(records, measurements, with_requests=measurements)
        found = find(request.gate, levels, replaced, compared)
        if request.gate.forecast:
            result = records.get(RESULT, Measurements, run) or Measurements(levels=())
            unlike = other_fleet(request.forecasts, result.subject.instance_type, result.subject.copies)
            measured = {users: level.metrics for users, level in levels.items()}
            found.misses.extend(missed(request.forecasts, measured) if unlike is None else ())
            found.undecided.extend([unlike] if unlike is not None else ())
    report, misses = f"Report: {records.uri()}. {_NEXT_STEP}", "; ".join(found.misses)
    refusal = f"{request.label} does not meet its requirements: {misses}. {report}" if misses else None
    return Verdict(found, refusal, before.key if before is not None else None)


def _compared(
    request: EvaluationRequest, records: RunRecords, run: str, before: RunRecords | None, decision: Decision | None
) -> Completions | None:
    stored = records.get(COMPLETIONS, Answers, run)
    if stored is None:
        return None
    completions, references = stored.answers, stored.references
    if any(reference is not None for reference in references):
        return Completions(completions, references, same_weights=False, reference_name="the references in the file")
    earlier = None
    if before is not None and decision is not None:
        earlier = before.get(COMPLETIONS, Answers, decision.run)
    if earlier is None or decision is None or earlier.prompts_digest != stored.prompts_digest:
        # Without references, only missing completions are findings.
        return Completions(completions, [], same_weights=False, reference_name="")
    lossless = request.lossless and decision.lossless
    return Completions(completions, earlier.answers, lossless, reference_name="those of the replaced version")


def repetitions_of(run: str) -> Sequence[str]:
    """Return the names of the runs that measure again what ``run`` did not decide."""
    return [run_of(run, str(number)) for number in range(2, MOST_MEASUREMENTS + 1)]


def measurements_of(records: RunRecords, run: str) -> Sequence[str]:
    """Return a run and those of its repetitions that have a result."""
    return [run, *(each for each in repetitions_of(run) if records.get(RESULT, Measurements, each) is not None)]


def _levels(records: RunRecords, runs: Sequence[str], *, with_requests: Sequence[str]) -> Levels:
    """Return the runs' measurements as one side, with the requests of some runs if they are stored."""
    found: dict[int, list[Measured]] = {}
    for run in runs:
        result = records.get(RESULT, Measurements, run)
        stored = records.get(REQUESTS, StoredSamples, run) if run in with_requests else None
        samples = dict(samples_of(stored.to_record())) if stored is not None else {}
        for level in result.levels if result is not None else ():
            found.setdefault(level.concurrency, []).append(Measured(level.metrics, samples.get(level.concurrency)))
    return {users: Measured.of_runs(each) for users, each in found.items()}
