"""From a question to the endpoint that was recommended: the job, the file, the approval, and requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from typer.testing import CliRunner, Result

from constructs_optim import Recommendation, RecommendedEndpoint, Workload
from constructs_optim.cli.main import app
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim_local.cloud import LocalCloud

from ..support.template_stack import ASSETS, endpoint_of, made, physical
from ..support.uploaded_models import upload_model
from .test_recommendation import MODELS, STORE, outputs, recommended

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(time_scale=0.002, endpoint_seconds=0.2, enforce_iam=True) as running:
        client = running.client("s3")
        for bucket in (ASSETS, MODELS, STORE):
            client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        upload_model(client, MODELS, "llama")
        yield running


@pytest.fixture
def in_cloud(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> LocalCloud:
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    return cloud


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["jobs", "recommendation", *arguments])


def serving(path: Path) -> Any:
    def build(scope: Stack) -> None:
        endpoint = RecommendedEndpoint(scope, "Chat", recommendation=Recommendation.from_file(path))
        endpoint.evaluate(workload=Workload(concurrency=[1])).require(max_error_rate=0.5)

    return build


def test_what_is_recommended_is_reviewed_approved_and_served(in_cloud: LocalCloud, tmp_path: Path) -> None:
    cloud, sagemaker = in_cloud, in_cloud.client("sagemaker")
    asked = made(cloud, tmp_path / "asked", "Asked", recommended("llama"))
    assert asked.deploy() == "CREATE_COMPLETE", asked.reasons
    job, file = outputs(asked)["JobName"], tmp_path / "recommendation.json"

    written = run(job, "--output", str(file), "--choose", "2", "--reason", "The team has these instances.")
    assert written.exit_code == 0, written.output
    assert (run(job, "--output", str(file)).exit_code, run(job, "--choose", "9").exit_code) == (2, 2)
    content = json.loads(file.read_text())
    described = sagemaker.describe_ai_recommendation_job(AIRecommendationJobName=job)
    answer = described["Recommendations"][1]
    assert content["model_package_arn"] == answer["ModelDetails"]["ModelPackageArn"]
    assert content["job_arn"] == described["AIRecommendationJobArn"]
    assert (content["chosen"], content["reason"]) == (2, "The team has these instances.")

    served = made(cloud, tmp_path / "served", "Served", serving(file))
    assert served.deploy() == "ROLLBACK_COMPLETE"
    assert "PendingManualApproval" in served.reasons, "a person approves it first"
    assert served.delete() == "DELETE_COMPLETE"
    sagemaker.update_model_package(ModelPackageArn=content["model_package_arn"], ModelApprovalStatus="Approved")
    assert served.deploy() == "CREATE_COMPLETE", served.reasons
    endpoint = endpoint_of(served)
    assert endpoint["EndpointStatus"] == "InService"
    config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    (variant,) = config["ProductionVariants"]
    assert variant["InstanceType"] == content["instance_type"]
    assert variant["InitialInstanceCount"] == content["instance_count"]
    model = sagemaker.describe_model(ModelName=variant["ModelName"])["PrimaryContainer"]
    assert model["ModelPackageName"] == content["model_package_arn"]
    assert model["InferenceSpecificationName"] == content["inference_specification_name"]
    answered = cloud.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint["EndpointName"], ContentType="application/json", Body=json.dumps({"inputs": "Hello"})
    )
    assert answered["Body"].read()
    key = physical(served, "Custom::EndpointEvaluation")
    bucket = physical(served, "AWS::S3::Bucket")
    stored = cloud.client("s3").get_object(Bucket=bucket, Key=f"evaluations/{key}/result.json")["Body"].read()
    assert EvaluationResult.model_validate_json(stored).subject.instance_type == content["instance_type"]
    assert served.delete() == "DELETE_COMPLETE", served.reasons

    file.write_text(json.dumps({**content, "copies_per_instance": 2, "min_memory_mib": 2048}))
    copies = made(cloud, tmp_path / "copies", "Copies", serving(file))
    assert copies.deploy() == "CREATE_COMPLETE", copies.reasons
    name = physical(copies, "AWS::SageMaker::InferenceComponent").rpartition("/")[2]
    component = sagemaker.describe_inference_component(InferenceComponentName=name)
    assert component["RuntimeConfig"]["CurrentCopyCount"] == 2 * content["instance_count"]
    assert component["Specification"]["ComputeResourceRequirements"]["MinMemoryRequiredInMb"] == 2048
    assert copies.delete() == "DELETE_COMPLETE", copies.reasons
