"""Imports of endpoints that somebody made: CloudFormation takes them as they are, or refuses in its words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack
from ..support.hosting import deploy, make_model
from ..support.inference_components import create, needing
from ..support.scaled_variants import variant
from ..support.waiting import until

Resource = dict[str, Any]
_CHANGING = ("Create", "Update", "Delete", "Register", "Deregister", "Put", "Add")


def endpoint_of(name: str) -> Resource:
    return {
        "Type": "AWS::SageMaker::Endpoint",
        "DeletionPolicy": "Retain",
        "Properties": {"EndpointName": name, "EndpointConfigName": name},
    }


class Import:
    """An import of resources by a change set: each logical id has a resource and its identifier."""

    def __init__(self, cloud: LocalCloud, stack_name: str) -> None:
        self.cloud, self.stack = cloud, Stack(cloud, stack_name)
        self.client = self.stack.cloudformation

    def request(self, resources: dict[str, Resource], identifiers: dict[str, Resource]) -> None:
        self.client.create_change_set(
            StackName=self.stack.name,
            ChangeSetName="import",
            ChangeSetType="IMPORT",
            TemplateBody=json.dumps({"Resources": resources}),
            ResourcesToImport=[
                {
                    "ResourceType": resources[logical_id]["Type"],
                    "LogicalResourceId": logical_id,
                    "ResourceIdentifier": identifier,
                }
                for logical_id, identifier in identifiers.items()
            ],
        )

    def review(self) -> dict[str, Any]:
        return self.client.describe_change_set(StackName=self.stack.name, ChangeSetName="import")

    def execute(self) -> str:
        self.client.execute_change_set(StackName=self.stack.name, ChangeSetName="import")
        return until(self.stack.status, lambda status: not status.endswith("_IN_PROGRESS"))

    def refused(self, resources: dict[str, Resource], identifiers: dict[str, Resource]) -> str:
        with pytest.raises(ClientError) as refused:
            self.request(resources, identifiers)
        return refused.value.response["Error"]["Message"]


def test_an_endpoint_with_its_scaling_is_imported_without_a_call_that_changes_it(cloud: LocalCloud) -> None:
    sagemaker, scaling = cloud.client("sagemaker"), cloud.client("application-autoscaling")
    made = deploy(sagemaker, "ByHand")
    target = {**variant("ByHand"), "MinCapacity": 1, "MaxCapacity": 3}
    scaling.register_scalable_target(**target)
    tracking = {
        "TargetValue": 70.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
    }
    policy_arn = scaling.put_scaling_policy(
        **variant("ByHand"),
        PolicyName="invocations",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=tracking,
    )["PolicyARN"]
    resources = {
        "Endpoint": endpoint_of("ByHand"),
        "Target": {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "DeletionPolicy": "Retain",
            "Properties": {
                **target,
                "ResourceId": {"Fn::Sub": "endpoint/${Endpoint.EndpointName}/variant/AllTraffic"},
            },
        },
        "Policy": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "DeletionPolicy": "Retain",
            "Properties": {
                "PolicyName": "invocations",
                "PolicyType": "TargetTrackingScaling",
                "ScalingTargetId": {"Ref": "Target"},
                "TargetTrackingScalingPolicyConfiguration": tracking,
            },
        },
    }
    identifiers = {
        "Endpoint": {"EndpointArn": made["EndpointArn"]},
        "Target": variant("ByHand"),
        "Policy": {"Arn": policy_arn, "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"},
    }
    summary = cloud.client("cloudformation").get_template_summary(TemplateBody=json.dumps({"Resources": resources}))
    importable = {each["ResourceType"]: each["ResourceIdentifiers"] for each in summary["ResourceIdentifierSummaries"]}
    assert importable["AWS::SageMaker::Endpoint"] == ["EndpointArn"]
    assert importable["AWS::ApplicationAutoScaling::ScalingPolicy"] == ["Arn,ScalableDimension"]

    calls = len(cloud.calls())
    imported = Import(cloud, "adopted")
    imported.request(resources, identifiers)
    changes = [change["ResourceChange"] for change in imported.review()["Changes"]]
    assert {change["LogicalResourceId"]: change["Action"] for change in changes} == dict.fromkeys(resources, "Import")
    assert imported.execute() == "IMPORT_COMPLETE", imported.stack.reasons()
    assert [call for call in cloud.calls()[calls:] if call["operation"].startswith(_CHANGING)] == []
    assert imported.stack.physical_id("Endpoint") == made["EndpointArn"]
    assert imported.stack.physical_id("Policy") == policy_arn
    assert sagemaker.describe_endpoint(EndpointName="ByHand")["LastModifiedTime"] == made["LastModifiedTime"]

    for logical_id, identifier in identifiers.items():
        again = Import(cloud, f"again-{logical_id}")
        resource = {**resources[logical_id], "Properties": {**resources[logical_id]["Properties"]}}
        resource["Properties"] |= {"ResourceId": "endpoint/ByHand/variant/AllTraffic"} if logical_id == "Target" else {}
        resource["Properties"] |= {"ScalingTargetId": "a|b|c"} if logical_id == "Policy" else {}
        again.request({logical_id: resource}, {logical_id: identifier})
        review = again.review()
        assert review["Status"] == "FAILED"
        assert " already exists in stack arn:aws:cloudformation:" in review["StatusReason"]

    resources["Target"]["Properties"] = {**resources["Target"]["Properties"], "MaxCapacity": 5}
    assert imported.stack.deploy(resources) == "UPDATE_COMPLETE"
    (after,) = scaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[target["ResourceId"]])[
        "ScalableTargets"
    ]
    assert after["MaxCapacity"] == 5
    assert sagemaker.describe_endpoint(EndpointName="ByHand")["LastModifiedTime"] == made["LastModifiedTime"]


def test_models_configurations_and_components_are_imported(cloud: LocalCloud) -> None:
    sagemaker = cloud.client("sagemaker")
    deploy(sagemaker, "Parts", components=True)
    make_model(sagemaker, "Part")
    specification = needing(1)
    create(sagemaker, "part", "Parts", specification)
    found = {
        "Model": ("AWS::SageMaker::Model", {}, sagemaker.describe_model(ModelName="Part")["ModelArn"]),
        "EndpointConfig": (
            "AWS::SageMaker::EndpointConfig",
            {"ProductionVariants": []},
            sagemaker.describe_endpoint_config(EndpointConfigName="Parts")["EndpointConfigArn"],
        ),
        "InferenceComponent": (
            "AWS::SageMaker::InferenceComponent",
            {"EndpointName": "Parts", "VariantName": "AllTraffic", "Specification": specification},
            sagemaker.describe_inference_component(InferenceComponentName="part")["InferenceComponentArn"],
        ),
    }
    imported = Import(cloud, "parts")
    imported.request(
        {
            logical_id: {"Type": type_name, "DeletionPolicy": "Retain", "Properties": properties}
            for logical_id, (type_name, properties, _) in found.items()
        },
        {logical_id: {f"{logical_id}Arn": arn} for logical_id, (_, _, arn) in found.items()},
    )
    assert imported.execute() == "IMPORT_COMPLETE", imported.stack.reasons()
    assert {logical_id: imported.stack.physical_id(logical_id) for logical_id in found} == {
        logical_id: arn for logical_id, (_, _, arn) in found.items()
    }


def test_imports_that_cloudformation_refuses(cloud: LocalCloud) -> None:
    arn = deploy(cloud.client("sagemaker"), "Refused")["EndpointArn"]
    endpoint, identifier = {"Endpoint": endpoint_of("Refused")}, {"Endpoint": {"EndpointArn": arn}}
    imported = Import(cloud, "refused")
    assert imported.refused(endpoint, {"Endpoint": {"EndpointName": "Refused"}}) == (
        "Invalid resource identifier for resource type AWS::SageMaker::Endpoint. Expected [EndpointArn]"
    )
    kept = {key: value for key, value in endpoint["Endpoint"].items() if key != "DeletionPolicy"}
    assert imported.refused({"Endpoint": kept}, identifier) == (
        "The following resources to import [Endpoint] must have DeletionPolicy attribute specified in the template."
    )
    topic = {"Type": "AWS::SNS::Topic"}
    assert "is missing from ResourceToImport list" in imported.refused({**endpoint, "Topic": topic}, identifier)
    assert Stack(cloud, "refused").deploy({"Topic": topic}) == "CREATE_COMPLETE"
    changed = {**topic, "Properties": {"DisplayName": "other"}}
    assert "Update, create or delete operations cannot be executed during import operations." in imported.refused(
        {**endpoint, "Topic": changed}, identifier
    )

    imported.request({**endpoint, "Topic": topic}, {"Endpoint": {"EndpointArn": f"{arn}-2"}})
    assert imported.review()["StatusReason"] == (
        f"Resource of type 'AWS::SageMaker::Endpoint' with identifier '{arn}-2' was not found."
    )
