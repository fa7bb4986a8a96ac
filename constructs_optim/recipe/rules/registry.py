"""How a rule is declared and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import Violation
from ..recipe import Recipe


@dataclass(frozen=True)
class Finding:
    """What a rule yields: where, what was given and what would work; why, where the rule's reason is too general."""

    location: str
    value: Any
    suggestion: str
    reason: str | None = None


@dataclass(frozen=True)
class Advice:
    """Something that works and is worth a second look. Its id can be acknowledged."""

    id: str
    message: str


_Check = Callable[[Recipe], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """A rule of the house: id, the sentence of reason, and where it comes from.

    An advisory rule warns; any other refuses the recipe.
    """

    id: str
    title: str
    reason: str
    link: str
    check: _Check
    advisory: bool


_RULES: dict[str, Rule] = {}


def rule(rule_id: str, *, title: str, reason: str, link: str, advisory: bool = False) -> Callable[[_Check], _Check]:
    """Register a function of a recipe as the rule ``rule_id``."""

    def register(check: _Check) -> _Check:
        if rule_id in _RULES:
            raise ValueError(f"there are two rules {rule_id}: {_RULES[rule_id].title!r} and {title!r}")
        _RULES[rule_id] = Rule(rule_id, title, reason, link, check, advisory)
        return check

    return register


def all_rules() -> list[Rule]:
    """Every rule, by id."""
    return [_RULES[name] for name in sorted(_RULES)]


def check(recipe: Recipe) -> list[Violation]:
    """All that refuses a recipe."""
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
        if not broken.advisory
        for found in broken.check(recipe)
    ]


def warnings(recipe: Recipe) -> tuple[Advice, ...]:
    """All that is worth a second look in a recipe that works."""
    return tuple(
        Advice(
            f"constructs-optim:{advisory.id}",
            f"{advisory.title}: {found.reason or advisory.reason}. {found.suggestion}",
        )
        for advisory in all_rules()
        if advisory.advisory
        for found in advisory.check(recipe)
    )
