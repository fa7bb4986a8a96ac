"""What a reader's account has before a block: jobs, artifacts, and endpoints that no page makes. Comments name them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aws_cdk import Stack as CdkStack
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, Quantization
from constructs_optim.runtime.store.owner_records import Owner
from constructs_optim_local.cloud import LocalCloud
from tests.e2e.test_adoption import ByHand
from tests.support.cloudformation_stacks import Stack
from tests.support.hosting import make_config, make_model, settled
from tests.support.operator_endpoints import Served
from tests.support.operator_stores import Store, artifact_key, client
from tests.support.template_stack import ASSETS, made

BUCKET = "ml-artifacts"
_REASON = "CUDA out of memory"
_READY = artifact_key("ready")


def give(name: str, cloud: LocalCloud, folder: Path) -> None:
    """Bring about a state in the first account of a cloud. ``folder`` is for files on the way.

    Raises:
        KeyError: if there is no such state.
    """
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in cloud.environment().items():
            patch.setenv(variable, value)
        _GIVEN[name](cloud, folder)


def _jobs_and_artifacts(cloud: LocalCloud, folder: Path) -> None:
    store = Store(cloud, BUCKET)
    store.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    chat, search = (_owner(cloud, name) for name in ("Chat", "Search"))
    store.made(artifact_key("one owner"), chat)
    store.made(_READY, chat)
    store.claimed(_READY, search)
    store.made(artifact_key("unused"), Owner(chat.stack_id.replace("/Chat/", "/Trial/"), chat.logical_id))
    cloud.inject("job_fails", count=1, reason=_REASON)
    store.made(artifact_key("failed"), search)
    store.running(artifact_key("running"), chat)
    store.running(artifact_key("orphan"))


def _owner(cloud: LocalCloud, name: str) -> Owner:
    stack = Stack(cloud, name)
    stack.deploy({"Topic": {"Type": "AWS::SNS::Topic"}})
    (found,) = stack.cloudformation.describe_stacks(StackName=name)["Stacks"]
    return Owner(found["StackId"], "Llama70BJob")


def _changed_files(cloud: LocalCloud, folder: Path) -> None:
    files = client(cloud, "s3")
    for name, body in (("model.safetensors", b"w" * 354), ("payload.pkl", b"unlisted")):
        files.put_object(Bucket=BUCKET, Key=f"artifacts/{_READY}/model/1/{name}", Body=body)


def _failed_deployment(cloud: LocalCloud, folder: Path) -> None:
    for bucket in (ASSETS, BUCKET):
        cloud.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": cloud.region})

    def build(scope: CdkStack) -> None:
        OptimizedEndpoint(
            scope,
            "Llama70B",
            model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            artifact_store=ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(scope, "Store", BUCKET)),
        )

    cloud.inject("job_fails", count=1, reason=_REASON)
    stack = made(cloud, folder, "Chat", build)
    assert stack.deploy() == "ROLLBACK_COMPLETE", stack.reasons
    logs, group = cloud.client("logs"), "/aws/sagemaker/TrainingJobs"
    logs.create_log_group(logGroupName=group)
    stream = {"logGroupName": group, "logStreamName": "optim-5d28a90f4498a814/algo-1-1764244800"}
    logs.create_log_stream(**stream)
    logs.put_log_events(**stream, logEvents=[{"timestamp": int(time.time() * 1000), "message": _REASON}])


def _endpoint_by_hand(cloud: LocalCloud, folder: Path) -> None:
    by_hand = ByHand(cloud, "chat-prod")
    by_hand.endpoint(ModelName="chat-prod-model", InitialVariantWeight=1)
    by_hand.scaled(
        "endpoint/chat-prod/variant/AllTraffic",
        "sagemaker:variant:DesiredInstanceCount",
        "SageMakerVariantInvocationsPerInstance",
    )


def _captured_requests(cloud: LocalCloud, folder: Path) -> None:
    store, sagemaker = Store(cloud, "chat-captures"), cloud.client("sagemaker")
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 100,
        "DestinationS3Uri": f"s3://{store.bucket}/captures",
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    }
    make_model(sagemaker, "chat")
    make_config(sagemaker, "chat", "chat", DataCaptureConfig=capture)
    sagemaker.create_endpoint(EndpointName="chat", EndpointConfigName="chat")
    settled(sagemaker, "chat")
    runtime = cloud.client("sagemaker-runtime")
    for number in range(100):
        body = json.dumps({"messages": [{"role": "user", "content": f"Question {number}"}]})
        runtime.invoke_endpoint(EndpointName="chat", ContentType="application/json", Body=body)


def _endpoint_of_components(cloud: LocalCloud, folder: Path) -> None:
    served = Served.by_components(cloud, name="chat")
    component = served.component(copies=2)
    served.scale(component, 1, 4)
    served.track(component)


def _quota(cloud: LocalCloud, folder: Path) -> None:
    cloud.set_quota("ml.g5.12xlarge for endpoint usage", 0)


_GIVEN: dict[str, Callable[[LocalCloud, Path], None]] = {
    "jobs and artifacts": _jobs_and_artifacts,
    "changed files": _changed_files,
    "a failed deployment": _failed_deployment,
    "an endpoint made by hand": _endpoint_by_hand,
    "an endpoint with a component": _endpoint_of_components,
    "captured requests": _captured_requests,
    "a quota of 0": _quota,
}
