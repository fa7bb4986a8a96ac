"""CloudFormation's resource types: created, updated in place, replaced and deleted as their schemas say."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from constructs_optim_local.clock import Clock
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.cloudformation.operations import OPERATIONS
from constructs_optim_local.cloudformation.provider import ResourceError, ResourceProvider, schemas
from constructs_optim_local.sagemaker.context import Context, Timing
from constructs_optim_local.sagemaker.service import SageMaker
from tests.support.in_process import MemoryObjects

from ..support.cloudformation_stacks import Stack, hosting, scalable_target
from ..support.hosting import IMAGE
from ..support.local_cloud import ROLE
from ..support.waiting import until

SAGEMAKER_REGION = "us-west-2"


@pytest.mark.parametrize("type_name", sorted(OPERATIONS))
def test_the_stored_extract_of_each_resource_schema_is_current(type_name: str) -> None:
    schema: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema(SAGEMAKER_REGION, type_name).schema
    assert schemas()[type_name] == {
        "properties": sorted(schema["properties"]),
        "required": sorted(schema.get("required", [])),
        "create_only": top_level(schema.get("createOnlyProperties", [])),
        "read_only": top_level(schema.get("readOnlyProperties", [])),
        "identifier": top_level(schema["primaryIdentifier"]),
        "timeouts": {
            operation: handler["timeoutInMinutes"]
            for operation, handler in sorted(schema["handlers"].items())
            if "timeoutInMinutes" in handler
        },
        "values": values_of(schema),
    }


def values_of(schema: dict[str, Any]) -> dict[str, list[str]]:
    """The values of members that have a list of them in each place of the same name."""
    found: dict[str, list[set[str]]] = {}
    for part in (schema, *schema.get("definitions", {}).values()):
        for name, declared in part.get("properties", {}).items():
            kind = schema["definitions"][declared["$ref"].rpartition("/")[2]] if "$ref" in declared else declared
            found.setdefault(name, []).append(set(kind.get("enum", ())))
    return {name: sorted(set().union(*lists)) for name, lists in sorted(found.items()) if all(lists)}


def test_a_value_that_the_schema_does_not_list_is_refused_where_the_api_takes_it(cloud: LocalCloud) -> None:
    variant = {"VariantName": "A", "ModelName": "m", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    routed = {**variant, "RoutingConfig": {"RoutingStrategy": "KV_AWARE"}}
    resources = {"Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [routed]}}}
    cloudformation = cloud.client("cloudformation")
    cloudformation.create_stack(StackName="unlisted", TemplateBody=json.dumps({"Resources": resources}))

    def events() -> list[str]:
        listed = cloudformation.describe_stack_events(StackName="unlisted")["StackEvents"]
        return [event.get("ResourceStatusReason", "") for event in listed]

    refused = "#/ProductionVariants/0/RoutingConfig/RoutingStrategy: failed validation constraint for keyword [enum]"
    until(events, lambda reasons: any(refused in reason for reason in reasons))
    cloudformation.delete_stack(StackName="unlisted")


def top_level(pointers: list[str]) -> list[str]:
    names = (pointer.removeprefix("/properties/") for pointer in pointers)
    return sorted(name for name in names if "/" not in name)


@pytest.mark.parametrize(
    ("type_name", "minutes"), [("AWS::SageMaker::Endpoint", 160), ("AWS::SageMaker::InferenceComponent", 120)]
)
def test_a_creation_fails_after_the_timeout_of_its_resource_handler(type_name: str, minutes: int) -> None:
    clock = Clock(runs=False)
    slow = SageMaker(Context(lambda account, region: MemoryObjects(), timing=Timing(endpoint=2.0), clock=clock))
    place = ("000000000000", SAGEMAKER_REGION)
    host: dict[str, Any] = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1}

    def call(operation: str, **request: Any) -> None:
        slow.invoke(operation, request, account=place[0], region=place[1])

    call("CreateModel", ModelName="slow", ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE})
    call("CreateEndpointConfig", EndpointConfigName="host", ExecutionRoleArn=ROLE, ProductionVariants=[host])
    given: dict[str, Any] = {"EndpointConfigName": "host"}
    if type_name == "AWS::SageMaker::InferenceComponent":
        call("CreateEndpoint", EndpointName="host", EndpointConfigName="host")
        needs = {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024}
        given = {
            "EndpointName": "host",
            "VariantName": "AllTraffic",
            "Specification": {"ModelName": "slow", "ComputeResourceRequirements": needs},
            "RuntimeConfig": {"CopyCount": 1},
        }
        clock.advance(2)
    began = clock.monotonic()
    with pytest.raises(ResourceError, match=r"^Resource timed out waiting for completion \(RequestToken: "):
        # All the schema's time is 1.2 seconds, and a launch takes two.
        ResourceProvider(type_name, slow, lambda: place, minute=1.2 / minutes, clock=clock).create(
            "Slow", given, "stack"
        )
    assert clock.monotonic() - began > 1.2
    # CloudFormation deletes what it gives up.
    answer = slow.invoke("ListInferenceComponents", {}, account=place[0], region=place[1])
    assert answer["InferenceComponents"] == []
    ResourceProvider(type_name, slow, lambda: place, minute=20 / minutes, clock=clock).create("Slow", given, "stack")


def scaling(*, most: int = 4, target: int = 8) -> dict[str, Any]:
    return {
        "Target": scalable_target(most=most),
        "Policy": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": "concurrency",
                "PolicyType": "TargetTrackingScaling",
                "ScalingTargetId": {"Ref": "Target"},
                "TargetTrackingScalingPolicyConfiguration": {
                    "PredefinedMetricSpecification": {
                        "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
                    },
                    "TargetValue": target,
                },
            },
        },
    }


def test_a_stack_creates_updates_and_deletes_an_endpoint(cloud: LocalCloud, sagemaker: Any) -> None:
    stack = Stack(cloud, "Life")
    outputs = {"Name": {"Fn::GetAtt": ["Endpoint", "EndpointName"]}, "Arn": {"Ref": "Endpoint"}}
    assert stack.deploy(hosting(tags={"team": "chat"}), outputs) == "CREATE_COMPLETE"
    name, arn = stack.outputs()["Name"], stack.outputs()["Arn"]
    assert arn == sagemaker.describe_endpoint(EndpointName=name)["EndpointArn"]
    model, config = stack.physical_id("Model"), stack.physical_id("Config")
    assert sagemaker.describe_model(ModelName=model.rpartition("/")[2])["EnableNetworkIsolation"] is True
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "chat"}]

    # A changed model is a new one, and so is the configuration that names it; the endpoint moves over in place.
    other = IMAGE.replace(":1", ":2")
    assert stack.deploy(hosting(image=other, tags={"stage": "test"}), outputs) == "UPDATE_COMPLETE"
    assert stack.outputs()["Name"] == name
    assert stack.physical_id("Model") != model
    assert stack.physical_id("Config") != config
    endpoint = sagemaker.describe_endpoint(EndpointName=name)
    assert endpoint["ProductionVariants"][0]["DeployedImages"][0]["SpecifiedImage"] == other
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "stage", "Value": "test"}]
    with pytest.raises(ClientError, match="Could not find model"):
        sagemaker.describe_model(ModelName=model.rpartition("/")[2])

    stack.delete()
    for describe, argument in (
        (sagemaker.describe_endpoint, {"EndpointName": name}),
        (sagemaker.describe_endpoint_config, {"EndpointConfigName": endpoint["EndpointConfigName"]}),
    ):
        with pytest.raises(ClientError, match="Could not find"):
            describe(**argument)


def test_a_changed_name_replaces_the_endpoint(cloud: LocalCloud, sagemaker: Any) -> None:
    stack = Stack(cloud, "Renamed")
    resources = hosting()
    resources["Endpoint"]["Properties"]["EndpointName"] = "old-name"
    assert stack.deploy(resources) == "CREATE_COMPLETE"
    resources["Endpoint"]["Properties"]["EndpointName"] = "new-name"
    assert stack.deploy(resources) == "UPDATE_COMPLETE"
    assert stack.physical_id("Endpoint").endswith("endpoint/new-name")
    with pytest.raises(ClientError, match="Could not find"):
        sagemaker.describe_endpoint(EndpointName="old-name")
    stack.delete()


def test_a_failed_replacement_keeps_the_previous_endpoint(cloud: LocalCloud, sagemaker: Any) -> None:
    stack = Stack(cloud, "FailedRename")
    resources = hosting()
    resources["Endpoint"]["Properties"]["EndpointName"] = "lasting-name"
    assert stack.deploy(resources) == "CREATE_COMPLETE"
    cloud.inject("endpoint_fails", count=1)
    resources["Endpoint"]["Properties"]["EndpointName"] = "failing-name"
    assert stack.deploy(resources) == "UPDATE_ROLLBACK_COMPLETE"
    assert sagemaker.describe_endpoint(EndpointName="lasting-name")["EndpointStatus"] == "InService"
    with pytest.raises(ClientError, match="Could not find"):
        sagemaker.describe_endpoint(EndpointName="failing-name")
    stack.delete()


def test_scaling_is_registered_updated_in_place_and_deregistered(cloud: LocalCloud) -> None:
    stack, client = Stack(cloud, "Scaled"), cloud.client("application-autoscaling")
    assert stack.deploy({**hosting(), **scaling()}) == "CREATE_COMPLETE"
    reference = stack.physical_id("Target")
    assert reference.endswith("|sagemaker:variant:DesiredInstanceCount|sagemaker")
    assert stack.deploy({**hosting(), **scaling(most=9, target=16)}) == "UPDATE_COMPLETE"
    assert stack.physical_id("Target") == reference
    name = reference.split("|")[0]
    (target,) = client.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[name])["ScalableTargets"]
    assert target["MaxCapacity"] == 9
    (policy,) = client.describe_scaling_policies(ServiceNamespace="sagemaker", ResourceId=name)["ScalingPolicies"]
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 16
    stack.delete()
    assert not client.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[name])["ScalableTargets"]
    assert not client.describe_scaling_policies(ServiceNamespace="sagemaker", ResourceId=name)["ScalingPolicies"]


def test_a_stack_creates_updates_and_deletes_an_inference_component(cloud: LocalCloud, sagemaker: Any) -> None:
    def resources(copies: int) -> dict[str, Any]:
        made = hosting()
        (variant,) = made["Config"]["Properties"]["ProductionVariants"]
        del variant["ModelName"], variant["InitialVariantWeight"]
        made["Config"]["Properties"] |= {"ExecutionRoleArn": ROLE, "EnableNetworkIsolation": True}
        made["Component"] = {
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
                "RuntimeConfig": {"CopyCount": copies},
            },
        }
        return made

    stack = Stack(cloud, "Component")
    assert stack.deploy(resources(1)) == "CREATE_COMPLETE"
    component = stack.physical_id("Component")
    assert stack.deploy(resources(2)) == "UPDATE_COMPLETE"
    assert stack.physical_id("Component") == component
    name = component.rpartition("/")[2]
    described = sagemaker.describe_inference_component(InferenceComponentName=name)
    assert described["RuntimeConfig"]["CurrentCopyCount"] == 2
    stack.delete()
    with pytest.raises(ClientError, match="Could not find"):
        sagemaker.describe_inference_component(InferenceComponentName=name)


def test_a_failed_endpoint_rolls_the_stack_back_and_is_deleted(cloud: LocalCloud, sagemaker: Any) -> None:
    cloud.inject("endpoint_fails", reason="The model data could not be downloaded")
    stack = Stack(cloud, "Failing")
    resources = hosting()
    resources["Endpoint"]["Properties"]["EndpointName"] = "failing-endpoint"
    assert stack.deploy(resources) == "ROLLBACK_COMPLETE"
    assert "The model data could not be downloaded" in stack.reasons()
    with pytest.raises(ClientError, match="Could not find"):
        sagemaker.describe_endpoint(EndpointName="failing-endpoint")


def test_a_failed_endpoint_update_rolls_back_to_the_previous_image(cloud: LocalCloud, sagemaker: Any) -> None:
    stack = Stack(cloud, "FailingUpdate")
    outputs = {"Name": {"Fn::GetAtt": ["Endpoint", "EndpointName"]}}
    assert stack.deploy(hosting(), outputs) == "CREATE_COMPLETE"
    name = stack.outputs()["Name"]
    cloud.inject("endpoint_fails", count=1, reason="The new container crashed")
    assert stack.deploy(hosting(image=IMAGE.replace(":1", ":3")), outputs) == "UPDATE_ROLLBACK_COMPLETE"
    assert "The new container crashed" in stack.reasons()
    endpoint = sagemaker.describe_endpoint(EndpointName=name)
    assert endpoint["ProductionVariants"][0]["DeployedImages"][0]["SpecifiedImage"] == IMAGE
    stack.delete()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"Color": "red"}, "extraneous key [Color] is not permitted"),
        ({"ModelArn": "arn:aws:sagemaker:us-west-2:000000000000:model/m"}, "[ModelArn] is read-only"),
        ({"PrimaryContainer": {"Image": ""}, "ModelName": "not_a_name"}, "not_a_name"),
    ],
)
def test_properties_invalid_for_the_schema_or_the_api_fail_the_resource(
    cloud: LocalCloud, change: dict[str, Any], said: str
) -> None:
    stack = Stack(cloud, f"Invalid{len(said)}")
    model = {"Type": "AWS::SageMaker::Model", "Properties": {"PrimaryContainer": {"Image": IMAGE}, **change}}
    assert stack.deploy({"Model": model}) == "ROLLBACK_COMPLETE"
    assert said in stack.reasons()


def test_a_stack_with_an_already_deleted_endpoint_can_be_deleted(cloud: LocalCloud, sagemaker: Any) -> None:
    stack = Stack(cloud, "Gone")
    assert stack.deploy(hosting()) == "CREATE_COMPLETE"
    sagemaker.delete_endpoint(EndpointName=stack.physical_id("Endpoint").rpartition("/")[2])
    stack.delete()


def test_resources_beside_an_endpoint_are_created_and_deleted_with_its_stack(cloud: LocalCloud) -> None:
    role = {"Version": "2012-10-17", "Statement": []}
    key_policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "kms:*"}]}
    function = f"arn:aws:lambda:us-west-2:000000000000:function:{uuid.uuid4().hex}"
    topic = {"Ref": "Topic"}
    resources = {
        "Key": {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": key_policy}},
        "Topic": {"Type": "AWS::SNS::Topic"},
        "Queue": {"Type": "AWS::SQS::Queue"},
        "Subscription": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {"TopicArn": topic, "Protocol": "sqs", "Endpoint": {"Fn::GetAtt": ["Queue", "Arn"]}},
        },
        "Log": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 7}},
        "Dashboard": {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": '{"widgets": []}'}},
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": role}},
        "Rule": {"Type": "AWS::Events::Rule", "Properties": {"ScheduleExpression": "rate(1 day)"}},
        "Schedule": {
            "Type": "AWS::Scheduler::Schedule",
            "Properties": {
                "ScheduleExpression": "rate(1 day)",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {"Arn": function, "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]}},
            },
        },
        "Alarm": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": "told",
                "Namespace": "AWS/SageMaker",
                "MetricName": "Invocation5XXErrors",
                "Statistic": "Sum",
                "Period": 60,
                "EvaluationPeriods": 1,
                "Threshold": 1,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "AlarmActions": [topic],
            },
        },
    }
    stack, cloudwatch = Stack(cloud, "Beside"), cloud.client("cloudwatch")
    assert stack.deploy(resources, {"Queue": {"Ref": "Queue"}}) == "CREATE_COMPLETE", stack.reasons()
    cloudwatch.set_alarm_state(AlarmName="told", StateValue="ALARM", StateReason="a test")
    queue = stack.outputs()["Queue"]
    (message,) = until(
        lambda: cloud.client("sqs").receive_message(QueueUrl=queue).get("Messages", []), lambda messages: bool(messages)
    )
    assert json.loads(json.loads(message["Body"])["Message"])["NewStateValue"] == "ALARM"
    stack.delete()
    assert not cloudwatch.describe_alarms(AlarmNames=["told"])["MetricAlarms"]


def workload(name: str, users: int, **more: Any) -> dict[str, Any]:
    spec = {"benchmark": {"type": "aiperf"}, "parameters": {"concurrency": users}}
    return {
        "It": {
            "Type": "AWS::SageMaker::AIWorkloadConfig",
            "Properties": {
                "AIWorkloadConfigName": name,
                "AIWorkloadConfigs": {"WorkloadSpec": {"Inline": json.dumps(spec)}},
                **more,
            },
        }
    }


def test_a_workload_config_is_replaced_under_a_new_name_and_tagged_in_place(cloud: LocalCloud, sagemaker: Any) -> None:
    stack, first = Stack(cloud, "workloads"), f"workload-{uuid.uuid4().hex[:8]}"
    outputs = {"Ref": {"Ref": "It"}, "Arn": {"Fn::GetAtt": ["It", "AIWorkloadConfigArn"]}}
    assert stack.deploy(workload(first, 1), outputs) == "CREATE_COMPLETE"
    arn = stack.outputs()["Arn"]
    assert stack.outputs()["Ref"] == arn == stack.physical_id("It")
    assert arn.endswith(f":ai-workload-config/{first}")
    tags = [{"Key": "team", "Value": "chat"}]
    assert stack.deploy(workload(first, 1, Tags=tags), outputs) == "UPDATE_COMPLETE"
    described = sagemaker.describe_ai_workload_config(AIWorkloadConfigName=first)
    assert described["Tags"] == tags
    # As on AWS: what has a name of its own cannot be replaced while the name stays.
    assert stack.deploy(workload(first, 2, Tags=tags), outputs) == "UPDATE_ROLLBACK_COMPLETE"
    second = f"{first}-b"
    assert stack.deploy(workload(second, 2), outputs) == "UPDATE_COMPLETE"
    names = [item["AIWorkloadConfigName"] for item in sagemaker.list_ai_workload_configs()["AIWorkloadConfigs"]]
    assert (second in names, first in names) == (True, False)
    stack.delete()
    with pytest.raises(ClientError, match="does not exist"):
        sagemaker.describe_ai_workload_config(AIWorkloadConfigName=second)


def test_an_invalid_workload_config_fails_the_stack(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "bad-workload")
    assert stack.deploy(workload("bad", 0)) == "ROLLBACK_COMPLETE"
    events = cloud.client("cloudformation").describe_stack_events(StackName="bad-workload")["StackEvents"]
    assert any("must be at least 1" in event.get("ResourceStatusReason", "") for event in events)
    stack.delete()
