"""Endpoints and inference components with CloudFormation, CloudWatch and Lambda, on a running local cloud."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.server.handler_calls import MARK

from ..support.benchmark_jobs import serve
from ..support.cloudformation_stacks import Stack, hosting
from ..support.endpoint_updates import AT_ONCE, baking, blue_green, make_alarm, serving, stage, trip, update
from ..support.hosting import IMAGE, settled
from ..support.inference_components import FOUR_GPUS, adapter, component, needing, rolling
from ..support.local_cloud import ROLE


@pytest.fixture
def sagemaker(brisk: LocalCloud) -> Any:
    return brisk.client("sagemaker")


@pytest.fixture
def cloudwatch(brisk: LocalCloud) -> Any:
    return brisk.client("cloudwatch")


def test_only_metric_data_of_the_same_endpoint_trips_its_alarm(sagemaker: Any, cloudwatch: Any) -> None:
    def dimensions(name: str) -> list[dict[str, str]]:
        return [{"Name": "EndpointName", "Value": name}, {"Name": "VariantName", "Value": "AllTraffic"}]

    def fail(name: str) -> None:
        datum = {"MetricName": "Invocation5XXErrors", "Value": 5.0, "Dimensions": dimensions(name)}
        cloudwatch.put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])

    make_alarm(cloudwatch, "errors", Dimensions=dimensions("erring"))
    serving(sagemaker, "erring")
    update(sagemaker, "erring", blue_green(AT_ONCE, alarms=("errors",), termination=3000))
    baking(sagemaker, "erring")
    fail("another")
    assert stage(sagemaker.describe_endpoint(EndpointName="erring"))[1] == "Baking"
    fail("erring")
    assert "errors" in settled(sagemaker, "erring")["FailureReason"]


def test_an_alarm_on_a_metric_math_expression_is_evaluated(cloudwatch: Any) -> None:
    def metric(id: str, name: str) -> dict[str, Any]:
        stat = {"Metric": {"Namespace": "Rates", "MetricName": name}, "Period": 60, "Stat": "Sum"}
        return {"Id": id, "MetricStat": stat, "ReturnData": False}

    rate = {"Id": "rate", "Expression": "100 * FILL(errors, 0) / calls", "ReturnData": True}
    make_alarm(cloudwatch, "rate", Metrics=[metric("errors", "Errors"), metric("calls", "Calls"), rate])

    def state(errors: float, calls: float) -> str:
        data = [{"MetricName": "Errors", "Value": errors}, {"MetricName": "Calls", "Value": calls}]
        cloudwatch.put_metric_data(Namespace="Rates", MetricData=data)
        (alarm,) = cloudwatch.describe_alarms(AlarmNames=["rate"])["MetricAlarms"]
        assert alarm["Metrics"][2]["Expression"] == rate["Expression"]
        return alarm["StateValue"]

    assert state(0, 1000) == "OK"
    assert state(50, 1000) == "ALARM"
    with pytest.raises(ClientError, match="refers to nothing"):
        make_alarm(cloudwatch, "broken", Metrics=[{"Id": "x", "Expression": "nothing + 1"}])


def test_a_stack_whose_endpoint_update_trips_an_alarm_rolls_back_with_the_reason(
    brisk: LocalCloud, sagemaker: Any, cloudwatch: Any
) -> None:
    def resources(image: str) -> dict[str, Any]:
        made = hosting(image=image)
        made["Alarm"] = {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": "stack-alarm",
                "EvaluationPeriods": 1,
                "Threshold": 1,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "Metrics": [
                    {
                        "Id": "errors",
                        "ReturnData": False,
                        "MetricStat": {
                            "Metric": {"Namespace": "AWS/SageMaker", "MetricName": "Invocation5XXErrors"},
                            "Period": "60",
                            "Stat": "Sum",
                        },
                    },
                    {"Id": "rate", "Expression": "FILL(errors, 0)"},
                ],
            },
        }
        alarms = [{"AlarmName": {"Ref": "Alarm"}}]
        made["Endpoint"]["Properties"]["DeploymentConfig"] = {
            "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": AT_ONCE, "TerminationWaitInSeconds": "1000"},
            "AutoRollbackConfiguration": {"Alarms": alarms},
        }
        return made

    stack, image = Stack(brisk, "Guarded"), "111122223333.dkr.ecr.us-west-2.amazonaws.com/lmi:1"
    assert stack.deploy(resources(image)) == "CREATE_COMPLETE"
    trip(cloudwatch, "stack-alarm")
    assert stack.deploy(resources(image.replace(":1", ":2"))) == "UPDATE_ROLLBACK_COMPLETE"
    assert "The alarm stack-alarm went into ALARM" in stack.reasons()
    endpoint = sagemaker.describe_endpoint(EndpointName=stack.physical_id("Endpoint").rpartition("/")[2])
    assert endpoint["ProductionVariants"][0]["DeployedImages"][0]["SpecifiedImage"] == image
    trip(cloudwatch, "stack-alarm", "OK")
    assert stack.deploy(resources(image.replace(":1", ":3"))) == "UPDATE_COMPLETE"
    stack.delete()
    assert not cloudwatch.describe_alarms(AlarmNames=["stack-alarm"])["MetricAlarms"]


def test_a_stack_with_a_base_component_and_adapters_is_created_updated_and_deleted(
    brisk: LocalCloud, sagemaker: Any
) -> None:
    def resources(image: str, copies: int) -> dict[str, Any]:
        variant = {"VariantName": "AllTraffic", "InstanceType": FOUR_GPUS, "InitialInstanceCount": 1}
        on = {"EndpointName": {"Fn::GetAtt": ["Endpoint", "EndpointName"]}, "VariantName": "AllTraffic"}
        return {
            "Config": {
                "Type": "AWS::SageMaker::EndpointConfig",
                "Properties": {"ExecutionRoleArn": ROLE, "ProductionVariants": [variant]},
            },
            "Endpoint": {
                "Type": "AWS::SageMaker::Endpoint",
                "Properties": {"EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]}},
            },
            "Base": {
                "Type": "AWS::SageMaker::InferenceComponent",
                "Properties": {
                    **on,
                    "InferenceComponentName": "stack-base",
                    "Specification": needing(1, image=image),
                    "RuntimeConfig": {"CopyCount": copies},
                    "DeploymentConfig": rolling(),
                },
            },
            "Adapter": {
                "Type": "AWS::SageMaker::InferenceComponent",
                "DependsOn": "Base",
                "Properties": {**on, "InferenceComponentName": "stack-lora", "Specification": adapter("stack-base")},
            },
        }

    stack = Stack(brisk, "Adapters")
    assert stack.deploy(resources(IMAGE, 2)) == "CREATE_COMPLETE", stack.reasons()
    assert stack.deploy(resources("lmi:2", 2)) == "UPDATE_COMPLETE", stack.reasons()
    base = component(sagemaker, "stack-base")
    assert base["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"] == "lmi:2"
    assert stack.deploy(resources("lmi:2", 9)) == "UPDATE_ROLLBACK_COMPLETE"
    assert "not enough hardware resources" in stack.reasons()
    assert component(sagemaker, "stack-base")["RuntimeConfig"]["CurrentCopyCount"] == 2
    stack.delete()
    assert not sagemaker.list_inference_components(NameContains="stack-")["InferenceComponents"]


def test_endpoint_invocations_of_a_function_are_recorded_among_its_calls(brisk: LocalCloud, sagemaker: Any) -> None:
    served = serve(sagemaker, "called")
    marked = boto3.client(
        "sagemaker-runtime",
        endpoint_url=brisk.endpoint_url,
        region_name=brisk.region,
        aws_access_key_id=brisk.environment()["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=brisk.environment()["AWS_SECRET_ACCESS_KEY"],
        config=Config(user_agent_extra=MARK),
    )
    marked.invoke_endpoint(EndpointName=served, Body=b'{"inputs": "Why?"}')
    marked.invoke_endpoint_with_response_stream(EndpointName=served, Body=b'{"inputs": "Why?"}')
    calls = [(call["service"], call["operation"]) for call in brisk.function_calls()[-2:]]
    assert calls == [("sagemaker", "InvokeEndpoint"), ("sagemaker", "InvokeEndpointWithResponseStream")]
