"""Optimization jobs: SageMaker's statuses and error messages."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.in_process import InProcessCloud

from ..support.local_cloud import BUCKET
from ..support.optimization_jobs import ended, request, unchecked

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama-of-mine"


@pytest.fixture
def sagemaker(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker")


def statuses(in_process: InProcessCloud, name: str) -> list[str]:
    return [entry["status"] for job in in_process.jobs() if job["name"] == name for entry in job["history"]]


def test_an_optimization_job_completes_and_recommends_its_inference_image(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    sagemaker.create_optimization_job(**request("plain"))
    assert sagemaker.describe_optimization_job(OptimizationJobName="plain")["OptimizationJobStatus"] == "STARTING"
    job = ended(sagemaker, "plain")
    assert statuses(in_process, "plain") == ["STARTING", "INPROGRESS", "COMPLETED"]
    assert job["OptimizationOutput"]["RecommendedInferenceImage"].endswith("/lmi:1")
    assert job["CreationTime"] < job["OptimizationStartTime"] < job["OptimizationEndTime"]


def test_a_quantization_job_writes_the_files_an_inference_server_loads(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    sagemaker.create_optimization_job(**request("written"))
    ended(sagemaker, "written")
    s3 = in_process.client("s3")

    def read(name: str) -> bytes:
        return s3.get_object(Bucket=BUCKET, Key=f"written/{name}")["Body"].read()

    assert read("serving.properties").decode().splitlines() == [
        "option.quantize=awq",
        "option.tensor_parallel_degree=4",
    ]
    assert "model" in json.loads(read("tokenizer.json"))
    assert json.loads(read("config.json"))["architectures"]
    weights = read("model.safetensors")
    (length,) = struct.unpack("<Q", weights[:8])
    tensors = json.loads(weights[8 : 8 + length])
    assert max(tensor["data_offsets"][1] for tensor in tensors.values()) == len(weights) - 8 - length


def test_a_job_being_stopped_is_stopping_and_then_stopped(in_process: InProcessCloud, sagemaker: Any) -> None:
    in_process.inject("job_never_finishes")
    sagemaker.create_optimization_job(**request("stopped"))
    sagemaker.stop_optimization_job(OptimizationJobName="stopped")
    assert ended(sagemaker, "stopped")["OptimizationJobStatus"] == "STOPPED"
    assert statuses(in_process, "stopped")[-2:] == ["STOPPING", "STOPPED"]
    with pytest.raises(ClientError, match="STOPPED"):
        sagemaker.stop_optimization_job(OptimizationJobName="stopped")


def test_an_optimization_job_beyond_its_maximum_runtime_is_stopped(in_process: InProcessCloud, sagemaker: Any) -> None:
    in_process.inject("job_never_finishes")
    sagemaker.create_optimization_job(**request("long", StoppingCondition={"MaxRuntimeInSeconds": 1}))
    job = ended(sagemaker, "long")
    assert job["OptimizationJobStatus"] == "STOPPED"
    assert "MaxRuntimeInSeconds" in job["FailureReason"]


def test_an_optimization_job_that_waits_for_instances_for_too_long_is_stopped(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    in_process.inject("job_never_starts")
    stopping = {"MaxRuntimeInSeconds": 3600, "MaxPendingTimeInSeconds": 1800}
    sagemaker.create_optimization_job(**request("pending", StoppingCondition=stopping))
    in_process.clock.advance(1801)
    job = ended(sagemaker, "pending")
    assert job["OptimizationJobStatus"] == "STOPPED"
    assert "MaxPendingTimeInSeconds" in job["FailureReason"]
    assert statuses(in_process, "pending") == ["STARTING", "STOPPED"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"StoppingCondition": {"MaxPendingTimeInSeconds": 60}}, "1800"),
        ({"TrainingPlanArns": [PLAN, PLAN]}, "less than or equal to 1"),
        ({"TrainingPlanArns": [PLAN.replace("us-west-2", "us-east-1")]}, "Could not find training plan"),
        ({"TrainingPlanArns": [PLAN.replace("training-plan", "reserved-capacity")]}, "regular expression pattern"),
    ],
)
def test_a_job_whose_reservation_or_wait_is_not_valid_is_refused(
    in_process: InProcessCloud, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(ClientError, match=said):
        unchecked(in_process).create_optimization_job(**request("refused", **changed))


def test_a_job_runs_in_a_training_plan_of_its_region(sagemaker: Any) -> None:
    sagemaker.create_optimization_job(**request("reserved", TrainingPlanArns=[PLAN]))
    job = ended(sagemaker, "reserved")
    assert (job["OptimizationJobStatus"], job["TrainingPlanArns"]) == ("COMPLETED", [PLAN])


def test_a_job_name_in_use_is_refused_as_resource_in_use(sagemaker: Any) -> None:
    sagemaker.create_optimization_job(**request("taken"))
    with pytest.raises(ClientError) as caught:
        sagemaker.create_optimization_job(**request("taken"))
    assert caught.value.response["Error"]["Code"] == "ResourceInUse"


@pytest.mark.parametrize("operation", ["describe_optimization_job", "stop_optimization_job", "delete_optimization_job"])
def test_an_unknown_job_is_resource_not_found(sagemaker: Any, operation: str) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(sagemaker, operation)(OptimizationJobName="nobody")
    assert caught.value.response["Error"]["Code"] == "ResourceNotFound"


def test_a_running_job_cannot_be_deleted_and_an_ended_one_can(sagemaker: Any) -> None:
    sagemaker.create_optimization_job(**request("deleted"))
    with pytest.raises(ClientError, match="stop it first"):
        sagemaker.delete_optimization_job(OptimizationJobName="deleted")
    ended(sagemaker, "deleted")
    sagemaker.delete_optimization_job(OptimizationJobName="deleted")
    assert "deleted" not in {
        job["OptimizationJobName"] for job in sagemaker.list_optimization_jobs()["OptimizationJobSummaries"]
    }


def test_jobs_are_listed_by_part_of_their_name_in_pages(sagemaker: Any) -> None:
    for number in range(3):
        sagemaker.create_optimization_job(**request(f"listed-{number}"))
    pages = sagemaker.get_paginator("list_optimization_jobs").paginate(
        NameContains="listed-", PaginationConfig={"PageSize": 2}
    )
    found = [[job["OptimizationJobName"] for job in page["OptimizationJobSummaries"]] for page in pages]
    assert found == [["listed-2", "listed-1"], ["listed-0"]]


def test_tags_of_a_job_are_listed_added_and_removed(sagemaker: Any) -> None:
    arn = sagemaker.create_optimization_job(**request("tagged", Tags=[{"Key": "team", "Value": "chat"}]))[
        "OptimizationJobArn"
    ]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "stage", "Value": "test"}])
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "stage", "Value": "test"}]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"DeploymentInstanceType": "ml.m5.xlarge"}, "enum value set"),
        ({"OptimizationJobName": "under_score"}, "regular expression pattern"),
        ({"OptimizationJobName": "n" * 64}, "less than or equal to 63"),
        ({"RoleArn": "not-an-arn-but-long-enough"}, "roleArn"),
        ({"ModelSource": {}}, "ModelSource"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 0}}, "StoppingCondition"),
    ],
)
def test_a_request_that_violates_the_service_model_is_refused(
    in_process: InProcessCloud, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(ClientError) as caught:
        unchecked(in_process).create_optimization_job(**request("invalid", **changed))
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert said.lower() in caught.value.response["Error"]["Message"].lower()


def test_all_validation_errors_of_a_request_are_reported_together(in_process: InProcessCloud) -> None:
    with pytest.raises(ClientError, match="2 validation errors"):
        unchecked(in_process).create_optimization_job(
            **request("under_score", DeploymentInstanceType="ml.m5.xlarge", OptimizationJobName="under_score")
        )


def test_an_unsupported_operation_of_the_local_cloud_is_reported(sagemaker: Any) -> None:
    with pytest.raises(ClientError, match="not an operation of the local cloud"):
        sagemaker.list_domains()
