"""The ways out of subnets: one table of routes and endpoints, as EC2 describes them and as a template declares them."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.runtime.preflight import subnet_ways
from constructs_optim.runtime.preflight.subnet_ways import SubnetWays, ways_out
from constructs_optim.runtime.preflight.traffic_filters import Reach, reach_of
from constructs_optim.templates.networks import DescribedNetwork, described_network
from constructs_optim.templates.resource_types import OWN_TYPES

ANYWHERE = {"DestinationCidrBlock": "0.0.0.0/0"}
PRIVATELY = {"DestinationCidrBlock": "10.99.0.0/16"}
ANYWHERE_IN_IPV6 = {"DestinationIpv6CidrBlock": "::/0"}
OWN_PREFIXES = {"DestinationPrefixListId": "pl-own"}
TABLE = {"RouteTableId": {"Ref": "Table"}}
GATEWAYS: dict[str, Any] = {
    "Internet": {"Type": "AWS::EC2::InternetGateway"},
    "Virtual": {"Type": "AWS::EC2::VPNGateway"},
}
S3 = "com.amazonaws.us-west-2.s3"
ONLY_INBOUND = "PrivateDnsOnlyForInboundResolverEndpoint"


def declared(*more: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The resources of a VPC with one subnet."""
    resources: dict[str, Any] = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {}},
        "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}}},
        "Table": {"Type": "AWS::EC2::RouteTable", "Properties": {"VpcId": {"Ref": "Vpc"}}},
        "Of": {
            "Type": "AWS::EC2::SubnetRouteTableAssociation",
            "Properties": {**TABLE, "SubnetId": {"Ref": "Subnet"}},
        },
        **GATEWAYS,
        **{f"More{number}": resource for number, resource in enumerate(more)},
    }
    return {**resources, **changed}


def described(resources: dict[str, Any], subnet: Any = None, **sections: Any) -> DescribedNetwork | None:
    return described_network(
        {"Resources": resources, **sections}, [subnet if subnet is not None else {"Ref": "Subnet"}]
    )


def of_template(resources: dict[str, Any]) -> SubnetWays:
    network = described(resources)
    assert network is not None
    (ways,) = ways_out(network.subnets, network.tables, network.endpoints, network.nats, network.acls)
    return ways


def of_ec2(routes: list[dict[str, str]], endpoints: list[dict[str, Any]]) -> SubnetWays:
    local = {"GatewayId": "local", "DestinationCidrBlock": "10.0.0.0/16"}
    associations = [{"SubnetId": "subnet-1"}]
    tables: list[dict[str, Any]] = [
        {"RouteTableId": "rtb-1", "Associations": associations, "Routes": [local, *routes]},
        {"RouteTableId": "rtb-2", "Associations": [{"Main": True}], "Routes": [local]},
    ]
    (ways,) = ways_out(["subnet-1"], tables, endpoints)
    return ways


