"""A platform team's policy as a CDK validation plugin, which reports findings in ``cdk synth``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import (
    Acknowledgment,
    IPolicyValidationContext,
    IPolicyValidationPlugin,
    PolicyValidationPluginReport,
    PolicyViolatingResource,
    PolicyViolation,
    Validations,
)
from constructs import IConstruct

from constructs_optim.constructs.stack.findings import warning
from constructs_optim.policy import RULES, PlatformPolicy, PolicyFinding, check
from constructs_optim.recipe.settings import methods_suggest_keywords
from constructs_optim.templates.template import Template

# The plugin's name, and the prefix of its rules' IDs in acknowledgments: constructs-optim-policy::POL001.
_NAMESPACE = "constructs-optim-policy"


@methods_suggest_keywords
@jsii.implements(IPolicyValidationPlugin)
class PolicyValidation:
    """Validates the synthesized templates of an app or stage, including nested stages and nested stacks.

    ``Validations.of(app).add_plugins(PolicyValidation(policy))``. Whether a finding fails synthesis depends on its
    rule's severity. The CDK lists acknowledged findings separately (``suppressedViolations`` in
    ``validation-report.json``).
    """

    def __init__(self, policy: PlatformPolicy) -> None:
        """Validate with ``policy``."""
        self._policy = policy

    @property
    def name(self) -> str:
        """The plugin's name in the report."""
        return _NAMESPACE

    @property
    def version(self) -> str:
        """This library's version."""
        return version("constructs-optim")

    @property
    def rule_ids(self) -> list[str]:
        """The rules that the policy enables."""
        return [rule.id for rule in RULES if self._policy.is_on(rule.setting)]

    def validate(self, context: IPolicyValidationContext) -> PolicyValidationPluginReport:
        """Validate each template, including nested ones, once."""
        paths = dict.fromkeys(path for outer in context.template_paths for path in _with_nested(Path(outer)))
        findings = [(finding, path) for path in paths for finding in check(self._policy, _read(path))]
        return PolicyValidationPluginReport(
            success=all(finding.severity == "warning" for finding, _ in findings),
            violations=list(_violations(findings)),
        )

    @staticmethod
    def acknowledge(scope: IConstruct, rule: str, *, reason: str) -> None:
        """Acknowledge the findings of a rule in a construct and below it.

        They stay in the report with the reason, and do not fail synthesis, except ``fatal`` findings.

        Args:
            scope: an endpoint, a job, or another construct with the finding below it.
            rule: the rule's ID, for instance ``POL031``.
            reason: why the finding is acceptable here.

        Raises:
            ValueError: if there is no such rule, or no reason.
        """
        known = [known.id for known in RULES]
        if rule not in known:
            raise ValueError(f"acknowledge: there is no policy rule {rule!r}; there are {', '.join(known)}")
        if not reason.strip():
            raise ValueError(f"acknowledge: {rule} at {scope.node.path} has no reason: add one")
        Validations.of(scope).acknowledge(Acknowledgment(id=f"{_NAMESPACE}::{rule}", reason=reason))


def _violations(findings: Iterable[tuple[PolicyFinding, Path]]) -> Iterator[PolicyViolation]:
    """Yield the findings as violations, merging identical findings of several resources."""
    grouped: dict[tuple[str, str, str, str], list[PolicyViolatingResource]] = {}
    for finding, path in findings:
        # The value stays as in the template.
        description = replace(finding, reason=warning(finding.reason)).description
        key = (finding.rule, description, warning(finding.suggestion), finding.severity)
        grouped.setdefault(key, []).append(
            PolicyViolatingResource(
                resource_logical_id=finding.resource.logical_id, template_path=str(path), locations=[finding.location]
            )
        )
    for (rule, description, suggestion, severity), resources in grouped.items():
        yield PolicyViolation(
            rule_name=rule, description=description, fix=suggestion, severity=severity, violating_resources=resources
        )


def _with_nested(path: Path) -> Iterator[Path]:
    """Yield a template and the templates of its nested stacks, which are file assets at any depth."""
    yield path
    manifest = path.with_name(path.name.removesuffix(".template.json") + ".assets.json")
    nested = set[str]()
    if manifest.exists():
        assets = _read(manifest).get("files", {}).values()
        nested |= {str(asset.get("source", {}).get("path", "")) for asset in assets}
    for resource in Template(_read(path)).resources.values():
        # The legacy synthesizer writes no asset manifest; the CLI lets it record each asset's path in metadata.
        nested.add(str(resource.metadata.get("aws:asset:path", "")))
    yield from (path.with_name(name) for name in sorted(nested) if name.endswith(".nested.template.json"))


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
