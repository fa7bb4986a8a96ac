"""Endpoints in production: safe updates, pools and components of the constructs, with IAM enforced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.template_stacks import endpoint_of, made, physical
from ..support.waiting import until
from .hosted_stacks import MODELS, components, pooled, updated
from .template_stack import ASSETS, TemplateStack, part_of


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(
        job_seconds=(0.2, 0.2), endpoint_seconds=0.2, time_scale=0.005, enforce_iam=True
    ) as running:  # fmt: skip
        s3 = running.client("s3")
        for bucket in (ASSETS, MODELS):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        s3.put_object(Bucket=MODELS, Key="llama/model.safetensors", Body=b"weights")
        s3.put_object(Bucket=MODELS, Key="adapters/sql.tar.gz", Body=b"adapter")
        yield running


@pytest.fixture(autouse=True)
def no_faults(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.clear_faults()


def component_of(stack: TemplateStack, part: str) -> dict[str, Any]:
    name = physical(stack, "AWS::SageMaker::InferenceComponent", part).rpartition("/")[2]
    return stack.cloud.client("sagemaker").describe_inference_component(InferenceComponentName=name)


class TestUpdates:
    @pytest.fixture(scope="class")
    def stack(self, cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> TemplateStack:
        stack = made(cloud, tmp_path_factory.mktemp("before"), "Updates", updated(128))
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        return stack

    def test_an_alarm_during_an_update_brings_the_endpoint_back_and_fails_the_deployment(
        self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        before = endpoint_of(stack)
        sagemaker, cloudwatch = cloud.client("sagemaker"), cloud.client("cloudwatch")
        sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=before["EndpointName"],
            DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}],
        )
        until(lambda: endpoint_of(stack)["EndpointStatus"], lambda status: status == "InService")
        changed = made(cloud, tmp_path, "Updates", updated(64))
        changed.start()
        until(lambda: endpoint_of(stack)["EndpointStatus"], lambda status: status == "Updating", 60)
        alarm = physical(stack, "AWS::CloudWatch::Alarm", "ErrorRate")
        cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="the new model answers with 500")
        assert changed.settled() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
        assert "went into ALARM" in changed.reasons
        assert alarm in changed.reasons
        after = endpoint_of(stack)
        assert after["EndpointStatus"] == "InService"
        assert after["EndpointConfigName"] == before["EndpointConfigName"]
        assert after["ProductionVariants"][0]["CurrentInstanceCount"] == 3
        sagemaker.describe_model(ModelName=physical(stack, "AWS::SageMaker::Model").rpartition("/")[2])
        cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="OK", StateReason="all is well")

    def test_an_update_without_alarms_moves_the_endpoint_and_keeps_what_scaling_has_set(
        self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        before = endpoint_of(stack)
        changed = made(cloud, tmp_path, "Updates", updated(64))
        assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
        after = endpoint_of(stack)
        assert after["EndpointConfigName"] != before["EndpointConfigName"]
        assert after["ProductionVariants"][0]["DesiredInstanceCount"] == 3

    def test_the_endpoint_has_a_model_at_every_moment_of_its_update(
        self, stack: TemplateStack, cloud: LocalCloud
    ) -> None:
        calls = [
            (call["operation"], call["request"])
            for call in cloud.calls()
            if call["operation"] in ("CreateModel", "UpdateEndpoint", "DeleteModel") and call["outcome"] == "OK"
        ]
        order = [operation for operation, _ in calls]
        last_update = max(place for place, operation in enumerate(order) if operation == "UpdateEndpoint")
        assert "DeleteModel" in order[last_update:]
        assert "DeleteModel" not in order[order.index("CreateModel") : order.index("UpdateEndpoint")]


def test_a_pool_without_capacity_gives_way_to_the_next_which_serves_the_model_made_for_it(
    cloud: LocalCloud, tmp_path: Path
) -> None:
    cloud.inject("no_capacity", instance_type="ml.p5.48xlarge")
    stack = made(cloud, tmp_path, "Pools", pooled)
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    (variant,) = endpoint_of(stack)["ProductionVariants"]
    counts = {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in variant["InstancePools"]}
    assert counts == {"ml.p5.48xlarge": 0, "ml.g5.12xlarge": 1}
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons


def test_nothing_was_refused_and_the_alarms_were_watched_under_the_execution_role(cloud: LocalCloud) -> None:
    asked = [each for each in cloud.authorizations() if part_of(each["role"]) is not None]
    assert [each for each in asked if each["decision"] != "Allow"] == []
    assert ("Execution", "cloudwatch:DescribeAlarms") in {(part_of(each["role"]), each["action"]) for each in asked}


class TestComponents:
    @pytest.fixture(scope="class")
    def stack(self, cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> TemplateStack:
        stack = made(cloud, tmp_path_factory.mktemp("components"), "Components", components(128))
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        return stack

    def test_two_models_and_an_adapter_share_the_instances(self, stack: TemplateStack, cloud: LocalCloud) -> None:
        listed = cloud.client("sagemaker").list_inference_components()["InferenceComponents"]
        assert {each["InferenceComponentName"].rpartition("-")[0] for each in listed} == {
            "components-shared-chat-component",
            "components-shared-chat-component-sql",
            "components-shared-small-component",
        }
        assert {each["InferenceComponentStatus"] for each in listed} == {"InService"}
        (variant,) = endpoint_of(stack)["ProductionVariants"]
        assert variant["CurrentInstanceCount"] == 1

    def test_an_update_of_a_component_keeps_its_copies(
        self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        small = component_of(stack, "Small")["InferenceComponentName"]
        cloud.client("sagemaker").update_inference_component_runtime_config(
            InferenceComponentName=small, DesiredRuntimeConfig={"CopyCount": 2}
        )
        until(lambda: component_of(stack, "Small")["RuntimeConfig"]["CurrentCopyCount"], lambda copies: copies == 2)
        changed = made(cloud, tmp_path, "Components", components(64))
        assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
        assert component_of(stack, "Small")["RuntimeConfig"]["DesiredCopyCount"] == 2

    def test_a_component_without_requests_goes_to_zero_and_comes_back(
        self, stack: TemplateStack, cloud: LocalCloud
    ) -> None:
        small = component_of(stack, "Small")["InferenceComponentName"]
        client = cloud.client("sagemaker")
        client.update_inference_component_runtime_config(
            InferenceComponentName=small, DesiredRuntimeConfig={"CopyCount": 0}
        )
        until(lambda: component_of(stack, "Small")["RuntimeConfig"]["CurrentCopyCount"], lambda copies: copies == 0)
        cloud.client("cloudwatch").put_metric_data(
            Namespace="AWS/SageMaker",
            MetricData=[
                {
                    "MetricName": "NoCapacityInvocationFailures",
                    "Dimensions": [{"Name": "InferenceComponentName", "Value": small}],
                    "Value": 1,
                }
            ],
        )
        until(lambda: component_of(stack, "Small")["RuntimeConfig"]["DesiredCopyCount"], lambda copies: copies == 1)

    def test_deleting_the_stack_leaves_no_component_and_no_endpoint(
        self, stack: TemplateStack, cloud: LocalCloud
    ) -> None:
        assert stack.delete() == "DELETE_COMPLETE", stack.reasons
        client = cloud.client("sagemaker")
        assert client.list_inference_components(NameContains="components-shared")["InferenceComponents"] == []
        assert client.list_endpoints(NameContains="components-shared")["Endpoints"] == []
