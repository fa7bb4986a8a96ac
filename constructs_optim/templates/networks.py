"""The network of a template in the form in which EC2 describes it: route tables, VPC endpoints, NAT gateways, ACLs.

Source: EC2 API reference, RouteTable, Route, VpcEndpoint, NatGateway and NetworkAcl.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from .json_values import as_object, is_array, literal
from .references import direct_reference, references
from .resource_types import OWN_TYPES, WAITING

_ROUTE, _ASSOCIATION, _ENDPOINT, _PROPAGATION = (
    f"AWS::EC2::{name}"
    for name in ("Route", "SubnetRouteTableAssociation", "VPCEndpoint", "VPNGatewayRoutePropagation")
)
_NAT, _ACL, _ACL_ENTRY, _ACL_ASSOCIATION = (
    f"AWS::EC2::{name}" for name in ("NatGateway", "NetworkAcl", "NetworkAclEntry", "SubnetNetworkAclAssociation")
)
_PROPAGATING = (_PROPAGATION, "AWS::EC2::RouteServerPropagation")
_ONLY_INBOUND = "PrivateDnsOnlyForInboundResolverEndpoint"
# Types whose effect on a VPC's ways out is known: they are read below, or they have none. Any other type, such as a
# hosted zone, DHCP options, a nested stack or a custom resource, may add a way or another address for a name.
_READ = frozenset({
    _ROUTE, _ASSOCIATION, _ENDPOINT, _PROPAGATION, _NAT, _ACL, _ACL_ENTRY, _ACL_ASSOCIATION,
    *(
        f"AWS::EC2::{name}"
        for name in (
            "EIP", "FlowLog", "InternetGateway", "RouteTable", "SecurityGroup", "SecurityGroupEgress",
            "SecurityGroupIngress", "SecurityGroupVpcAssociation", "Subnet", "VPC", "VPCCidrBlock",
            "VPCGatewayAttachment", "VPNGateway",
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
        nats: the template's NAT gateways, as in the answer of ``DescribeNatGateways``. One without ``SubnetId`` may
            lead anywhere.
        acls: the network ACLs of the subnets, as in the answer of ``DescribeNetworkAcls``, unless the template does not
            decide which one a subnet has.
        vpcs: the logical IDs of the VPCs of the subnets that the template declares.
        is_complete: whether the template shows everything that the subnets' VPC has.
    """

    subnets: Sequence[str]
    tables: Sequence[Mapping[str, Any]]
    endpoints: Sequence[Mapping[str, Any]]
    nats: Sequence[Mapping[str, Any]]
    acls: Sequence[Mapping[str, Any]]
    vpcs: frozenset[str]
    is_complete: bool


def described_network(template: Mapping[str, Any], subnet_ids: Sequence[Any]) -> DescribedNetwork | None:
    """Describe the network of the subnets with these resolved IDs; None if the template does not decide their routes.

    It does not decide those of another template's subnet or route table, and of a subnet without an association: the
    routes of a VPC's main route table are not in a template.
    """
    resources = as_object(template.get("Resources"))
    subnets = [target_of(value) or "" for value in subnet_ids]
    # A subnet has several, if conditions decide which of them exists.
    tables = {subnet: _of_subnet(resources, subnet, "RouteTable") for subnet in subnets}
    if not subnets or any(
        type_of(resources, subnet) != "AWS::EC2::Subnet" or not of_subnet for subnet, of_subnet in tables.items()
    ):
        return None
    nats = [*_nats(resources)]
    tables |= {
        nat["SubnetId"]: _of_subnet(resources, nat["SubnetId"], "RouteTable") for nat in nats if "SubnetId" in nat
    }
    acls = [(subnet, acl) for subnet in subnets for acl in _of_subnet(resources, subnet, "NetworkAcl")]
    vpcs = {vpc_of(resources, {"Ref": subnet}) for subnet in subnets}
    declared = {*(table for subnet in subnets for table in tables[subnet]), *(acl for _, acl in acls), *vpcs}
    return DescribedNetwork(
        subnets,
        [
            {"RouteTableId": table, "Associations": [{"SubnetId": subnet}], "Routes": [*_routes(resources, table)]}
            for subnet, of_subnet in tables.items()
            for table in of_subnet
        ],
        [*_endpoints(resources, vpcs)],
        nats,
        [
            {"NetworkAclId": acl, "Associations": [{"SubnetId": subnet}], "Entries": [*_entries(resources, acl)]}
            for subnet, acl in acls
        ],
        frozenset(vpc for vpc in vpcs if type_of(resources, vpc) == "AWS::EC2::VPC"),
        # A macro may add anything, and so may those to whom an output names the VPC.
        is_complete="Transform" not in template
        and all(type_of(resources, vpc) == "AWS::EC2::VPC" for vpc in vpcs)
        and declared.isdisjoint(identified(template.get("Outputs")))
        and all(
            _is_read(resources, type_name, properties)
            if type_name in _READ
            else is_without_effect(type_name) and declared.isdisjoint(identified(properties))
            for _, type_name, properties in each_resource(resources)
        ),
    )


