"""Drafts that decay in a deployed stack: the alarm goes off, and the instances are replaced, with IAM enforced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack

from constructs_optim import Model, MonitoringOptions, OptimizedEndpoint, SpeculationCure, SpeculativeDecoding
from constructs_optim_local.cloud import LocalCloud

from ..support.hosting import settled
from ..support.template_stack import ASSETS, Build, endpoint_of, made, physical
from ..support.uploaded_models import upload_model
from ..support.waiting import until

pytestmark = pytest.mark.e2e
MODELS = "models-of-mine"


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(time_scale=0.002, endpoint_seconds=0.2, enforce_iam=True, otel_enrichment=True) as running:
        client = running.client("s3")
        for bucket in (ASSETS, MODELS):
            client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        upload_model(client, MODELS, "llama")
        yield running


def serving(cure: SpeculationCure | None) -> Build:
    def build(scope: Stack) -> None:
        OptimizedEndpoint(
            scope,
            "Chat",
            model=Model.s3(f"s3://{MODELS}/llama/"),
            techniques=[SpeculativeDecoding.ngram()],
            instance_type="ml.g5.12xlarge",
            endpoint_name="chat",
            monitoring=MonitoringOptions(speculation_cure=cure),
        )

    return build


def decay(cloud: LocalCloud) -> None:
    """What a container exposes whose drafts have lost half of their accepted tokens in the last forty minutes."""
    accepted, before = 0.0, 20 * 60
    for minute in [*range(20 * 60, 40, -20), *range(40, -1, -1)]:
        accepted += 600 * (before - minute) * (2 if minute > 40 else 1)
        before = minute
        text = (
            f"vllm:spec_decode_num_drafts_total {600 * (20 * 60 - minute)}\n"
            f"vllm:spec_decode_num_accepted_tokens_total {accepted}\n"
        )
        cloud.collect_engine_metrics(text, endpoint="chat", seconds_ago=60 * minute)


def test_instances_whose_drafts_decay_are_replaced_once(cloud: LocalCloud, tmp_path: Path) -> None:
    sagemaker, cloudwatch = cloud.client("sagemaker"), cloud.client("cloudwatch")
    stack = made(cloud, tmp_path / "cured", "Cured", serving(SpeculationCure.restart()))
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    first = endpoint_of(stack)["EndpointConfigName"]
    decay(cloud)

    def config() -> Any:
        return sagemaker.describe_endpoint(EndpointName="chat")["EndpointConfigName"]

    second = until(config, lambda name: name != first)
    assert settled(sagemaker, "chat")["EndpointStatus"] == "InService"
    contents = [sagemaker.describe_endpoint_config(EndpointConfigName=name) for name in (first, second)]
    variants = [content["ProductionVariants"] for content in contents]
    assert variants[0] == variants[1]
    [alarm] = cloudwatch.describe_alarms(AlarmNames=["chat-AcceptanceDecay"])["MetricAlarms"]
    assert alarm["StateValue"] == "ALARM"
    executions, machine = cloud.client("stepfunctions"), physical(stack, "AWS::StepFunctions::StateMachine")

    def of_status(status: str) -> Any:
        return executions.list_executions(stateMachineArn=machine, statusFilter=status)["executions"]

    until(lambda: of_status("SUCCEEDED"), lambda found: len(found) == 1)
    # It goes off once more, within the twelve hours, which the second execution waits for.
    cloudwatch.set_alarm_state(AlarmName="chat-AcceptanceDecay", StateValue="OK", StateReason="a test")
    [waiting] = until(lambda: of_status("RUNNING"), lambda found: len(found) == 1)
    until(
        lambda: executions.get_execution_history(executionArn=waiting["executionArn"])["events"],
        lambda found: any(event["type"] == "WaitStateEntered" for event in found),
    )
    assert len(of_status("SUCCEEDED")) == 1
    assert config() == second
    # Without the cure, the endpoint is on the configuration that is left, and both others are gone.
    plain = made(cloud, tmp_path / "plain", "Cured", serving(None))
    assert plain.deploy() == "UPDATE_COMPLETE", plain.reasons
    left = [each["EndpointConfigName"] for each in sagemaker.list_endpoint_configs()["EndpointConfigs"]]
    assert left == [config()]
    assert config() not in (first, second)
    assert plain.delete() == "DELETE_COMPLETE", plain.reasons
