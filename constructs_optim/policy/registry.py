"""The rules of policies, and their findings in a template."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from constructs_optim.templates.json_values import is_array, is_object
from constructs_optim.templates.template import Resource, Template

from .settings import SETTING_BY_RULE, PlatformPolicy, Severity

IN_THE_REASON = object()
"""The value of a finding whose reason names it."""
DEPLOY_TIME = "it is known only when the stack is deployed, and a policy is checked at synth"
"""The reason of a finding where the template has no literal value: what cannot be seen does not pass."""


@dataclass(frozen=True)
class PolicyFinding:
    """One broken rule.

    Attributes:
        resource: the resource of the template.
        location: where in the resource, for instance ``Properties.ProductionVariants.0.InstanceType``.
        value: the value there.
        reason: why that breaks the rule, with the team's own reason where the policy has one.
        suggestion: what would work.
        rule: the rule's id, for instance ``POL001``.
        severity: what it does to synthesis.
    """

    resource: Resource
    location: str
    value: Any
    reason: str
    suggestion: str
    rule: str = ""
    severity: Severity = "error"

    @property
    def logical_id(self) -> str:
        """The logical id of the resource."""
        return self.resource.logical_id

    @property
    def description(self) -> str:
        """What is wrong, in a sentence; what only a deployment knows is shown as the template has it."""
        if self.value is IN_THE_REASON:
            return f"{self.location}: {self.reason}"
        text = "not given" if self.value is None else repr(self.value)
        if is_object(self.value) or is_array(self.value):
            text = json.dumps(self.value, separators=(", ", ": "), sort_keys=True)
            text = text if len(text) <= 120 else f"{text[:117]}..."
        return f"{self.location} is {text}: {self.reason}"


_Check = Callable[[PlatformPolicy, Template], Iterator[PolicyFinding]]


@dataclass(frozen=True)
class PolicyRule:
    """A rule of a policy.

    Attributes:
        id: for instance ``POL001``; what is acknowledged.
        title: the rule in a few words.
        looks_at: the part of a template that it validates.
        reason: why platform teams have it.
        check: finds what breaks it.
    """

    id: str
    title: str
    looks_at: str
    reason: str
    check: _Check

    @property
    def setting(self) -> str:
        """The setting of ``PlatformPolicy`` that switches it on."""
        return SETTING_BY_RULE[self.id]


_RULES: dict[str, PolicyRule] = {}


def policy_rule(rule_id: str, *, title: str, looks_at: str, reason: str) -> Callable[[_Check], _Check]:
    """Register a function of a policy and a template as the rule that a setting of ``PlatformPolicy`` names."""

    def register(check: _Check) -> _Check:
        if rule_id in _RULES:
            raise ValueError(f"there are two rules {rule_id}: {_RULES[rule_id].title!r} and {title!r}")
        _RULES[rule_id] = PolicyRule(rule_id, title, looks_at, reason, check)
        return check

    return register


def all_policy_rules() -> list[PolicyRule]:
    """Every rule, by id."""
    return [_RULES[name] for name in sorted(_RULES)]


def rules_table() -> str:
    """The rules as the Markdown table of ``docs/policy.md``."""
    rows = [f"| {r.id} | `{r.setting}` | {r.title} | {r.looks_at} | {r.reason} |" for r in all_policy_rules()]
    return "\n".join(
        ["| id | setting | rule | looks at | why teams have it |", "| --- | --- | --- | --- | --- |", *rows]
    )


def check(policy: PlatformPolicy, template: Mapping[str, Any]) -> list[PolicyFinding]:
    """All findings of a policy in one template, by rule, then in the template's order.

    Args:
        policy: the rules.
        template: a synthesized template, as its JSON is read.
    """
    resources = Template(template)
    findings: list[PolicyFinding] = []
    for rule in all_policy_rules():
        own, severity = policy.reasons.get(rule.id), policy.severities.get(rule.id, "error")
        for finding in rule.check(policy, resources) if policy.is_on(rule.setting) else ():
            reason = f"{finding.reason} ({own})" if own is not None else finding.reason
            findings.append(replace(finding, rule=rule.id, severity=severity, reason=reason))
    return findings