@pytest.mark.parametrize(
    ("declared_route", "ec2_route", "leads"),
    [
        (None, None, "closed"),
        ({"NatGatewayId": "nat-1", **ANYWHERE}, {"NatGatewayId": "nat-1", **ANYWHERE}, "routed"),
        ({"TransitGatewayId": "tgw-1", **OWN_PREFIXES}, {"TransitGatewayId": "tgw-1", **OWN_PREFIXES}, "routed"),
        ({"NetworkInterfaceId": "eni-1", **ANYWHERE}, {"NetworkInterfaceId": "eni-1", **ANYWHERE}, "routed"),
        ({"VpcPeeringConnectionId": "pcx-1"}, {"VpcPeeringConnectionId": "pcx-1"}, "routed"),
        ({"GatewayId": {"Ref": "Virtual"}, **ANYWHERE}, {"GatewayId": "vgw-1", **ANYWHERE}, "routed"),
        ({"GatewayId": {"Ref": "Internet"}, **ANYWHERE}, {"GatewayId": "igw-1", **ANYWHERE}, "public"),
        ({"GatewayId": {"Ref": "Internet"}, **OWN_PREFIXES}, {"GatewayId": "igw-1", **OWN_PREFIXES}, "public"),
        ({"VpcEndpointId": "vpce-1", **ANYWHERE}, {"GatewayId": "vpce-1", **ANYWHERE}, "routed"),
        ({"VpcEndpointId": "vpce-1", **OWN_PREFIXES}, {"GatewayId": "vpce-1", **OWN_PREFIXES}, "routed"),
        (
            {"EgressOnlyInternetGatewayId": "eigw-1", **ANYWHERE_IN_IPV6},
            {"EgressOnlyInternetGatewayId": "eigw-1", **ANYWHERE_IN_IPV6},
            "closed",
        ),
        *(
            ({**target, "DestinationCidrBlock": cidr}, {**target, "DestinationCidrBlock": cidr}, leads)
            for target in (
                {"TransitGatewayId": "tgw-1"},
                {"VpcPeeringConnectionId": "pcx-1"},
                {"NatGatewayId": "nat-1"},
                {"VpcEndpointId": "vpce-1"},
                {"NetworkInterfaceId": "eni-1"},
            )
            for cidr, leads in {
                "10.99.0.0/16": "private",
                "10.0.0.0/8": "private",
                "172.16.0.0/12": "private",
                "192.168.1.1/32": "private",
                "100.64.0.0/10": "private",
                "0.0.0.0/1": "routed",
                "8.0.0.0/6": "routed",
                "52.216.0.0/15": "routed",
            }.items()
        ),
        ({"GatewayId": {"Ref": "Virtual"}, **PRIVATELY}, {"GatewayId": "vgw-1", **PRIVATELY}, "private"),
        ({"GatewayId": {"Ref": "Internet"}, **PRIVATELY}, {"GatewayId": "igw-1", **PRIVATELY}, "closed"),
    ],
)
def test_a_route_leads_to_the_same_place_in_a_template_and_in_ec2(
    declared_route: dict[str, Any] | None, ec2_route: dict[str, str] | None, leads: str
) -> None:
    routes = [{"Type": "AWS::EC2::Route", "Properties": {**TABLE, **declared_route}}] if declared_route else []
    assert of_template(declared(*routes)) == SubnetWays("Subnet", leads, frozenset())  # type: ignore[arg-type]
    assert of_ec2([ec2_route] if ec2_route else [], []) == SubnetWays("subnet-1", leads, frozenset())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared_endpoint", "ec2_endpoint", "leads_to_s3"),
    [
        ({"VpcEndpointType": "Interface"}, {"VpcEndpointType": "Interface"}, True),
        ({"VpcEndpointType": "Interface", "ServiceName": f"{S3}express"}, {"ServiceName": f"{S3}express"}, False),
        ({"RouteTableIds": [{"Ref": "Table"}]}, {"VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-1"]}, True),
        ({"RouteTableIds": [{"Ref": "Other"}]}, {"VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-2"]}, False),
        *(
            ({"VpcEndpointType": "Interface", **in_template}, {"VpcEndpointType": "Interface", **in_ec2}, leads)
            for in_template, in_ec2, leads in (
                ({"PrivateDnsEnabled": True}, {"PrivateDnsEnabled": True}, True),
                ({"PrivateDnsEnabled": False}, {"PrivateDnsEnabled": False}, False),
                ({"PrivateDnsEnabled": "false"}, {"PrivateDnsEnabled": False}, False),
                ({"PrivateDnsEnabled": {"Ref": "Parameter"}}, {}, True),
                (
                    {"PrivateDnsEnabled": True, "DnsOptions": {ONLY_INBOUND: "OnlyInboundResolver"}},
                    {"PrivateDnsEnabled": True, "DnsOptions": {ONLY_INBOUND: True}},
                    False,
                ),
                (
                    {"PrivateDnsEnabled": True, "DnsOptions": {ONLY_INBOUND: "AllResolvers"}},
                    {"PrivateDnsEnabled": True, "DnsOptions": {ONLY_INBOUND: False}},
                    True,
                ),
            )
        ),
        # EC2 describes gateway endpoints without private names.
        (
            {"RouteTableIds": [{"Ref": "Table"}], "PrivateDnsEnabled": False},
            {"VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-1"], "PrivateDnsEnabled": False},
            True,
        ),
    ],
)
def test_an_endpoint_serves_the_same_subnets_in_a_template_and_in_ec2(
    declared_endpoint: dict[str, Any], ec2_endpoint: dict[str, Any], leads_to_s3: bool
) -> None:
    properties = {"VpcId": {"Ref": "Vpc"}, "ServiceName": S3, **declared_endpoint}
    ways = of_template(declared({"Type": "AWS::EC2::VPCEndpoint", "Properties": properties}))
    prefixes = {"DestinationPrefixListId": "pl-1", "GatewayId": "vpce-1"}
    routes = [prefixes] if ec2_endpoint.get("RouteTableIds") == ["rtb-1"] else []
    in_ec2 = of_ec2(routes, [{"VpcEndpointId": "vpce-1", "ServiceName": S3, **ec2_endpoint}])
    assert [(each.exit, each.leads_to("s3")) for each in (ways, in_ec2)] == [("closed", leads_to_s3)] * 2


