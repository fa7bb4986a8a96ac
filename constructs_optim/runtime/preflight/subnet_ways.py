"""The ways out of subnets, from route tables and VPC endpoints in the form in which EC2 describes them.

The preflight has these descriptions from EC2, and synthesis from a template. Source: Amazon VPC user guide, "Example
routing options", "Enable internet access for a VPC using an internet gateway" (only a resource with a public IPv4
address reaches the internet through it), and "Gateway endpoints" (one adds routes to the route tables that it names).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Exit = Literal["closed", "public", "routed"]
Described = Sequence[Mapping[str, Any]]
# States of a VPC endpoint that does not work and will not: EC2 API reference, VpcEndpoint.
_GONE = frozenset({"deleting", "deleted", "expired", "failed", "rejected"})


@dataclass(frozen=True)
class SubnetWays:
    """The ways out of one subnet.

    Attributes:
        name: its ID, or its logical ID in a template.
        exit: ``closed`` if its routes stay in the VPC, ``public`` if they only lead to an internet gateway, ``routed``
            if they lead to a NAT gateway or to another network, or if there is no route table.
        services: the AWS services with a VPC endpoint, for example ``s3``; ``*`` for any service.
    """

    name: str
    exit: Exit
    services: frozenset[str]

    def leads_to(self, service: str) -> bool:
        """Return whether the subnet has a VPC endpoint for an AWS service, or may have one."""
        return not self.services.isdisjoint({service, "*"})


def ways_out(subnets: Sequence[str], tables: Described, endpoints: Described) -> list[SubnetWays]:
    """Return the ways out of a VPC's subnets: ``RouteTables`` and ``VpcEndpoints`` are all those of the VPC."""
    gateways = {each.get("VpcEndpointId") for each in endpoints if _is_gateway(each)}
    endpoints = [each for each in endpoints if str(each.get("State", "")).lower() not in _GONE]
    main = _associated(tables, "Main", True)
    ways: list[SubnetWays] = []
    for subnet in subnets:
        used = _associated(tables, "SubnetId", subnet) or main
        ids = {table.get("RouteTableId") for table in used}
        exits = {_exit(route, gateways) for table in used for route in table.get("Routes", ())}
        services = frozenset(
            _service(each)
            for each in endpoints
            if not _is_gateway(each) or not ids.isdisjoint(each.get("RouteTableIds", ()))
        )
        found: Exit = "routed" if not exits or "routed" in exits else "public" if "public" in exits else "closed"
        ways.append(SubnetWays(subnet, found, services))
    return ways


def _associated(tables: Described, key: str, value: object) -> Described:
    return [table for table in tables if any(each.get(key) == value for each in table.get("Associations", ()))]


def _service(endpoint: Mapping[str, Any]) -> str:
    """Return the last part of a service's name; any service for an endpoint of a resource or of a service network."""
    return str(endpoint.get("ServiceName") or "*").rpartition(".")[2]


def _is_gateway(endpoint: Mapping[str, Any]) -> bool:
    return endpoint.get("VpcEndpointType") == "Gateway"


def _exit(route: Mapping[str, Any], gateways: set[str | None]) -> Exit:
    """Return where an IPv4 route leads. ``gateways`` are the VPC's gateway endpoints.

    Any endpoint is the ``GatewayId`` of its routes; that of a Gateway Load Balancer, such as a firewall, leads out. The
    destination does not tell: a user's prefix list may have any target. Source: Amazon VPC user guide, "Example routing
    options".
    """
    gateway = str(route.get("GatewayId", ""))
    # EC2 keeps the route to a deleted NAT gateway or network interface as a black hole.
    is_lost = route.get("State") == "blackhole"
    if is_lost or gateway == "local" or gateway in gateways or "DestinationIpv6CidrBlock" in route:
        return "closed"
    return "public" if gateway.startswith("igw-") else "routed"
