"""``Custom::ComponentCapacity`` against the local cloud's stacks and inference components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from constructs_optim.runtime.handlers import capacity_handler
from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack
from ..support.custom_resource_events import custom_resource_event
from ..support.hosting import IMAGE
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import ROLE, Responses
from ..support.waiting import until

COMPONENT = {
    "Type": "AWS::SageMaker::InferenceComponent",
    "Properties": {
        "EndpointName": {"Fn::GetAtt": ["Endpoint", "EndpointName"]},
        "VariantName": "AllTraffic",
        "Specification": {
            "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
            "ComputeResourceRequirements": {
                "MinMemoryRequiredInMb": 1024,
                "NumberOfAcceleratorDevicesRequired": 1,
            },
        },
        "RuntimeConfig": {"CopyCount": 1},
    },
}
RESOURCES: dict[str, Any] = {
    "Model": {
        "Type": "AWS::SageMaker::Model",
        "Properties": {"ExecutionRoleArn": ROLE, "PrimaryContainer": {"Image": IMAGE}, "EnableNetworkIsolation": True},
    },
    "Config": {
        "Type": "AWS::SageMaker::EndpointConfig",
        "Properties": {
            "EnableNetworkIsolation": True,
            "ExecutionRoleArn": ROLE,
            "ProductionVariants": [
                {"VariantName": "AllTraffic", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1}
            ],
        },
    },
    "Endpoint": {
        "Type": "AWS::SageMaker::Endpoint",
        "Properties": {"EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]}},
    },
}


@pytest.fixture(scope="module")
def stack(cloud: LocalCloud) -> Iterator[Stack]:
    """A stack with an endpoint and a component."""
    made = Stack(cloud, "Capacity")
    assert made.deploy(RESOURCES) == "CREATE_COMPLETE"
    assert made.deploy({**RESOURCES, "Component": COMPONENT}) == "UPDATE_COMPLETE"
    yield made
    made.delete()


def set_copies(stack: Stack, sagemaker: Any, copies: int) -> None:
    name = stack.physical_id("Component").rpartition("/")[2]
    sagemaker.update_inference_component_runtime_config(
        InferenceComponentName=name, DesiredRuntimeConfig={"CopyCount": copies}
    )
    until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName=name)["InferenceComponentStatus"],
        lambda status: status == "InService",
    )


def send(stack: Stack, responses: Responses, kind: str, **changed: Any) -> dict[str, Any]:
    described = stack.cloudformation.describe_stacks(StackName=stack.name)["Stacks"][0]
    event = custom_resource_event(
        kind,
        responses.url,
        stack_id=described["StackId"],
        request_id=f"request-{len(responses.received)}",
        logical_id="Capacity",
        properties={
            "ComponentLogicalId": "Component",
            "InitialCopyCount": "2",
            "Component": COMPONENT["Properties"],
            **changed,
        },
    )
    capacity_handler.handler(event, LambdaContext())
    return responses.received[-1]


def test_a_component_that_does_not_exist_yet_gets_the_initial_copies(stack: Stack, responses: Responses) -> None:
    response = send(stack, responses, "Create", ComponentLogicalId="NotYet")
    assert (response["Status"], response["Data"]) == ("SUCCESS", {"CopyCount": "2"}), response


def test_a_component_keeps_the_copies_set_by_scaling_on_create_and_update(
    stack: Stack, responses: Responses, sagemaker: Any
) -> None:
    set_copies(stack, sagemaker, 3)
    first, second = send(stack, responses, "Create"), send(stack, responses, "Update")
    assert first["Data"] == second["Data"] == {"CopyCount": "3"}
    assert first["PhysicalResourceId"] == second["PhysicalResourceId"]


def test_a_failed_lookup_of_the_component_fails_the_deployment(
    stack: Stack, responses: Responses, cloud: LocalCloud
) -> None:
    cloud.inject("limit_exceeded", operation="DescribeInferenceComponent")
    response = send(stack, responses, "Update")
    assert response["Status"] == "FAILED"
    assert "DescribeInferenceComponent" in response["Reason"]
    cloud.clear_faults()


def test_a_stopped_component_stays_at_zero_copies(stack: Stack, responses: Responses, sagemaker: Any) -> None:
    set_copies(stack, sagemaker, 0)
    assert send(stack, responses, "Update")["Data"] == {"CopyCount": "0"}


def test_a_component_deleted_outside_the_stack_gets_the_initial_copies(
    stack: Stack, responses: Responses, sagemaker: Any
) -> None:
    assert stack.deploy({**RESOURCES, "Component": COMPONENT, "Deleted": COMPONENT}) == "UPDATE_COMPLETE"
    name = stack.physical_id("Deleted").rpartition("/")[2]
    sagemaker.delete_inference_component(InferenceComponentName=name)
    until(
        lambda: send(stack, responses, "Update", ComponentLogicalId="Deleted")["Data"],
        lambda data: data == {"CopyCount": "2"},
    )


@pytest.mark.parametrize("physical_id", [{}, {"PhysicalResourceId": ""}])
def test_a_component_whose_creation_failed_has_no_copies(
    monkeypatch: pytest.MonkeyPatch, physical_id: dict[str, str]
) -> None:
    cloudformation = Mock()
    cloudformation.describe_stack_resource.return_value = {"StackResourceDetail": physical_id}
    monkeypatch.setattr(capacity_handler, "client", {"cloudformation": cloudformation}.__getitem__)
    assert capacity_handler._copies_now("stack", "Component") is None


def test_deleting_the_resource_makes_no_aws_calls(stack: Stack, responses: Responses, cloud: LocalCloud) -> None:
    before = len(cloud.calls())
    assert send(stack, responses, "Delete")["Status"] == "SUCCESS"
    assert len(cloud.calls()) == before


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"ComponentLogicalId": "a/b"}, "ComponentLogicalId"), ({"InitialCopyCount": "some"}, "InitialCopyCount")],
)
def test_malformed_resource_properties_are_reported_by_name(
    stack: Stack, responses: Responses, changed: dict[str, Any], named: str
) -> None:
    response = send(stack, responses, "Create", **changed)
    assert response["Status"] == "FAILED"
    assert named in response["Reason"]
