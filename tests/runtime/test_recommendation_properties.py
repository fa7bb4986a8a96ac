"""What reaches the recommendation's handler and watcher: read, or refused by name; and what is one question."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.errors import InvalidEvent
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.run_properties import RecommendationProperties, RecommendationRequest
from tests.support.properties import JSON, NEAR, places, replaced

REQUEST: dict[str, Any] = {
    "ModelUri": "s3://models/llama",
    "WorkloadConfigName": "optim0123",
    "Workload": {"benchmark": {"type": "aiperf"}, "parameters": {"concurrency": ["8"]}},
    "Prompts": "s3://prompts/chat.jsonl",
    "Metric": "ttft-ms",
    "InstanceTypes": ["ml.g5.xlarge", "ml.p5.48xlarge"],
    "Framework": "VLLM",
    "OptimizeModel": "false",
    "ReservationArns": ["arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"],
    "RoleArn": "arn:aws:iam::111122223333:role/mine",
    "Bucket": "artifacts",
}
VALID = {
    "StateMachineArn": "arn:aws:states:us-west-2:111122223333:stateMachine:watch",
    "Request": REQUEST,
    "WaitSeconds": "3600",
    "Tags": [{"Key": "team", "Value": "chat"}],
}


def key(**changed: Any) -> str:
    return validate(RecommendationRequest, {**REQUEST, **changed}).key("111122223333", "us-west-2")


def test_the_question_of_a_recommendation_has_all_of_its_inputs() -> None:
    asked = {
        "model": "s3://models/llama/",
        "workload": {"benchmark": {"type": "aiperf"}, "parameters": {"concurrency": ["8"]}},
        "prompts": "s3://prompts/chat.jsonl",
        "metric": "ttft-ms",
        "instance_types": ["ml.g5.xlarge", "ml.p5.48xlarge"],
        "framework": "VLLM",
        "optimize_model": False,
        "capacity_reservations": ["arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"],
    }
    assert validate(RecommendationRequest, REQUEST).question == asked
    fewer = {name: value for name, value in REQUEST.items() if name not in ("Prompts", "Framework")}
    del asked["prompts"], asked["framework"]
    assert validate(RecommendationRequest, fewer).question == asked


def test_a_request_has_the_key_under_which_earlier_releases_stored_its_result() -> None:
    assert key() == "813b622faf89f91817e924f8869f99c638cc4de8491b1333199df5b7fe57c254"


def test_a_request_is_read_with_its_types() -> None:
    parsed = validate(RecommendationProperties, VALID)
    assert parsed.request.optimize_model is False
    assert parsed.request.model_uri == "s3://models/llama/"
    assert parsed.wait_seconds == 3600
    assert parsed.tags == VALID["Tags"]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("ModelUri", "s3://models/mistral"),
        ("Workload", {"benchmark": {"type": "aiperf"}, "parameters": {"concurrency": ["9"]}}),
        ("Prompts", "s3://prompts/other.jsonl"),
        ("Metric", "cost"),
        ("InstanceTypes", ["ml.g5.xlarge"]),
        ("Framework", "LMI"),
        ("OptimizeModel", "true"),
        ("ReservationArns", []),
        # What was begun in one store is stopped there when another one is asked.
        ("Bucket", "another"),
    ],
)
def test_a_changed_request_member_changes_the_recommendation_key(member: str, value: Any) -> None:
    assert key(**{member: value}) != key()


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("RoleArn", "arn:aws:iam::111122223333:role/another"),
        ("WorkloadConfigName", "optim4567"),
        ("ModelUri", "s3://models/llama/"),
        ("Workload", {"benchmark": {"type": "aiperf"}, "parameters": {"concurrency": [8]}}),
    ],
)
def test_the_recommendation_key_ignores_the_caller_and_formatting(member: str, value: Any) -> None:
    assert key(**{member: value}) == key()


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("ModelUri", "https://models/llama"),
        ("Workload", "aiperf"),
        ("Metric", "Speed!"),
        ("InstanceTypes", ["ml.g5.xlarge"] * 4),
        ("InstanceTypes", "ml.g5.xlarge"),
        ("Framework", "v llm"),
        ("OptimizeModel", "perhaps"),
        ("ReservationArns", ["llama"]),
        ("RoleArn", "mine"),
        ("Bucket", "Not_A_Bucket"),
    ],
)
def test_a_malformed_member_is_refused_by_name(member: str, value: Any) -> None:
    with pytest.raises(InvalidEvent, match=rf"Request\.{member}"):
        validate(RecommendationProperties, {**VALID, "Request": {**REQUEST, member: value}})


@given(data=st.data())
def test_any_json_value_at_any_path_is_parsed_or_refused(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([path for path in places(VALID) if path]))
    properties = replaced(VALID, place, data.draw(JSON | NEAR))
    with contextlib.suppress(InvalidEvent):
        validate(RecommendationProperties, properties).request.key("111122223333", "us-west-2")
