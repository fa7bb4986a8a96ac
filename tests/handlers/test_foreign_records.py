"""Every function that answers CloudFormation, with records of an unknown form: it answers, and names the record.

An account that may write to a store can write anything, and a newer release writes what this one does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.handlers import evaluation_handler, shadow_handler
from constructs_optim_local.cloud import LocalCloud

from ..support.evaluations import Evaluation
from ..support.handler_clients import Requests
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, Responses, idle_state_machine
from ..support.sampling import one_in
from . import test_recommendation_handler as recommendations
from . import test_shadow_watcher as shadows
from .test_recommendation_handler import config

__all__ = ["config"]

CONTENTS = {
    "empty": b"",
    "object": b"{}",
    "array": b"[]",
    "text": b'"x"',
    "null": b"null",
    "nested": b"[" * 100_000,
    "bytes": b"\xff\xfe",
    "types": b'{"accepted":"perhaps","run":[],"outcome":7,"asked":"x","job":[],"recommendations":{},"owners":{},'
    b'"keys":[],"superseded":1,"issued":"never","artifact_key":[],"request":{},"files":"none"}',
    "newer": b'{"schema":99}',
}
Sent = Callable[[bytes], tuple[dict[str, Any], str]]
"""Writes a record, sends a request, and returns the response and the record's name."""


@pytest.fixture(scope="module")
def machine(cloud: LocalCloud) -> str:
    return idle_state_machine(cloud, "foreign-records")


@pytest.fixture
def put(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, bytes], None]]:
    monkeypatch.setattr(custom_resource, "_may_be_too_early", lambda error: False)
    s3, names = cloud.client("s3"), set[str]()

    def write(name: str, body: bytes) -> None:
        s3.put_object(Bucket=BUCKET, Key=name, Body=body)
        names.add(name)

    yield write
    # Other tests read all records of the store.
    for name in names:
        s3.delete_object(Bucket=BUCKET, Key=name)


@pytest.fixture
def evaluation(cloud: LocalCloud, responses: Responses, machine: str, evaluated_endpoint: None, put: Any) -> Sent:
    def send(body: bytes) -> tuple[dict[str, Any], str]:
        made = Evaluation(cloud, responses, machine)
        name = f"evaluations/{made.records.key}/current.json"
        put(name, body)
        evaluation_handler.handler(made.event("Create", made.run), LambdaContext(120))
        return responses.received[-1], name

    return send


@pytest.fixture
def recommendation(cloud: LocalCloud, responses: Responses, machine: str, config: str, put: Any) -> Sent:
    def send(body: bytes) -> tuple[dict[str, Any], str]:
        made = recommendations.Recommendation(cloud, responses, machine, config)
        key = made.send("Create", "first")["PhysicalResourceId"]
        name = f"recommendations/{key}/result.json"
        put(name, body)
        return made.send("Update", "second", key), name

    return send


@pytest.fixture
def shadow(cloud: LocalCloud, responses: Responses, machine: str, put: Any) -> Sent:
    made = shadows.Run(cloud, responses, machine)

    def send(body: bytes) -> tuple[dict[str, Any], str]:
        name = f"shadows/{made.records.key}/current.json"
        put(name, body)
        shadow_handler.handler(made.event("Create", "first"), LambdaContext(120))
        return responses.received[-1], name

    return send


@pytest.fixture
def claim(cloud: LocalCloud, responses: Responses, machine: str, put: Any) -> Sent:
    def send(body: bytes) -> tuple[dict[str, Any], str]:
        made = Requests(cloud, responses, machine)
        name = f"artifacts/{made.send('Create', 'first')['PhysicalResourceId']}/claim.json"
        put(name, body)
        return made.send("Update", "second", name.split("/")[1]), name

    return send


@pytest.fixture
def owner(cloud: LocalCloud, responses: Responses, machine: str, put: Any) -> Sent:
    def send(body: bytes) -> tuple[dict[str, Any], str]:
        made = Requests(cloud, responses, machine)
        put(made.owner.record_name, body)
        return made.send("Create", "first"), made.owner.record_name

    return send


@pytest.mark.parametrize("record", one_in(2, ["evaluation", "recommendation", "shadow", "claim", "owner"]))
def test_a_record_of_an_unknown_form_is_named_with_what_to_do(request: pytest.FixtureRequest, record: str) -> None:
    send: Sent = request.getfixturevalue(record)
    for content, body in CONTENTS.items():
        response, name = send(body)
        assert response["Status"] == "FAILED", content
        assert "unexpected" not in response["Reason"], (content, response["Reason"])
        assert f"s3://{BUCKET}/{name}" in response["Reason"], content
        next_step = "Upgrade constructs-optim" if content == "newer" else "restore the previous version, or delete it"
        assert next_step in response["Reason"], content


@pytest.mark.parametrize("content", one_in(2, CONTENTS))
def test_a_deletion_does_not_depend_on_when_an_earlier_one_was(
    cloud: LocalCloud, responses: Responses, machine: str, evaluated_endpoint: None, put: Any, content: str
) -> None:
    made = Evaluation(cloud, responses, machine)
    put(f"evaluations/{made.records.key}/given_up.json", CONTENTS[content])
    evaluation_handler.handler(made.event("Delete", made.run), LambdaContext(120))
    assert responses.received[-1]["Status"] == "SUCCESS", responses.received[-1]["Reason"]
    # What a newer release wrote is not overwritten.
    if content != "newer":
        assert made.records.is_given_up(1)
