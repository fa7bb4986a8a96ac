"""What change sets report of replacements, compared with the schemas of CloudFormation's registry."""

from __future__ import annotations

import json
from typing import Any

import pytest
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
