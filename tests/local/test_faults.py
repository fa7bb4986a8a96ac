"""Faults injected by name."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud, LocalCloudError
from constructs_optim_local.faults import NAMES

from ..support.hosting import deploy
from ..support.local_cloud import BUCKET, plain_client
from ..support.optimization_jobs import ended, request, unchecked


def test_an_injected_job_failure_has_the_configured_reason(cloud: LocalCloud, sagemaker: Any) -> None:
    cloud.inject("job_fails", reason="ClientError: CUDA out of memory")
    sagemaker.create_optimization_job(**request("failing"))
    job = ended(sagemaker, "failing")
    assert (job["OptimizationJobStatus"], job["FailureReason"]) == ("FAILED", "ClientError: CUDA out of memory")


def test_an_injected_fault_lets_a_job_complete_without_output(cloud: LocalCloud, sagemaker: Any) -> None:
    cloud.inject("job_writes_nothing")
    sagemaker.create_optimization_job(**request("empty"))
    assert ended(sagemaker, "empty")["OptimizationJobStatus"] == "COMPLETED"
    assert cloud.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="empty/")["KeyCount"] == 0


def test_a_job_that_cannot_write_its_output_fails(sagemaker: Any) -> None:
    sagemaker.create_optimization_job(
        **request("homeless", OutputConfig={"S3OutputLocation": "s3://no-such-bucket/x/"})
    )
    job = ended(sagemaker, "homeless")
    assert job["OptimizationJobStatus"] == "FAILED"
    assert "s3://no-such-bucket/x" in job["FailureReason"]


@pytest.mark.parametrize(
    ("fault", "code", "status"), [("throttled", "ThrottlingException", 400), ("server_error", "InternalFailure", 500)]
)
def test_an_injected_api_error_fails_as_many_calls_as_its_count(
    cloud: LocalCloud, fault: str, code: str, status: int
) -> None:
    cloud.inject(fault, operation="ListModels", count=1)
    client = unretried(cloud)
    with pytest.raises(ClientError) as caught:
        client.list_models()
    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    client.list_models()


def test_a_fault_of_one_operation_does_not_affect_others(cloud: LocalCloud) -> None:
    cloud.inject("throttled", operation="ListModels")
    unretried(cloud).list_endpoints()


def test_an_injected_limit_fails_with_resource_limit_exceeded(cloud: LocalCloud) -> None:
    cloud.inject("limit_exceeded", operation="CreateOptimizationJob", count=1)
    with pytest.raises(ClientError) as caught:
        unchecked(cloud).create_optimization_job(**request("limited"))
    assert caught.value.response["Error"]["Code"] == "ResourceLimitExceeded"


def test_the_hub_can_be_made_unavailable(cloud: LocalCloud) -> None:
    cloud.inject("hub_unavailable")
    with pytest.raises(ClientError) as caught:
        unretried(cloud).describe_hub_content(
            HubName="SageMakerPublicHub", HubContentType="Model", HubContentName="meta-textgeneration-llama-2-70b"
        )
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503


@pytest.mark.parametrize(("fault", "said"), [("endpoint_fails", "ping health check"), ("no_capacity", "Insufficient")])
def test_an_endpoint_can_be_made_to_fail_at_creation(cloud: LocalCloud, sagemaker: Any, fault: str, said: str) -> None:
    cloud.inject(fault)
    endpoint = deploy(sagemaker, fault.replace("_", "-"))
    assert endpoint["EndpointStatus"] == "Failed"
    assert said in endpoint["FailureReason"]


def test_clearing_the_faults_ends_all_of_them(cloud: LocalCloud) -> None:
    cloud.inject("throttled")
    cloud.clear_faults()
    unretried(cloud).list_models()


def test_an_unknown_fault_is_refused_with_the_known_names(cloud: LocalCloud) -> None:
    with pytest.raises(LocalCloudError) as caught:
        cloud.inject("gremlins")
    for name in NAMES:
        assert name in str(caught.value)


def test_calls_are_recorded_with_their_outcomes(cloud: LocalCloud) -> None:
    with pytest.raises(ClientError):
        unretried(cloud).describe_model(ModelName="unrecorded")
    last = cloud.calls("DescribeModel")[-1]
    assert last["service"] == "sagemaker"
    assert last["request"] == {"ModelName": "unrecorded"}
    assert last["outcome"] == "ValidationException"


def unretried(cloud: LocalCloud) -> Any:
    return plain_client(cloud, retries={"total_max_attempts": 1})
