"""EAGLE heads that are trained on what endpoints captured: the job's data, its permissions, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from constructs_optim import DataCapture, Model, OptimizedEndpoint, RecipeError, SpeculativeDecoding

KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
LLAMA = Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="1.0.0", accept_eula=True)


@pytest.fixture
def stack() -> Stack:
    return Stack(App(), "Chat", env={"region": "us-west-2"})


def endpoint(stack: Stack, id: str, **options: Any) -> OptimizedEndpoint:
    options = {"techniques": [], "instance_type": "ml.p5.48xlarge", **options}
    return OptimizedEndpoint(stack, id, model=LLAMA, **options)


def job(stack: Stack) -> tuple[str, dict[str, Any]]:
    [(name, resource)] = Template.from_stack(stack).find_resources("Custom::OptimizationJob").items()
    return name, resource["Properties"]


def test_heads_are_trained_on_what_another_endpoint_captured(stack: Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Captures", "chat-captures")
    chat = endpoint(stack, "Plain", data_capture=DataCapture(bucket=bucket), endpoint_name="chat")
    endpoint(stack, "Drafting", techniques=[SpeculativeDecoding.eagle(training_data=chat.captured.during("2026-10"))])
    _, properties = job(stack)
    uri = "s3://chat-captures/captures/chat/AllTraffic/2026/10/"
    [config] = properties["Request"]["OptimizationConfigs"]
    assert config["ModelSpeculativeDecodingConfig"]["TrainingDataSource"] == {"S3Uri": uri, "S3DataType": "S3Prefix"}
    # Part of the artifact's identity: the same files make the same artifact.
    assert properties["Reads"] == [{"Kind": "s3", "S3Uri": uri}]


def test_an_endpoint_is_trained_on_its_own_captures_without_a_cycle(stack: Stack) -> None:
    capture = DataCapture(bucket=s3.Bucket(stack, "Captures"))
    own = capture.captured("chat").during("2026-10-31")
    heads = SpeculativeDecoding.eagle(training_data=own)
    served = endpoint(stack, "Chat", techniques=[heads], data_capture=capture, endpoint_name="chat")
    assert served.captured.during("2026-10-31") == own
    # Of the bucket, the job may read that day alone, although the bucket's name is known only at deployment.
    roles = Template.from_stack(stack).find_resources("AWS::IAM::Role")
    reads = [
        json.dumps(statement["Resource"])
        for role in roles.values()
        for policy in role["Properties"].get("Policies", [])
        for statement in policy["PolicyDocument"]["Statement"]
        if "s3:GetObject" in statement["Action"] and "Captures" in json.dumps(statement["Resource"])
    ]
    assert len(reads) == 1
    assert "/captures/chat/AllTraffic/2026/10/31/*" in reads[0]
    assert "Fn::Split" not in reads[0]


def test_another_period_is_another_job(stack: Stack) -> None:
    capture = DataCapture(bucket=s3.Bucket.from_bucket_name(stack, "Captures", "chat-captures"))
    conditions = []
    for period in ("2026-09", "2026-10", "2026-10"):
        other = Stack(App(), "Chat", env={"region": "us-west-2"})
        captured = capture.captured("chat").during(period)
        endpoint(other, "Chat", techniques=[SpeculativeDecoding.eagle(training_data=captured)])
        conditions.append([*Template.from_stack(other).find_resources("AWS::CloudFormation::WaitCondition")])
    assert conditions[0] != conditions[1] == conditions[2]


def test_captures_under_a_key_are_refused(stack: Stack) -> None:
    capture = DataCapture(
        bucket=s3.Bucket.from_bucket_name(stack, "Captures", "chat-captures"),
        encryption_key=kms.Key.from_key_arn(stack, "Key", KEY),
    )
    heads = SpeculativeDecoding.eagle(training_data=capture.captured("chat").during("2026-10"))
    with pytest.raises(RecipeError, match=r"OPT212 techniques\[0\]\.training_data\.encryption_key"):
        endpoint(stack, "Chat", techniques=[heads])


def test_an_endpoint_without_data_capture_has_no_captured_traffic(stack: Stack) -> None:
    with pytest.raises(RecipeError, match="OPT213 data_capture"):
        _ = endpoint(stack, "Chat").captured