def test_a_route_or_an_endpoint_that_is_gone_leads_nowhere() -> None:
    nat = {"NatGatewayId": "nat-1", **ANYWHERE}
    assert of_ec2([{**nat, "State": "active"}], []).exit == "routed"
    assert of_ec2([{**nat, "State": "blackhole"}], []).exit == "closed"
    assert of_ec2([{"GatewayId": "igw-1", **ANYWHERE, "State": "blackhole"}], []).exit == "closed"
    for state, leads in {
        "available": True,
        "Available": True,
        "Pending": True,
        "deleted": False,
        "Failed": False,
    }.items():
        interface = {"VpcEndpointType": "Interface", "ServiceName": S3, "State": state}
        assert of_ec2([], [interface]).leads_to("s3") is leads, state


def test_a_subnet_without_a_table_of_its_own_has_the_main_one_and_unknown_tables_may_lead_anywhere() -> None:
    nat = {"NatGatewayId": "nat-1"}
    tables: list[dict[str, Any]] = [
        {"RouteTableId": "rtb-1", "Associations": [{"SubnetId": "subnet-1"}], "Routes": [{"GatewayId": "local"}]},
        {"RouteTableId": "rtb-2", "Associations": [{"Main": True}], "Routes": [nat]},
    ]
    assert [each.exit for each in ways_out(["subnet-1", "subnet-2"], tables, [])] == ["closed", "routed"]
    assert [each.exit for each in ways_out(["subnet-1"], [], [])] == ["routed"]
    tables[1]["Routes"] = [{"GatewayId": "local"}]
    assert [each.exit for each in ways_out(["subnet-2"], tables, [])] == ["closed"]


