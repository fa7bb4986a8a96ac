"""What reaches the evaluation's handler and watcher: read, or refused by name."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.errors import InvalidEvent
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.run_properties import (
    EvaluationProperties,
    EvaluationRequest,
    EvaluationWatch,
    Quality,
)
from tests.support.properties import JSON, NEAR, places, replaced

REQUEST: dict[str, Any] = {
    "Label": "chat",
    "EndpointName": "chat",
    "VariantName": "AllTraffic",
    "EndpointConfigName": "chat-1",
    "ModelNames": ["chat"],
    "Subjects": [{"InstanceType": "ml.g5.12xlarge", "ArtifactKey": "a" * 64, "PricePerHour": "7.09"}],
    "ShareOfInstance": "0.5",
    "Lossless": "true",
    "WorkloadConfigName": "optim0123",
    "Workload": {"benchmark": {"type": "aiperf"}, "parameters": {"request_count": 20, "streaming": True}},
    "Concurrencies": ["8", "1"],
    "Discount": "0.2",
    "Dimensions": {"EndpointName": "chat"},
    "RoleArn": "arn:aws:iam::111122223333:role/mine",
    "VpcConfig": {"SecurityGroupIds": ["sg-11111111"], "Subnets": ["subnet-11111111"]},
    "Bucket": "artifacts",
    "Gate": {
        "Limits": [{"Formula": "client_latency_p90", "Title": "latency", "Unit": "ms", "AtMost": "900"}],
        "Compared": [{"Metric": "output_tokens_per_second", "Title": "output tokens/s", "Better": "higher"}],
        "MaxRegression": "0.1",
        "AtConcurrency": "8",
        "Quality": {
            "Prompts": "s3://prompts/chat.jsonl",
            "MinIdentical": "0.9",
            "MaxDifference": "0.2",
            "MaxTokens": "64",
            "MostPrompts": "20",
        },
    },
    "Tags": [{"Key": "team", "Value": "chat"}],
}
VALID = {
    "StateMachineArn": "arn:aws:states:us-west-2:111122223333:stateMachine:watch",
    "Request": REQUEST,
    "WaitHandle": "https://cloudformation-waitcondition-us-west-2.s3.us-west-2.amazonaws.com/token",
    "WaitSeconds": "3600",
}


def test_a_request_is_read_with_its_types() -> None:
    request = validate(EvaluationProperties, VALID).request
    assert request.subjects[0].price_per_hour == 7.09
    assert (request.share_of_instance, request.lossless, request.discount) == (0.5, True, 0.2)
    assert request.concurrencies == (1, 8)
    assert request.vpc_config == REQUEST["VpcConfig"]
    assert request.tags == REQUEST["Tags"]
    gate = request.gate
    assert gate is not None
    assert (gate.limits[0].at_most, gate.limits[0].at_least) == (900.0, None)
    assert gate.compared[0].better == "higher"
    assert (gate.max_regression, gate.at_concurrency) == (0.1, 8)
    assert gate.quality == Quality(
        prompts="s3://prompts/chat.jsonl", min_identical=0.9, max_difference=0.2, max_tokens=64, most_prompts=20
    )


@pytest.mark.parametrize(
    ("place", "value", "is_other"),
    [
        (("EndpointName",), "other", True),
        (("VariantName",), "other", True),
        (("InferenceComponentName",), "other", True),
        (("EndpointConfigName",), "other", True),
        (("ModelNames",), ["other"], True),
        (("Subjects", 0, "ArtifactKey"), "b" * 64, True),
        (("WorkloadConfigName",), "other", True),
        (("Workload", "parameters", "request_count"), 21, True),
        (("Gate", "Quality", "Prompts"), "s3://prompts/other.jsonl", True),
        (("Gate", "Quality", "MaxTokens"), "65", True),
        (("Gate", "Quality", "MostPrompts"), "21", True),
        # What is required of the results, and how they are named, changes none of them.
        (("Gate", "MaxRegression"), "0.2", False),
        (("Gate", "Quality", "MinIdentical"), "0.8", False),
        (("Label",), "other", False),
        (("Tags",), [], False),
    ],
)
def test_a_request_has_another_key_if_its_results_may_be_others(
    place: tuple[Any, ...], value: Any, *, is_other: bool
) -> None:
    account, region = "111122223333", "us-west-2"
    key = validate(EvaluationRequest, REQUEST).key(account, region)
    assert re.fullmatch("[0-9a-f]{64}", key)
    changed = validate(EvaluationRequest, replaced({"InferenceComponentName": "", **REQUEST}, place, value))
    assert (changed.key(account, region) != key) is is_other
    assert validate(EvaluationRequest, REQUEST).key("444455556666", region) != key
    assert validate(EvaluationRequest, REQUEST).key(account, "eu-west-1") != key


def test_a_request_has_the_key_under_which_earlier_releases_stored_its_results() -> None:
    assert validate(EvaluationRequest, REQUEST).key("111122223333", "us-west-2") == (
        "d8e8967f339ec2d589b4618a8d6aeef096478904b972ea12edb800081e66cb6d"
    )


def test_a_scheduled_request_has_the_same_key_as_a_cloudformation_request() -> None:
    delivered = {**REQUEST, "Workload": {"benchmark": {"type": "aiperf"}, "parameters": {"request_count": "20"}}}
    scheduled = {**REQUEST, "Workload": {"benchmark": {"type": "aiperf"}, "parameters": {"request_count": 20}}}
    place = ("111122223333", "us-west-2")
    assert validate(EvaluationRequest, delivered).key(*place) == validate(EvaluationRequest, scheduled).key(*place)
    # Nor does the order of members matter.
    scheduled["Workload"] = dict(reversed(scheduled["Workload"].items()))
    assert validate(EvaluationRequest, delivered).key(*place) == validate(EvaluationRequest, scheduled).key(*place)


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        (("ModelNames",), ["chat", "_"], "ModelNames"),
        (("Subjects",), [], "Subjects"),
        (("Subjects", 0), "ml.g5.12xlarge", "Subjects"),
        (("Subjects", 0, "ArtifactKey"), "A" * 64, r"Subjects\[0\]\.ArtifactKey"),
        (("Concurrencies",), ["0"], "Concurrencies"),
        (("Dimensions",), {"Endpoint Name": "chat"}, "Dimensions"),
        (("Workload",), "aiperf", "Workload"),
        (("Gate",), "closed", "Gate"),
        (("Gate", "Limits"), {"Formula": "client_latency_p90"}, r"Gate\.Limits"),
        (("Gate", "Limits", 0, "AtLeast"), "1", "either AtMost or AtLeast"),
        (("Gate", "Limits", 0), {"Formula": "client_latency_p90", "Atmost": "900"}, "either AtMost or AtLeast"),
        (("Gate", "Compared", 0), "latency", r"Gate\.Compared"),
        (("Gate", "MaxRegression"), "2", r"Gate\.MaxRegression"),
        (("Gate", "Quality"), "high", r"Gate\.Quality"),
        (("Gate", "Quality", "MaxTokens"), "many", r"Gate\.Quality\.MaxTokens"),
        (("Gate", "Quality", "Prompts"), "s3://prompts", r"Gate\.Quality\.Prompts.*does not name an object"),
        (("Gate", "Quality", "Prompts"), "s3://prompts/chats/", r"Gate\.Quality\.Prompts.*does not name an object"),
    ],
)
def test_a_malformed_member_is_refused_by_name(place: tuple[Any, ...], value: Any, named: str) -> None:
    parent: Any = REQUEST
    for step in place[:-1]:
        parent = parent[step]
    added = {**parent, place[-1]: value} if isinstance(parent, dict) else [value]
    with pytest.raises(InvalidEvent, match=named):
        validate(EvaluationRequest, replaced(REQUEST, place[:-1], added))


@given(data=st.data())
def test_any_json_value_at_any_path_is_parsed_or_refused(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([path for path in places(VALID) if path]))
    properties = replaced(VALID, place, data.draw(JSON | NEAR))
    with contextlib.suppress(InvalidEvent):
        validate(EvaluationProperties, properties).request.key("111122223333", "us-west-2")


@pytest.mark.parametrize(
    ("issued", "seconds"),
    [
        (1795262400, 1795262400),
        # CloudFormation's handlers and schedules pass text.
        ("1795262400", 1795262400),
        ("2026-11-21T12:00:00Z", 1795262400),
        ("2026-11-21T14:00:00.75+02:00", 1795262400),
    ],
)
def test_a_run_was_requested_at_a_time_in_seconds_or_in_iso_8601(issued: object, seconds: int) -> None:
    watch = validate(EvaluationWatch, {"Request": REQUEST, "Run": "run", "Issued": issued})
    assert watch.issued == seconds


@pytest.mark.parametrize("issued", ["yesterday", "", None, "-1s"])
def test_a_run_without_a_time_is_refused(issued: object) -> None:
    with pytest.raises(InvalidEvent, match="Issued"):
        validate(EvaluationWatch, {"Request": REQUEST, "Run": "run", "Issued": issued})
