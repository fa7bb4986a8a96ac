"""Whether an evaluation lets a deployment through: limits, a comparison with what is replaced, and its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..requests.evaluation_properties import Gate, Limit, Quality
from .formula import calculate


@dataclass(frozen=True)
class Answers:
    """How the answers compare with those they are compared with.

    Attributes:
        compared: how many prompts were answered by both.
        failed: how many were not answered.
        identical: how many answers are the same.
        difference: how far the answers are apart on average, as a share of their words.
        first_different: the number of the first prompt with another answer, from 1 on; 0 where there is none.
        same_weights: whether neither side's techniques change the weights.
        with_what: what they are compared with.
    """

    compared: int
    failed: int
    identical: int
    difference: float
    first_different: int
    same_weights: bool
    with_what: str


def misses(
    gate: Gate,
    levels: Mapping[int, Mapping[str, float]],
    before: Mapping[int, Mapping[str, float]],
    answers: Answers | None,
) -> list[str]:
    """Everything that is not as required, each in words: which metric, what it is, and by how much it misses.

    Args:
        gate: what is required.
        levels: the values by concurrency and name.
        before: those of what is replaced; empty where nothing is.
        answers: how the answers compare; None where they were not compared.
    """
    where = [gate.at_concurrency] if gate.at_concurrency is not None else sorted(levels)
    found = [miss for users in where for limit in gate.limits for miss in _beyond(limit, levels.get(users, {}), users)]
    found += [miss for users in where for miss in _worse(gate, levels.get(users, {}), before.get(users, {}), users)]
    if gate.quality is not None and answers is not None:
        found += _different(gate.quality, answers)
    return found


def _beyond(limit: Limit, values: Mapping[str, float], users: int) -> Iterator[str]:
    value = calculate(limit.formula, values)
    at = f"{limit.title or limit.formula} at {_users(users)}"
    most, least = limit.at_most, limit.at_least
    if value is None:
        yield f"{at} was not measured: no request succeeded, or its price is not known"
    elif most is not None and value > most:
        shown = f"{_shown(value, limit.unit)}, and at most {_shown(most, limit.unit)}"
        yield f"{at} is {shown} is required{_by(value, most)}"
    elif least is not None and value < least:
        shown = f"{_shown(value, limit.unit)}, and at least {_shown(least, limit.unit)}"
        yield f"{at} is {shown} is required{_by(value, least)}"


def _worse(gate: Gate, after: Mapping[str, float], before: Mapping[str, float], users: int) -> Iterator[str]:
    for compared in gate.compared:
        name, title = compared.metric, compared.title or compared.metric
        if name not in before or before[name] <= 0 or gate.max_regression is None:
            continue
        at = f"{title} at {_users(users)}"
        if name not in after:
            yield f"{at} was not measured, and it was {before[name]:.4g} before"
            continue
        change = after[name] / before[name] - 1
        worse = -change if compared.better == "higher" else change
        if worse > gate.max_regression:
            went = "fell" if change < 0 else "rose"
            yield (
                f"{at} {went} from {before[name]:.4g} to {after[name]:.4g}, {worse:.1%} worse than what it replaces; "
                f"{gate.max_regression:.1%} is allowed"
            )


def _different(quality: Quality, answers: Answers) -> Iterator[str]:
    if answers.failed:
        yield f"{answers.failed} of {answers.failed + answers.compared} prompts were not answered"
    if not answers.compared:
        return
    share = answers.identical / answers.compared
    if answers.same_weights and share < quality.min_identical:
        yield (
            f"{share:.1%} of {answers.compared} answers are identical to {answers.with_what}, and "
            f"{quality.min_identical:.1%} is required of techniques that leave the weights alone (prompt "
            f"{answers.first_different} is the first with another answer)"
        )
    if not answers.same_weights and answers.difference > quality.max_difference:
        yield (
            f"answers differ from {answers.with_what} by {answers.difference:.1%} of their words on average, and at "
            f"most {quality.max_difference:.1%} is allowed (prompt {answers.first_different} is the first with another "
            "answer)"
        )


def _users(users: int) -> str:
    return f"{users} user" if users == 1 else f"{users} users"


def _shown(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".strip()


def _by(value: float, limit: float) -> str:
    return f" ({abs(value / limit - 1):.0%} {'more' if value > limit else 'less'})" if limit else ""
