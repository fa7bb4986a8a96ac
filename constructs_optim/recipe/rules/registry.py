"""The rules of ``rules.toml``, the functions that check them, and how they are run."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from inspect import signature
from typing import TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict

from constructs_optim.recipe.errors import Advice, Violation
from constructs_optim.recipe.evaluation import Benchmark
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.hosting.alarms import AlarmRequest
from constructs_optim.recipe.hosting.scaling import Scaling
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.recommendation.request import RecommendationRequest

Subject = Recipe | Hosting | Scaling | AlarmRequest | Benchmark | RecommendationRequest
"""What rules check."""
_Subject = TypeVar("_Subject", bound=Subject)


@dataclass(frozen=True)
class Finding:
    """A wrong value: its location, the value, the fix, and a reason where the rule's own is too general."""

    location: str
    value: object
    suggestion: str
    reason: str | None = None


class Rule(BaseModel):
    """A rule: id, title, reason, and the page it comes from. An advisory rule warns; any other refuses."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    title: str
    reason: str
    link: str
    advisory: bool = False


_TABLE = tomllib.loads((files("constructs_optim.recipe.rules") / "rules.toml").read_text(encoding="utf-8"))
_RULES = {name: Rule(id=name, **row) for name, row in sorted(_TABLE.items())}
_CHECKS: dict[str, tuple[type[Subject], Callable[..., Iterator[Finding]]]] = {}


def rule(rule_id: str) -> Callable[[Callable[[_Subject], Iterator[Finding]]], Callable[[_Subject], Iterator[Finding]]]:
    """Register the function that checks a rule of ``rules.toml``; the type of its argument is what it checks."""

    def register(check: Callable[[_Subject], Iterator[Finding]]) -> Callable[[_Subject], Iterator[Finding]]:
        if rule_id in _CHECKS or rule_id not in _RULES:
            raise ValueError(f"rules.toml has one row and one function for each rule: {rule_id}")
        _CHECKS[rule_id] = get_type_hints(check)[next(iter(signature(check).parameters))], check
        return check

    return register


def all_rules(of: type[Subject] | None = None) -> list[Rule]:
    """Every rule, by id, or those that check ``of``."""
    return [rule for name, rule in _RULES.items() if of is None or (name in _CHECKS and _CHECKS[name][0] is of)]


def _findings(subject: Subject, *, advisory: bool) -> Iterator[tuple[Rule, Finding]]:
    for name, (checked, check) in sorted(_CHECKS.items()):
        if _RULES[name].advisory is advisory and isinstance(subject, checked):
            yield from ((_RULES[name], finding) for finding in check(subject))


def check(subject: Subject) -> list[Violation]:
    """All violations of a recipe, or of what else rules check."""
    return [
        Violation(
            rule=rule.id,
            location=found.location,
            value=found.value,
            reason=found.reason or rule.reason,
            suggestion=found.suggestion,
            link=rule.link,
        )
        for rule, found in _findings(subject, advisory=False)
    ]


def warnings(subject: Subject) -> tuple[Advice, ...]:
    """All advice on what works."""
    return tuple(
        Advice(f"constructs-optim:{rule.id}", f"{rule.title}: {found.reason or rule.reason}. {found.suggestion}")
        for rule, found in _findings(subject, advisory=True)
    )
