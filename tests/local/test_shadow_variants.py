"""Shadow variants of the local cloud: what is refused, which requests are replicated, and what is captured of both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.in_process import InProcessCloud

from ..support.hosting import make_model, settled

TYPE = "ml.g5.12xlarge"


@pytest.fixture(scope="module")
def sagemaker(in_process: InProcessCloud) -> Any:
    client = in_process.client("sagemaker")
    make_model(client, "shadow-model")
    return client


def variant(name: str, weight: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "VariantName": name,
        "ModelName": "shadow-model",
        "InstanceType": TYPE,
        "InitialInstanceCount": 1,
        "InitialVariantWeight": weight,
        **more,
    }


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"ProductionVariants": [variant("A"), variant("B")]}, "exactly one ProductionVariant"),
        ({"ShadowProductionVariants": [variant("S"), variant("T")]}, "exactly one ProductionVariant"),
        ({"ShadowProductionVariants": [variant("A")]}, "is given 2 times"),
        ({"ShadowProductionVariants": [variant("S", InstanceType="ml.inf1.xlarge")]}, "Inf1"),
        ({"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://bucket/out"}}}, "AsyncInferenceConfig"),
    ],
)
def test_what_aws_excludes_is_refused(sagemaker: Any, request_: dict[str, Any], words: str) -> None:
    whole = {"ProductionVariants": [variant("A")], "ShadowProductionVariants": [variant("S")], **request_}
    with pytest.raises(ClientError, match=words):
        sagemaker.create_endpoint_config(EndpointConfigName="refused", **whole)


def test_a_shadow_gets_its_share_and_both_are_captured(in_process: InProcessCloud, sagemaker: Any) -> None:
    capture = {
        "InitialSamplingPercentage": 100,
        "DestinationS3Uri": "s3://shadow-captures/kept",
        "CaptureOptions": [{"CaptureMode": "InputAndOutput"}],
        "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
    }
    in_process.client("s3").create_bucket(
        Bucket="shadow-captures", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
    )
    sagemaker.create_endpoint_config(
        EndpointConfigName="shadowed",
        ProductionVariants=[variant("A")],
        ShadowProductionVariants=[variant("S", 0.25)],
        DataCaptureConfig=capture,
    )
    sagemaker.create_endpoint(EndpointName="shadowed", EndpointConfigName="shadowed")
    described = settled(sagemaker, "shadowed")
    assert [each["VariantName"] for each in described["ShadowProductionVariants"]] == ["S"]
    runtime = in_process.client("sagemaker-runtime")
    for number in range(8):
        body = json.dumps({"inputs": f"request {number}"})
        answer = runtime.invoke_endpoint(EndpointName="shadowed", Body=body, ContentType="application/json")
        assert answer["InvokedProductionVariant"] == "A"
    s3 = in_process.client("s3")
    found = s3.list_objects_v2(Bucket="shadow-captures", Prefix="kept/shadowed/")["Contents"]
    variants = [item["Key"].split("/")[2] for item in found]
    assert (variants.count("A"), variants.count("S")) == (8, 2)
    record = json.loads(s3.get_object(Bucket="shadow-captures", Key=found[0]["Key"])["Body"].read())
    assert json.loads(record["captureData"]["endpointInput"]["data"])["inputs"].startswith("request")
    assert "generated_text" in json.loads(record["captureData"]["endpointOutput"]["data"])
