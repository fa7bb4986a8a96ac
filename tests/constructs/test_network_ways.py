"""The ways out of a VPC that the app declares: what synthesis refuses, warns of, and lets through."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import App, CfnResource, Stack
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
    return {rule for rule in ("OPT248", "OPT249") if any(f"constructs-optim:{rule}" in text for text in entries)}


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
