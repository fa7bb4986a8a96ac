"""Requests against botocore's models of the services: recorded requests of the SDKs, and some invalid ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..support.recorded_requests import problems

RECORDED = sorted(Path(__file__).parent.glob("recorded/sagemaker-*.json"))


@pytest.mark.parametrize("recording", RECORDED, ids=lambda path: path.stem)
def test_recorded_sdk_requests_conform_to_the_service_models(recording: Path) -> None:
    calls = [call for case in json.loads(recording.read_text())["cases"].values() for call in case if "request" in call]
    assert len(calls) >= 5
    # A model's name is made up by the SDK, so that record.py leaves it out.
    made_up = {"CreateModel": {"ModelName": "made-up"}}
    requests = [{**made_up.get(call["operation"], {}), **call["request"]} for call in calls]
    found = zip(calls, requests, strict=True)
    assert problems({"service": "sagemaker", **call, "request": request} for call, request in found) == set()


@pytest.mark.parametrize(
    ("service", "operation", "sent", "found"),
    [
        ("sagemaker", "DescribeModel", {"ModelName": "a b"}, "regular expression pattern"),
        ("sagemaker", "DescribeModel", {}, "Missing required parameter"),
        ("s3", "PutObject", {"Bucket": "b", "Key": "k", "ServerSideEncryption": "AES"}, "enum value set"),
        ("s3", "PutObject", {"Bucket": "b", "Key": ""}, "min length: 1"),
        ("stepfunctions", "StartExecution", {"stateMachineArn": "arn", "name": "x" * 81}, "less than or equal to 80"),
        ("cloudformation", "DescribeStacks", {"Stack": "Chat"}, "Unknown parameter"),
        ("cloudwatch", "PutMetricData", {"Namespace": "Optim", "MetricData": "1"}, "Invalid type"),
        ("pricing", "GetProducts", {"ServiceCode": "AmazonSageMaker", "MaxResults": 101}, "less than or equal to 100"),
    ],
)
def test_a_request_that_violates_its_service_model_is_detected(
    service: str, operation: str, sent: dict[str, Any], found: str
) -> None:
    (problem,) = problems([{"service": service, "operation": operation, "request": sent}])
    assert problem.startswith(f"{service}:{operation}: ")
    assert found in problem