@pytest.mark.parametrize("of_subnet", [{"Ref": "Vpc"}, {"Fn::GetAtt": ["Vpc", "VpcId"]}])
@pytest.mark.parametrize(
    "of_endpoint", [{"Ref": "Vpc"}, {"Fn::GetAtt": ["Vpc", "VpcId"]}, {"Fn::GetAtt": ["Subnet", "VpcId"]}]
)
def test_a_subnet_and_an_endpoint_may_name_their_vpc_in_any_form(of_subnet: Any, of_endpoint: Any) -> None:
    subnet = {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": of_subnet}}
    properties = {"VpcId": of_endpoint, "ServiceName": S3, "VpcEndpointType": "Interface"}
    resources = declared({"Type": "AWS::EC2::VPCEndpoint", "Properties": properties}, Subnet=subnet)
    assert of_template(resources).leads_to("s3")


@pytest.mark.parametrize(
    ("service", "leads_to_s3"),
    [
        ({"Fn::Sub": "com.amazonaws.${AWS::Region}.s3"}, True),
        ({"Fn::Join": ["", ["com.amazonaws.", {"Ref": "AWS::Region"}, ".s3"]]}, True),
        ({"Fn::Sub": "com.amazonaws.${AWS::Region}.sqs"}, False),
        ({"Ref": "Service"}, True),
    ],
)
def test_the_service_of_an_endpoint_is_read_as_far_as_it_is_known(service: Any, leads_to_s3: bool) -> None:
    properties = {"VpcId": {"Ref": "Vpc"}, "ServiceName": service, "VpcEndpointType": "Interface"}
    resources = declared({"Type": "AWS::EC2::VPCEndpoint", "Properties": properties})
    assert of_template(resources).leads_to("s3") == leads_to_s3


@pytest.mark.parametrize(
    "resources",
    [
        declared(Of={"Type": "AWS::EC2::SubnetRouteTableAssociation"}),
        declared(Table={"Type": "Custom::Table"}),
        declared(
            Of={
                "Type": "AWS::EC2::SubnetRouteTableAssociation",
                "Properties": {"RouteTableId": "rtb-1", "SubnetId": {"Ref": "Subnet"}},
            }
        ),
        declared(Subnet={"Type": "Custom::Subnet"}),
    ],
)
def test_a_subnet_whose_routes_are_not_in_the_template_is_not_described(resources: dict[str, Any]) -> None:
    assert described(resources) is None
    assert described(declared(), "subnet-1") is None


def test_propagated_routes_lead_out() -> None:
    propagation = {
        "Type": "AWS::EC2::VPNGatewayRoutePropagation",
        "Properties": {"RouteTableIds": [{"Ref": "Table"}], "VpnGatewayId": {"Ref": "Virtual"}},
    }
    assert of_template(declared(propagation)).exit == "routed"


@pytest.mark.parametrize(
    "route",
    [
        {"NatGatewayId": "nat-1", **ANYWHERE},
        {"NetworkInterfaceId": "eni-1", **ANYWHERE},
        {"GatewayId": "igw-1", **ANYWHERE},
        {"GatewayId": "vpce-1", **OWN_PREFIXES},
        ANYWHERE,
    ],
)
def test_a_black_hole_leads_nowhere(route: dict[str, str]) -> None:
    assert of_ec2([{**route, "State": "active"}], []).exit != "closed"
    assert of_ec2([{**route, "State": "blackhole"}], []).exit == "closed"
    nat = {"NatGatewayId": "nat-2", "DestinationCidrBlock": "0.0.0.0/0", "State": "active"}
    assert of_ec2([{**route, "State": "blackhole"}, nat], []).exit == "routed"


@pytest.mark.parametrize(
    ("state", "leads_to_s3"),
    [("available", True), ("pending", True), ("Available", True), ("deleted", False), ("Rejected", False)],
)
def test_an_endpoint_that_is_gone_leads_nowhere(state: str, leads_to_s3: bool) -> None:
    gateway = {"VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-1"]}
    for kind in (gateway, {"VpcEndpointType": "Interface"}):
        endpoint = {"VpcEndpointId": "vpce-1", "ServiceName": S3, "State": state, **kind}
        ways = of_ec2([{"GatewayId": "vpce-1"}] if kind is gateway else [], [endpoint])
        assert (ways.exit, ways.leads_to("s3")) == ("closed", leads_to_s3)


@pytest.mark.parametrize("kind", ["Resource", "ServiceNetwork"])
def test_the_endpoint_of_a_resource_or_a_service_network_may_lead_to_any_service(kind: str) -> None:
    assert of_ec2([], [{"VpcEndpointId": "vpce-1", "VpcEndpointType": kind}]).leads_to("s3")
    properties = {"VpcId": {"Ref": "Vpc"}, "VpcEndpointType": kind}
    assert of_template(declared({"Type": "AWS::EC2::VPCEndpoint", "Properties": properties})).leads_to("s3")


