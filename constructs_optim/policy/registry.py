"""Registers the rules of policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from constructs_optim.templates.template import Resource, Template

from .settings import SETTING_BY_RULE, PlatformPolicy

IN_THE_REASON = object()
"""The value of a breach whose reason names it."""
DEPLOY_TIME = "it is known only when the stack is deployed, and a policy is checked at synth"
"""The reason of a breach where the template has no literal value: what cannot be seen does not pass."""


@dataclass(frozen=True)
class Breach:
    """A rule that a resource breaks: the location in it, the value there, the reason, and what would work."""

    resource: Resource
    location: str
    value: Any
    reason: str
    suggestion: str


_Check = Callable[[PlatformPolicy, Template], Iterator[Breach]]


@dataclass(frozen=True)
class PolicyRule:
    """A rule of a policy.

    Attributes:
        id: for instance ``POL001``; what is acknowledged.
        setting: the setting of ``PlatformPolicy`` that switches it on.
        title: the rule in a few words.
        looks_at: the part of a template that it validates.
        reason: why platform teams have it.
    """

    id: str
    setting: str
    title: str
    looks_at: str
    reason: str
    check: _Check


_RULES: dict[str, PolicyRule] = {}


def policy_rule(rule_id: str, *, title: str, looks_at: str, reason: str) -> Callable[[_Check], _Check]:
    """Register a function of a policy and a template as the rule that a setting of ``PlatformPolicy`` names."""

    def register(check: _Check) -> _Check:
        if rule_id in _RULES:
            raise ValueError(f"there are two rules {rule_id}: {_RULES[rule_id].title!r} and {title!r}")
        _RULES[rule_id] = PolicyRule(rule_id, SETTING_BY_RULE[rule_id], title, looks_at, reason, check)
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
