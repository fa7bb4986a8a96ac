"""The preflight of a stack that is not deployed yet, or not in this form, asked with the caller's own permissions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from botocore.session import get_session

from constructs_optim.runtime.preflight.checks import run
from constructs_optim.runtime.preflight.context import Context
from constructs_optim.runtime.preflight.report import PreflightFinding, Report
from constructs_optim.runtime.requests.preflight_properties import PreflightProperties
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.templates.references import Reference
from constructs_optim.templates.resolution import KnownLater, Resolver
from constructs_optim.templates.resource_types import PREFLIGHT
from constructs_optim.templates.template import Template

from .stacks import DeployedTemplates

_FRAME = frozenset({"ServiceToken", "ServiceTimeout"})
# The ARNs of resources whose physical ids are names.
_ARNS = {"AWS::IAM::Role": "iam::{account}:role/{name}", "AWS::KMS::Key": "kms:{region}:{account}:key/{name}"}


@dataclass(frozen=True)
class StackPreflight:
    """A stack's template, and where it is deployed to; ``parents`` are the logical ids that it is nested in."""

    stack_name: str
    template: Mapping[str, Any]
    account: str
    region: str
    parents: Sequence[str] = ()

    @cached_property
    def is_asked_for(self) -> bool:
        """Whether the template has a preflight."""
        return bool(Template(self.template).of_type(PREFLIGHT))

    def report(self, create_client: Callable[[str], Any], deployed: DeployedTemplates) -> Report:
        """All that its checks find; what only its deployment knows is advice."""
        findings: list[PreflightFinding] = []
        asked = 0
        resolver = self._resolver(deployed)
        for resource in Template(self.template).of_type(PREFLIGHT):
            known, unknown = _known(resource.properties, resolver)
            report = run(validate(PreflightProperties, known), Context(create_client, self.region))
            findings += report.findings
            asked += report.asked
            if unknown:
                findings.append(
                    PreflightFinding(
                        "template",
                        "advice",
                        f"not checked, for only the deployment knows them: {', '.join(unknown)}",
                        "the deployment's own preflight looks at them",
                    )
                )
        return Report(tuple(findings), asked)

    def _resolver(self, deployed: DeployedTemplates) -> Resolver:
        partition = get_session().get_partition_for_region(self.region)
        suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
        pseudo = {
            "AWS::AccountId": self.account,
            "AWS::Partition": partition,
            "AWS::Region": self.region,
            "AWS::StackName": self.stack_name,
            "AWS::URLSuffix": suffix,
        }
        template = Template(self.template)

        def look_up(reference: Reference) -> str | None:
            if reference.target in pseudo:
                return pseudo[reference.target]
            parameter = template.section("Parameters").get(reference.target)
            if parameter is not None:
                return parameter.get("Default")
            resource = template.resources.get(reference.target)
            form = _ARNS.get(resource.type) if resource is not None else None
            if resource is None or (reference.attribute is not None and (reference.attribute != "Arn" or form is None)):
                return None
            name = deployed.physical_id(self.stack_name, self.region, reference.target, self.parents)
            if name is None or reference.attribute is None or form is None:
                return name
            return f"arn:{partition}:{form.format(account=self.account, region=self.region, name=name)}"

        return Resolver(self.template, look_up, lambda name: deployed.exported(name, self.region))


def _known(properties: Mapping[str, Any], resolver: Resolver) -> tuple[dict[str, Any], list[str]]:
    """The properties that are known, without the items of lists that are not; and what those refer to."""
    known: dict[str, Any] = {}
    unknown: dict[str, None] = {}
    for name, value in properties.items():
        if name in _FRAME:
            continue
        if not isinstance(value, list):
            known[name] = value
            continue
        known[name] = []
        items: list[Any] = value
        for item in items:
            try:
                known[name].append(resolver.pruned(item))
            except KnownLater as later:
                unknown[f"{name} ({later})"] = None
    return known, list(unknown)
