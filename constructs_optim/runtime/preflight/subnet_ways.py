"""The ways out of subnets, from route tables and VPC endpoints in the form in which EC2 describes them.

The preflight has these descriptions from EC2, and synthesis from a template, which also shows NAT gateways and network
ACLs. Sources: Amazon VPC user guide, "Example routing options", "Enable internet access for a VPC using an internet
gateway" (only a resource with a public IPv4 address reaches the internet through it), "NAT gateways" (what a private
one sends to an internet gateway is dropped) and "Gateway endpoints" (one adds routes to the route tables that it
names); AWS PrivateLink guide, "Access an AWS service using an interface VPC endpoint" (without private DNS names, the
usual name of a service leads to public addresses).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .traffic_filters import Reach, acl_reach, reach_of, widest

Exit = Literal["closed", "private", "public", "routed"]
_EXITS: tuple[Exit, ...] = ("closed", "private", "public", "routed")
Described = Sequence[Mapping[str, Any]]
# States of a VPC endpoint that does not work and will not: EC2 API reference, VpcEndpoint.
_GONE = frozenset({"deleting", "deleted", "expired", "failed", "rejected"})


@dataclass(frozen=True)
class SubnetWays:
    """The ways out of one subnet.

    Attributes:
        name: its ID, or its logical ID in a template.
        exit: ``closed`` if its routes stay in the VPC, ``private`` if they lead only to private addresses of other
            networks, ``public`` if they only lead to an internet gateway, ``routed`` if they lead to a NAT gateway or
            anywhere in another network, or if there is no route table.
        services: the AWS services with a VPC endpoint, for example ``s3``; ``*`` for any service.
        interfaces: those of them whose endpoint has an address in the VPC.
        unnamed: the services with an interface endpoint to which their usual names do not lead.
        dead_ends: the NAT gateways of its routes that do not lead to the internet.
        allowed: the addresses with which its network ACL lets HTTPS work.
    """

    name: str
    exit: Exit
    services: frozenset[str]
    interfaces: frozenset[str] = frozenset()
    unnamed: frozenset[str] = frozenset()
    dead_ends: frozenset[str] = frozenset()
    allowed: Reach = "anything"

    def leads_to(self, service: str) -> bool:
        """Return whether the subnet has a VPC endpoint for an AWS service, or may have one."""
        return not self.services.isdisjoint({service, "*"})

    def is_filtered(self, service: str | None, is_complete: bool) -> bool:
        """Return whether the network ACL keeps the subnet from an AWS service; None for the internet.

        It has no effect within a subnet, where a service with an address in the VPC may be. Unless the VPC
        ``is_complete``, a service may also have a private address in another network.
        """
        if service is None:
            return self.allowed != "anything"
        is_shut = self.allowed == "nothing" or (self.allowed == "private" and is_complete)
        return is_shut and self.interfaces.isdisjoint({service, "*"})


def ways_out(
    subnets: Sequence[str], tables: Described, endpoints: Described, nats: Described = (), acls: Described = ()
) -> list[SubnetWays]:
    """Return the ways out of a VPC's subnets: ``RouteTables`` and ``VpcEndpoints`` are all those of the VPC.

    A NAT gateway leads out unless ``nats`` describe it, and so does a subnet without one of the ``NetworkAcls``.
    """
    routes = _Routes(tables, {each.get("VpcEndpointId") for each in endpoints if _is_gateway(each)}, nats)
    endpoints = [each for each in endpoints if str(each.get("State", "")).lower() not in _GONE]
    named = [each for each in endpoints if not _is_unnamed(each)]
    interfaces = frozenset(_service(each) for each in named if not _is_gateway(each))
    ways: list[SubnetWays] = []
    for subnet in subnets:
        used = routes.of(subnet)
        ids = {table.get("RouteTableId") for table in used}
        own = [each for each in named if _is_gateway(each) and not ids.isdisjoint(each.get("RouteTableIds", ()))]
        leads = routes.exit_of(subnet)
        ways.append(
            SubnetWays(
                subnet,
                leads,
                interfaces.union(map(_service, own)),
                interfaces,
                unnamed=frozenset(_service(each) for each in endpoints if _is_unnamed(each)),
                dead_ends=routes.dead_ends(subnet) if leads != "routed" else frozenset(),
                allowed=_allowed(subnet, acls),
            )
        )
    return ways


@dataclass
class _Routes:
    """The routes of a VPC; ``gateways`` are its gateway endpoints.

    ``leads`` has where each NAT gateway leads. They may lead to each other in a circle, so this starts with nowhere,
    and widens until nothing changes.
    """

    tables: Described
    gateways: set[str | None]
    nats: Described
    leads: dict[str, Exit] = field(init=False)

    def __post_init__(self) -> None:
        self.leads = {}
        found: dict[str, Exit] = {str(nat.get("NatGatewayId")): "closed" for nat in self.nats}
        while found != self.leads:
            self.leads = found
            found = {str(nat.get("NatGatewayId")): self._behind(nat) for nat in self.nats}

    def of(self, subnet: object) -> Described:
        """Return the route tables of a subnet: its own, or the main one."""
        return _associated(self.tables, "SubnetId", subnet) or _associated(self.tables, "Main", True)

    def exit_of(self, subnet: object) -> Exit:
        """Return where the routes of a subnet lead."""
        exits = {self._exit(route) for table in self.of(subnet) for route in table.get("Routes", ())}
        return _EXITS[max(map(_EXITS.index, exits))] if exits else "routed"

    def dead_ends(self, subnet: str) -> frozenset[str]:
        """Return the NAT gateways of a subnet's routes that do not lead to the internet."""
        routes = [route for table in self.of(subnet) for route in table.get("Routes", ())]
        named = {str(route.get("NatGatewayId")) for route in routes}
        return frozenset(named.intersection(nat for nat, leads in self.leads.items() if leads != "routed"))

    def _exit(self, route: Mapping[str, Any]) -> Exit:
        """Return where an IPv4 route leads.

        Any endpoint is the ``GatewayId`` of its routes; that of a Gateway Load Balancer, such as a firewall, leads out.
        A user's prefix list may have any target. Source: Amazon VPC user guide, "Example routing options".
        """
        gateway = str(route.get("GatewayId", ""))
        # EC2 keeps the route to a deleted NAT gateway or network interface as a black hole.
        is_lost = route.get("State") == "blackhole"
        if is_lost or gateway == "local" or gateway in self.gateways or "DestinationIpv6CidrBlock" in route:
            return "closed"
        is_private = reach_of(route.get("DestinationCidrBlock")) == "private"
        if gateway.startswith("igw-"):
            return "closed" if is_private else "public"
        nat = route.get("NatGatewayId")
        leads = self.leads.get(nat, "routed") if isinstance(nat, str) else "routed"
        return "private" if is_private and leads != "closed" else leads

    def _behind(self, nat: Mapping[str, Any]) -> Exit:
        """Return where a NAT gateway leads: where its subnet does."""
        leads = self.exit_of(nat["SubnetId"]) if "SubnetId" in nat else "routed"
        if leads == "public":
            return "closed" if nat.get("ConnectivityType") == "private" else "routed"
        return leads


def _allowed(subnet: str, acls: Described) -> Reach:
    own = _associated(acls, "SubnetId", subnet)
    return widest(acl_reach(each.get("Entries", ())) for each in own) if own else "anything"


def _associated(tables: Described, key: str, value: object) -> Described:
    return [table for table in tables if any(each.get(key) == value for each in table.get("Associations", ()))]


def _service(endpoint: Mapping[str, Any]) -> str:
    """Return the last part of a service's name; any service for an endpoint of a resource or of a service network."""
    return str(endpoint.get("ServiceName") or "*").rpartition(".")[2]


def _is_gateway(endpoint: Mapping[str, Any]) -> bool:
    return endpoint.get("VpcEndpointType") == "Gateway"


def _is_unnamed(endpoint: Mapping[str, Any]) -> bool:
    """Return whether the usual name of a service does not lead from the VPC to its interface endpoint."""
    options: Mapping[str, Any] = endpoint.get("DnsOptions") or {}
    only_inbound = options.get("PrivateDnsOnlyForInboundResolverEndpoint") is True
    is_interface = endpoint.get("VpcEndpointType") == "Interface"
    return is_interface and (endpoint.get("PrivateDnsEnabled") is False or only_inbound)
