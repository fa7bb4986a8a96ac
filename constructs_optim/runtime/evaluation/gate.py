"""Judges an evaluation by limits, and by comparing metrics and completions with those of the endpoint it replaces."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..requests.run_properties import EvaluationRequest, Gate, Limit, Quality
from ..store.run_records import COMPLETIONS, CURRENT, RESULT, RunRecords
from .formula import calculate

_NEXT_STEP = "Next: keep the recipe that was in service, or change requirements and recipe, and deploy again"
Values = Mapping[int, Mapping[str, float]]
"""Values by concurrency and name."""


class Completions(NamedTuple):
    """Completions, with references for the same prompts: of the prompts file, or of what is replaced."""

    completions: Sequence[str | None]
    references: Sequence[str | None]
    # Whether the techniques of neither side change the weights.
    same_weights: bool
    reference_name: str


def misses(gate: Gate, levels: Values, before: Values, completions: Completions | None) -> list[str]:
    """A message for every requirement that is not met, with the metric, its value and the difference."""
    concurrencies = [gate.at_concurrency] if gate.at_concurrency is not None else sorted(levels)
    missed = list[str]()
    for users in concurrencies:
        missed += [miss for limit in gate.limits for miss in _beyond(limit, levels.get(users, {}), users)]
    for users in concurrencies:
        missed += _worse(gate, levels.get(users, {}), before.get(users, {}), users)
    if gate.quality is not None and completions is not None:
        missed += _different(gate.quality, completions)
    return missed


def _beyond(limit: Limit, values: Mapping[str, float], users: int) -> Iterator[str]:
    value = calculate(limit.formula, values)
    at = f"{limit.title or limit.formula} at {_users(users)}"
    is_most = limit.at_most is not None
    bound = (limit.at_most if is_most else limit.at_least) or 0.0
    if value is None:
        yield f"{at} was not measured: no request succeeded, or its price is not known"
    elif value > bound if is_most else value < bound:
        shown, required = (f"{number:.4g} {limit.unit}".strip() for number in (value, bound))
        by = f" ({abs(value / bound - 1):.0%} {'more' if value > bound else 'less'})" if bound else ""
        yield f"{at} is {shown}, and at {'most' if is_most else 'least'} {required} is required{by}"


def _worse(gate: Gate, after: Mapping[str, float], before: Mapping[str, float], users: int) -> Iterator[str]:
    for compared in gate.compared:
        name = compared.metric
        if name not in before or before[name] <= 0 or gate.max_regression is None:
            continue
        at = f"{compared.title or name} at {_users(users)}"
        if name not in after:
            yield f"{at} was not measured, and it was {before[name]:.4g} before"
            continue
        change = after[name] / before[name] - 1
        worse = -change if compared.better == "higher" else change
        if worse > gate.max_regression:
            yield (
                f"{at} {'fell' if change < 0 else 'rose'} from {before[name]:.4g} to {after[name]:.4g}, {worse:.1%} "
                f"worse than what it replaces; {gate.max_regression:.1%} is allowed"
            )


def _different(quality: Quality, compared: Completions) -> Iterator[str]:
    completions, source = compared.completions, compared.reference_name
    if failed := sum(completion is None for completion in completions):
        yield f"{failed} of {len(completions)} prompts have no completion"
    pairs = [
        (number, completion, reference)
        for number, (completion, reference) in enumerate(zip(completions, compared.references, strict=False), 1)
        if completion is not None and reference is not None
    ]
    different = [pair for pair in pairs if pair[1] != pair[2]]
    if not different:
        return
    first = f"(prompt {different[0][0]} is the first with another completion)"
    share = 1 - len(different) / len(pairs)
    if compared.same_weights and share < quality.min_identical:
        yield (
            f"{share:.1%} of {len(pairs)} completions are identical to {source}, and {quality.min_identical:.1%} is "
            f"required of techniques that leave the weights alone {first}"
        )
    differences = sum(
        1 - difflib.SequenceMatcher(None, completion.split(), reference.split(), autojunk=False).ratio()
        for _, completion, reference in different
    )
    if not compared.same_weights and differences / len(pairs) > quality.max_difference:
        yield (
            f"completions differ from {source} by {differences / len(pairs):.1%} of their words on average, and at "
            f"most {quality.max_difference:.1%} is allowed {first}"
        )


def _users(users: int) -> str:
    return f"{users} user" if users == 1 else f"{users} users"


class Verdict(NamedTuple):
    """The requirements that a run does not meet, and the accepted evaluation of what it replaces, if any."""

    misses: list[str]
    # The reason for the stack; None if all requirements are met.
    refusal: str | None
    before: str | None


def judge(request: EvaluationRequest, records: RunRecords, before: RunRecords | None, run: str) -> Verdict:
    """The verdict on a run; ``before`` has the records of what is replaced, which are used if that was accepted."""
    earlier = (before.read(CURRENT) if before is not None else None) or {}
    if not earlier.get("accepted"):
        before = None
    missed: list[str] = []
    if request.gate is not None:
        result, result_before = records.read(RESULT, run), before.read(RESULT) if before is not None else None
        compared = _compared(request, records, run, before, earlier) if request.gate.quality is not None else None
        missed = misses(request.gate, _values(result), _values(result_before), compared)
    report = f"Report: {records.uri()}. {_NEXT_STEP}"
    refusal = f"{request.label} does not meet its requirements: {'; '.join(missed)}. {report}" if missed else None
    return Verdict(missed, refusal, before.key if before is not None else None)


def _compared(
    request: EvaluationRequest, records: RunRecords, run: str, before: RunRecords | None, decision: Mapping[str, Any]
) -> Completions | None:
    stored = records.read(COMPLETIONS, run)
    if stored is None:
        return None
    completions, references = stored["answers"], stored["references"]
    if any(reference is not None for reference in references):
        return Completions(completions, references, same_weights=False, reference_name="the reference completions")
    earlier = before.read(COMPLETIONS, decision["run"]) if before is not None else None
    if earlier is None or earlier.get("prompts_digest") != stored["prompts_digest"]:
        # Without references, only missing completions are reported.
        return Completions(completions, [], same_weights=False, reference_name="")
    lossless = request.lossless and bool(decision.get("lossless"))
    return Completions(completions, earlier["answers"], lossless, reference_name="those of what it replaces")


def _values(result: Mapping[str, Any] | None) -> Values:
    return {level["concurrency"]: level["metrics"] for level in (result or {}).get("levels", [])}
