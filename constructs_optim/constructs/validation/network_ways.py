"""Check at synthesis that jobs and models in a VPC of the app have a way to what they need.

The preflight looks at subnets that exist before the stack. The routes and endpoints of a VPC that the app declares may
be added after the job that uses it, so they are looked at after all constructs and aspects, as are security groups.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsii
from aws_cdk import Annotations, Stack
from constructs import Construct, IValidation

from constructs_optim.constructs.stack.network import Network
from constructs_optim.constructs.stack.stack_context import StackContext, path_of
from constructs_optim.recipe import RecipeError, Violation
from constructs_optim.recipe.hosting.roles_and_networks import INTERNET, ForeignGroup, NetworkUse, SecurityGroupUse
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.runtime.preflight.subnet_ways import SubnetWays, ways_out
from constructs_optim.runtime.preflight.traffic_filters import groups_reach
from constructs_optim.templates.networks import DescribedNetwork, described_network
from constructs_optim.templates.security_groups import DescribedGroup, described_group

from .template_size import written_template

S3, SECRETS_MANAGER = "s3", "secretsmanager"
_VPC_ID = re.compile("vpc-([0-9a-f]{8}|[0-9a-f]{17})")


def watch_network(
    construct: Construct,
    network: Network | None,
    label: str,
    *,
    services: tuple[str, ...] = (S3,),
    hosts: tuple[str, ...] = (),
) -> None:
    """Check the ways out of ``network`` if the app declares it: to AWS services, and to hosts outside of AWS."""
    if network is None or (network.declared_by is None and not network.declared_groups):
        return
    context = StackContext.of(construct)
    ways = context.once(_Ways, lambda: _Ways(context.stack))
    if not ways.uses:
        context.stack.node.add_validation(ways)
    ways.uses.append(_Use(construct, network, label, services, hosts))


@dataclass(frozen=True)
class _Use:
    construct: Construct
    network: Network
    label: str
    services: tuple[str, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class _Described:
    """A network's subnets and security groups, as far as templates show them.

    Attributes:
        path: the path of the stack that declares the subnets; None for subnets that exist.
        subnets: the subnets' network; None if the template does not decide it.
        ways: their ways out.
        groups: the declared security groups, each with the path of its stack.
        shut: the interface endpoints whose security groups let nobody in, by the services that have no other.
    """

    path: str | None
    subnets: DescribedNetwork | None
    ways: list[SubnetWays]
    groups: list[tuple[str, DescribedGroup]]
    shut: dict[str, list[str]]

    @property
    def is_complete(self) -> bool:
        """Return whether the templates show everything that the subnets' VPC has."""
        return self.subnets is not None and self.subnets.is_complete


