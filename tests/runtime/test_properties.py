from __future__ import annotations

import contextlib
from typing import Any

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.errors import InvalidEvent
from constructs_optim.runtime.requests.properties import (
    CapacityProperties,
    HubSource,
    JobProperties,
    ModelProperties,
    Properties,
    S3Source,
    StoreProperties,
    validate,
)
from tests.support.properties import JSON, MODEL, NEAR, places, replaced
from tests.support.properties import OPTIMIZATION as VALID

WAITING = "cloudformation-waitcondition-us-west-2"


def test_a_hub_source_is_read_with_its_booleans_as_cloudformation_writes_them() -> None:
    assert validate(JobProperties, VALID).source == HubSource(
        hub_name="SageMakerPublicHub", model_id="some-model", version="1.2.3", accept_eula=True
    )


@pytest.mark.parametrize(
    ("uri", "prefix"),
    [
        ("s3://bucket/models/llama", "models/llama/"),
        ("s3://bucket/models/llama/", "models/llama/"),
        ("s3://bucket", ""),
        ("s3://bucket/", ""),
    ],
)
def test_an_s3_prefix_ends_in_a_slash_to_exclude_sibling_prefixes(uri: str, prefix: str) -> None:
    source = validate(JobProperties, {**VALID, "Source": {"Kind": "s3", "S3Uri": uri}}).source
    assert isinstance(source, S3Source)
    assert source.location == ("bucket", prefix)


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
        ({"Source": {**VALID["Source"], "HubName": "a/b"}}, "Source.HubName"),
        ({"Source": {**VALID["Source"], "ModelId": "m" * 64}}, "Source.ModelId"),
        ({"Source": {**VALID["Source"], "Version": "*"}}, "Source.Version"),
        ({"Source": {**VALID["Source"], "Version": "\u0661.0.0"}}, "Source.Version"),
        ({"Source": {**VALID["Source"], "Configuration": "../lmi"}}, "Source.Configuration"),
        ({"Source": {"Kind": "s3", "S3Uri": "s3://bucket/a\nb"}}, "Source.S3Uri"),
        ({"Source": {"Kind": "s3", "S3Uri": "s3://bucket/" + "a" * 1024}}, "Source.S3Uri"),
        ({"Source": {"Kind": "s3", "S3Uri": "s3://bu/x"}}, "Source.S3Uri"),
        ({"Request": {}}, "Request"),
        ({"RoleArn": "arn:aws:iam::1:user/x"}, "RoleArn"),
        ({"RoleArn": "arn:aws:iam::\u0661\u0662\u0663456789012:role/x"}, "RoleArn"),
        ({"RoleArn": f"arn:aws:iam::123456789012:role/{'x' * 2048}"}, "RoleArn"),
        ({"StateMachineArn": "arn:aws:states:us-west-2:123456789012:activity:Watch"}, "StateMachineArn"),
        ({"StateMachineArn": "arn:aws:lambda:us-west-2:123456789012:function:Watch"}, "StateMachineArn"),
        ({"Bucket": "two..dots"}, "Bucket"),
        ({"WaitSeconds": "soon"}, "WaitSeconds"),
        ({"Description": "a model"}, "Description"),
        ({"Tags": [{"Key": "team", "Value": "<chat>"}]}, "Tags"),
        ({"Tags": [{"Key": "k" * 129, "Value": ""}]}, "Tags"),
        ({"Tags": [{"Key": f"k{n}", "Value": ""} for n in range(51)]}, "Tags"),
        ({"Bucket": "Not_A_Bucket"}, "Bucket"),
        ({"WaitHandle": "http://169.254.169.254/latest"}, "WaitHandle"),
        ({"WaitHandle": "file:///etc/passwd"}, "WaitHandle"),
        ({"KmsKeyArn": "alias/x"}, "KmsKeyArn"),
        ({"Tags": ["x"]}, "Tags"),
        ({"Tags": [{"Key": "AWS:team", "Value": "chat"}]}, "the prefix aws: is reserved"),
        ({"Tags": [{"Key": "team", "Value": "chat", "Propagate": "true"}]}, "Tags"),
    ],
)
def test_a_malformed_property_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidEvent, match=named):
        validate(JobProperties, {**VALID, **change})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"Image": "an image; rm -rf"}, "Image"),
        ({"Image": "i" * 256}, "Image"),
        ({"Environment": {"1A": "x"}}, "Environment"),
        ({"Environment": {"A": "x" * 1025}}, "Environment"),
        ({"Environment": {f"A{n}": "x" for n in range(101)}}, "Environment"),
        ({"Environment": {"A": 1}}, "Environment"),
        ({"InstanceType": "ml.g5"}, "InstanceType"),
        ({"Channels": {"Name": "draft"}}, "Channels"),
        ({"Channels": [{**MODEL["Channels"][0], "Name": f"c{n}"} for n in range(6)]}, "Channels"),
        ({"Source": {**MODEL["Source"], "Suffix": "../"}}, r"Source\.Suffix"),
        ({"Source": {**MODEL["Source"], "S3Uri": "s3://b"}}, r"Source\.S3Uri"),
        ({"EnableNetworkIsolation": "maybe"}, "EnableNetworkIsolation"),
        ({"VpcConfig": {"SecurityGroupIds": [], "Subnets": ["subnet-1"]}}, "VpcConfig"),
        ({"VpcConfig": ["subnet-1"]}, "VpcConfig"),
        ({"VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"], "Public": "true"}}, "VpcConfig"),
        ({"Channels": [MODEL["Channels"][0]] * 2}, "two of them have the same name"),
    ],
)
def test_a_malformed_property_of_a_model_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidEvent, match=named):
        validate(ModelProperties, {**MODEL, **change})


