"""What a policy finds in a template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .registry import IN_THE_REASON, Severity, all_policy_rules
from .settings import PlatformPolicy
from .template import Template, shown


@dataclass(frozen=True)
class PolicyFinding:
    """One broken rule.

    Attributes:
        rule: the rule's id, for instance ``POL001``.
        severity: what it does to synthesis.
        logical_id: the resource of the template.
        location: where in the resource, for instance ``Properties.ProductionVariants.0.InstanceType``.
        value: what was given, as text; None where the reason says it.
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
        given = f" is {self.value}" if self.value is not None else ""
        return f"{self.location}{given}: {self.reason}"


def check(policy: PlatformPolicy, template: Mapping[str, Any]) -> list[PolicyFinding]:
    """All that a policy finds in one template, by rule, then in the template's order.

    Args:
        policy: what is allowed.
        template: a synthesized template, as its JSON is read.
    """
    view = Template(template)
    return [
        PolicyFinding(
            rule=rule.id,
            severity=policy.severity_of(rule.id),
            logical_id=breach.resource.logical_id,
            location=breach.location,
            value=shown(breach.value) if breach.value is not IN_THE_REASON else None,
            reason=policy.with_own_reason(rule.id, breach.reason),
            suggestion=breach.suggestion,
        )
        for rule in all_policy_rules()
        if policy.is_on(rule.setting)
        for breach in rule.check(policy, view)
    ]