def _of_subnet(resources: Mapping[str, Any], subnet: str, kind: str) -> list[str]:
    """Return the route tables or network ACLs of a subnet; none if one of them is not of this template."""
    association = _ASSOCIATION if kind == "RouteTable" else _ACL_ASSOCIATION
    found = [
        target_of(properties.get(f"{kind}Id")) or ""
        for _, type_name, properties in each_resource(resources)
        if type_name == association and target_of(properties.get("SubnetId")) == subnet
    ]
    return found if all(type_of(resources, each) == f"AWS::EC2::{kind}" for each in found) else []


def is_without_effect(type_name: str) -> bool:
    """Return whether resources of a type change no network."""
    return type_name in _WITHOUT_EFFECT or type_name.startswith(_SERVICES_WITHOUT_EFFECT)


def _is_read(resources: Mapping[str, Any], type_name: str, properties: Mapping[str, Any]) -> bool:
    """Return whether a template tells to which subnets, tables or VPC a resource adds a way, and which one."""
    if type_name == _ENDPOINT:
        kind = properties.get("VpcEndpointType", "Gateway")
        # Services of others, resources, and service networks may lead anywhere.
        is_of_aws = kind in ("Gateway", "Interface") and "vpce-svc" not in json.dumps(properties.get("ServiceName"))
        named = [properties.get("VpcId"), *_listed(properties.get("RouteTableIds"))]
        is_known = is_of_aws and _service(properties.get("ServiceName")) != "*"
        return is_known and all(is_named(resources, value) for value in named)
    names = {
        _ROUTE: ["RouteTableId"],
        _ASSOCIATION: ["SubnetId", "RouteTableId"],
        _PROPAGATION: ["RouteTableIds"],
        _ACL_ENTRY: ["NetworkAclId"],
        _ACL_ASSOCIATION: ["SubnetId", "NetworkAclId"],
    }.get(type_name, [])
    return all(is_named(resources, value) for name in names for value in _listed(properties.get(name)) or [None])


def is_named(resources: Mapping[str, Any], value: Any) -> bool:
    """Return whether a template tells what a value names: a resource of its own, or one that exists already."""
    return isinstance(value, str) or target_of(value) in resources