def test_a_subnet_has_the_ways_of_each_table_that_a_condition_may_give_it() -> None:
    other = {"Type": "AWS::EC2::RouteTable", "Properties": {"VpcId": {"Ref": "Vpc"}}}
    nat = {"RouteTableId": {"Ref": "Other"}, "NatGatewayId": "nat-1", **ANYWHERE}
    either = {
        "Type": "AWS::EC2::SubnetRouteTableAssociation",
        "Condition": "IsPrivate",
        "Properties": {"RouteTableId": {"Ref": "Other"}, "SubnetId": {"Ref": "Subnet"}},
    }
    resources = {"Either": either, **declared({"Type": "AWS::EC2::Route", "Properties": nat}, Other=other)}
    assert of_template(resources).exit == "routed"


def of_vpc(type_name: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type_name, "Properties": {"VpcId": {"Ref": "Vpc"}, **properties}}


def behind_nat(connectivity: Any, *routes: dict[str, Any], of_nat: Any = None) -> dict[str, Any]:
    """A subnet with a default route to a NAT gateway, whose subnet has these routes."""
    nat = {"SubnetId": {"Ref": "Outer"}, "ConnectivityType": connectivity} if of_nat is None else of_nat
    default = {**TABLE, **ANYWHERE, "NatGatewayId": {"Ref": "Nat"}}
    outer = {"RouteTableId": {"Ref": "OuterTable"}, "SubnetId": {"Ref": "Outer"}}
    return declared(
        {"Type": "AWS::EC2::Route", "Properties": default},
        *(
            {"Type": "AWS::EC2::Route", "Properties": {"RouteTableId": {"Ref": "OuterTable"}, **each}}
            for each in routes
        ),
        Nat={"Type": "AWS::EC2::NatGateway", "Properties": nat},
        Outer=of_vpc("AWS::EC2::Subnet"),
        OuterTable=of_vpc("AWS::EC2::RouteTable"),
        OfOuter={"Type": "AWS::EC2::SubnetRouteTableAssociation", "Properties": outer},
    )


PARAMETER = {"Ref": "Parameter"}
TO_INTERNET = {"GatewayId": {"Ref": "Internet"}, **ANYWHERE}
TO_TRANSIT = {"TransitGatewayId": "tgw-1", **ANYWHERE}


@pytest.mark.parametrize(
    ("resources", "leads"),
    [
        (behind_nat("public", TO_INTERNET), "routed"),
        (behind_nat(PARAMETER, TO_INTERNET), "routed"),
        (behind_nat("private", TO_INTERNET), "closed"),
        (behind_nat("private", TO_TRANSIT), "routed"),
        (behind_nat("private", {**TO_TRANSIT, **PRIVATELY}), "private"),
        (behind_nat("private"), "closed"),
        (behind_nat("public"), "closed"),
        (behind_nat("private", {**ANYWHERE, "NatGatewayId": {"Ref": "Nat"}}), "closed"),
        # A regional NAT gateway, and one in the subnet of another template.
        (behind_nat("", of_nat={"AvailabilityMode": "regional", "VpcId": {"Ref": "Vpc"}}), "routed"),
        (behind_nat("", of_nat={"SubnetId": "subnet-1", "ConnectivityType": "private"}), "routed"),
        (behind_nat("", of_nat={"SubnetId": PARAMETER, "ConnectivityType": "private"}), "routed"),
    ],
)
def test_a_nat_gateway_leads_where_its_subnet_and_its_kind_allow(resources: dict[str, Any], leads: str) -> None:
    ways = of_template(resources)
    assert ways.exit == leads
    assert ways.dead_ends == ({"Nat"} if leads != "routed" else set())


def test_a_subnet_that_has_another_way_out_has_no_dead_ends() -> None:
    to_firewall = {"GatewayId": "vpce-1", **ANYWHERE}
    routes = [{"NatGatewayId": "nat-1", **PRIVATELY}]
    tables: list[dict[str, Any]] = [
        {"RouteTableId": name, "Associations": [{"SubnetId": name}], "Routes": of_table}
        for name, of_table in (("one", [*routes, to_firewall]), ("two", routes), ("outer", [{"GatewayId": "local"}]))
    ]
    ways = ways_out(["one", "two"], tables, [], [{"NatGatewayId": "nat-1", "SubnetId": "outer"}])
    assert [(way.exit, way.dead_ends) for way in ways] == [("routed", set()), ("closed", {"nat-1"})]


