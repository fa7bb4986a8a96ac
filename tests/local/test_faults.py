"""Faults, asked for by name."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud, LocalCloudError
from constructs_optim_local.faults import NAMES

from ..support.hosting import deploy
from ..support.local_cloud import BUCKET, plain_client
from ..support.optimization_jobs import ended, request, unchecked


def test_a_failing_job_gives_the_reason_it_was_given(cloud: LocalCloud, sagemaker: Any) -> None:
    cloud.inject("job_fails", reason="ClientError: CUDA out of memory")
    sagemaker.create_optimization_job(**request("failing"))
    job = ended(sagemaker, "failing")
    assert (job["OptimizationJobStatus"], job["FailureReason"]) == ("FAILED", "ClientError: CUDA out of memory")


def test_a_job_may_complete_without_output(cloud: LocalCloud, sagemaker: Any) -> None:
    cloud.inject("job_writes_nothing")
    sagemaker.create_optimization_job(**request("empty"))
    assert ended(sagemaker, "empty")["OptimizationJobStatus"] == "COMPLETED"
    assert cloud.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="empty/")["KeyCount"] == 0


def test_a_job_fails_that_cannot_write_its_output(sagemaker: Any) -> None:
    sagemaker.create_optimization_job(
        **request("homeless", OutputConfig={"S3OutputLocation": "s3://no-such-bucket/x/"})
    )
    job = ended(sagemaker, "homeless")
    assert job["OptimizationJobStatus"] == "FAILED"
    assert "s3://no-such-bucket/x" in job["FailureReason"]


@pytest.mark.parametrize(
    ("fault", "code", "status"), [("throttled", "ThrottlingException", 400), ("server_error", "InternalFailure", 500)]
)
def test_a_call_fails_as_often_as_it_was_told_to(cloud: LocalCloud, fault: str, code: str, status: int) -> None:
    cloud.inject(fault, operation="ListModels", count=1)
    client = unretried(cloud)
    with pytest.raises(ClientError) as caught:
        client.list_models()
    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    client.list_models()


def test_a_fault_of_one_operation_leaves_the_others_alone(cloud: LocalCloud) -> None:
    cloud.inject("throttled", operation="ListModels")
    unretried(cloud).list_endpoints()


def test_a_limit_is_exceeded_with_the_services_words(cloud: LocalCloud) -> None:
    cloud.inject("limit_exceeded", operation="CreateOptimizationJob", count=1)
    with pytest.raises(ClientError) as caught:
        unchecked(cloud).create_optimization_job(**request("limited"))
    assert caught.value.response["Error"]["Code"] == "ResourceLimitExceeded"


def test_the_hub_can_be_away(cloud: LocalCloud) -> None:
    cloud.inject("hub_unavailable")
    with pytest.raises(ClientError) as caught:
        unretried(cloud).describe_hub_content(
            HubName="SageMakerPublicHub", HubContentType="Model", HubContentName="meta-textgeneration-llama-2-70b"
        )
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503


@pytest.mark.parametrize(("fault", "said"), [("endpoint_fails", "ping health check"), ("no_capacity", "Insufficient")])
def test_an_endpoint_may_not_come_up(cloud: LocalCloud, sagemaker: Any, fault: str, said: str) -> None:
    cloud.inject(fault)
    endpoint = deploy(sagemaker, fault.replace("_", "-"))
    assert endpoint["EndpointStatus"] == "Failed"
    assert said in endpoint["FailureReason"]


def test_clearing_ends_all_faults(cloud: LocalCloud) -> None:
    cloud.inject("throttled")
    cloud.clear_faults()
    unretried(cloud).list_models()


def test_a_fault_of_no_known_name_is_refused_with_the_names_there_are(cloud: LocalCloud) -> None:
    with pytest.raises(LocalCloudError) as caught:
        cloud.inject("gremlins")
    for name in NAMES:
        assert name in str(caught.value)


def test_calls_are_recorded_with_what_came_of_them(cloud: LocalCloud) -> None:
    with pytest.raises(ClientError):
        unretried(cloud).describe_model(ModelName="unrecorded")
    last = cloud.calls("DescribeModel")[-1]
    assert last["service"] == "sagemaker"
    assert last["request"] == {"ModelName": "unrecorded"}
    assert last["outcome"] == "ValidationException"


def unretried(cloud: LocalCloud) -> Any:
    return plain_client(cloud, retries={"total_max_attempts": 1})
