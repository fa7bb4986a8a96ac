"""Endpoints in production: safe updates, pools and components of the constructs, with IAM enforced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.security_document import permissions_under
from ..support.template_stack import ASSETS, TemplateStack, allowed, endpoint_of, made, part_of, physical
from ..support.uploaded_models import upload_model
from ..support.waiting import until
from .hosted_stacks import MODELS, components, partitioned, pooled, updated


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(
        job_seconds=(0.2, 0.2), endpoint_seconds=0.2, time_scale=0.005, enforce_iam=True
    ) as running:  # fmt: skip
        s3 = running.client("s3")
        for bucket in (ASSETS, MODELS):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        upload_model(s3, MODELS, "llama")
        s3.put_object(Bucket=MODELS, Key="adapters/sql.tar.gz", Body=b"adapter")
        yield running


@pytest.fixture(scope="module", autouse=True)
def nothing_is_refused(cloud: LocalCloud) -> Iterator[None]:
    """After the last test: no role was without a permission."""
    yield
    decisions = [each for each in cloud.authorizations() if part_of(each["role"]) is not None]
    assert [each for each in decisions if each["decision"] != "Allow"] == []


@pytest.fixture(autouse=True)
def no_faults(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.clear_faults()


def component_of(stack: TemplateStack, part: str) -> dict[str, Any]:
    name = physical(stack, "AWS::SageMaker::InferenceComponent", part).rpartition("/")[2]
    return stack.cloud.client("sagemaker").describe_inference_component(InferenceComponentName=name)


def in_service(stack: TemplateStack, part: str) -> str:
    """The name of a component, once it is in service: SageMaker refuses to change one that is being changed."""
    until(lambda: component_of(stack, part)["InferenceComponentStatus"], lambda status: status == "InService")
    return component_of(stack, part)["InferenceComponentName"]


def test_an_update_is_rolled_back_by_an_alarm_and_succeeds_without_one(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = made(cloud, tmp_path / "before", "Updates", updated(128))
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    before = endpoint_of(stack)
    cloud.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName=before["EndpointName"],
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}],
    )
    until(lambda: endpoint_of(stack)["EndpointStatus"], lambda status: status == "InService")
    an_alarm_during_the_update_rolls_it_back(stack, made(cloud, tmp_path / "failing", "Updates", updated(64)))
    assert ("Execution", "cloudwatch:DescribeAlarms") in {
        (part_of(each["role"]), each["action"]) for each in cloud.authorizations()
    }

    calls_before = len(cloud.calls())
    changed = made(cloud, tmp_path / "succeeding", "Updates", updated(64))
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    after = endpoint_of(stack)
    assert after["EndpointConfigName"] != before["EndpointConfigName"]
    assert after["ProductionVariants"][0]["DesiredInstanceCount"] == 3, "what scaling has set is kept"
    steps = [call["operation"] for call in cloud.calls()[calls_before:] if call["outcome"] == "OK"]
    models = [step for step in steps if step in ("CreateModel", "UpdateEndpoint", "DeleteModel")]
    assert models == ["CreateModel", "UpdateEndpoint", "DeleteModel"], "the endpoint has a model at every moment"
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons


def an_alarm_during_the_update_rolls_it_back(stack: TemplateStack, changed: TemplateStack) -> None:
    before = endpoint_of(stack)
    cloudwatch = stack.cloud.client("cloudwatch")
    changed.start()
    until(lambda: endpoint_of(stack)["EndpointStatus"], lambda status: status == "Updating", 60)
    alarm = physical(stack, "AWS::CloudWatch::Alarm", "AlarmsErrorRate")
    cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="the new model answers with 500")
    assert changed.settled() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
    assert "went into ALARM" in changed.reasons
    assert alarm in changed.reasons
    after = endpoint_of(stack)
    assert after["EndpointStatus"] == "InService"
    assert after["EndpointConfigName"] == before["EndpointConfigName"]
    assert after["ProductionVariants"][0]["CurrentInstanceCount"] == 3
    model = physical(stack, "AWS::SageMaker::Model").rpartition("/")[2]
    stack.cloud.client("sagemaker").describe_model(ModelName=model)
    cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="OK", StateReason="all is well")


def test_a_pool_without_capacity_falls_back_to_the_next_with_its_model(cloud: LocalCloud, tmp_path: Path) -> None:
    cloud.inject("no_capacity", instance_type="ml.p5.48xlarge")
    stack = made(cloud, tmp_path, "Pools", pooled)
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    (variant,) = endpoint_of(stack)["ProductionVariants"]
    counts = {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in variant["InstancePools"]}
    assert counts == {"ml.p5.48xlarge": 0, "ml.g5.12xlarge": 1}
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons


def test_an_update_of_a_component_keeps_its_copies(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = made(cloud, tmp_path / "before", "Copies", components(128))
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    cloud.client("sagemaker").update_inference_component_runtime_config(
        InferenceComponentName=in_service(stack, "Small"), DesiredRuntimeConfig={"CopyCount": 2}
    )
    until(lambda: component_of(stack, "Small")["RuntimeConfig"]["CurrentCopyCount"], lambda copies: copies == 2)
    changed = made(cloud, tmp_path / "after", "Copies", components(64))
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    assert component_of(stack, "Small")["RuntimeConfig"]["DesiredCopyCount"] == 2
    assert changed.delete() == "DELETE_COMPLETE", changed.reasons


class TestComponents:
    @pytest.fixture(scope="class")
    def stack(self, cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemplateStack]:
        """An endpoint with components; deleting it leaves nothing behind."""
        stack = made(cloud, tmp_path_factory.mktemp("components"), "Components", components(128))
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        yield stack
        assert stack.delete() == "DELETE_COMPLETE", stack.reasons
        client = cloud.client("sagemaker")
        assert client.list_inference_components(NameContains="components-shared")["InferenceComponents"] == []
        assert client.list_endpoints(NameContains="components-shared")["Endpoints"] == []

    def test_two_models_and_an_adapter_share_the_instances(self, stack: TemplateStack, cloud: LocalCloud) -> None:
        client = cloud.client("sagemaker")
        listed = until(
            lambda: client.list_inference_components(NameContains="components-shared")["InferenceComponents"],
            lambda components: {each["InferenceComponentStatus"] for each in components} == {"InService"},
        )
        assert {each["InferenceComponentName"].rpartition("-")[0] for each in listed} == {
            "components-shared-chat-component",
            "components-shared-chat-component-sql",
            "components-shared-small-component",
        }
        (variant,) = endpoint_of(stack)["ProductionVariants"]
        assert variant["CurrentInstanceCount"] == 1

    def test_a_component_scales_in_to_zero_and_out_again(self, stack: TemplateStack, cloud: LocalCloud) -> None:
        small = in_service(stack, "Small")
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


HALVES, QUARTERS = ["mig-3g.40gb", "mig-3g.40gb"], ["mig-2g.20gb", "mig-2g.20gb", "mig-2g.20gb"]


def partitioned_component(stack: TemplateStack) -> dict[str, Any]:
    name = physical(stack, "Custom::OptimizedInferenceComponent").rpartition("/")[2]
    return stack.cloud.client("sagemaker").describe_inference_component(InferenceComponentName=name)


def partition_of(component: dict[str, Any]) -> tuple[str, int]:
    required = component["Specification"]["ComputeResourceRequirements"]
    return required["AcceleratorPartitionType"], required["MinMemoryRequiredInMb"] // 1024


@pytest.mark.exhaustive
def test_a_model_on_a_partition_lives_scales_changes_and_goes(cloud: LocalCloud, tmp_path: Path) -> None:
    """CloudFormation cannot express it, and a handler makes it: in all its changes, with no more than it may."""
    client = cloud.client("sagemaker")
    stack = made(cloud, tmp_path / "created", "MIG", partitioned(HALVES, 16))
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    created = partitioned_component(stack)
    assert partition_of(created) == ("mig-3g.40gb", 16)
    client.update_inference_component_runtime_config(
        InferenceComponentName=created["InferenceComponentName"], DesiredRuntimeConfig={"CopyCount": 2}
    )
    until(lambda: partitioned_component(stack)["RuntimeConfig"]["CurrentCopyCount"], lambda copies: copies == 2)

    changed = made(cloud, tmp_path / "changed", "MIG", partitioned(HALVES, 24, tag="squad"))
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    after = partitioned_component(stack)
    assert after["InferenceComponentArn"] == created["InferenceComponentArn"]
    assert partition_of(after) == ("mig-3g.40gb", 24)
    assert after["RuntimeConfig"]["DesiredCopyCount"] == 2, "what scaling has set is kept"
    tags = client.list_tags(ResourceArn=after["InferenceComponentArn"])["Tags"]
    assert {"Key": "squad", "Value": "chat"} in tags
    assert "team" not in {tag["Key"] for tag in tags}

    cloud.inject("update_fails", reason="The container of the inference component is not well.")
    failing = made(cloud, tmp_path / "failing", "MIG", partitioned(HALVES, 32))
    assert failing.deploy() == "UPDATE_ROLLBACK_COMPLETE", failing.reasons
    cloud.clear_faults()
    assert "is not well" in failing.reasons
    assert partition_of(partitioned_component(stack)) == ("mig-3g.40gb", 24)

    cancelled = made(cloud, tmp_path / "cancelled", "MIG", partitioned(HALVES, 20))
    updates = len(cloud.calls("UpdateInferenceComponent"))
    cancelled.start()
    # Not the status, which a busy machine may miss.
    until(lambda: len(cloud.calls("UpdateInferenceComponent")), lambda count: count > updates, 60)
    cloud.client("cloudformation").cancel_update_stack(StackName=cancelled.name)
    assert cancelled.settled() == "UPDATE_ROLLBACK_COMPLETE", cancelled.reasons
    assert partition_of(partitioned_component(stack)) == ("mig-3g.40gb", 24)

    assert stack.delete() == "DELETE_COMPLETE", stack.reasons
    assert client.list_inference_components(NameContains="mig-divided")["InferenceComponents"] == []
    assert client.list_endpoint_configs(NameContains="optim-mig")["EndpointConfigs"] == []
    may = {each for each in allowed(stack.template) if each[0].startswith("Components")}
    did = {(part_of(each["role"]), each["action"]) for each in cloud.authorizations()}
    unseen = {each for each in permissions_under("What no test sees") if each[0].startswith("Components")}
    # Requests that supersede others are those of tests/handlers/test_component_handler.py.
    assert may - did == unseen | {("ComponentsHandler", "states:StopExecution")}


@pytest.mark.exhaustive
def test_another_layout_of_partitions_is_another_endpoint_that_takes_over(cloud: LocalCloud, tmp_path: Path) -> None:
    client = cloud.client("sagemaker")
    stack = made(cloud, tmp_path / "halves", "Layouts", partitioned(HALVES, 16))
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    before = endpoint_of(stack)["EndpointName"]
    changed = made(cloud, tmp_path / "quarters", "Layouts", partitioned(QUARTERS, 16))
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    assert partition_of(partitioned_component(stack)) == ("mig-2g.20gb", 16)
    assert endpoint_of(stack)["EndpointName"] != before
    assert len(client.list_endpoints(NameContains="layouts-divided")["Endpoints"]) == 1
    assert len(client.list_inference_components(NameContains="layouts-divided")["InferenceComponents"]) == 1
    assert changed.delete() == "DELETE_COMPLETE", changed.reasons
    assert client.list_endpoints(NameContains="layouts-divided")["Endpoints"] == []
