"""Endpoints that other constructs declare, with this library's parts: raw resources, the CDK's alpha module, a peer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.catalog import images, instances, machine_images
from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT, DeployedStack
from ..support.uploaded_models import upload_model
from ..support.waiting import until

pytestmark = pytest.mark.e2e

MODELS = "models-of-others"
JUMPSTART = "meta-textgeneration/meta-textgeneration-llama-3-70b-instruct"
_IMAGE = next(row for row in images.rows() if row.server == "vllm")
_MACHINE_IMAGE = machine_images.needed(_IMAGE.cuda, instances.by_name()["ml.g5.12xlarge"])


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A bootstrapped local cloud that enforces IAM, with a model."""
    with LocalCloud(job_seconds=(0.2, 0.2), endpoint_seconds=0.2, time_scale=0.01, enforce_iam=True) as running:
        s3 = running.client("s3")
        jumpstart = f"jumpstart-private-cache-prod-{running.region}"
        for bucket in (MODELS, jumpstart):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": running.region})
        s3.put_object(Bucket=jumpstart, Key=f"{JUMPSTART}/artifacts/inference-prepack/v1.1.0/model", Body=b"weights")
        upload_model(s3, MODELS, "llama")
        s3.put_object(Bucket=MODELS, Key="llama.tar.gz", Body=b"weights")
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


def stack_of(cloud: LocalCloud, output: Path, name: str, **given: Any) -> DeployedStack:
    defaults = {"stack": name, "models": MODELS, "batch": "32", "p99_ttft_ms": 2000}
    image = {"image": f"{images.registry_host(cloud.region)}/{_IMAGE.name}", "ami": _MACHINE_IMAGE}
    settings = {"DECLARED_APP": json.dumps({**defaults, **image, **given})}
    return DeployedStack(cloud, output, name, app="declared_app.py", settings=settings)


def test_raw_resources_get_alarms_scaling_and_a_gate(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = stack_of(cloud, tmp_path, "Raw")
    stack.deploy()
    endpoint = stack.endpoint["EndpointName"]
    alarms = stack.client("cloudwatch").describe_alarms(AlarmNames=stack.resources["AWS::CloudWatch::Alarm"])
    watched = {dimension["Value"] for each in alarms["MetricAlarms"] for dimension in each.get("Dimensions", [])}
    assert watched == {endpoint, "AllTraffic"}
    (evaluation,) = stack.resources["Custom::EndpointEvaluation"]

    def publish_load() -> int:
        dimensions = [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "AllTraffic"}]
        datum = {"MetricName": "ConcurrentRequestsPerModel", "Value": 200, "Dimensions": dimensions}
        stack.client("cloudwatch").put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])
        return stack.endpoint["ProductionVariants"][0]["DesiredInstanceCount"]

    until(publish_load, lambda count: count == 3, seconds=60)
    until(lambda: stack.endpoint["EndpointStatus"], lambda status: status == "InService")

    # Another variable is another model, which is measured; the instances stay.
    before = stack.endpoint["EndpointConfigName"]
    cloud.set_performance(ttft_ms=5_000)
    slow = replace(stack, settings=stack_of(cloud, tmp_path, "Raw", batch="16").settings)
    slow.deploy(fails=True)
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE", stack.reasons
    assert "Time to first token" in stack.reasons
    assert stack.endpoint["EndpointConfigName"] == before
    cloud.clear_performances()
    slow.deploy()
    assert stack.endpoint["EndpointConfigName"] != before
    assert stack.endpoint["ProductionVariants"][0]["DesiredInstanceCount"] == 3
    assert stack.resources["Custom::EndpointEvaluation"] != [evaluation]
    stack.destroy()


@pytest.mark.exhaustive
def test_a_shadow_goes_from_the_declared_configuration_and_back_to_it(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = stack_of(cloud, tmp_path, "Shadowed", shadow=True)
    stack.deploy()
    assert [each["VariantName"] for each in stack.endpoint["ShadowProductionVariants"]] == ["Shadow"]
    runtime, name = stack.client("sagemaker-runtime"), stack.endpoint["EndpointName"]
    for number in range(40):
        body = {"messages": [{"role": "user", "content": f"Question {number}?"}], "max_tokens": 16}
        runtime.invoke_endpoint(EndpointName=name, Body=json.dumps(body), ContentType="application/json")
    assert stack.client("s3").list_objects_v2(Bucket=captures_of(stack))["KeyCount"] > 0
    without = stack_of(cloud, tmp_path, "Shadowed", batch="32")
    for item in stack.client("s3").list_objects_v2(Bucket=captures_of(stack))["Contents"]:
        stack.client("s3").delete_object(Bucket=captures_of(stack), Key=item["Key"])
    without.deploy()
    assert "ShadowProductionVariants" not in stack.endpoint
    (config,) = stack.resources["AWS::SageMaker::EndpointConfig"]
    assert stack.endpoint["EndpointConfigName"].lower() == config.rpartition("/")[2]
    stack.destroy()


def captures_of(stack: DeployedStack) -> str:
    return next(name for name in stack.resources["AWS::S3::Bucket"] if "captures" in name)


@pytest.mark.exhaustive
def test_endpoints_of_two_other_libraries_in_one_app(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = stack_of(cloud, tmp_path, "Others", others=True)
    # What `make peer` has set up; first, as the peer needs a cdk-nag of its own.
    (peer,) = (CHECKOUT / ".venv-peer" / "lib").glob("python*/site-packages")
    paths = [str(peer), str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    stack = replace(stack, settings={**stack.settings, "PYTHONPATH": os.pathsep.join(paths)})
    stack.deploy()
    assert len(stack.resources["AWS::SageMaker::Endpoint"]) == 5
    assert len(stack.resources["Custom::EndpointEvaluation"]) == 5
    scaling = stack.client("application-autoscaling")
    targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    scaled = {each["ResourceId"] for each in targets}
    sagemaker, arns = stack.client("sagemaker"), stack.resources["AWS::SageMaker::Endpoint"]
    endpoints = [sagemaker.describe_endpoint(EndpointName=arn.rpartition("/")[2]) for arn in arns]
    assert scaled == {
        f"endpoint/{each['EndpointName']}/variant/{each['ProductionVariants'][0]['VariantName']}" for each in endpoints
    }
    assert "no differences" in stack.diff()
    stack.destroy()
