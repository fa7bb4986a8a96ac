"""How a rule is declared and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from constructs_optim.recipe.errors import Advice, Violation
from constructs_optim.recipe.evaluation import Benchmark
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.hosting.alarms import AlarmRequest
from constructs_optim.recipe.hosting.scaling import Scaling
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.recommendation.request import RecommendationRequest
from constructs_optim.recipe.settings import Settings


@dataclass(frozen=True)
class Finding:
    """What a rule yields: where, what was given and what would work; why, where the rule's reason is too general."""

    location: str
    value: Any
    suggestion: str
    reason: str | None = None


Subject = Recipe | Hosting | Scaling | AlarmRequest | Benchmark | RecommendationRequest | Settings
"""What rules look at: what is made of a model, how its endpoint is hosted, scales, warns and is evaluated, what
SageMaker is asked to recommend for it, and settings of any of these."""
_Check = Callable[[Any], Iterator[Finding]]
_AnyCheck = TypeVar("_AnyCheck", bound=_Check)


@dataclass(frozen=True)
class Rule:
    """A rule of the house: id, the sentence of reason, where it comes from, and what kind of thing it looks at.

    An advisory rule warns; any other refuses what is declared.
    """

    id: str
    title: str
    reason: str
    link: str
    check: _Check
    advisory: bool
    subject: type[Subject] = Recipe


_RULES: dict[str, Rule] = {}


def rule(
    rule_id: str,
    *,
    title: str,
    reason: str,
    link: str,
    advisory: bool = False,
    of: type[Subject] = Recipe,
) -> Callable[[_AnyCheck], _AnyCheck]:
    """Register a function of a recipe, or of what ``of`` names, as the rule ``rule_id``."""

    def register(check: _AnyCheck) -> _AnyCheck:
        if rule_id in _RULES:
            raise ValueError(f"there are two rules {rule_id}: {_RULES[rule_id].title!r} and {title!r}")
        _RULES[rule_id] = Rule(rule_id, title, reason, link, check, advisory, of)
        return check

    return register


def all_rules() -> list[Rule]:
    """Every rule, by id."""
    return [_RULES[name] for name in sorted(_RULES)]


def check(subject: Subject) -> list[Violation]:
    """All that refuses a recipe, or what else rules look at."""
    return [
        Violation(
            rule=broken.id,
            location=found.location,
            value=found.value,
            reason=found.reason or broken.reason,
            suggestion=found.suggestion,
            link=broken.link,
        )
        for broken in all_rules()
        if not broken.advisory and isinstance(subject, broken.subject)
        for found in broken.check(subject)
    ]


def warnings(subject: Subject) -> tuple[Advice, ...]:
    """All that is worth a second look in what works."""
    return tuple(
        Advice(
            f"constructs-optim:{advisory.id}",
            f"{advisory.title}: {found.reason or advisory.reason}. {found.suggestion}",
        )
        for advisory in all_rules()
        if advisory.advisory and isinstance(subject, advisory.subject)
        for found in advisory.check(subject)
    )
