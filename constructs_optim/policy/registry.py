"""How a rule of a policy is declared, and which there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .settings import PlatformPolicy
    from .template import DeclaredResource, Template

Severity = Literal["error", "warning", "fatal"]
"""What a finding does: ``error`` fails synthesis until it is acknowledged, ``fatal`` whether it is or not, and
``warning`` is shown."""


IN_THE_REASON = object()
"""The value of a breach whose reason says what was given."""


@dataclass(frozen=True)
class Breach:
    """What a rule yields: which resource, where in it, what was given, why that breaks the rule, what would work."""

    resource: DeclaredResource
    location: str
    value: Any
    reason: str
    suggestion: str


_Check = Callable[["PlatformPolicy", "Template"], Iterator[Breach]]


@dataclass(frozen=True)
class PolicyRule:
    """A rule of a policy.

    Attributes:
        id: for instance ``POL001``; what is acknowledged.
        setting: the setting of ``PlatformPolicy`` that switches it on.
        title: the rule in a few words.
        looks_at: what of a template it judges.
        reason: why platform teams have it.
    """

    id: str
    setting: str
    title: str
    looks_at: str
    reason: str
    check: _Check


_RULES: dict[str, PolicyRule] = {}


def policy_rule(rule_id: str, *, setting: str, title: str, looks_at: str, reason: str) -> Callable[[_Check], _Check]:
    """Register a function of a policy and a template as the rule ``rule_id``."""

    def register(check: _Check) -> _Check:
        if rule_id in _RULES:
            raise ValueError(f"there are two rules {rule_id}: {_RULES[rule_id].title!r} and {title!r}")
        _RULES[rule_id] = PolicyRule(rule_id, setting, title, looks_at, reason, check)
        return check

    return register


def all_policy_rules() -> list[PolicyRule]:
    """Every rule, by id."""
    return [_RULES[name] for name in sorted(_RULES)]


def rules_table() -> str:
    """The rules as the Markdown table of ``docs/policy.md``."""
    rows = [
        f"| {one.id} | `{one.setting}` | {one.title} | {one.looks_at} | {one.reason} |" for one in all_policy_rules()
    ]
    return "\n".join(
        ["| id | setting | rule | looks at | why teams have it |", "| --- | --- | --- | --- | --- |", *rows]
    )