@pytest.mark.parametrize(
    ("connectivity", "last", "leads"),
    [
        ("public", {"GatewayId": "igw-1", **ANYWHERE}, "routed"),
        ("private", {"TransitGatewayId": "tgw-1", **PRIVATELY}, "private"),
        ("private", {"GatewayId": "local"}, "closed"),
        # Back to the first: a circle.
        ("private", {"NatGatewayId": "nat-0-0", **ANYWHERE}, "closed"),
    ],
)
def test_many_nat_gateways_behind_each_other_are_each_looked_at_a_few_times(
    monkeypatch: pytest.MonkeyPatch, connectivity: str, last: dict[str, str], leads: str
) -> None:
    depth, routes = 20, 5
    nats = [
        {"NatGatewayId": f"nat-{tier}-{number}", "SubnetId": f"subnet-{tier + 1}", "ConnectivityType": connectivity}
        for tier in range(depth)
        for number in range(routes)
    ]
    tables: list[dict[str, Any]] = [
        {
            "RouteTableId": f"rtb-{tier}",
            "Associations": [{"SubnetId": f"subnet-{tier}"}],
            "Routes": [last]
            if tier == depth
            else [{"NatGatewayId": f"nat-{tier}-{number}", **ANYWHERE} for number in range(routes)],
        }
        for tier in range(depth + 1)
    ]
    looked_at: list[object] = []

    def counted(cidr: object) -> Reach:
        looked_at.append(cidr)
        assert len(looked_at) <= len(nats) * routes * (depth + 2)
        return reach_of(cidr)

    monkeypatch.setattr(subnet_ways, "reach_of", counted)
    (ways,) = ways_out(["subnet-0"], tables, [], nats)
    assert ways.exit == leads


def entry(number: int, *, egress: bool, **changed: Any) -> dict[str, Any]:
    properties = {
        "NetworkAclId": {"Ref": "Acl"},
        "Egress": egress,
        "Protocol": -1,
        "RuleAction": "allow",
        "RuleNumber": number,
        "CidrBlock": "0.0.0.0/0",
    }
    return {"Type": "AWS::EC2::NetworkAclEntry", "Properties": {**properties, **changed}}


def with_acl(*entries: dict[str, Any], **changed: Any) -> dict[str, Any]:
    of = {"NetworkAclId": {"Ref": "Acl"}, "SubnetId": {"Ref": "Subnet"}}
    association = {"Type": "AWS::EC2::SubnetNetworkAclAssociation", "Properties": {**of, **changed}}
    return declared(*entries, Acl=of_vpc("AWS::EC2::NetworkAcl"), OfAcl=association)


OUT, IN = entry(100, egress=True), entry(100, egress=False)


@pytest.mark.parametrize(
    ("resources", "allowed"),
    [
        (declared(), "anything"),
        (with_acl(), "nothing"),
        (with_acl(OUT), "nothing"),
        (with_acl(IN), "nothing"),
        (with_acl(OUT, IN), "anything"),
        (with_acl(OUT, entry(100, egress=False, CidrBlock="10.0.0.0/16")), "private"),
        (with_acl(OUT, IN, entry(1, egress=True, RuleAction="deny")), "nothing"),
        (with_acl(OUT, IN, {**entry(1, egress=True, RuleAction="deny"), "Condition": "IsStrict"}), "anything"),
        (with_acl(entry(100, egress=True, Egress=PARAMETER), IN), "anything"),
        (with_acl(entry(100, egress=True, Egress="true"), entry(100, egress=False, Egress="false")), "anything"),
        (with_acl(OUT, entry(100, egress=False, CidrBlock={"Fn::GetAtt": ["Vpc", "CidrBlock"]})), "private"),
        (with_acl(NetworkAclId="acl-1"), "anything"),
        (with_acl(SubnetId={"Ref": "Other"}), "anything"),
    ],
)
def test_a_subnet_has_the_network_acl_that_its_template_gives_it(resources: dict[str, Any], allowed: str) -> None:
    resources["Vpc"]["Properties"]["CidrBlock"] = "10.0.0.0/16"
    assert of_template(resources).allowed == allowed