def _listed(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if is_array(value) else [value]


def _routes(resources: Mapping[str, Any], table: str) -> Iterator[Mapping[str, Any]]:
    yield {"GatewayId": "local"}
    for _, type_name, properties in each_resource(resources):
        if type_name == _ROUTE and target_of(properties.get("RouteTableId")) == table:
            gateway, nat = properties.get("GatewayId"), target_of(properties.get("NatGatewayId"))
            properties = {**properties, "NatGatewayId": nat} if type_of(resources, nat) == _NAT else properties
            # Any other gateway is a virtual private network's, or one that another template declares.
            kind = "igw" if type_of(resources, target_of(gateway)) == "AWS::EC2::InternetGateway" else "vgw"
            yield {**properties, "GatewayId": f"{kind}-"} if gateway is not None else properties
        elif type_name in _PROPAGATING and table in identified(properties):
            yield {"GatewayId": "vgw-"}


def _endpoints(resources: Mapping[str, Any], vpcs: Set[str]) -> Iterator[Mapping[str, Any]]:
    for name, type_name, properties in each_resource(resources):
        if type_name == _ENDPOINT and vpc_of(resources, properties.get("VpcId")) in vpcs:
            yield {
                "VpcEndpointId": name,
                "VpcEndpointType": properties.get("VpcEndpointType", "Gateway"),
                "ServiceName": _service(properties.get("ServiceName")),
                "RouteTableIds": sorted(identified(properties.get("RouteTableIds"))),
                "Groups": [{"GroupId": each} for each in _listed(properties.get("SecurityGroupIds"))],
                "PrivateDnsEnabled": not _is_false(properties.get("PrivateDnsEnabled")),
                "DnsOptions": {
                    _ONLY_INBOUND: as_object(properties.get("DnsOptions")).get(_ONLY_INBOUND) == "OnlyInboundResolver"
                },
            }


def _nats(resources: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name, type_name, properties in each_resource(resources):
        if type_name == _NAT:
            subnet = target_of(properties.get("SubnetId")) or ""
            known = {"SubnetId": subnet} if _of_subnet(resources, subnet, "RouteTable") else {}
            yield {"NatGatewayId": name, "ConnectivityType": properties.get("ConnectivityType", "public"), **known}


def _entries(resources: Mapping[str, Any], acl: str) -> Iterator[Mapping[str, Any]]:
    for name, type_name, properties in each_resource(resources):
        if type_name != _ACL_ENTRY or target_of(properties.get("NetworkAclId")) != acl:
            continue
        # One that a condition may leave out denies nothing.
        if properties.get("RuleAction") != "deny" or "Condition" not in as_object(resources[name]):
            egress = str(properties.get("Egress", False)).lower()
            # A direction that only the deployment knows is either.
            is_egress = egress == "true" if egress in ("true", "false") else None
            cidr = {"CidrBlock": range_of(resources, properties.get("CidrBlock"))}
            yield {**properties, **cidr, "Egress": is_egress, "Protocol": literal(properties.get("Protocol"))}


def _is_false(value: Any) -> bool:
    return value is False or str(value).lower() == "false"


def _service(name: Any) -> str:
    """Return the last part of a service's name, such as ``com.amazonaws.us-west-2.s3``; ``*`` if it is not known."""
    if name is None:
        return "*"
    text = name if isinstance(name, str) else json.dumps(name)
    last = text.rstrip('"]} ').rpartition(".")[2]
    return last if last.replace("-", "").isalnum() and last in text else "*"


def vpc_of(resources: Mapping[str, Any], value: Any) -> str:
    """Return the logical ID of the VPC that a value names, also by an attribute; any other value as text."""
    target = target_of(value)
    of = as_object(as_object(resources.get(target or "")).get("Properties")).get("VpcId")
    return vpc_of(resources, of) if of is not None else target or json.dumps(value)


def range_of(resources: Mapping[str, Any], value: Any) -> Any:
    """Return a range of addresses, also one that is named as that of a VPC or subnet of the template."""
    reference = direct_reference(value)
    if reference is None or reference.attribute != "CidrBlock":
        return value
    return as_object(as_object(resources.get(reference.target)).get("Properties")).get("CidrBlock", value)


def target_of(value: Any) -> str | None:
    """Return the logical ID that a ``Ref`` or ``Fn::GetAtt`` names; None for anything else."""
    reference = direct_reference(value)
    return reference.target if reference is not None else None


def identified(value: Any) -> set[str]:
    """Return the logical IDs of what a value names by its ID, which is a ``Ref`` or an attribute such as ``VpcId``."""
    return {each.target for each in references(value) if each.attribute is None or each.attribute.endswith("Id")}


def type_of(resources: Mapping[str, Any], name: str | None) -> str | None:
    """Return the type of the resource with this logical ID; None if there is none."""
    return as_object(resources.get(name or "")).get("Type")


def each_resource(resources: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the name, the type and the properties of each resource."""
    for name, resource in resources.items():
        yield name, str(as_object(resource).get("Type")), as_object(as_object(resource).get("Properties"))
