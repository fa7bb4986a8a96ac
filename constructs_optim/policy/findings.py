"""The findings of a policy in a template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from constructs_optim.templates.json_values import is_array, is_object
from constructs_optim.templates.template import Template

from .registry import IN_THE_REASON, all_policy_rules
from .setting_checks import Severity
from .settings import PlatformPolicy


@dataclass(frozen=True)
class PolicyFinding:
    """One broken rule.

    Attributes:
        rule: the rule's id, for instance ``POL001``.
        severity: what it does to synthesis.
        logical_id: the resource of the template.
        location: where in the resource, for instance ``Properties.ProductionVariants.0.InstanceType``.
        value: the value there as text; None where the reason names it.
        reason: why that breaks the rule, with the team's own reason where the policy gives one.
        suggestion: what would work.
    """

    rule: str
    severity: Severity
    logical_id: str
    location: str
    value: str | None
    reason: str
    suggestion: str

    @property
    def description(self) -> str:
        """What is wrong, in a sentence."""
        value = f" is {self.value}" if self.value is not None else ""
        return f"{self.location}{value}: {self.reason}"


def check(policy: PlatformPolicy, template: Mapping[str, Any]) -> list[PolicyFinding]:
    """All findings of a policy in one template, by rule, then in the template's order.

    Args:
        policy: the rules.
        template: a synthesized template, as its JSON is read.
    """
    resources = Template(template)
    return [
        PolicyFinding(
            rule=rule.id,
            severity=policy.severity_of(rule.id),
            logical_id=breach.resource.logical_id,
            location=breach.location,
            value=_shown(breach.value) if breach.value is not IN_THE_REASON else None,
            reason=policy.with_own_reason(rule.id, breach.reason),
            suggestion=breach.suggestion,
        )
        for rule in all_policy_rules()
        if policy.is_on(rule.setting)
        for breach in rule.check(policy, resources)
    ]


def _shown(value: Any) -> str:
    """A value for readers; what only a deployment knows is shown as the template has it."""
    if is_object(value) or is_array(value):
        text = json.dumps(value, separators=(", ", ": "), sort_keys=True)
        return text if len(text) <= 120 else f"{text[:117]}..."
    return "not given" if value is None else repr(value)
