"""The ways out of a VPC that the app declares: what synthesis refuses, warns of, and lets through."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import App, CfnOutput, CfnResource, Fn, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_route53 as route53

from constructs_optim import Model, NetworkOptions, Quantization, TrainingCompute

from ..support.construct_stacks import ENVIRONMENT, endpoint, resource, template_of
from ..support.construct_stacks import stack as new_stack

ISOLATED = ec2.SubnetConfiguration(name="Isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
PUBLIC = ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC)
GATEWAY = ec2.GatewayVpcEndpointAwsService.S3
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
MIRRORS = {"HF_ENDPOINT": "https://hub.internal", "PIP_INDEX_URL": "https://pypi.internal/simple"}


def vpc_of(scope: Stack, *subnets: ec2.SubnetConfiguration) -> ec2.Vpc:
    return ec2.Vpc(scope, "Vpc", nat_gateways=0, max_azs=2, subnet_configuration=list(subnets))


def copied(environment: dict[str, str] | None = None) -> Model:
    compute = TrainingCompute(environment=environment) if environment is not None else None
    return Model.huggingface("Qwen/Qwen3-8B", revision=COMMIT, compute=compute)


def advised(scope: Stack) -> set[str]:
    entries = [str(entry.data) for each in scope.node.find_all() for entry in each.node.metadata]
    return {
        rule for rule in ("OPT248", "OPT249", "OPT266") if any(f"constructs-optim:{rule}" in text for text in entries)
    }


@pytest.mark.parametrize("techniques", [[Quantization.awq()], []])
def test_isolated_subnets_without_a_way_to_s3_are_refused(techniques: list[Any]) -> None:
    scope = new_stack()
    network = NetworkOptions(vpc=vpc_of(scope, ISOLATED))
    endpoint(scope, techniques=techniques, instance_type="ml.g5.48xlarge", network=network)
    with pytest.raises(RuntimeError, match=r"OPT246[\s\S]*IsolatedSubnet1[\s\S]*add_gateway_endpoint"):
        template_of(scope)


def test_an_endpoint_of_s3_may_be_added_after_the_endpoint() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    vpc.add_gateway_endpoint("S3", service=GATEWAY)
    template_of(scope)
    assert advised(scope) == set()


def test_a_gateway_endpoint_of_other_route_tables_is_no_way() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED, PUBLIC)
    public = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)
    vpc.add_gateway_endpoint("S3", service=GATEWAY, subnets=[public])
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    with pytest.raises(RuntimeError, match="OPT246"):
        template_of(scope)


@pytest.mark.parametrize(
    "add",
    [
        lambda vpc: vpc.add_interface_endpoint("S3", service=ec2.InterfaceVpcEndpointAwsService.S3),
        lambda vpc: [
            ec2.CfnRoute(
                vpc,
                f"Transit{number}",
                route_table_id=subnet.route_table.route_table_id,
                destination_cidr_block="0.0.0.0/0",
                transit_gateway_id="tgw-1",
            )
            for number, subnet in enumerate(vpc.isolated_subnets)
        ],
    ],
)
def test_other_ways_to_s3_are_let_through(add: Callable[[ec2.Vpc], Any]) -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    add(vpc)
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    template_of(scope)
    assert advised(scope) == set()


def test_a_copy_without_a_way_to_the_internet_is_refused_unless_mirrors_are_named() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    vpc.add_gateway_endpoint("S3", service=GATEWAY)
    endpoint(scope, model=copied(), techniques=[], network=NetworkOptions(vpc=vpc))
    with pytest.raises(
        RuntimeError, match=r"OPT247[\s\S]*huggingface\.co and pypi\.org[\s\S]*HF_ENDPOINT.*PIP_INDEX_URL"
    ):
        template_of(scope)
    mirrored = new_stack()
    vpc = vpc_of(mirrored, ISOLATED)
    vpc.add_gateway_endpoint("S3", service=GATEWAY)
    endpoint(mirrored, model=copied(MIRRORS), techniques=[], network=NetworkOptions(vpc=vpc))
    template_of(mirrored)


def test_private_names_of_a_vpc_are_not_decided() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    vpc.add_gateway_endpoint("S3", service=GATEWAY)
    route53.PrivateHostedZone(scope, "Zone", vpc=vpc, zone_name="huggingface.co")
    endpoint(scope, model=copied(), techniques=[], network=NetworkOptions(vpc=vpc))
    template_of(scope)
    assert advised(scope) == {"OPT249"}


@pytest.mark.parametrize("has_unknown", [False, True])
def test_what_may_complete_a_network_makes_the_error_a_warning(has_unknown: bool) -> None:
    scope = new_stack()
    network = NetworkOptions(vpc=vpc_of(scope, ISOLATED))
    endpoint(scope, model=copied(), techniques=[], network=network)
    if has_unknown:
        CfnResource(scope, "Unknown", type="Third::Party::Network")
        template_of(scope)
        assert advised(scope) == {"OPT248", "OPT249"}
    else:
        with pytest.raises(RuntimeError, match=r"OPT246[\s\S]*OPT247"):
            template_of(scope)


def test_what_an_endpoint_adds_to_a_stack_leaves_no_doubt() -> None:
    scope = new_stack()
    created = endpoint(scope, network=NetworkOptions(vpc=vpc_of(scope, ISOLATED)))
    created.evaluate(schedule="rate(7 days)")
    with pytest.raises(RuntimeError, match="OPT246"):
        template_of(scope)


def test_the_code_that_the_messages_suggest_works() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED, PUBLIC)
    public = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)
    model = Model.huggingface("Qwen/Qwen3-8B", revision=COMMIT, token_secret_arn=SECRET)
    endpoint(scope, model=model, techniques=[], network=NetworkOptions(vpc=vpc, vpc_subnets=public))
    template_of(scope)
    texts = [str(entry.data) for each in scope.node.find_all() for entry in each.node.metadata]
    calls = {
        call for text in texts for call in re.findall(r"vpc\.add_\w+_endpoint\(.*?\)(?=,? or)", text.replace("\\", ""))
    }
    assert {call.partition("(")[0] for call in calls} == {"vpc.add_gateway_endpoint", "vpc.add_interface_endpoint"}
    (environment,) = {
        found[1] for text in texts if (found := re.search(r"TrainingCompute\(environment=(\{.*?\})", text))
    }
    assert list(ast.literal_eval(environment)) == ["HF_ENDPOINT", "PIP_INDEX_URL"]

    completed = new_stack()
    vpc = vpc_of(completed, ISOLATED)
    for call in calls:
        eval(call, {"vpc": vpc, "ec2": ec2})
    compute = TrainingCompute(environment=ast.literal_eval(environment))
    model = Model.huggingface("Qwen/Qwen3-8B", revision=COMMIT, token_secret_arn=SECRET, compute=compute)
    endpoint(completed, model=model, techniques=[], network=NetworkOptions(vpc=vpc))
    template_of(completed)
    assert advised(completed) == set()


def test_public_subnets_are_advised_against() -> None:
    scope = new_stack()
    endpoint(scope, model=copied(), techniques=[], network=NetworkOptions(vpc=vpc_of(scope, PUBLIC)))
    template_of(scope)
    assert advised(scope) == {"OPT248", "OPT249"}


def test_private_subnets_with_a_nat_gateway_are_let_through() -> None:
    scope = new_stack()
    endpoint(scope, model=copied(), techniques=[], network=NetworkOptions(vpc=ec2.Vpc(scope, "Vpc", max_azs=2)))
    template_of(scope)
    assert advised(scope) == set()


def test_a_vpc_of_another_stack_is_advised_of_and_left_to_the_preflight() -> None:
    app = App()
    base, chat = (Stack(app, name, env=ENVIRONMENT) for name in ("Base", "Chat"))
    endpoint(chat, model=copied(), techniques=[], network=NetworkOptions(vpc=vpc_of(base, ISOLATED)))
    template = template_of(chat)
    assert advised(chat) == {"OPT248", "OPT249"}
    (need,) = resource(template, "Custom::Preflight")["Networks"]
    assert need["Hosts"] == ["huggingface.co", "pypi.org"]


def test_a_vpc_that_exists_is_left_to_the_preflight() -> None:
    scope = new_stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-1", availability_zones=["us-west-2a"], isolated_subnet_ids=["subnet-1"]
    )
    selection = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
    endpoint(scope, model=copied(), techniques=[], network=NetworkOptions(vpc=vpc, vpc_subnets=selection))
    (need,) = resource(template_of(scope), "Custom::Preflight")["Networks"]
    assert need == {"SubnetIds": ["subnet-1"], "InstanceCount": 1, "Hosts": ["huggingface.co", "pypi.org"]}


def with_groups(
    scope: Stack, vpc: ec2.IVpc, *groups: ec2.ISecurityGroup, model: Model | None = None, **options: Any
) -> None:
    network = NetworkOptions(vpc=vpc, security_groups=list(groups), **options)
    endpoint(scope, model=model or Model.s3("s3://models/mine/"), techniques=[], network=network)


def closed_group(scope: Stack, vpc: ec2.IVpc, name: str = "Group") -> ec2.SecurityGroup:
    return ec2.SecurityGroup(scope, name, vpc=vpc, allow_all_outbound=False)


def with_gateway(scope: Stack) -> ec2.Vpc:
    vpc = vpc_of(scope, ISOLATED)
    vpc.add_gateway_endpoint("S3", service=GATEWAY)
    return vpc


def route_all(vpc: ec2.Vpc, **route: Any) -> None:
    for number, subnet in enumerate(vpc.isolated_subnets):
        ec2.CfnRoute(vpc, f"Out{number}", route_table_id=subnet.route_table.route_table_id, **route)


def test_security_groups_that_let_nothing_out_are_refused() -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    with_groups(scope, vpc, closed_group(scope, vpc))
    with pytest.raises(RuntimeError, match=r"OPT265[\s\S]*needs S3 by HTTPS.*no outbound rule"):
        template_of(scope)
    copying = new_stack()
    vpc = ec2.Vpc(copying, "Vpc", max_azs=2)
    with_groups(copying, vpc, closed_group(copying, vpc), model=copied())
    with pytest.raises(RuntimeError, match=r"OPT265[\s\S]*needs S3, huggingface\.co and pypi\.org by HTTPS"):
        template_of(copying)


def test_a_closed_security_group_is_refused_in_a_vpc_that_exists() -> None:
    scope = new_stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-1", availability_zones=["us-west-2a"], private_subnet_ids=["subnet-1"]
    )
    with_groups(scope, vpc, closed_group(scope, vpc))
    with pytest.raises(RuntimeError, match="OPT265"):
        template_of(scope)


@pytest.mark.parametrize(
    "add",
    [
        lambda group: group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443)),
        lambda group: group.add_egress_rule(ec2.Peer.prefix_list("pl-1"), ec2.Port.tcp(443)),
        lambda group: group.connections.allow_to_any_ipv4(ec2.Port.tcp_range(1, 65535)),
    ],
)
def test_security_groups_that_let_requests_out_are_let_through(add: Callable[[ec2.SecurityGroup], Any]) -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    group = closed_group(scope, vpc)
    with_groups(scope, vpc, group)
    # Rules may be added after the endpoint.
    add(group)
    template_of(scope)
    assert advised(scope) == set()


def test_one_security_group_that_lets_requests_out_is_enough() -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    existing = ec2.SecurityGroup.from_security_group_id(scope, "Existing", "sg-1")
    with_groups(scope, vpc, closed_group(scope, vpc), existing)
    template_of(scope)
    assert advised(scope) == set()


@pytest.mark.parametrize("has_interface", [False, True])
def test_private_addresses_are_enough_for_an_interface_endpoint(has_interface: bool) -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    if has_interface:
        vpc.add_interface_endpoint("S3Interface", service=ec2.InterfaceVpcEndpointAwsService.S3)
    group = closed_group(scope, vpc)
    group.add_egress_rule(ec2.Peer.ipv4(vpc.vpc_cidr_block), ec2.Port.tcp(443))
    with_groups(scope, vpc, group)
    if has_interface:
        template_of(scope)
        assert advised(scope) == set()
    else:
        with pytest.raises(RuntimeError, match=r"OPT265[\s\S]*lead only to private addresses"):
            template_of(scope)


def test_private_addresses_may_be_enough_in_a_vpc_that_exists() -> None:
    scope = new_stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-1", availability_zones=["us-west-2a"], private_subnet_ids=["subnet-1"]
    )
    group = closed_group(scope, vpc)
    group.add_egress_rule(ec2.Peer.ipv4("10.0.0.0/8"), ec2.Port.tcp(443))
    with_groups(scope, vpc, group)
    template_of(scope)
    assert advised(scope) == set()


def test_rules_that_something_else_may_add_make_the_error_a_warning() -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    group = closed_group(scope, vpc)
    CfnResource(scope, "Unknown", type="Custom::Rules", properties={"Group": group.security_group_id})
    with_groups(scope, vpc, group)
    template_of(scope)
    assert advised(scope) == {"OPT266"}


def test_a_security_group_of_another_stack_is_advised_of() -> None:
    app = App()
    base, chat = (Stack(app, name, env=ENVIRONMENT) for name in ("Base", "Chat"))
    vpc = with_gateway(base)
    with_groups(chat, vpc, closed_group(base, vpc))
    template_of(chat)
    assert advised(chat) == {"OPT266"}


@pytest.mark.parametrize("is_of_other", [False, True])
def test_a_security_group_of_another_vpc_is_refused(is_of_other: bool) -> None:
    scope = new_stack()
    vpc, other = ec2.Vpc(scope, "Vpc", max_azs=2), ec2.Vpc(scope, "Other", max_azs=1)
    with_groups(scope, vpc, ec2.SecurityGroup(scope, "Group", vpc=other if is_of_other else vpc))
    if is_of_other:
        with pytest.raises(RuntimeError, match=r"OPT267[\s\S]*subnets of Vpc\w+, and this group belongs to Other\w+"):
            template_of(scope)
    else:
        template_of(scope)


def test_a_security_group_of_the_vpc_of_another_stack_is_let_through() -> None:
    app = App()
    base, chat = (Stack(app, name, env=ENVIRONMENT) for name in ("Base", "Chat"))
    vpc = with_gateway(base)
    with_groups(chat, vpc, ec2.SecurityGroup(chat, "Group", vpc=vpc))
    template_of(chat)


OTHER_VPC = "vpc-0123456789abcdef1"


@pytest.mark.parametrize(
    ("vpc_id", "is_refused"),
    [("vpc-0123456789abcdef0", True), (OTHER_VPC, False), ("vpc-12345", False), (None, False)],
)
def test_a_security_group_of_another_vpc_that_exists_is_refused(vpc_id: str | None, is_refused: bool) -> None:
    scope = new_stack()
    vpc, other = (
        ec2.Vpc.from_vpc_attributes(
            scope,
            name,
            vpc_id=identity or Fn.import_value("Vpc"),
            availability_zones=["us-west-2a"],
            private_subnet_ids=["subnet-1"],
        )
        for name, identity in (("Vpc", vpc_id), ("Other", OTHER_VPC))
    )
    with_groups(scope, vpc, ec2.SecurityGroup(scope, "Group", vpc=other))
    if is_refused:
        with pytest.raises(RuntimeError, match=rf"OPT267[\s\S]*this group belongs to {OTHER_VPC}"):
            template_of(scope)
    else:
        template_of(scope)


@pytest.mark.parametrize("names_group", [True, False])
def test_a_security_group_may_be_associated_with_the_vpc(names_group: bool) -> None:
    scope = new_stack()
    vpc, other = ec2.Vpc(scope, "Vpc", max_azs=2), ec2.Vpc(scope, "Other", max_azs=1)
    group, another = (ec2.SecurityGroup(scope, name, vpc=other) for name in ("Group", "Another"))
    with_groups(scope, vpc, group)
    associated = group if names_group else another
    ec2.CfnSecurityGroupVpcAssociation(scope, "Of", group_id=associated.security_group_id, vpc_id=vpc.vpc_id)
    if names_group:
        template_of(scope)
    else:
        with pytest.raises(RuntimeError, match="OPT267"):
            template_of(scope)


def test_what_another_stack_may_associate_is_let_through() -> None:
    scope = new_stack()
    vpc, other = ec2.Vpc(scope, "Vpc", max_azs=2), ec2.Vpc(scope, "Other", max_azs=1)
    group = ec2.SecurityGroup(scope, "Group", vpc=other)
    with_groups(scope, vpc, group)
    CfnOutput(scope, "GroupId", value=group.security_group_id)
    template_of(scope)


ALL = {"ip_protocol": "-1", "from_port": 0, "to_port": 0}


def test_a_rule_for_all_protocols_is_for_all_ports() -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    anywhere = ec2.CfnSecurityGroup.EgressProperty(**ALL, cidr_ip="0.0.0.0/0")
    own = ec2.CfnSecurityGroup(
        scope, "Own", group_description="Own", vpc_id=vpc.vpc_id, security_group_egress=[anywhere]
    )
    with_groups(scope, vpc, ec2.SecurityGroup.from_security_group_id(scope, "Of", own.attr_group_id))
    template_of(scope)
    assert advised(scope) == set()

    beside = new_stack()
    vpc = with_gateway(beside)
    group = closed_group(beside, vpc)
    ec2.CfnSecurityGroupEgress(beside, "Egress", group_id=group.security_group_id, cidr_ip="0.0.0.0/0", **ALL)
    with_groups(beside, vpc, group)
    template_of(beside)
    assert advised(beside) == set()


def test_an_entry_for_all_protocols_is_for_all_ports() -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    isolated = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
    acl = ec2.NetworkAcl(scope, "Acl", vpc=vpc, subnet_selection=isolated)
    for egress in (True, False):
        ec2.CfnNetworkAclEntry(
            scope,
            f"All{egress}",
            network_acl_id=acl.network_acl_id,
            egress=egress,
            protocol=-1,
            port_range=ec2.CfnNetworkAclEntry.PortRangeProperty(from_=0, to=0),
            cidr_block="0.0.0.0/0",
            rule_action="allow",
            rule_number=100,
        )
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    template_of(scope)
    assert advised(scope) == set()


def test_the_group_of_an_interface_endpoint_may_let_in_all_protocols() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    from_vpc = ec2.CfnSecurityGroup.IngressProperty(**ALL, cidr_ip=vpc.vpc_cidr_block)
    group = ec2.CfnSecurityGroup(
        scope, "Group", group_description="In", vpc_id=vpc.vpc_id, security_group_ingress=[from_vpc]
    )
    of = ec2.SecurityGroup.from_security_group_id(scope, "Of", group.attr_group_id)
    service = ec2.InterfaceVpcEndpointAwsService.S3
    vpc.add_interface_endpoint("S3", service=service, open=False, security_groups=[of])
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    template_of(scope)
    assert advised(scope) == set()


def test_a_route_to_private_addresses_leads_neither_to_s3_nor_to_the_internet() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    route_all(vpc, destination_cidr_block="10.99.0.0/16", transit_gateway_id="tgw-1")
    endpoint(scope, model=copied(), techniques=[], network=NetworkOptions(vpc=vpc))
    with pytest.raises(RuntimeError, match=r"OPT246[\s\S]*OPT247[\s\S]*have no route to public addresses"):
        template_of(scope)


def test_what_lies_behind_an_attached_transit_gateway_is_not_decided() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    ids = [subnet.subnet_id for subnet in vpc.isolated_subnets]
    ec2.CfnTransitGatewayAttachment(scope, "Of", transit_gateway_id="tgw-1", vpc_id=vpc.vpc_id, subnet_ids=ids)
    route_all(vpc, destination_cidr_block="10.0.0.0/8", transit_gateway_id="tgw-1")
    endpoint(scope, model=copied(), techniques=[], network=NetworkOptions(vpc=vpc))
    template_of(scope)
    assert advised(scope) == {"OPT249"}


def test_a_private_nat_gateway_does_not_lead_to_the_internet() -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    nat = ec2.CfnNatGateway(scope, "Nat", subnet_id=vpc.isolated_subnets[0].subnet_id, connectivity_type="private")
    route_all(vpc, destination_cidr_block="0.0.0.0/0", nat_gateway_id=nat.ref)
    endpoint(scope, model=copied(), techniques=[], network=NetworkOptions(vpc=vpc))
    with pytest.raises(RuntimeError, match=r"OPT247[\s\S]*The NAT gateway Nat does not lead to the internet"):
        template_of(scope)


@pytest.mark.parametrize("has_names", [False, True])
def test_an_interface_endpoint_of_s3_needs_private_names(has_names: bool) -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    service = ec2.InterfaceVpcEndpointAwsService.S3
    vpc.add_interface_endpoint("S3", service=service, private_dns_enabled=has_names)
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    if has_names:
        template_of(scope)
    else:
        with pytest.raises(RuntimeError, match=r"OPT246[\s\S]*no private DNS names[\s\S]*private_dns_enabled=True"):
            template_of(scope)


@pytest.mark.parametrize(
    "let_in",
    [
        None,
        lambda endpoint: endpoint.connections.allow_default_port_from_any_ipv4(),
        lambda endpoint: endpoint.connections.allow_default_port_from(
            ec2.SecurityGroup(endpoint, "Client", vpc=endpoint.node.scope)
        ),
    ],
)
def test_the_security_group_of_an_interface_endpoint_lets_requests_in(
    let_in: Callable[[ec2.InterfaceVpcEndpoint], Any] | None,
) -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    added = vpc.add_interface_endpoint("S3", service=ec2.InterfaceVpcEndpointAwsService.S3, open=False)
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    if let_in is None:
        with pytest.raises(RuntimeError, match=r"OPT246[\s\S]*have no inbound rule for HTTPS[\s\S]*open=True"):
            template_of(scope)
    else:
        let_in(added)
        template_of(scope)
        assert advised(scope) == set()


def test_a_group_that_the_stack_does_not_declare_may_let_requests_in() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    closed = ec2.SecurityGroup(scope, "Closed", vpc=vpc)
    imported = ec2.SecurityGroup.from_security_group_id(scope, "Imported", "sg-0123456789abcdef0")
    service = ec2.InterfaceVpcEndpointAwsService.S3
    vpc.add_interface_endpoint("S3", service=service, open=False, security_groups=[closed, imported])
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    template_of(scope)
    assert not {each for each in advised(scope) if "OPT246" in str(each)}


def test_private_names_of_one_s_own_may_lead_to_an_interface_endpoint() -> None:
    scope = new_stack()
    vpc = vpc_of(scope, ISOLATED)
    service = ec2.InterfaceVpcEndpointAwsService.S3
    vpc.add_interface_endpoint("S3", service=service, private_dns_enabled=False)
    route53.PrivateHostedZone(scope, "Zone", vpc=vpc, zone_name="s3.us-west-2.amazonaws.com")
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    template_of(scope)
    assert advised(scope) == {"OPT248"}


def test_the_entries_and_rules_that_the_messages_suggest_work() -> None:
    scope = new_stack()
    vpc = with_gateway(scope)
    isolated = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
    acl = ec2.NetworkAcl(scope, "Acl", vpc=vpc, subnet_selection=isolated)
    group = closed_group(scope, vpc)
    with_groups(scope, vpc, group)
    with pytest.raises(RuntimeError, match=r"OPT246[\s\S]*OPT265") as refused:
        template_of(scope)
    calls = re.findall(r"acl\.add_entry\(.*?EGRESS\)|acl\.add_entry\([^)]*?Responses.*?INGRESS\)", str(refused.value))
    calls += re.findall(r"security_group\.add_egress_rule\(.*?\)\)", str(refused.value))
    assert len(calls) == 3
    for call in calls:
        eval(call, {"acl": acl, "security_group": group, "ec2": ec2})
    template_of(scope)
    assert advised(scope) == set()