def test_a_model_s_properties_are_read_with_their_types() -> None:
    parsed = validate(ModelProperties, MODEL)
    assert parsed.enable_network_isolation is True
    assert parsed.vpc_config == MODEL["VpcConfig"]
    assert parsed.tags == MODEL["Tags"]
    (channel,) = parsed.channels
    assert (channel.name, channel.source) == ("draft_model", S3Source(S3Uri="s3://bucket/draft/"))


@pytest.mark.parametrize(
    "url",
    [
        f"https://{WAITING}.s3.us-west-2.amazonaws.com/arn%3Aaws%3Acloudformation?X-Amz-Signature=1",
        f"https://{WAITING}.s3-us-west-2.amazonaws.com/token",
        "https://cloudformation-waitcondition-us-east-1.s3.amazonaws.com/token",
        "https://cloudformation-waitcondition-cn-north-1.s3.cn-north-1.amazonaws.com.cn/token",
    ],
)
def test_a_wait_handle_in_the_cloudformation_bucket_is_accepted(url: str) -> None:
    assert validate(JobProperties, {**VALID, "WaitHandle": url}).wait_handle == url


def test_a_wait_handle_in_any_partition_is_accepted() -> None:
    partitions = botocore.session.get_session().get_data("endpoints")["partitions"]
    assert len(partitions) >= 8
    for partition in partitions:
        region = next(iter(partition["regions"]))
        url = f"https://cloudformation-waitcondition-{region}.s3.{region}.{partition['dnsSuffix']}/token"
        assert validate(JobProperties, {**VALID, "WaitHandle": url}).wait_handle == url, partition["partition"]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/token",
        f"http://{WAITING}.s3.us-west-2.amazonaws.com/token",
        f"https://{WAITING}.s3.us-west-2.amazonaws.com.example.com/token",
        f"https://{WAITING}.s3.us-west-2.amazonaws.com:8443/token",
        f"https://{WAITING}.s3.us-west-2.amazonaws.eu.example.com/token",
        f"https://{WAITING}.s3.us-iso-east-1.c2sxic.gov/token",
        f"https://{WAITING}.s3.us-west-2.amazonaws.com@example.com/token",
        f"https://me:secret@{WAITING}.s3.us-west-2.amazonaws.com/token",
        "https://mybucket.s3.us-west-2.amazonaws.com/token",
        "https://[::1",
        f"https://{WAITING}.s3.us-west-2.amazonaws.com:port/token",
        "http://127.0.0.1:9001/2018-06-01/runtime/invocation/next",
    ],
)
def test_a_wait_handle_at_any_other_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidEvent, match="WaitHandle"):
        validate(JobProperties, {**VALID, "WaitHandle": url})


@pytest.mark.parametrize(
    ("endpoint", "accepted"), [("http://127.0.0.1:4566", True), ("https://vpce.example.com", False), ("", False)]
)
def test_a_loopback_wait_handle_is_accepted_only_in_the_local_cloud(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, accepted: bool
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    properties = {**VALID, "WaitHandle": "http://127.0.0.1:4566/bucket/token"}
    if accepted:
        assert validate(JobProperties, properties).wait_handle == properties["WaitHandle"]
    else:
        with pytest.raises(InvalidEvent, match="WaitHandle"):
            validate(JobProperties, properties)


@pytest.fixture(autouse=True)
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


def test_all_malformed_properties_are_reported_together() -> None:
    with pytest.raises(InvalidEvent, match=r"Bucket, RecipeKey, Request, RoleArn, Source, StateMachineArn"):
        validate(JobProperties, {})


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*VALID, "KmsKeyArn", "Tags"), JSON)))
def test_arbitrary_resource_properties_are_refused(properties: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent):
        validate(JobProperties, properties)


@pytest.mark.parametrize(
    ("model", "right"),
    [
        (JobProperties, VALID),
        (ModelProperties, MODEL),
        (StoreProperties, {"Bucket": "bucket", "KmsKeyArn": ""}),
        (CapacityProperties, {"ComponentLogicalId": "Component", "InitialCopyCount": "1", "Component": {}}),
    ],
)
@given(data=st.data())
def test_any_json_value_at_any_path_is_parsed_or_refused(
    model: type[Properties], right: dict[str, Any], data: st.DataObject
) -> None:
    place = data.draw(st.sampled_from([path for path in places(right) if path]))
    properties = replaced(right, place, data.draw(JSON | NEAR))
    with contextlib.suppress(InvalidEvent):
        validate(model, properties)
