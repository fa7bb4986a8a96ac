"""Check at synthesis that jobs and models in a VPC of the app have a way to what they need.

The preflight looks at subnets that exist before the stack. The routes and endpoints of a VPC that the app declares may
be added after the job that uses it, so they are looked at after all constructs and aspects.
"""

from __future__ import annotations

import json
from typing import Any

import jsii
from aws_cdk import Annotations, Stack
from constructs import Construct, IValidation

from constructs_optim.constructs.stack.network import Network
from constructs_optim.constructs.stack.stack_context import StackContext, path_of
from constructs_optim.recipe import RecipeError, Violation
from constructs_optim.recipe.hosting.roles_and_networks import NetworkUse
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.runtime.preflight.subnet_ways import ways_out
from constructs_optim.templates.networks import DescribedNetwork, described_network

from .template_size import written_template

S3, SECRETS_MANAGER = "s3", "secretsmanager"


def watch_network(
    construct: Construct,
    network: Network | None,
    label: str,
    *,
    services: tuple[str, ...] = (S3,),
    hosts: tuple[str, ...] = (),
) -> None:
    """Check the ways out of ``network`` if the app declares it: to AWS services, and to hosts outside of AWS."""
    if network is None or network.declared_by is None:
        return
    context = StackContext.of(construct)
    ways = context.once(_Ways, lambda: _Ways(context.stack))
    if not ways.uses:
        context.stack.node.add_validation(ways)
    ways.uses.append((construct, network, label, services, hosts))


@jsii.implements(IValidation)
class _Ways:
    """Checks all uses of declared networks in a stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.uses: list[tuple[Construct, Network, str, tuple[str, ...], tuple[str, ...]]] = []

    def validate(self) -> list[str]:
        """Return the violations that stop synthesis; advice becomes annotations."""
        templates: dict[str, dict[str, Any]] = {}
        # Uses of the same subnets share a description, for which the whole template is read.
        networks: dict[tuple[str, tuple[str, ...]], DescribedNetwork | None] = {}
        violations: list[Violation] = []
        for construct, network, label, services, hosts in self.uses:
            declared_by = network.declared_by
            assert declared_by is not None  # noqa: S101 - no other network is watched
            path = path_of(declared_by)
            if path not in templates:
                templates[path] = json.loads(written_template(declared_by))
            key = path, network.subnet_ids
            if key not in networks:
                subnet_ids = [declared_by.resolve(each) for each in network.subnet_ids]
                networks[key] = described_network(templates[path], subnet_ids)
            described = networks[key]
            if described is None:
                continue
            ways = ways_out(described.subnets, described.tables, described.endpoints)
            use = NetworkUse(
                label,
                subnets=described.subnets,
                closed=[way.name for way in ways if way.exit == "closed"],
                public=[way.name for way in ways if way.exit == "public"],
                without={service: [w.name for w in ways if not w.leads_to(service)] for service in services},
                hosts=hosts,
                is_certain=path == path_of(self._stack) and described.is_complete,
            )
            violations += check(use)
            for advice in warnings(use):
                Annotations.of(construct).add_warning_v2(advice.id, advice.message)
        return [str(RecipeError(violations))] if violations else []
