"""An inference component that scales, in a deployment that holds the look-up of its copies to its permissions."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from aws_cdk import Fn, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker

from constructs_optim.constructs.endpoint.inference_component import current_copies
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.operations.capacity import EndpointCapacity
from constructs_optim.recipe.hosting.scaling import ScalingDefaults
from constructs_optim_local.cloud import LocalCloud

from ..support.template_stack import ASSETS, TemplateStack, allowed, part_of, synthesized, upload_assets
from ..support.waiting import until

# In lower case, as its ARN has it: the alarms' dimension, which is made of the ARN, has to be the same.
NAME = "scaled-chat"
IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/lmi:1"


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(endpoint_seconds=0.2, time_scale=0.001, enforce_iam=True) as running:
        running.client("s3").create_bucket(Bucket=ASSETS, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield running


def declare(scope: Stack) -> None:
    """An endpoint of a component that scales from zero to four copies."""
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetAuthorizationToken",
            "ecr:GetDownloadUrlForLayer"]  # fmt: skip
    policy = iam.Policy(
        scope, "Pull", roles=[role], statements=[iam.PolicyStatement(actions=pull, resources=["*"])]
    )  # fmt: skip
    model = sagemaker.CfnModel(
        scope,
        "Model",
        execution_role_arn=role.role_arn,
        primary_container={"image": IMAGE},
        enable_network_isolation=True,
    )
    model.node.add_dependency(policy)
    variant = {
        "initialInstanceCount": 1,
        "instanceType": "ml.g5.12xlarge",
        "managedInstanceScaling": {"status": "ENABLED", "minInstanceCount": 0, "maxInstanceCount": 2},
        "variantName": "AllTraffic",
    }
    config = sagemaker.CfnEndpointConfig(
        scope,
        "Config",
        enable_network_isolation=True,
        execution_role_arn=role.role_arn,
        production_variants=[variant],
    )
    endpoint = sagemaker.CfnEndpoint(scope, "Endpoint", endpoint_config_name=config.attr_endpoint_config_name)
    specification: dict[str, Any] = {
        "computeResourceRequirements": {"minMemoryRequiredInMb": 1024, "numberOfAcceleratorDevicesRequired": 1},
        "modelName": model.attr_model_name,
    }
    definition = {
        "endpointName": endpoint.attr_endpoint_name, "inferenceComponentName": NAME, "specification": specification,
        "variantName": "AllTraffic",
    }  # fmt: skip
    component = sagemaker.CfnInferenceComponent(
        scope, "Component", endpoint_name=endpoint.attr_endpoint_name, inference_component_name=NAME,
        specification=specification, variant_name="AllTraffic",
    )  # fmt: skip
    component.runtime_config = {"copyCount": current_copies(scope, component, definition, 1)}  # type: ignore[assignment]
    name = Fn.select(1, Fn.split("/", component.ref))
    EndpointScaling(
        scope, "Scaling", target=ScalingTarget.component(name), min_capacity=0, max_capacity=4,
        defaults=ScalingDefaults(capacity=8, concurrency=5.6),
    ).on_concurrency()  # fmt: skip
    served = ServedModel(endpoint.attr_endpoint_name, "AllTraffic", name)
    EndpointAlarms(scope, "Alarms", served=served, endpoint="Chat", capacity=8).watch(scales_to_zero=True)


@pytest.fixture(scope="module")
def deployed(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemplateStack]:
    """The stack: its component starts with the initial copies, and can be deleted however it was scaled."""
    output = tmp_path_factory.mktemp("assembly")
    stack = TemplateStack(cloud, "Scaled", synthesized(declare, output))
    upload_assets(cloud, output)
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    assert described(stack)["RuntimeConfig"]["DesiredCopyCount"] == 1
    yield stack
    described(stack)
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons


def described(stack: TemplateStack) -> dict[str, Any]:
    name = stack.resource("Component").rpartition("/")[2]
    client = stack.cloud.client("sagemaker")
    return until(
        lambda: client.describe_inference_component(InferenceComponentName=name),
        lambda found: found["InferenceComponentStatus"] == "InService",
    )


def set_copies(stack: TemplateStack, copies: int) -> None:
    component = described(stack)["InferenceComponentName"]
    stack.cloud.client("sagemaker").update_inference_component_runtime_config(
        InferenceComponentName=component, DesiredRuntimeConfig={"CopyCount": copies}
    )
    until(lambda: described(stack)["RuntimeConfig"]["CurrentCopyCount"], lambda found: found == copies)


def with_memory(stack: TemplateStack, mebibytes: int) -> TemplateStack:
    """The same stack, its component changed, as the constructs would change it and the look-up."""
    template = copy.deepcopy(stack.template)
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        for holder in (properties, properties.get("Component", {})):
            if isinstance(holder, dict) and "Specification" in holder:
                holder["Specification"]["ComputeResourceRequirements"]["MinMemoryRequiredInMb"] = mebibytes
    return TemplateStack(stack.cloud, stack.name, template)


@pytest.mark.parametrize(("copies", "memory"), [(3, 2048), (0, 3072)])
def test_a_component_update_keeps_the_copy_count_set_by_scaling(
    deployed: TemplateStack, copies: int, memory: int
) -> None:
    set_copies(deployed, copies)
    changed = with_memory(deployed, memory)
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    found = described(deployed)
    assert found["Specification"]["ComputeResourceRequirements"]["MinMemoryRequiredInMb"] == memory
    assert found["RuntimeConfig"]["DesiredCopyCount"] == copies


def test_a_failed_update_is_rolled_back_to_the_previous_model(deployed: TemplateStack) -> None:
    set_copies(deployed, 2)
    assert with_memory(deployed, 5120).deploy() == "UPDATE_COMPLETE"
    deployed.cloud.inject("update_fails", count=1, reason="The new container crashed")
    changed = with_memory(deployed, 4096)
    assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
    deployed.cloud.clear_faults()
    found = described(deployed)
    assert found["RuntimeConfig"]["DesiredCopyCount"] == 2
    assert found["Specification"]["ComputeResourceRequirements"]["MinMemoryRequiredInMb"] == 5120


def fail_a_request(stack: TemplateStack, component: str) -> None:
    """What SageMaker publishes when a request finds no copy."""
    stack.cloud.client("cloudwatch").put_metric_data(
        Namespace="AWS/SageMaker",
        MetricData=[
            {
                "MetricName": "NoCapacityInvocationFailures",
                "Dimensions": [{"Name": "InferenceComponentName", "Value": component}],
                "Value": 1,
            }
        ],
    )


def test_a_request_that_finds_no_copy_starts_one_unless_the_endpoint_is_stopped(deployed: TemplateStack) -> None:
    cloud = deployed.cloud
    component = described(deployed)["InferenceComponentName"]
    capacity = EndpointCapacity(cloud.client("sagemaker"), cloud.client("application-autoscaling"), poll_seconds=0.3)

    def look() -> Any:
        return capacity.describe(described(deployed)["EndpointName"])

    capacity.stop(look())
    fail_a_request(deployed, component)
    alarms = cloud.client("cloudwatch")
    (wake,) = [
        alarm["AlarmName"]
        for alarm in alarms.describe_alarms()["MetricAlarms"]
        if alarm.get("MetricName") == "NoCapacityInvocationFailures" and alarm["AlarmActions"]
    ]
    until(lambda: alarms.describe_alarms(AlarmNames=[wake])["MetricAlarms"][0]["StateValue"], lambda s: s == "ALARM")
    assert described(deployed)["RuntimeConfig"]["DesiredCopyCount"] == 0
    # Started, and gone to zero by itself.
    capacity.start(look())
    set_copies(deployed, 0)
    alarms.set_alarm_state(AlarmName=wake, StateValue="OK", StateReason="no more requests")
    fail_a_request(deployed, component)
    until(lambda: described(deployed)["RuntimeConfig"]["DesiredCopyCount"], lambda copies: copies == 1)


def test_the_capacity_lookup_uses_exactly_its_allowed_actions(deployed: TemplateStack) -> None:
    assert with_memory(deployed, 6144).deploy() == "UPDATE_COMPLETE"
    decisions = [each for each in deployed.cloud.authorizations() if part_of(each["role"]) == "Capacity"]
    assert {each["decision"] for each in decisions} == {"Allow"}
    may = {action for part, action in allowed(deployed.template) if part == "Capacity"}
    # Functions of the local cloud write no logs to CloudWatch and send no traces.
    unseen = {action for action in may if action.startswith(("logs:", "xray:"))}
    assert {each["action"] for each in decisions} - {"sts:AssumeRole"} == may - unseen
