"""The preflight checks of a stack before its deployment, with the caller's own permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DENIED, code_of
from constructs_optim.runtime.preflight.checks import run
from constructs_optim.runtime.preflight.context import Context
from constructs_optim.runtime.preflight.report import PreflightFinding, Report, advice, problem
from constructs_optim.runtime.requests.preflight_properties import PreflightProperties
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.templates.resolution import KnownLater, Resolver
from constructs_optim.templates.resource_types import ENDPOINT, JOBS, PREFLIGHT
from constructs_optim.templates.template import Template

from .deployed_values import resolver_of
from .drift import drift_of
from .role_policies import INLINE_POLICY, ROLE
from .stacks import DeployedTemplates

_FRAME = frozenset({"ServiceToken", "ServiceTimeout"})
_PERMISSIONS = "permissions"


@dataclass(frozen=True)
class StackPreflight:
    """A stack's template and its environment; ``parents`` are the logical IDs of its parent stacks."""

    stack_name: str
    template: Mapping[str, Any]
    account: str
    region: str
    parents: Sequence[str] = ()

    def report(self, create_client: Callable[[str], Any], deployed: DeployedTemplates) -> Report:
        """Run the checks on everything that the deployment adds; values known only at deployment become advice."""
        needs, unknown = self._needs(self.template, deployed)
        before = deployed.template(self.stack_name, self.region, self.parents)
        is_update = runs_already = False
        if before is not None:
            is_update = bool(Template(before).of_type(PREFLIGHT))
            runs_already = any(map(Template(before).of_type, (*JOBS, ENDPOINT)))
            needs = needs.since(self._needs(before, deployed)[0]) if is_update else needs
        report = run(needs, Context(create_client, self.region, is_update=is_update))
        if unknown:
            text = f"not checked, because the values are known only at deployment: {', '.join(unknown)}"
            later = advice("template", text, "the deployment's own preflight checks them")
            report = replace(report, findings=(*report.findings, later))
        report = report.as_advice() if runs_already and not is_update else report
        lost = self._lost_permissions(create_client, deployed) if before is not None else ()
        return replace(report, findings=(*report.findings, *lost))

    def _needs(self, template: Mapping[str, Any], deployed: DeployedTemplates) -> tuple[PreflightProperties, list[str]]:
        (resource,) = Template(template).of_type(PREFLIGHT)
        known, unknown = _known(resource.properties, self._resolver(template, deployed))
        return validate(PreflightProperties, known), unknown

    def _lost_permissions(
        self, create_client: Callable[[str], Any], deployed: DeployedTemplates
    ) -> Iterator[PreflightFinding]:
        """Find what deployed roles lost that the template declares as before, so that the deployment restores nothing.

        An endpoint whose role lost permissions serves until it needs a new instance.
        """
        after = Template(self.template).resources
        try:
            stack = deployed.stack(self.stack_name, self.region, self.parents)
        except ClientError as error:
            if code_of(error) not in DENIED:
                raise
            yield _not_compared(f"{error.operation_name} is denied")
            return
        if stack is None:
            return
        found = drift_of(
            stack,
            create_client,
            exported=lambda name: deployed.exported(name, self.region),
            concerns=lambda resource: (
                resource.type in (ROLE, INLINE_POLICY) and after.get(resource.logical_id) == resource
            ),
        )
        for drift in found.resources:
            yield problem(_PERMISSIONS, f"{drift.name} {drift.text}", drift.remedy)
        yield from map(_not_compared, found.not_seen)

    def _resolver(self, described: Mapping[str, Any], deployed: DeployedTemplates) -> Resolver:
        return resolver_of(
            Template(described),
            stack_name=self.stack_name,
            account=self.account,
            region=self.region,
            physical_id=lambda name: deployed.physical_id(self.stack_name, self.region, name, self.parents),
            exported=lambda name: deployed.exported(name, self.region),
        )


def _not_compared(gap: str) -> PreflightFinding:
    return advice(_PERMISSIONS, f"the policies of deployed roles were not compared: {gap}", "allow the call")


def _known(properties: Mapping[str, Any], resolver: Resolver) -> tuple[dict[str, Any], list[str]]:
    """Return the known properties, without unknown list items, and what these items refer to."""
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
