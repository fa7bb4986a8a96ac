"""The security groups of a template: which rules they have, whose VPC they are of, and who else may add rules."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.templates.resource_types import OWN_TYPES
from constructs_optim.templates.security_groups import DescribedGroup, described_group

ID = {"Fn::GetAtt": ["Group", "GroupId"]}
NOTHING = {"IpProtocol": "icmp", "FromPort": 252, "ToPort": 86, "CidrIp": "255.255.255.255/32"}
PARAMETER = {"Ref": "Parameter"}


def template(*more: dict[str, Any], inline: Any = None, vpc: Any = None, **sections: Any) -> dict[str, Any]:
    properties = {"VpcId": vpc or {"Ref": "Vpc"}, **({"SecurityGroupEgress": inline} if inline is not None else {})}
    resources = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Group": {"Type": "AWS::EC2::SecurityGroup", "Properties": properties},
        **{f"More{number}": each for number, each in enumerate(more)},
    }
    return {"Resources": resources, **sections}


def described(*more: dict[str, Any], **changed: Any) -> DescribedGroup:
    group = described_group(template(*more, **changed), ID)
    assert group is not None
    return group


def ranges(*more: dict[str, Any], **changed: Any) -> list[Any]:
    return [rule.get("CidrIpv4") for rule in described(*more, **changed).outward]


@pytest.mark.parametrize("group_id", ["sg-1", PARAMETER, {"Ref": "Vpc"}, {"Fn::ImportValue": "Group"}])
def test_only_a_group_of_the_template_is_described(group_id: Any) -> None:
    assert described_group(template(), group_id) is None
    assert described_group(template(), {"Ref": "Group"}) is not None


@pytest.mark.parametrize(
    "inline", [None, [], {"Fn::If": ["Is", [NOTHING], []]}, [{"Fn::If": ["Is", NOTHING, NOTHING]}]]
)
def test_a_group_without_known_rules_may_let_everything_out(inline: Any) -> None:
    assert ranges(inline=inline) == ["0.0.0.0/0"]


def test_a_group_has_its_own_rules_and_those_of_other_resources() -> None:
    def egress(**rule: Any) -> dict[str, Any]:
        return {"Type": "AWS::EC2::SecurityGroupEgress", "Properties": {"IpProtocol": "tcp", **rule}}

    own = egress(GroupId=ID, CidrIp={"Fn::GetAtt": ["Vpc", "CidrBlock"]})
    other = egress(GroupId={"Fn::GetAtt": ["Other", "GroupId"]}, CidrIp="0.0.0.0/0")
    assert ranges(own, other, inline=[NOTHING]) == ["255.255.255.255/32", "10.0.0.0/16"]
    (_, rule) = described(egress(GroupId=ID, DestinationSecurityGroupId=ID), inline=[NOTHING]).outward
    assert rule["ReferencedGroupInfo"] == {"GroupId": ID}


def test_a_group_lets_in_only_what_its_rules_say() -> None:
    ingress = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "SourceSecurityGroupId": ID}
    resource = {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": {"GroupId": ID, **ingress}}
    assert described().inward == []
    assert [rule["ReferencedGroupInfo"] for rule in described(resource).inward] == [{"GroupId": ID}]


@pytest.mark.parametrize(
    ("vpc", "expected", "declares_vpc"),
    [
        ({"Ref": "Vpc"}, "Vpc", True),
        ({"Fn::GetAtt": ["Vpc", "VpcId"]}, "Vpc", True),
        ("vpc-1", "vpc-1", False),
        (PARAMETER, "", False),
        ({"Fn::ImportValue": "Vpc"}, "", False),
    ],
)
def test_the_vpc_of_a_group_is_known_or_not(vpc: Any, expected: str, declares_vpc: bool) -> None:
    group = described(vpc=vpc)
    assert (group.vpc, group.declares_vpc) == (expected, declares_vpc)


@pytest.mark.parametrize(
    "resource",
    [
        {"Type": "AWS::SQS::Queue"},
        {"Type": "AWS::Lambda::Function", "Properties": {"VpcConfig": {"SecurityGroupIds": [ID]}}},
        {"Type": "AWS::RDS::DBInstance", "Properties": {"VPCSecurityGroups": [ID]}},
        {"Type": "AWS::EC2::SecurityGroupEgress", "Properties": {"GroupId": {"Ref": "Vpc"}}},
        {"Type": "AWS::SSM::Parameter", "Properties": {"Value": {"Ref": "Vpc"}}},
        {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        *({"Type": each, "Properties": {"SecurityGroupIds": [ID]}} for each in OWN_TYPES),
    ],
)
def test_a_resource_with_a_known_effect_adds_no_rules(resource: dict[str, Any]) -> None:
    group = described(resource)
    assert (group.is_complete, group.is_shared) == (True, False)


@pytest.mark.parametrize(
    "resource",
    [
        {"Type": "Custom::Rules"},
        {"Type": "Third::Party::Network"},
        {"Type": "AWS::CloudFormation::Stack", "Properties": {"Parameters": {"Group": ID}}},
        {"Type": "AWS::CloudFormation::CustomResource"},
        {"Type": "AWS::SSM::Parameter", "Properties": {"Value": ID}},
        {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": {"GROUP": ID}}}},
        {"Type": "AWS::EC2::SecurityGroupEgress", "Properties": {"GroupId": PARAMETER}},
        {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": {"GroupId": PARAMETER}},
    ],
)
def test_a_resource_whose_effect_is_not_known_may_add_rules(resource: dict[str, Any]) -> None:
    group = described(resource)
    assert (group.is_complete, group.is_shared) == (False, True)


@pytest.mark.parametrize("sections", [{"Transform": "Macro"}, {"Outputs": {"Group": {"Value": ID}}}])
def test_a_macro_or_another_stack_may_add_rules(sections: dict[str, Any]) -> None:
    group = described(**sections)
    assert (group.is_complete, group.is_shared) == (False, True)


@pytest.mark.parametrize(
    ("group_id", "is_shared"),
    [
        (ID, True),
        ({"Ref": "Group"}, True),
        (PARAMETER, True),
        ({"Fn::If": ["Is", ID, "sg-1"]}, True),
        ("sg-1", False),
        ({"Fn::GetAtt": ["Vpc", "VpcId"]}, False),
    ],
)
def test_an_association_with_a_vpc_shares_the_group_that_it_names(group_id: Any, is_shared: bool) -> None:
    properties = {"GroupId": group_id, "VpcId": "vpc-1"}
    group = described({"Type": "AWS::EC2::SecurityGroupVpcAssociation", "Properties": properties})
    assert (group.is_complete, group.is_shared) == (True, is_shared)
