"""What each further endpoint costs: jsii calls, resources, and size of the shared roles' policies."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aws_cdk import Duration, Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from aws_cdk.aws_cloudwatch_actions import SnsAction
from jsii._kernel.providers.process import _NodeProcess

from constructs_optim import (
    Alarms,
    AlarmSettings,
    DataCapture,
    MonitoringOptions,
    NetworkOptions,
    OptimizedEndpoint,
    UpdatePolicy,
    VariantOptions,
    Workload,
)

from ..support.construct_stacks import endpoint, resources, stack, template_of
from ..support.sampling import one_in

# With so many endpoints, roles of the stack have their managed policies beside the inline ones.
SETTLED = 4
MOST_RESOURCES = {"bare": 12, "full": 24, "usual": 18}


@contextmanager
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts the requests to Node inside the block, by type."""
    counted: Counter[str] = Counter()
    send = _NodeProcess.send

    def counting(self: Any, request: Any, response_type: Any) -> Any:
        counted[type(request).__name__.strip("_").removesuffix("Request")] += 1
        return send(self, request, response_type)

    with monkeypatch.context() as patched:
        patched.setattr(_NodeProcess, "send", counting)
        yield counted


class Shared:
    """What the endpoints of a stack have in common."""

    def __init__(self, scope: Stack) -> None:
        self.vpc = ec2.Vpc.from_vpc_attributes(
            scope,
            "Vpc",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=["us-west-2a"],
            private_subnet_ids=["subnet-0123456789abcdef0"],
        )
        self.group = ec2.SecurityGroup(scope, "Group", vpc=self.vpc)
        self.key = kms.Key.from_key_arn(
            scope, "Key", "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
        )
        self.captures = s3.Bucket.from_bucket_name(scope, "Captures", "chat-captures")
        self.pages = SnsAction(
            sns.Topic.from_topic_arn(scope, "Pages", "arn:aws:sns:us-west-2:111122223333:pages"),
        )


def bare(scope: Stack, id: str, _: Shared) -> OptimizedEndpoint:
    return endpoint(scope, id)


def usual(scope: Stack, id: str, shared: Shared) -> OptimizedEndpoint:
    """A typical endpoint with each feature once: VPC, scaling, alarms, data capture, evaluation gate."""
    declared = endpoint(
        scope,
        id,
        monitoring=MonitoringOptions(alarm_actions=[shared.pages]),
        data_capture=DataCapture(bucket=shared.captures, encryption_key=shared.key),
        network=NetworkOptions(security_groups=[shared.group], vpc=shared.vpc),
        update_policy=UpdatePolicy.canary(percent=50),
        variant=VariantOptions(initial_instance_count=2),
    )
    scaling = declared.auto_scale(min_capacity=2, max_capacity=8).on_concurrency()
    scaling.on_schedule("Day", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=4)
    declared.evaluate().require(p99_ttft_ms=2000)
    return declared


def full(scope: Stack, id: str, shared: Shared) -> OptimizedEndpoint:
    """An endpoint with every option."""
    declared = endpoint(
        scope,
        id,
        monitoring=MonitoringOptions(
            alarm_actions=[shared.pages],
            alarms=Alarms(latency=AlarmSettings(threshold=20)),
            instance_price_per_hour=7.09,
            ok_actions=[shared.pages],
        ),
        data_capture=DataCapture(bucket=shared.captures, sampling_percentage=5, encryption_key=shared.key),
        variant=VariantOptions(initial_instance_count=2),
        update_policy=UpdatePolicy.canary(percent=50, bake_time=Duration.minutes(15)),
        network=NetworkOptions(vpc=shared.vpc),
    )
    scaling = declared.auto_scale(min_capacity=2, max_capacity=8).on_concurrency(target=8)
    scaling.on_invocations(target=100)
    scaling.on_schedule("Day", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=4)
    scaling.on_schedule("Night", schedule="cron(0 20 ? * MON-FRI *)", min_capacity=1)
    evaluation = declared.evaluate(
        workload=Workload(concurrency=[1, 8, 64], tokenizer="org/model"), schedule="cron(0 4 * * ? *)"
    )
    evaluation.require(p99_ttft_ms=2000, min_output_tokens_per_second=100, max_regression=0.05)
    Tags.of(declared).add("team", "chat")
    return declared


KINDS = {"bare": bare, "usual": usual, "full": full}


@pytest.mark.parametrize("kind", ["bare", "full"])
def test_each_further_endpoint_makes_the_same_number_of_jsii_calls(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = stack()
    shared = Shared(scope)
    for number in range(SETTLED):
        KINDS[kind](scope, f"Endpoint{number}", shared)
    counted: list[Counter[str]] = []
    for name in ("Next", "Last"):
        with calls(monkeypatch) as found:
            KINDS[kind](scope, name, shared)
        counted.append(found)
    following, last = counted
    assert following == last, "the calls per endpoint grow with the number of endpoints"


@pytest.mark.parametrize("kind", one_in(2, ["bare", "full"]))
def test_jsii_calls_during_synthesis_grow_linearly_with_the_endpoints(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(count: int) -> int:
        scope = stack()
        shared = Shared(scope)
        for number in range(count):
            KINDS[kind](scope, f"Endpoint{number}", shared)
        with calls(monkeypatch) as found:
            Template.from_stack(scope)
        return found.total()

    settled, following, last = (of(SETTLED + more) for more in range(3))
    assert last - following <= following - settled, "the synthesis calls per endpoint grow with the number of endpoints"


@pytest.mark.parametrize("kind", one_in(2, KINDS))
def test_a_second_endpoint_adds_the_expected_number_of_resources(kind: str) -> None:
    def of(count: int) -> list[str]:
        scope = stack()
        shared = Shared(scope)
        for number in range(count):
            KINDS[kind](scope, f"Endpoint{number}", shared)
        return sorted(found["Type"] for found in template_of(scope)["Resources"].values())

    one, two = of(1), of(2)
    added = Counter(two) - Counter(one)
    assert added.total() == MOST_RESOURCES[kind], added


@pytest.mark.exhaustive
def test_twenty_five_endpoints_stay_within_template_resource_and_role_policy_limits() -> None:
    scope = stack()
    shared = Shared(scope)
    for number in range(25):
        usual(scope, f"Endpoint{number}", shared)
    template = template_of(scope)
    assert 450 < len(template["Resources"]) < 500
    roles = [role for role in resources(template, "AWS::IAM::Role") if "Policies" in role]
    assert roles
    for role in roles:
        # Of all policies of a role together, without white space (IAM user guide, "IAM and AWS STS quotas").
        assert sum(len(deployed(policy["PolicyDocument"])) for policy in role["Policies"]) < 10_240, role["Description"]


def deployed(value: Any) -> str:
    """JSON without white space at its deployed length: references have the length of ARN parts."""
    known = {"AWS::Partition": "aws-us-gov", "AWS::Region": "ap-southeast-2", "AWS::AccountId": "1" * 12}

    def text(part: Any) -> Any:
        match part:
            case {"Ref": name}:
                return known.get(name, "x" * 64)
            case {"Fn::Join": [delimiter, parts]}:
                return delimiter.join(map(text, parts))
            case {"Fn::Sub": str() as template}:
                return re.sub(r"\$\{([^}]+)\}", lambda found: known[found[1]], template)
            case {"Fn::GetAtt": _}:
                return "x" * 128
            case dict():
                return {name: text(each) for name, each in part.items()}
            case list():
                return [text(each) for each in part]
            case _:
                return part

    return json.dumps(text(value), separators=(",", ":"))