def test_what_does_not_leave_the_subnet_passes_its_network_acl() -> None:
    interface = of_vpc("AWS::EC2::VPCEndpoint", ServiceName=S3, VpcEndpointType="Interface")
    ways = of_template(with_acl(interface))
    assert [ways.is_filtered(each, True) for each in ("s3", "sts", None)] == [False, True, True]
    private = of_template(with_acl(OUT, entry(100, egress=False, CidrBlock="10.0.0.0/16")))
    assert [private.is_filtered("s3", is_complete) for is_complete in (True, False)] == [True, False]
    assert private.is_filtered(None, is_complete=False)


@pytest.mark.parametrize(
    "resource",
    [
        {"Type": "AWS::SQS::Queue"},
        {"Type": "AWS::CDK::Metadata"},
        {"Type": "AWS::Lambda::Function", "Properties": {"VpcConfig": {"SubnetIds": [{"Ref": "Subnet"}]}}},
        of_vpc("AWS::EC2::SecurityGroup"),
        of_vpc("AWS::EC2::SecurityGroupVpcAssociation", GroupId="sg-1"),
        of_vpc("AWS::EC2::FlowLog", ResourceId={"Ref": "Vpc"}),
        of_vpc("AWS::EC2::NetworkAcl"),
        of_vpc("AWS::EC2::VPCGatewayAttachment"),
        {"Type": "AWS::EC2::Route", "Properties": {"RouteTableId": "rtb-1", "NatGatewayId": "nat-1"}},
        of_vpc("AWS::EC2::VPCEndpoint", ServiceName="com.amazonaws.us-west-2.sqs", VpcEndpointType="Interface"),
        {
            "Type": "Custom::VpcRestrictDefaultSG",
            "Properties": {"DefaultSecurityGroupId": {"Fn::GetAtt": ["Vpc", "DefaultSecurityGroup"]}},
        },
        *({"Type": each, "Properties": {"SubnetIds": [{"Ref": "Subnet"}]}} for each in OWN_TYPES),
    ],
)
def test_a_template_shows_all_ways_if_it_only_has_resources_with_known_effects(resource: dict[str, Any]) -> None:
    network = described(declared(resource))
    assert network is not None
    assert network.is_complete


EITHER = {"Fn::If": ["IsPrivate", {"Ref": "Table"}, {"Ref": "Other"}]}


