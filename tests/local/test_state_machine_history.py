"""The limit on history events of a state machine's execution."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.local_cloud import ROLE
from ..support.waiting import until

LOOP: dict[str, Any] = {
    "StartAt": "Poll",
    "States": {
        "Poll": {"Type": "Pass", "Next": "Done"},
        "Done": {"Type": "Choice", "Choices": [{"Variable": "$.done", "BooleanEquals": True, "Next": "End"}]},
        "Pause": {"Type": "Wait", "Seconds": 1, "Next": "Poll"},
        "End": {"Type": "Succeed"},
    },
}
LOOP["States"]["Done"]["Default"] = "Pause"


@pytest.fixture(scope="module")
def forgetful() -> Iterator[LocalCloud]:
    with LocalCloud(time_scale=0.001, history_events=60) as running:
        yield running


def ended(states: Any, definition: dict[str, Any], name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The execution of a new state machine, once it is over, with its events."""
    machine = states.create_state_machine(name=name, definition=json.dumps(definition), roleArn=ROLE)
    arn = states.start_execution(stateMachineArn=machine["stateMachineArn"], input=json.dumps(given))["executionArn"]
    found = until(
        lambda: states.describe_execution(executionArn=arn), lambda execution: execution["status"] != "RUNNING"
    )
    return {**found, "events": states.get_execution_history(executionArn=arn, maxResults=1000)["events"]}


def test_an_execution_that_reaches_the_event_limit_fails(forgetful: LocalCloud) -> None:
    found = ended(forgetful.client("stepfunctions"), LOOP, "endless", {"done": False})
    assert (found["status"], found["error"]) == ("FAILED", "States.Runtime")
    assert found["cause"] == "The execution reached the maximum number of history events (60)."
    assert [event["id"] for event in found["events"]] == list(range(1, 61))
    assert found["events"][-1]["type"] == "ExecutionFailed"


def test_the_event_limit_error_is_neither_retried_nor_caught(forgetful: LocalCloud) -> None:
    definition = json.loads(json.dumps(LOOP))
    definition["States"]["Poll"] = {
        "Type": "Parallel",
        "Branches": [{"StartAt": "Inner", "States": {"Inner": {"Type": "Pass", "End": True}}}],
        "ResultPath": None,
        "Next": "Done",
        "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 3}],
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "End"}],
    }
    found = ended(forgetful.client("stepfunctions"), definition, "caught", {"done": False})
    assert (found["status"], found["error"]) == ("FAILED", "States.Runtime")


def test_an_execution_below_the_event_limit_succeeds(forgetful: LocalCloud) -> None:
    found = ended(forgetful.client("stepfunctions"), LOOP, "brief", {"done": True})
    assert found["status"] == "SUCCEEDED"
    assert found["events"][-1]["type"] == "ExecutionSucceeded"


def test_one_poll_with_its_choice_and_wait_takes_nine_history_events(forgetful: LocalCloud) -> None:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("index.py", "def handler(event, context):\n    return {'done': False}\n")
    function = forgetful.client("lambda").create_function(
        FunctionName="poll",
        Runtime="python3.12",
        Role=ROLE,
        Handler="index.handler",
        Code={"ZipFile": code.getvalue()},
    )
    definition = json.loads(json.dumps(LOOP))
    definition["States"]["Poll"] = {"Type": "Task", "Resource": function["FunctionArn"], "Next": "Done"}
    found = ended(forgetful.client("stepfunctions"), definition, "polling", {})
    polls = [n for n, event in enumerate(found["events"]) if event["type"] == "TaskStateEntered"]
    assert {after - before for before, after in itertools.pairwise(polls)} == {9}
