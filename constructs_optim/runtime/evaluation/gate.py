"""Judges an evaluation by limits, and by comparing its metrics and completions with those of the replaced endpoint."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..requests.run_properties import EvaluationRequest, Gate, Limit, Quality
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
)
from .differences import COUNTS, SAMPLED, Comparison, Difference, Measured
from .forecasts import missed, other_fleet
from .formatting import number, users_of
from .formula import calculate
from .samples import samples_of

_NEXT_STEP = "Next: keep the recipe that was in service, or change the requirements or the recipe and deploy again"
Levels = Mapping[int, Measured]
"""The measurements by concurrency."""
_NOTHING = Measured({}, None)
# The smallest margin of a comparison, so that "no regression at all" does not need an unlimited number of requests.
_LEAST_MARGIN = 0.01


class Completions(NamedTuple):
    """Completions, and references for the same prompts, from the prompts file or from the replaced endpoint."""

    completions: Sequence[str | None]
    references: Sequence[str | None]
    # True if neither side's techniques change the weights.
    same_weights: bool
    reference_name: str


class Findings(NamedTuple):
    """The requirements that are not met, those that the requests do not decide, and each metric's difference."""

    misses: list[str]
    undecided: list[str]
    differences: Mapping[int, Sequence[Difference]]


def find(gate: Gate, levels: Levels, before: Levels, completions: Completions | None) -> Findings:
    """Return the findings, with a message for every unmet requirement that names the metric, value, and difference."""
    concurrencies = [gate.at_concurrency] if gate.at_concurrency is not None else sorted(levels)
    found = Findings([], [], {})
    for users in concurrencies:
        values = levels.get(users, _NOTHING).metrics
        found.misses.extend(miss for limit in gate.limits for miss in _beyond(limit, values, users))
    compared = [users for users in concurrencies if users in before]
    if gate.max_regression is not None and compared:
        found = found._replace(differences=dict(_differences(gate, gate.max_regression, levels, before, compared)))
        for users in compared:
            _judge_regressions(gate, gate.max_regression, levels, before, users, found)
    if gate.quality is not None and completions is not None:
        found.misses.extend(_different(gate.quality, completions))
    return found


def _beyond(limit: Limit, values: Mapping[str, float], users: int) -> Iterator[str]:
    value = calculate(limit.formula, values)
    at = f"{limit.title or limit.formula} at {users_of(users)}"
    is_most = limit.at_most is not None
    bound = (limit.at_most if is_most else limit.at_least) or 0.0
    if value is None:
        yield f"{at} was not measured: no request succeeded, or its price is unknown"
    elif value > bound if is_most else value < bound:
        shown, required = (f"{number(each)} {limit.unit}".strip() for each in (value, bound))
        by = f"{abs(value / bound - 1):.0%} " if bound else ""
        yield f"{at} is {shown}, {by}{'above the maximum' if is_most else 'below the minimum'} of {required}"


def _differences(
    gate: Gate, margin: float, levels: Levels, before: Levels, concurrencies: Sequence[int]
) -> Iterator[tuple[int, list[Difference]]]:
    directions = {each.metric: 1 if each.better == "higher" else -1 for each in gate.compared}
    comparison = Comparison(directions, len(concurrencies), max(margin, _LEAST_MARGIN))
    for users in concurrencies:
        yield users, list(comparison.differences(before[users], levels.get(users, _NOTHING)))


def _judge_regressions(gate: Gate, allowed: float, levels: Levels, before: Levels, users: int, found: Findings) -> None:
    """Find regressions that are larger than allowed and that chance alone does not explain."""
    differences = {each.name: each for each in found.differences[users]}
    for compared in gate.compared:
        name, at = compared.metric, f"{compared.title or compared.metric} at {users_of(users)}"
        earlier = before[users].metrics.get(name, 0.0)
        if earlier <= 0 and name not in COUNTS:
            continue
        if name not in levels.get(users, _NOTHING).metrics:
            found.misses.append(f"{at} was not measured, but was {number(earlier)} before")
            continue
        difference = differences[name]
        # For counts, the change of the share of requests.
        change = difference.change or 0.0 if name in COUNTS else difference.after / difference.before - 1
        worse = -change if compared.better == "higher" else change
        if worse <= allowed:
            continue
        told = (
            f"{at} {'fell' if change < 0 else 'rose'} from {number(difference.before)} to {number(difference.after)}, "
            f"{worse:.1%} worse than in the replaced version"
        )
        if difference.low is not None and difference.high is not None:
            told += f" (95% interval {difference.low:+.1%} to {difference.high:+.1%})"
        if difference.verdict == "worse" or name not in SAMPLED:
            found.misses.append(f"{told}; {allowed:.1%} is allowed")
        else:
            needed = f": {difference.requests} requests on each side would decide it" if difference.requests else ""
            found.undecided.append(f"{told}, which may be chance alone{needed}")


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


def judge(request: EvaluationRequest, records: RunRecords, before: RunRecords | None, run: str) -> Verdict:
    """Return the verdict on a run; ``before`` has the replaced endpoint's records, used if they were accepted."""
    earlier = before.get(CURRENT, Decision) if before is not None else None
    if earlier is None or not earlier.accepted:
        before = earlier = None
    found = Findings([], [], {})
    if request.gate is not None:
        compared = _compared(request, records, run, before, earlier) if request.gate.quality is not None else None
        replaced: Levels = _levels(before, earlier.run) if before is not None and earlier is not None else {}
        levels = _levels(records, run)
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
        return Completions(completions, references, same_weights=False, reference_name="the reference completions")
    earlier = None
    if before is not None and decision is not None:
        earlier = before.get(COMPLETIONS, Answers, decision.run)
    if earlier is None or decision is None or earlier.prompts_digest != stored.prompts_digest:
        # Without references, only missing completions are findings.
        return Completions(completions, [], same_weights=False, reference_name="")
    lossless = request.lossless and decision.lossless
    return Completions(completions, earlier.answers, lossless, reference_name="those of the replaced version")


def _levels(records: RunRecords, run: str) -> Levels:
    """Return a run's measurements, with the requests if they are stored."""
    result = records.get(RESULT, Measurements, run) or records.get(RESULT, Measurements)
    stored = records.get(REQUESTS, StoredSamples, run)
    samples = dict(samples_of(stored.to_record())) if stored is not None else {}
    return {
        level.concurrency: Measured(level.metrics, samples.get(level.concurrency))
        for level in (result.levels if result is not None else ())
    }