@pytest.mark.parametrize(
    "resource",
    [
        {"Type": "Custom::Routes", "Properties": {"Table": {"Fn::GetAtt": ["Table", "RouteTableId"]}}},
        {"Type": "Custom::Routes"},
        {"Type": "Custom::AWS"},
        {"Type": "Custom::PreflightOfAnother"},
        {"Type": "AWS::CloudFormation::Stack", "Properties": {"Parameters": {"Vpc": {"Ref": "Vpc"}}}},
        {"Type": "AWS::CloudFormation::CustomResource", "Properties": {"Vpc": {"Ref": "Vpc"}}},
        {"Type": "AWS::CloudFormation::Macro"},
        {"Type": "AWS::CloudFormation::StackSet"},
        {"Type": "AWS::EC2::DHCPOptions"},
        {"Type": "AWS::EC2::EgressOnlyInternetGateway"},
        {"Type": "AWS::EC2::Instance"},
        {"Type": "AWS::EC2::TransitGatewayAttachment"},
        {"Type": "AWS::EC2::VPCPeeringConnection"},
        of_vpc("AWS::EC2::VPCDHCPOptionsAssociation", DhcpOptionsId="dopt-1"),
        {"Type": "AWS::NetworkFirewall::Firewall"},
        {"Type": "AWS::NetworkManager::VpcAttachment"},
        {"Type": "AWS::Route53::HostedZone"},
        {"Type": "AWS::Route53Profiles::ProfileAssociation"},
        {"Type": "AWS::Route53Resolver::ResolverRuleAssociation"},
        {"Type": "AWS::SSM::Association"},
        {"Type": "AWS::VpcLattice::ServiceNetworkVpcAssociation"},
        {"Type": "Third::Party::Network"},
        {"Type": "Our::Network::Of::MODULE"},
        {"Fn::Transform": {"Name": "AWS::Include"}},
        {"Type": "AWS::SSM::Parameter", "Properties": {"Value": {"Ref": "Vpc"}}},
        {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": {"TABLE": {"Ref": "Table"}}}}},
        {"Type": "AWS::EC2::Route", "Properties": {"RouteTableId": PARAMETER, "NatGatewayId": "nat-1"}},
        {"Type": "AWS::EC2::Route", "Properties": {"RouteTableId": EITHER, "NatGatewayId": "nat-1"}},
        {"Type": "AWS::EC2::Route", "Properties": {"RouteTableId": {"Fn::ImportValue": "x"}, "NatGatewayId": "nat-1"}},
        {"Type": "AWS::EC2::Route", "Properties": {"Fn::Transform": {"Name": "AWS::Include"}}},
        {"Type": "AWS::EC2::VPNGatewayRoutePropagation", "Properties": {"RouteTableIds": PARAMETER}},
        {
            "Type": "AWS::EC2::SubnetRouteTableAssociation",
            "Properties": {"RouteTableId": {"Ref": "Table"}, "SubnetId": PARAMETER},
        },
        {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcId": PARAMETER, "ServiceName": S3}},
        entry(1, egress=True, NetworkAclId=PARAMETER),
        {"Type": "AWS::EC2::SubnetNetworkAclAssociation", "Properties": {"SubnetId": PARAMETER}},
        of_vpc("AWS::EC2::VPCEndpoint", ServiceName=S3, RouteTableIds=PARAMETER),
        of_vpc("AWS::EC2::VPCEndpoint", ServiceName=S3, RouteTableIds=[EITHER]),
        of_vpc("AWS::EC2::VPCEndpoint", ServiceName=PARAMETER, VpcEndpointType="Interface"),
        of_vpc("AWS::EC2::VPCEndpoint", VpcEndpointType="ServiceNetwork"),
        of_vpc("AWS::EC2::VPCEndpoint", ServiceName=f"{S3}.vpce-svc-0123456789abcdef0", VpcEndpointType="Interface"),
    ],
)
def test_a_resource_whose_effect_is_not_known_may_add_a_way(resource: dict[str, Any]) -> None:
    network = described(declared(resource))
    assert network is not None
    assert not network.is_complete


@pytest.mark.parametrize(
    "sections",
    [
        {"Transform": "Macro"},
        {"Transform": ["AWS::LanguageExtensions"]},
        {"Outputs": {"Export": {"Value": {"Ref": "Vpc"}}}},
        {"Outputs": {"Export": {"Value": {"Fn::GetAtt": ["Table", "RouteTableId"]}}}},
    ],
)
def test_a_macro_or_another_stack_may_add_a_way(sections: dict[str, Any]) -> None:
    network = described(declared(), **sections)
    assert network is not None
    assert not network.is_complete


def test_an_output_without_the_vpc_lets_nobody_add_a_way() -> None:
    network = described(declared(), Outputs={"Subnet": {"Value": {"Fn::GetAtt": ["Vpc", "CidrBlock"]}}})
    assert network is not None
    assert network.is_complete


def test_a_new_subnet_of_an_existing_vpc_may_have_the_endpoints_of_this_vpc() -> None:
    network = described(declared(Subnet={"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": "vpc-1"}}))
    assert network is not None
    assert not network.is_complete
