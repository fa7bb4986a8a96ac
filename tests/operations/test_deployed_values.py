"""The values of templates in their stacks, and what is compared if some of them are unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.operations.deployed_values import resolver_of
from constructs_optim.operations.drift import StackDrift, drift_of
from constructs_optim.operations.stacks import DeployedStack, DeployedTemplates
from constructs_optim.templates.resolution import KnownLater, Resolver
from constructs_optim.templates.template import Template
from constructs_optim_local.cloud import LocalCloud

ELSEWHERE = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/ml/bucket"}
PLAIN = {"Type": "String", "Default": "weights"}


def resolver(template: Mapping[str, Any], parameters: Mapping[str, str] | None = None) -> Resolver:
    return resolver_of(
        Template(template),
        stack_name="Chat",
        account="111122223333",
        region="us-east-1",
        physical_id={"Role": "chat-role"}.get,
        exported=lambda name: None,
        parameters=parameters,
    )


def test_the_default_of_a_parameter_that_names_another_one_is_no_value() -> None:
    values = resolver({"Parameters": {"Bucket": ELSEWHERE, "Prefix": PLAIN}})
    assert values.value({"Ref": "Prefix"}) == "weights"
    with pytest.raises(KnownLater):
        values.value({"Ref": "Bucket"})


def test_deployed_values_take_the_place_of_defaults() -> None:
    values = resolver({"Parameters": {"Bucket": ELSEWHERE, "Prefix": PLAIN}}, {"Bucket": "real"})
    assert values.value({"Ref": "Bucket"}) == "real"
    with pytest.raises(KnownLater):
        values.value({"Ref": "Prefix"})


@pytest.mark.parametrize(("given", "path"), [({}, "/"), ({"Path": "/ml/"}, "/ml/")])
def test_the_arn_of_a_role_has_its_path(given: dict[str, str], path: str) -> None:
    values = resolver({"Resources": {"Role": {"Type": "AWS::IAM::Role", "Properties": given}}})
    assert values.value({"Fn::GetAtt": ["Role", "Arn"]}) == f"arn:aws:iam::111122223333:role{path}chat-role"


def test_a_deployed_stack_has_its_parameters_without_secret_ones(cloud: LocalCloud) -> None:
    template = {
        "Parameters": {"Given": PLAIN, "Default": PLAIN, "Secret": {"Type": "String", "NoEcho": True}},
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
    }
    cloudformation = cloud.client("cloudformation")
    given = [{"ParameterKey": "Given", "ParameterValue": "mine"}, {"ParameterKey": "Secret", "ParameterValue": "x"}]
    cloudformation.create_stack(StackName="with-parameters", TemplateBody=json.dumps(template), Parameters=given)
    cloudformation.get_waiter("stack_create_complete").wait(StackName="with-parameters", WaiterConfig={"Delay": 1})
    stack = DeployedTemplates(lambda region: cloud.client("cloudformation")).stack("with-parameters", None)
    assert stack is not None
    assert stack.parameters == {"Given": "mine", "Default": "weights"}


class Account:
    """A client whose calls answer with what was given by operation, or are denied."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __getattr__(self, operation: str) -> Any:
        def call(**given: Any) -> Any:
            answer = self._answers.get(operation)
            if answer is None:
                raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)
            return answer(given)

        return call

    def get_paginator(self, operation: str) -> Any:
        return Account(paginate=lambda given: [getattr(self, operation)(**given)])


def drift(resources: Mapping[str, Any], ids: Mapping[str, str], account: Account, **given: Any) -> StackDrift:
    template = Template({"Parameters": {"Bucket": ELSEWHERE}, "Resources": resources})
    stack = DeployedStack("Chat", "UPDATE_COMPLETE", "111122223333", "us-east-1", template, ids, **given)
    return drift_of(stack, lambda service: account)


def test_the_grant_on_a_bucket_from_a_parameter_is_not_lost() -> None:
    def document(bucket: Any, secure: Any) -> dict[str, Any]:
        condition = {"Bool": {"aws:SecureTransport": secure}}
        statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": bucket, "Condition": condition}
        return {"Version": "2012-10-17", "Statement": [statement]}

    declared = document({"Fn::Join": ["", ["arn:aws:s3:::", {"Ref": "Bucket"}, "/*"]]}, secure=True)
    properties = {"PolicyName": "grant", "Roles": ["chat-role"], "PolicyDocument": declared}
    resources = {"Grant": {"Type": "AWS::IAM::Policy", "Properties": properties}}

    def found(bucket: str, **given: Any) -> StackDrift:
        actual = document(f"arn:aws:s3:::{bucket}/*", secure="true")
        return drift(resources, {"Grant": "g"}, Account(get_role_policy=lambda _: {"PolicyDocument": actual}), **given)

    assert found("real") == StackDrift()
    assert found("real", parameters={"Bucket": "real"}) == StackDrift()
    (lost,) = found("other", parameters={"Bucket": "real"}).resources
    assert "s3:GetObject on arn:aws:s3:::real/*" in lost.text


def test_a_schedule_is_looked_up_in_its_group() -> None:
    def get_schedule(given: Mapping[str, Any]) -> dict[str, Any]:
        if given.get("GroupName") != "ml":
            error = {"Error": {"Code": "ResourceNotFoundException", "Message": "Schedule nightly does not exist."}}
            raise ClientError(error, "GetSchedule")  # type: ignore[arg-type]
        return {}

    def found(**properties: Any) -> StackDrift:
        resources = {"Nightly": {"Type": "AWS::Scheduler::Schedule", "Properties": properties}}
        return drift(resources, {"Nightly": "nightly"}, Account(get_schedule=get_schedule))

    assert found(GroupName="ml") == StackDrift()
    assert [each.is_missing for each in found().resources] == [True]
    unknown = found(GroupName={"Ref": "Bucket"})
    assert (unknown.resources, len(unknown.not_seen)) == ((), 1)


def test_what_is_found_before_a_denied_call_is_told() -> None:
    targets = {
        name: {"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": {"ScheduledActions": actions}}
        for name, actions in (("Gone", []), ("Scheduled", [{"ScheduledActionName": "night"}]))
    }
    ids = {name: f"endpoint/{name}/variant/All|sagemaker:variant:DesiredInstanceCount|sagemaker" for name in targets}
    there = {"ResourceId": "endpoint/Scheduled/variant/All", "MinCapacity": 1, "MaxCapacity": 2}
    found = drift(targets, ids, Account(describe_scalable_targets=lambda _: {"ScalableTargets": [there]}))
    assert [each.logical_id for each in found.resources] == ["Gone"]
    assert found.not_seen == ("describe_scheduled_actions is denied",)
