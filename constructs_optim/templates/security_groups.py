"""The security groups of a template in the form in which EC2 describes them.

Sources: EC2 API reference, SecurityGroupRule; CloudFormation, AWS::EC2::SecurityGroup (a group without outbound rules
of its own has EC2's, which allows everything) and AWS::EC2::SecurityGroupVpcAssociation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .json_values import as_object, is_array, is_object, literal
from .networks import each_resource, identified, is_named, is_without_effect, range_of, target_of, type_of, vpc_of
from .resource_types import WAITING

_GROUP = "AWS::EC2::SecurityGroup"
_RULES = _EGRESS, _INGRESS = f"{_GROUP}Egress", f"{_GROUP}Ingress"
_ASSOCIATION = f"{_GROUP}VpcAssociation"
_ANYTHING = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}
# What may give the ID of a group to those who add rules to it, or associate it with another VPC.
_CARRIERS = ("AWS::CloudFormation::", "AWS::SSM::")


@dataclass(frozen=True)
class DescribedGroup:
    """A security group.

    Attributes:
        name: its logical ID.
        vpc: the logical ID of its VPC, if the template declares it, or the VPC's ID; empty if neither is known.
        declares_vpc: whether the template declares the VPC.
        outward: its outbound rules, as in the answer of ``DescribeSecurityGroupRules``.
        inward: its inbound rules.
        is_complete: whether the template shows all of them.
        is_shared: whether the group is associated with another VPC, or something outside of the template may do so.
    """

    name: str
    vpc: str
    declares_vpc: bool
    outward: list[Mapping[str, Any]]
    inward: list[Mapping[str, Any]]
    is_complete: bool
    is_shared: bool


def described_group(template: Mapping[str, Any], group_id: Any) -> DescribedGroup | None:
    """Describe the security group with this resolved ID; None if the template does not declare it."""
    resources = as_object(template.get("Resources"))
    name = target_of(group_id)
    if name is None or type_of(resources, name) != _GROUP:
        return None
    properties = as_object(as_object(resources[name]).get("Properties"))
    vpc_id = properties.get("VpcId")
    vpc = vpc_of(resources, vpc_id)
    declares_vpc = type_of(resources, vpc) == "AWS::EC2::VPC"
    is_complete = (
        "Transform" not in template
        and name not in identified(template.get("Outputs"))
        and all(_is_harmless(resources, name, type_name, of) for _, type_name, of in each_resource(resources))
    )
    return DescribedGroup(
        name,
        vpc if declares_vpc else vpc_id if isinstance(vpc_id, str) else "",
        declares_vpc,
        # Without outbound rules, a group has EC2's.
        [*_rules(resources, name, _EGRESS, properties.get("SecurityGroupEgress") or [_ANYTHING])],
        [*_rules(resources, name, _INGRESS, properties.get("SecurityGroupIngress") or [])],
        is_complete,
        not is_complete or _is_associated(resources, name),
    )


def _is_associated(resources: Mapping[str, Any], name: str) -> bool:
    """Return whether an association with a VPC names a group, or a group that only the deployment knows."""
    named = [of.get("GroupId") for _, type_name, of in each_resource(resources) if type_name == _ASSOCIATION]
    return any(name == target_of(each) or not is_named(resources, each) for each in named)


def _rules(resources: Mapping[str, Any], name: str, kind: str, inline: Any) -> Iterator[Mapping[str, Any]]:
    for each in inline if is_array(inline) else [_ANYTHING]:
        yield _rule(resources, each)
    for _, type_name, properties in each_resource(resources):
        if type_name == kind and target_of(properties.get("GroupId")) == name:
            yield _rule(resources, properties)


def _rule(resources: Mapping[str, Any], declared: Any) -> Mapping[str, Any]:
    if not is_object(declared) or any(name.startswith("Fn::") for name in declared):
        return _rule(resources, _ANYTHING)
    group = declared.get("DestinationSecurityGroupId", declared.get("SourceSecurityGroupId"))
    return {
        **declared,
        "IpProtocol": literal(declared.get("IpProtocol")),
        "CidrIpv4": range_of(resources, declared.get("CidrIp")),
        **({"ReferencedGroupInfo": {"GroupId": group}} if group is not None else {}),
    }


def _is_harmless(resources: Mapping[str, Any], name: str, type_name: str, properties: Mapping[str, Any]) -> bool:
    """Return whether a resource adds no rule to a group beyond those that are read."""
    if type_name in _RULES:
        return is_named(resources, properties.get("GroupId"))
    if type_name == "AWS::Lambda::Function":
        # A function may change the group that its environment names, not the one that it is in.
        return name not in identified({**properties, "VpcConfig": None})
    if type_name.startswith(_CARRIERS):
        return type_name in WAITING or (
            type_name.startswith("AWS::SSM::Parameter") and name not in identified(properties)
        )
    return is_without_effect(type_name) or type_name.startswith("AWS::")
