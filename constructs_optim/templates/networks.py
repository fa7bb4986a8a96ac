"""The network of a template in the form in which EC2 describes it: route tables and VPC endpoints.

Source: EC2 API reference, RouteTable, Route and VpcEndpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from .json_values import as_object
from .references import direct_reference, references

_ROUTE, _ASSOCIATION, _ENDPOINT = (
    f"AWS::EC2::{name}" for name in ("Route", "SubnetRouteTableAssociation", "VPCEndpoint")
)
_PROPAGATING = ("AWS::EC2::RouteServerPropagation", "AWS::EC2::VPNGatewayRoutePropagation")
# Nested stacks and custom resources may declare routes and endpoints of what they get.
_DECLARING = ("AWS::CloudFormation::", "Custom::")


@dataclass(frozen=True)
class DescribedNetwork:
    """The network of subnets, with logical IDs in place of IDs.

    Attributes:
        subnets: the subnets.
        tables: their route tables, as in the answer of ``DescribeRouteTables``.
        endpoints: the endpoints of their VPC, as in the answer of ``DescribeVpcEndpoints``. The service ``*`` stands
            for one that is known only at deployment.
        is_complete: whether the template shows everything that the subnets' VPC has.
    """

    subnets: Sequence[str]
    tables: Sequence[Mapping[str, Any]]
    endpoints: Sequence[Mapping[str, Any]]
    is_complete: bool


def described_network(resources: Mapping[str, Any], subnet_ids: Sequence[Any]) -> DescribedNetwork | None:
    """Describe the network of the subnets with these resolved IDs; None if the template does not decide their routes.

    It does not decide those of another template's subnet or route table, and of a subnet without an association: the
    routes of a VPC's main route table are not in a template.
    """
    subnets = [_target(value) or "" for value in subnet_ids]
    associated: dict[str | None, str | None] = {
        _target(properties.get("SubnetId")): _target(properties.get("RouteTableId"))
        for _, type_name, properties in _each(resources)
        if type_name == _ASSOCIATION
    }
    tables = {subnet: associated.get(subnet) or "" for subnet in subnets}
    if not subnets or any(
        (_type(resources, subnet), _type(resources, table)) != ("AWS::EC2::Subnet", "AWS::EC2::RouteTable")
        for subnet, table in tables.items()
    ):
        return None
    vpcs = {_vpc(resources, {"Ref": subnet}) for subnet in subnets}
    declared = {*tables.values(), *vpcs}
    return DescribedNetwork(
        subnets,
        [
            {"RouteTableId": table, "Associations": [{"SubnetId": subnet}], "Routes": [*_routes(resources, table)]}
            for subnet, table in tables.items()
        ],
        [*_endpoints(resources, vpcs)],
        is_complete=all(_type(resources, vpc) == "AWS::EC2::VPC" for vpc in vpcs)
        and not any(
            # A name of the internet may have an address of the VPC in a hosted zone.
            type_name == "AWS::Route53::HostedZone"
            or (type_name.startswith(_DECLARING) and declared.intersection(_identified(properties)))
            for _, type_name, properties in _each(resources)
        ),
    )


def _routes(resources: Mapping[str, Any], table: str) -> Iterator[Mapping[str, Any]]:
    yield {"GatewayId": "local"}
    for _, type_name, properties in _each(resources):
        if type_name == _ROUTE and _target(properties.get("RouteTableId")) == table:
            gateway = properties.get("GatewayId")
            # Any other gateway is a virtual private network's, or one that another template declares.
            kind = "igw" if _type(resources, _target(gateway)) == "AWS::EC2::InternetGateway" else "vgw"
            yield {**properties, "GatewayId": f"{kind}-"} if gateway is not None else properties
        elif type_name in _PROPAGATING and table in _identified(properties):
            yield {"GatewayId": "vgw-"}


def _endpoints(resources: Mapping[str, Any], vpcs: Set[str]) -> Iterator[Mapping[str, Any]]:
    for name, type_name, properties in _each(resources):
        if type_name == _ENDPOINT and _vpc(resources, properties.get("VpcId")) in vpcs:
            yield {
                "VpcEndpointId": name,
                "VpcEndpointType": properties.get("VpcEndpointType", "Gateway"),
                "ServiceName": _service(properties.get("ServiceName")),
                "RouteTableIds": sorted(_identified(properties.get("RouteTableIds"))),
            }


def _service(name: Any) -> str:
    """Return the last part of a service's name, such as ``com.amazonaws.us-west-2.s3``."""
    text = name if isinstance(name, str) else json.dumps(name)
    last = text.rstrip('"]} ').rpartition(".")[2]
    return last if last.replace("-", "").isalnum() and last in text else "*"


def _vpc(resources: Mapping[str, Any], value: Any) -> str:
    """Return the logical ID of the VPC that a value names, also by an attribute; any other value as text."""
    target = _target(value)
    of = as_object(as_object(resources.get(target or "")).get("Properties")).get("VpcId")
    return _vpc(resources, of) if of is not None else target or json.dumps(value)


def _target(value: Any) -> str | None:
    reference = direct_reference(value)
    return reference.target if reference is not None else None


def _identified(value: Any) -> set[str]:
    """Return the logical IDs of what a value names by its ID, which is a ``Ref`` or an attribute such as ``VpcId``."""
    return {each.target for each in references(value) if each.attribute is None or each.attribute.endswith("Id")}


def _type(resources: Mapping[str, Any], name: str | None) -> str | None:
    return as_object(resources.get(name or "")).get("Type")


def _each(resources: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the name, the type and the properties of each resource."""
    for name, resource in resources.items():
        yield name, str(as_object(resource).get("Type")), as_object(as_object(resource).get("Properties"))