@jsii.implements(IValidation)
class _Ways:
    """Checks all uses of declared networks in a stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.uses: list[_Use] = []
        self._templates: dict[str, dict[str, Any]] = {}
        # Uses of the same subnets and groups share a description, for which the whole template is read.
        self._networks: dict[Network, _Described] = {}

    def validate(self) -> list[str]:
        """Return the violations that stop synthesis; advice becomes annotations."""
        self._templates.clear()
        self._networks.clear()
        violations: list[Violation] = []
        for use in self.uses:
            if use.network not in self._networks:
                self._networks[use.network] = self._described(use.network)
            described = self._networks[use.network]
            for subject in (*self._subnets(use, described), *self._groups(use, described), *_foreign(use, described)):
                violations += check(subject)
                for advice in warnings(subject):
                    Annotations.of(use.construct).add_warning_v2(advice.id, advice.message)
        return [str(RecipeError(violations))] if violations else []

    def _template(self, stack: Stack) -> dict[str, Any]:
        path = path_of(stack)
        if path not in self._templates:
            self._templates[path] = json.loads(written_template(stack))
        return self._templates[path]

    def _described(self, network: Network) -> _Described:
        stack, subnets, ways, shut = network.declared_by, None, list[SubnetWays](), dict[str, list[str]]()
        if stack is not None:
            template = self._template(stack)
            subnets = described_network(template, [stack.resolve(each) for each in network.subnet_ids])
            if subnets is not None:
                open_ones = [each for each in subnets.endpoints if not _lets_nobody_in(template, each)]
                for each in subnets.endpoints:
                    if each not in open_ones:
                        shut.setdefault(each["ServiceName"], []).append(each["VpcEndpointId"])
                ways = ways_out(subnets.subnets, subnets.tables, open_ones, subnets.nats, subnets.acls)
        groups: list[tuple[str, DescribedGroup]] = []
        for group_id, of in network.declared_groups:
            if (group := described_group(self._template(of), of.resolve(group_id))) is not None:
                groups.append((path_of(of), group))
        return _Described(path_of(stack) if stack is not None else None, subnets, ways, groups, shut)

    def _subnets(self, use: _Use, described: _Described) -> Iterator[NetworkUse]:
        subnets, ways = described.subnets, described.ways
        if subnets is None:
            return
        is_certain = described.path == path_of(self._stack) and subnets.is_complete
        yield NetworkUse(
            use.label,
            subnets=subnets.subnets,
            closed=_names(ways, lambda way: way.exit == "closed"),
            private=_names(ways, lambda way: way.exit == "private"),
            public=_names(ways, lambda way: way.exit == "public"),
            without={each: _names(ways, lambda way, to=each: not way.leads_to(to)) for each in use.services},
            unnamed=sorted({service for way in ways for service in way.unnamed}),
            shut_endpoints=described.shut,
            dead_ends=sorted({nat for way in ways for nat in way.dead_ends}),
            filtered={
                **{each: _names(ways, lambda way, to=each: way.is_filtered(to, is_certain)) for each in use.services},
                INTERNET: _names(ways, lambda way: way.is_filtered(None, is_certain)),
            },
            hosts=use.hosts,
            is_certain=is_certain,
        )

    def _groups(self, use: _Use, described: _Described) -> Iterator[SecurityGroupUse]:
        groups = [group for _, group in described.groups]
        allowed = groups_reach([rule for group in groups for rule in group.outward])
        # A group that another app declares, and one of the library, may let everything out.
        if allowed == "anything" or len(groups) < len(use.network.security_group_ids):
            return
        own = path_of(self._stack)
        is_certain = all(group.is_complete and path == own for path, group in described.groups)
        services = use.services
        if allowed == "private":
            # A service's endpoint may be one of those.
            is_certain = is_certain and described.is_complete and described.path == own
            interfaces = {service for way in described.ways for service in way.interfaces}
            services = tuple(each for each in services if is_certain and interfaces.isdisjoint({each, "*"}))
        if targets := (*services, *use.hosts):
            yield SecurityGroupUse(use.label, [group.name for group in groups], allowed, targets, is_certain)


def _lets_nobody_in(template: dict[str, Any], endpoint: Mapping[str, Any]) -> bool:
    """Return whether the security groups of an interface endpoint certainly let no HTTPS in."""
    groups = [described_group(template, each["GroupId"]) for each in endpoint["Groups"]]
    known = [group for group in groups if group is not None and group.is_complete]
    is_known = bool(groups) and len(known) == len(groups) and endpoint["VpcEndpointType"] == "Interface"
    return is_known and groups_reach([rule for group in known for rule in group.inward]) == "nothing"


def _foreign(use: _Use, described: _Described) -> Iterator[ForeignGroup]:
    """Yield the groups of another VPC than the subnets', unless something associates them or may associate them.

    A VPC of the app may be one whose ID the app names too.
    """
    subnets, existing = described.subnets, use.network.vpc_id or ""
    of_subnets = {(described.path, vpc) for vpc in subnets.vpcs} if subnets is not None else set[tuple[str, str]]()
    for path, group in described.groups:
        if group.is_shared:
            continue
        if group.declares_vpc and of_subnets and (path, group.vpc) not in of_subnets:
            yield ForeignGroup(use.label, group.name, group.vpc, ", ".join(sorted(vpc for _, vpc in of_subnets)))
        # Not the value that the CDK has in place of a VPC that it still has to look up.
        if not group.declares_vpc and group.vpc != existing and all(map(_VPC_ID.fullmatch, (group.vpc, existing))):
            yield ForeignGroup(use.label, group.name, group.vpc, existing)


def _names(ways: list[SubnetWays], matches: Callable[[SubnetWays], bool]) -> list[str]:
    return [way.name for way in ways if matches(way)]
