from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.errors import InvalidEvent
from constructs_optim.runtime.properties import HubSource, S3Source, parse_job_properties

VALID: dict[str, Any] = {
    "RecipeKey": "b" * 64,
    "Source": {
        "Kind": "hub",
        "HubName": "SageMakerPublicHub",
        "ModelId": "some-model",
        "Version": "1.2.3",
        "AcceptEula": "true",
    },
    "Request": {
        "DeploymentInstanceType": "ml.g5.12xlarge",
        "StoppingCondition": {"MaxRuntimeInSeconds": "36000"},
    },
    "RoleArn": "arn:aws:iam::123456789012:role/Execution",
    "Bucket": "artifacts-of-the-team",
    "StateMachineArn": "arn:aws:states:us-west-2:123456789012:stateMachine:Watch",
    "WaitHandle": "https://cloudformation-waitcondition-us-west-2.s3.us-west-2.amazonaws.com/token",
}


def test_a_hub_source_is_read_with_its_booleans_as_cloudformation_writes_them() -> None:
    assert parse_job_properties(VALID).source == HubSource("SageMakerPublicHub", "some-model", "1.2.3", True)


@pytest.mark.parametrize(
    ("uri", "prefix"),
    [
        ("s3://bucket/models/llama", "models/llama/"),
        ("s3://bucket/models/llama/", "models/llama/"),
        ("s3://bucket", ""),
        ("s3://bucket/", ""),
    ],
)
def test_an_s3_prefix_ends_in_a_slash_so_that_its_neighbours_are_left_out(uri: str, prefix: str) -> None:
    source = parse_job_properties({**VALID, "Source": {"Kind": "s3", "S3Uri": uri}}).source
    assert source == S3Source("bucket", prefix, False)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"RecipeKey": "not-a-key"}, "RecipeKey"),
        ({"Source": {"Kind": "ftp"}}, "Source.Kind"),
        ({"Source": {"Kind": "s3", "S3Uri": "http://bucket/x"}}, "Source.S3Uri"),
        (
            {"Source": {"Kind": "hub", "HubName": "h", "ModelId": "../../etc", "AcceptEula": "true"}},
            "Source.ModelId",
        ),
        ({"Request": {"RoleArn": "arn:aws:iam::1:role/Admin"}}, "Request"),
        ({"RoleArn": "arn:aws:iam::1:user/x"}, "RoleArn"),
        ({"Bucket": "Not_A_Bucket"}, "Bucket"),
        ({"WaitHandle": "http://169.254.169.254/latest"}, "WaitHandle"),
        ({"WaitHandle": "file:///etc/passwd"}, "WaitHandle"),
        ({"KmsKeyArn": "alias/x"}, "KmsKeyArn"),
        ({"Tags": ["x"]}, "Tags"),
    ],
)
def test_a_malformed_property_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidEvent, match=named):
        parse_job_properties({**VALID, **change})


def test_all_malformed_properties_are_named_at_once() -> None:
    with pytest.raises(InvalidEvent, match=r"Bucket, RecipeKey, Request, RoleArn, Source\.Kind, StateMachineArn"):
        parse_job_properties({})


_TEXT = st.text(string.printable)
_JSON = st.recursive(
    st.none() | st.booleans() | _TEXT | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner),
    max_leaves=5,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*VALID, "KmsKeyArn", "Tags"), _JSON)))
def test_whatever_reaches_the_handler_is_read_or_refused(properties: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent):
        parse_job_properties(properties)
