"""The network of a template in the form in which EC2 describes it: route tables and VPC endpoints.

Source: EC2 API reference, RouteTable, Route and VpcEndpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from .json_values import as_object, is_array
from .references import direct_reference, references
from .resource_types import OWN_TYPES, WAITING

_ROUTE, _ASSOCIATION, _ENDPOINT, _PROPAGATION = (
    f"AWS::EC2::{name}"
    for name in ("Route", "SubnetRouteTableAssociation", "VPCEndpoint", "VPNGatewayRoutePropagation")
)
_PROPAGATING = (_PROPAGATION, "AWS::EC2::RouteServerPropagation")
# Types whose effect on a VPC's ways out is known: they are read below, or they have none. Any other type, such as a
# hosted zone, DHCP options, a nested stack or a custom resource, may add a way or another address for a name.
_READ = frozenset({
    _ROUTE, _ASSOCIATION, _ENDPOINT, _PROPAGATION,
    *(
        f"AWS::EC2::{name}"
        for name in (
            "EIP", "FlowLog", "InternetGateway", "NatGateway", "NetworkAcl", "NetworkAclEntry", "RouteTable",
            "SecurityGroup", "SecurityGroupEgress", "SecurityGroupIngress", "Subnet", "SubnetNetworkAclAssociation",
            "VPC", "VPCCidrBlock", "VPCGatewayAttachment", "VPNGateway",
        )
    ),
})  # fmt: skip
_SERVICES_WITHOUT_EFFECT = tuple(
    f"AWS::{service}::"
    for service in (
        "ApplicationAutoScaling", "CDK", "CloudWatch", "DynamoDB", "ECR", "Events", "IAM", "KMS", "Lambda", "Logs",
        "S3", "SNS", "SQS", "SageMaker", "Scheduler", "SecretsManager", "StepFunctions",
    )
)  # fmt: skip
_WITHOUT_EFFECT = frozenset({
    *OWN_TYPES, *WAITING, "AWS::SSM::Parameter",
    # Of the CDK.
    "Custom::LogRetention", "Custom::S3AutoDeleteObjects", "Custom::S3BucketNotifications",
    "Custom::VpcRestrictDefaultSG",
})  # fmt: skip


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


def described_network(template: Mapping[str, Any], subnet_ids: Sequence[Any]) -> DescribedNetwork | None:
    """Describe the network of the subnets with these resolved IDs; None if the template does not decide their routes.

    It does not decide those of another template's subnet or route table, and of a subnet without an association: the
    routes of a VPC's main route table are not in a template.
    """
    resources = as_object(template.get("Resources"))
    subnets = [_target(value) or "" for value in subnet_ids]
    # A subnet has several, if conditions decide which of them exists.
    associated = [
        (_target(properties.get("SubnetId")), _target(properties.get("RouteTableId")) or "")
        for _, type_name, properties in _each(resources)
        if type_name == _ASSOCIATION
    ]
    tables = [(subnet, [table for of, table in associated if of == subnet]) for subnet in subnets]
    if not subnets or any(
        _type(resources, subnet) != "AWS::EC2::Subnet"
        or not of_subnet
        or any(_type(resources, table) != "AWS::EC2::RouteTable" for table in of_subnet)
        for subnet, of_subnet in tables
    ):
        return None
    vpcs = {_vpc(resources, {"Ref": subnet}) for subnet in subnets}
    declared = {*(table for _, of_subnet in tables for table in of_subnet), *vpcs}
    return DescribedNetwork(
        subnets,
        [
            {"RouteTableId": table, "Associations": [{"SubnetId": subnet}], "Routes": [*_routes(resources, table)]}
            for subnet, of_subnet in tables
            for table in of_subnet
        ],
        [*_endpoints(resources, vpcs)],
        # A macro may add anything, and so may those to whom an output names the VPC.
        is_complete="Transform" not in template
        and all(_type(resources, vpc) == "AWS::EC2::VPC" for vpc in vpcs)
        and declared.isdisjoint(_identified(template.get("Outputs")))
        and all(
            _is_read(resources, type_name, properties)
            if type_name in _READ
            else _is_without_effect(type_name) and declared.isdisjoint(_identified(properties))
            for _, type_name, properties in _each(resources)
        ),
    )


def _is_without_effect(type_name: str) -> bool:
    return type_name in _WITHOUT_EFFECT or type_name.startswith(_SERVICES_WITHOUT_EFFECT)


def _is_read(resources: Mapping[str, Any], type_name: str, properties: Mapping[str, Any]) -> bool:
    """Return whether a template tells to which subnets, tables or VPC a resource adds a way, and which one."""
    if type_name == _ENDPOINT:
        kind = properties.get("VpcEndpointType", "Gateway")
        # Services of others, resources, and service networks may lead anywhere.
        is_of_aws = kind in ("Gateway", "Interface") and "vpce-svc" not in json.dumps(properties.get("ServiceName"))
        named = [properties.get("VpcId"), *_listed(properties.get("RouteTableIds"))]
        is_known = is_of_aws and _service(properties.get("ServiceName")) != "*"
        return is_known and all(_is_named(resources, value) for value in named)
    names = {
        _ROUTE: ["RouteTableId"],
        _ASSOCIATION: ["SubnetId", "RouteTableId"],
        _PROPAGATION: ["RouteTableIds"],
    }.get(type_name, [])
    return all(_is_named(resources, value) for name in names for value in _listed(properties.get(name)) or [None])


def _is_named(resources: Mapping[str, Any], value: Any) -> bool:
    """Return whether a template tells what a value names: a resource of its own, or one that exists already."""
    return isinstance(value, str) or _target(value) in resources


def _listed(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if is_array(value) else [value]


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
    """Return the last part of a service's name, such as ``com.amazonaws.us-west-2.s3``; ``*`` if it is not known."""
    if name is None:
        return "*"
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
