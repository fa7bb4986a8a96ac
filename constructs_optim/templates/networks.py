"""The ways out of a template's subnets: routes and VPC endpoints.

Source: Amazon VPC user guide, "Example routing options", "Enable internet access for a VPC using an internet gateway"
(only a resource with a public IPv4 address reaches the internet through it), and "Gateway endpoints" (one adds routes
to the route tables that it names).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .json_values import as_object
from .references import direct_reference, references

Exit = Literal["none", "public", "routed"]
_ROUTES = (
    "CarrierGatewayId",
    "CoreNetworkArn",
    "InstanceId",
    "LocalGatewayId",
    "NatGatewayId",
    "NetworkInterfaceId",
    "TransitGatewayId",
    "VpcEndpointId",
    "VpcPeeringConnectionId",
)


@dataclass(frozen=True)
class SubnetWays:
    """The ways out of one subnet.

    Attributes:
        name: its logical ID.
        exit: ``none`` if its routes stay in the VPC, ``public`` if they only lead to an internet gateway, ``routed`` if
            they lead to a NAT gateway or to another network.
        services: the AWS services with a VPC endpoint, for example ``s3``; ``*`` for an endpoint whose service is known
            only at deployment.
    """

    name: str
    exit: Exit
    services: frozenset[str]

    def leads_to(self, service: str) -> bool:
        """Return whether the subnet has a VPC endpoint for an AWS service, or may have one."""
        return not self.services.isdisjoint({service, "*"})


def ways_out(resources: Mapping[str, Any], subnet_ids: Sequence[Any]) -> tuple[SubnetWays, ...] | None:
    """Return the ways out of the subnets with these resolved IDs; None if the template does not decide one.

    It does not decide those of another template's subnet, and of one without an association: the routes of a VPC's main
    route table are not in a template.
    """
    names = [reference.target if (reference := direct_reference(value)) is not None else "" for value in subnet_ids]
    if not names or any(_type(resources, name) != "AWS::EC2::Subnet" for name in names):
        return None
    associated = {
        _target(properties.get("SubnetId"))
        for properties in _of_type(resources, "AWS::EC2::SubnetRouteTableAssociation")
    }
    if not associated.issuperset(names):
        return None
    return tuple(SubnetWays(name, *_ways(resources, name)) for name in names)


def has_private_names(resources: Mapping[str, Any]) -> bool:
    """Return whether the template has hosted zones, in which a name of the internet may have an address of the VPC."""
    return any(_of_type(resources, "AWS::Route53::HostedZone"))


def _ways(resources: Mapping[str, Any], subnet: str) -> tuple[Exit, frozenset[str]]:
    tables = {
        _target(properties.get("RouteTableId"))
        for properties in _of_type(resources, "AWS::EC2::SubnetRouteTableAssociation")
        if _target(properties.get("SubnetId")) == subnet
    }
    exits = {_exit(resources, route) for route in _routes(resources, tables)}
    if any(
        tables & {reference.target for reference in references(properties.get("RouteTableIds"))}
        for properties in _of_type(resources, "AWS::EC2::VPNGatewayRoutePropagation")
    ):
        exits.add("routed")
    vpc = _properties(resources, subnet).get("VpcId")
    vpc = _target(vpc) or vpc
    services = frozenset(
        _service(properties.get("ServiceName"))
        for properties in _of_type(resources, "AWS::EC2::VPCEndpoint")
        if (_target(properties.get("VpcId")) or properties.get("VpcId")) == vpc and _serves(properties, tables)
    )
    found: Exit = "routed" if "routed" in exits else "public" if "public" in exits else "none"
    return found, services


def _routes(resources: Mapping[str, Any], tables: set[str | None]) -> Iterator[Mapping[str, Any]]:
    for properties in _of_type(resources, "AWS::EC2::Route"):
        if _target(properties.get("RouteTableId")) in tables and "DestinationIpv6CidrBlock" not in properties:
            yield properties


def _exit(resources: Mapping[str, Any], route: Mapping[str, Any]) -> Exit:
    gateway = route.get("GatewayId")
    if gateway is not None:
        # Also the gateway of a virtual private network, or one that another template declares.
        return "public" if _type(resources, _target(gateway)) == "AWS::EC2::InternetGateway" else "routed"
    return "routed" if any(name in route for name in _ROUTES) else "none"


def _serves(endpoint: Mapping[str, Any], tables: set[str | None]) -> bool:
    """Return whether a VPC endpoint works in a subnet with one of the tables. A gateway, the default, needs a route."""
    if endpoint.get("VpcEndpointType", "Gateway") != "Gateway":
        return True
    return not tables.isdisjoint({reference.target for reference in references(endpoint.get("RouteTableIds"))})


def _service(name: Any) -> str:
    """Return the last part of a service's name, such as ``com.amazonaws.us-west-2.s3``."""
    text = name if isinstance(name, str) else json.dumps(name)
    last = text.rstrip('"]} ').rpartition(".")[2]
    return last if last.replace("-", "").isalnum() and last in text else "*"


def _target(value: Any) -> str | None:
    reference = direct_reference(value)
    return reference.target if reference is not None else None


def _type(resources: Mapping[str, Any], name: str | None) -> str | None:
    return as_object(resources.get(name or "")).get("Type")


def _properties(resources: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return as_object(as_object(resources.get(name)).get("Properties"))


def _of_type(resources: Mapping[str, Any], type_name: str) -> Iterator[Mapping[str, Any]]:
    for name in resources:
        if _type(resources, name) == type_name:
            yield _properties(resources, name)
