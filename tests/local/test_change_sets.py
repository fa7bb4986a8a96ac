"""What change sets report of replacements, compared with the schemas of CloudFormation's registry."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.cloudformation.registry import recreation, resource_types

from ..support.cloudformation_stacks import Stack, hosting
from ..support.waiting import until

REGION = "us-west-2"
ALARM: dict[str, Any] = {
    "Type": "AWS::CloudWatch::Alarm",
    "Properties": {
        "AlarmName": "busy",
        "AlarmDescription": "The endpoint is busy.",
        "Namespace": "AWS/SageMaker",
        "MetricName": "Invocations",
        "ComparisonOperator": "GreaterThanThreshold",
        "EvaluationPeriods": 1,
        "Period": 60,
        "Statistic": "Sum",
        "Threshold": 8,
    },
}
USED = {
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SageMaker::Endpoint",
    "AWS::SageMaker::EndpointConfig",
    "AWS::SageMaker::InferenceComponent",
    "AWS::SageMaker::Model",
    "AWS::SNS::Topic",
    "AWS::StepFunctions::StateMachine",
}


def changed(resource: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**resource, "Properties": {**resource["Properties"], **properties}}


def reported(stack: Stack, resources: dict[str, Any]) -> dict[str, tuple[str, dict[str, str]]]:
    """What a change set says of each changed resource: whether it is replaced, and because of which properties."""
    named = {"StackName": stack.name, "ChangeSetName": "next"}
    stack.cloudformation.create_change_set(**named, TemplateBody=json.dumps({"Resources": resources}))
    found = until(
        lambda: stack.cloudformation.describe_change_set(**named),
        lambda described: described["Status"] in ("CREATE_COMPLETE", "FAILED"),
    )
    stack.cloudformation.delete_change_set(**named)
    changes = [change["ResourceChange"] for change in found["Changes"]]
    return {
        change["LogicalResourceId"]: (
            change["Replacement"],
            {detail["Target"]["Name"]: detail["Target"]["RequiresRecreation"] for detail in change["Details"]},
        )
        for change in changes
    }


@pytest.mark.parametrize("type_name", sorted(USED))
def test_replacements_are_those_of_cfn_lints_schemas(type_name: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, type_name).schema
    always = {pointer.split("/")[2] for pointer in schema.get("createOnlyProperties", []) if pointer.count("/") == 2}
    others = {pointer.split("/")[2] for pointer in schema.get("createOnlyProperties", [])} - always
    others |= {pointer.split("/")[2] for pointer in schema.get("conditionalCreateOnlyProperties", [])} - always
    for name in schema["properties"]:
        expected = "Always" if name in always else "Conditionally" if name in others else "Never"
        assert recreation(type_name, name, REGION) == expected, f"{type_name}.{name}"


def test_types_and_properties_that_the_registry_lacks_may_be_replaced() -> None:
    for type_name in ("Custom::ServedConfiguration", "AWS::CloudFormation::CustomResource", "AWS::CDK::Metadata"):
        assert recreation(type_name, "Anything", REGION) == "Conditionally"
    assert recreation("AWS::SNS::Topic", "Anything", REGION) == "Conditionally"
    assert recreation("AWS::SNS::Topic", "TopicName", "xx-nowhere-1") == "Conditionally"
    assert resource_types("xx-nowhere-1") is None


def test_a_change_set_lists_replacement_only_for_replaced_resources(cloud: LocalCloud) -> None:
    stack, before = Stack(cloud, "reported"), {"Alarm": ALARM, **hosting()}
    stack.deploy(before)
    assert reported(stack, {**before, "Alarm": changed(ALARM, Threshold=6, AlarmDescription="It is not.")}) == {
        "Alarm": ("False", {"AlarmDescription": "Never", "Threshold": "Never"}),
    }
    assert reported(stack, {**before, "Alarm": changed(ALARM, AlarmName="idle")}) == {
        "Alarm": ("True", {"AlarmName": "Always"}),
    }
    assert reported(stack, {**before, **hosting(count=2)}) == {
        "Config": ("True", {"ProductionVariants": "Always"}),
        # Its name changes with the configuration's replacement, and the endpoint is updated in place.
        "Endpoint": ("False", {"EndpointConfigName": "Never"}),
    }
    stack.delete()


WAITING: dict[str, Any] = {
    "Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
    "Condition": {
        "Type": "AWS::CloudFormation::WaitCondition",
        "Properties": {"Handle": {"Ref": "Handle"}, "Timeout": "3600"},
    },
}


def test_during_an_update_a_stack_takes_no_change_set_and_no_deletion(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "busy")
    assert stack.deploy({"Alarm": ALARM}) == "CREATE_COMPLETE"
    template = json.dumps({"Resources": {"Alarm": ALARM, **WAITING}})
    stack.cloudformation.update_stack(StackName="busy", TemplateBody=template)
    changed_template = json.dumps({"Resources": {"Alarm": changed(ALARM, Threshold=9)}})
    with pytest.raises(ClientError, match=r"Stack:arn:\S+ is in UPDATE_IN_PROGRESS state and can not be updated"):
        stack.cloudformation.create_change_set(StackName="busy", ChangeSetName="next", TemplateBody=changed_template)
    with pytest.raises(ClientError, match=r"Stack \[arn:\S+\] cannot be deleted while in status UPDATE_IN_PROGRESS"):
        stack.cloudformation.delete_stack(StackName="busy")
    handle = stack.physical_id("Handle")
    signal = {"Status": "SUCCESS", "Reason": "", "UniqueId": "1", "Data": ""}
    request = urllib.request.Request(handle, json.dumps(signal).encode(), {"Content-Type": ""}, method="PUT")
    urllib.request.urlopen(request).close()
    assert until(stack.status, lambda status: not status.endswith("_IN_PROGRESS")) == "UPDATE_COMPLETE"
    stack.cloudformation.create_change_set(StackName="busy", ChangeSetName="next", TemplateBody=changed_template)
    stack.delete()


def test_a_stack_whose_creation_was_rolled_back_takes_no_change_set_and_may_be_deleted(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "rolled-back")
    missing = {"Type": "AWS::SageMaker::Endpoint", "Properties": {"EndpointConfigName": "missing"}}
    assert stack.deploy({"Alarm": ALARM, "Endpoint": {**missing, "DependsOn": "Alarm"}}) == "ROLLBACK_COMPLETE"
    template = json.dumps({"Resources": {"Alarm": ALARM}})
    with pytest.raises(ClientError, match="is in ROLLBACK_COMPLETE state and can not be updated"):
        stack.cloudformation.create_change_set(StackName=stack.name, ChangeSetName="next", TemplateBody=template)
    stack.delete()
