"""Requests for a component in any order of its functions' calls: delivered twice or late, cancelled, rolled back.

SageMaker is the local cloud's, in this process, on a clock that the test advances; the state machine's executions are
kept in memory, as every look of a watcher is a step that hypothesis chooses.
"""

from __future__ import annotations

import datetime as dt
import urllib.error
from collections.abc import Iterator
from email.message import Message
from random import Random
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.handlers import component_handler, component_watcher
from constructs_optim.runtime.requests.properties import ComponentWatch, validate
from constructs_optim.runtime.telemetry import HandlerFailed

from ..support.custom_resource_events import custom_resource_event
from ..support.hosting import IMAGE
from ..support.in_process import InProcessCloud
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import ROLE

STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Slices/1234"
MACHINE = "arn:aws:states:us-west-2:000000000000:stateMachine:components"
LAYOUT = ["mig-2g.20gb", "mig-2g.20gb", "mig-2g.20gb"]
_ENDED = 500


class StepFunctions:
    """The executions of one state machine."""

    def __init__(self) -> None:
        self.executions: dict[str, dict[str, Any]] = {}

    def start_execution(self, stateMachineArn: str, name: str, input: str) -> None:  # noqa: N803
        if name in self.executions:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists", "Message": "it exists"}}, "StartExecution")
        self.executions[name] = {"name": name, "executionArn": name, "input": input, "status": "RUNNING", "look": None}

    def stop_execution(self, executionArn: str, cause: str) -> None:  # noqa: N803
        self.executions[executionArn]["status"] = "ABORTED"

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_executions"
        return SimpleNamespace(paginate=lambda **_: iter([{"executions": self.running}]))

    @property
    def running(self) -> list[dict[str, Any]]:
        return [each for each in self.executions.values() if each["status"] == "RUNNING"]


def properties(number: int) -> dict[str, Any]:
    """The properties of a recipe: each has another memory, and every third another name."""
    requirements = {
        "AcceleratorPartitionType": "mig-2g.20gb",
        "NumberOfAcceleratorDevicesRequired": "1",
        "MinMemoryRequiredInMb": str(1024 * (number + 1)),
    }
    return {
        "StateMachineArn": MACHINE,
        "InferenceComponentName": f"chat-{number // 3}",
        "EndpointName": "sliced",
        "VariantName": "AllTraffic",
        "Specification": {"ModelName": "sliced", "ComputeResourceRequirements": requirements},
        "RuntimeConfig": {"CopyCount": "1"},
    }


class World:
    """CloudFormation, Lambda and the state machine around one resource."""

    def __init__(self, patch: pytest.MonkeyPatch, rng: Random) -> None:
        self.rng = rng
        self.cloud, self.states = InProcessCloud(), StepFunctions()
        self.sagemaker = self.cloud.client("sagemaker")
        self.responses: dict[str, dict[str, Any]] = {}
        self.late: list[dict[str, Any]] = []
        clients = {"sagemaker": self.sagemaker, "stepfunctions": self.states}
        for module in (component_handler, component_watcher, custom_resource):
            patch.setattr(module, "client", lambda name: clients[name])
        for module in (component_watcher, custom_resource):
            patch.setattr(module, "respond", self.respond)
        self.sagemaker.create_model(ModelName="sliced", PrimaryContainer={"Image": IMAGE}, ExecutionRoleArn=ROLE)
        variant = {
            "VariantName": "AllTraffic",
            "InitialInstanceCount": 1,
            "InstanceType": "ml.p5.4xlarge",
            "AcceleratorPartitionLayouts": [{"AcceleratorPartitionTypes": LAYOUT}],
        }
        self.sagemaker.create_endpoint_config(
            EndpointConfigName="sliced", ExecutionRoleArn=ROLE, ProductionVariants=[variant]
        )
        self.sagemaker.create_endpoint(EndpointName="sliced", EndpointConfigName="sliced")
        self.cloud.advance(10)

    def respond(self, event: dict[str, Any], *, physical_id: str, failure: str | None = None, **_: Any) -> None:
        self.responses.setdefault(event["RequestId"], {"PhysicalResourceId": physical_id, "Reason": failure})

    def send(self, kind: str, given: dict[str, Any], physical_id: str | None, old: dict[str, Any] | None) -> str:
        name = f"request-{len(self.responses) + len(self.late)}-{self.cloud.clock.now():%H%M%S%f}"
        event = custom_resource_event(
            kind,
            f"https://cloudformation/{name}?X-Amz-Date={dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}",
            stack_id=STACK,
            request_id=name,
            logical_id="Chat",
            properties=given,
            physical_id=physical_id,
            old_properties=old,
        )
        component_handler.handler(event, LambdaContext())
        self.late.append(event)
        return name

    def look(self, execution: dict[str, Any]) -> None:
        """One look of a watcher, between which time passes."""
        document = custom_resource.json.loads(execution["input"])
        last = {"Look": execution["look"]} if execution["look"] else {}
        execution["look"] = dict(component_watcher.handler({**document, **last}, LambdaContext()))
        if execution["look"]["Done"]:
            execution["status"] = "SUCCEEDED"
        self.cloud.advance(0.05)

    def until_answered(self, request: str) -> dict[str, Any]:
        for _ in range(_ENDED):
            if request in self.responses:
                return self.responses[request]
            # One of the executions is as quick as another.
            self.look(self.rng.choice(self.states.running))
        raise AssertionError(f"{request} has no response")

    @property
    def components(self) -> dict[str, int]:
        """The memory of each component that there is, by name."""
        self.cloud.advance(5)
        listed = self.sagemaker.list_inference_components()["InferenceComponents"]
        described = [
            self.sagemaker.describe_inference_component(InferenceComponentName=each["InferenceComponentName"])
            for each in listed
        ]
        return {
            each["InferenceComponentName"]: each["Specification"]["ComputeResourceRequirements"][
                "MinMemoryRequiredInMb"
            ]
            for each in described
        }


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patched:
        yield patched


@settings(max_examples=25)
@given(data=st.data())
def test_the_component_is_what_the_last_request_asked_for(patch: pytest.MonkeyPatch, data: Any) -> None:
    world = World(patch, data.draw(st.randoms(use_true_random=False)))
    present = data.draw(st.integers(0, 5), label="created as")
    created = world.until_answered(world.send("Create", properties(present), None, None))
    assert created["Reason"] is None
    physical_id = created["PhysicalResourceId"]
    for _ in range(data.draw(st.integers(0, 4), label="updates")):
        wanted = data.draw(st.integers(0, 5), label="updated to")
        if data.draw(st.booleans(), label="SageMaker rolls back"):
            world.cloud.inject("update_fails", count=1)
        update = world.send("Update", properties(wanted), physical_id, properties(present))
        # As far as the user lets it come.
        for _ in range(data.draw(st.integers(0, 6), label="looks before a cancellation")):
            if world.states.running:
                world.look(world.rng.choice(world.states.running))
        for event in data.draw(st.lists(st.sampled_from(world.late), max_size=2), label="delivered again"):
            component_handler.handler(event, LambdaContext())
        cancelled = data.draw(st.booleans(), label="cancelled") and update not in world.responses
        answer = None if cancelled else world.until_answered(update)
        world.cloud.clear_faults()
        if answer is not None and answer["Reason"] is None:
            replaced, physical_id = physical_id, answer["PhysicalResourceId"]
            if replaced != physical_id:
                world.until_answered(world.send("Delete", properties(present), replaced, None))
            present = wanted
            continue
        back = world.until_answered(world.send("Update", properties(present), physical_id, properties(wanted)))
        assert (back["Reason"], back["PhysicalResourceId"]) == (None, physical_id)
    expected = properties(present)
    memory = int(expected["Specification"]["ComputeResourceRequirements"]["MinMemoryRequiredInMb"])
    assert world.components == {expected["InferenceComponentName"]: memory}
    deleted = world.until_answered(world.send("Delete", expected, physical_id, None))
    assert deleted["Reason"] is None
    for event in world.late:
        component_handler.handler(event, LambdaContext())
    assert not world.states.running
    assert world.components == {}


def stopping(monkeypatch: pytest.MonkeyPatch, code: str) -> tuple[list[str], list[str | None]]:
    """A request while two earlier watchers run, of which the first cannot be stopped: the stops, and the failures."""
    states, failures, stopped = StepFunctions(), list[str | None](), list[str]()

    def stop_execution(executionArn: str, cause: str) -> None:  # noqa: N803
        stopped.append(executionArn)
        if len(stopped) == 1:
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "StopExecution")

    for module in (component_handler, custom_resource):
        monkeypatch.setattr(module, "client", lambda name: states)
    monkeypatch.setattr(custom_resource, "respond", lambda event, *, failure, **_: failures.append(failure))
    for number in range(3):
        event = custom_resource_event(
            "Update",
            "https://cloudformation/",
            stack_id=STACK,
            request_id=f"request-{number}",
            logical_id="Chat",
            properties=properties(number),
            physical_id="Chat",
        )
        if number == 2:
            monkeypatch.setattr(states, "stop_execution", stop_execution)
        else:
            # Both are still running: neither was stopped for the other.
            monkeypatch.setattr(states, "stop_execution", lambda executionArn, cause: None)  # noqa: N803
        component_handler.handler(event, LambdaContext())
    assert len(states.executions) == 3
    return stopped, failures


@pytest.mark.parametrize("code", ["ExecutionDoesNotExist", "ValidationException"])
def test_a_watcher_that_has_ended_in_the_meantime_keeps_no_other_one_running(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    stopped, failures = stopping(monkeypatch, code)
    assert (len(stopped), len(set(stopped))) == (2, 2)
    assert failures == [], "the watcher responds"


def test_a_request_fails_if_an_earlier_watcher_cannot_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, (failure,) = stopping(monkeypatch, "StateMachineDeleting")
    assert len(stopped) == 1
    assert failure is not None
    assert "StopExecution failed with StateMachineDeleting" in failure


def watch(kind: str, **more: Any) -> dict[str, Any]:
    """The input of a watcher's poll."""
    event = custom_resource_event(
        kind,
        "https://cloudformation/",
        stack_id=STACK,
        request_id="request",
        logical_id="Chat",
        properties=properties(0),
        physical_id="Chat",
    )
    return {"Event": event, "Until": 2**40, **more}


@pytest.mark.parametrize(("status", "is_late"), [(403, True), (404, True), (400, False), (500, False)])
def test_a_response_that_cloudformation_no_longer_waits_for_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, status: int, *, is_late: bool
) -> None:
    def put(event: object, **_: object) -> NoReturn:
        raise urllib.error.HTTPError("https://cloudformation/", status, "no", Message(), None)

    monkeypatch.setattr(component_watcher, "client", lambda name: None)
    monkeypatch.setattr(component_watcher, "respond", put)
    crashed = watch("Create", Error={"Error": "Lambda.Unknown"})
    if is_late:
        assert component_watcher.handler(crashed, LambdaContext()) == {"Done": True}
    else:
        with pytest.raises(HandlerFailed, match=f"HTTP Error {status}"):
            component_watcher.handler(crashed, LambdaContext())


def tagless(code: str, message: str) -> Any:
    """SageMaker with a component that is being deleted and whose tags cannot be listed."""
    sagemaker = Mock()
    sagemaker.describe_inference_component.return_value = {
        "InferenceComponentArn": "arn:aws:sagemaker:us-west-2:000000000000:inference-component/chat-0",
        "InferenceComponentStatus": "Deleting",
        "EndpointName": "sliced",
    }
    error = ClientError({"Error": {"Code": code, "Message": message}}, "ListTags")
    sagemaker.get_paginator("list_tags").paginate.side_effect = error
    return sagemaker


@pytest.mark.parametrize("kind", ["Create", "Delete"])
def test_a_component_that_is_gone_before_its_tags_are_read_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    sagemaker = tagless("ValidationException", "Could not find the inference component.")
    monkeypatch.setattr(component_watcher, "client", lambda name: sagemaker)
    output = component_watcher.handler(watch(kind), LambdaContext())
    assert (output["Done"], output["WaitSeconds"]) == (False, 10)


def test_a_component_whose_tags_cannot_be_read_is_neither_changed_nor_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sagemaker = tagless("AccessDeniedException", "no permission")
    monkeypatch.setattr(component_watcher, "client", lambda name: sagemaker)
    for kind in ("Create", "Delete"):
        with pytest.raises(ClientError, match="no permission"):
            component_watcher.handler(watch(kind), LambdaContext())
    sagemaker.delete_inference_component.assert_not_called()


ARN = "arn:aws:sagemaker:us-west-2:000000000000:inference-component/chat-0"


@pytest.mark.parametrize(
    ("known", "found", "failure", "physical_id"),
    [
        (None, None, "no room", "not-created-request"),
        (None, ARN, None, ARN),
        # CloudFormation deletes what it knows by this ARN.
        (None, ARN, "no room", ARN),
        ("Chat", ARN, None, ARN),
        ("Chat", ARN, "rolled back", "Chat"),
        ("Chat", None, None, "Chat"),
        ("Chat", None, "no room", "Chat"),
    ],
)
def test_a_failed_request_leaves_the_component_that_cloudformation_knows(
    monkeypatch: pytest.MonkeyPatch, known: str | None, found: str | None, failure: str | None, physical_id: str
) -> None:
    answers: list[dict[str, Any]] = []
    monkeypatch.setattr(component_watcher, "respond", lambda event, **answer: answers.append(answer))
    document = watch("Update" if known else "Create")
    event = {name: value for name, value in document["Event"].items() if name != "PhysicalResourceId"}
    document["Event"] = event | ({"PhysicalResourceId": known} if known else {})
    component = component_watcher._Component(Mock(), validate(ComponentWatch, document))
    component._arn = found
    assert component.end(failure) == {"Done": True}
    assert answers == [{"physical_id": physical_id, "failure": f"Chat: {failure}" if failure else None}]


@pytest.mark.parametrize(
    ("old", "known", "stale"),
    [
        (None, ARN, None),
        (0, ARN, None),
        (0, "not-created-request", None),
        (3, ARN, "chat-1"),
        (3, ARN.replace("chat-0", "chat-1"), None),
        ({"EndpointName": "no name"}, ARN, None),
    ],
)
def test_a_component_that_a_failed_update_created_is_known_by_its_former_name(
    old: int | dict[str, Any] | None, known: str, stale: str | None
) -> None:
    document = watch("Update")
    former = {} if old is None else {"OldResourceProperties": properties(old) if isinstance(old, int) else old}
    document["Event"] |= {"PhysicalResourceId": known} | former
    component = component_watcher._Component(Mock(), validate(ComponentWatch, document))
    assert component._stale_name() == stale


@pytest.mark.parametrize(
    ("here", "before", "wanted", "differs"),
    [
        ({"a": 1, "default": 2}, {"a": 1}, {"a": 1}, False),
        ({"a": 1}, {"a": 1}, {"a": 2}, True),
        ({"a": 1}, {"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}, True),
        # It is gone already.
        ({"a": 1}, {"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"b": 1}}, False),
        ({"a": 1, "b": 2}, None, {"a": 1}, False),
        ({"a": 1}, {"a": {"b": 1}}, {"a": 1}, False),
    ],
)
def test_a_component_differs_by_what_it_lacks_and_what_was_taken_away(
    here: dict[str, Any], before: dict[str, Any] | None, wanted: dict[str, Any], *, differs: bool
) -> None:
    found = component_watcher._has(here, wanted), component_watcher._keeps(here, before, wanted)
    assert (not found[0] or found[1]) is differs


def handled(monkeypatch: pytest.MonkeyPatch, event: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str | None]]:
    """The inputs of the watchers that a request starts, and the failures that are responded at once."""
    states, failures = StepFunctions(), list[str | None]()
    for module in (component_handler, custom_resource):
        monkeypatch.setattr(module, "client", lambda name: states)
    monkeypatch.setattr(component_handler, "time", Mock(time=lambda: 1000.9))
    monkeypatch.setattr(custom_resource, "respond", lambda event, *, failure, **_: failures.append(failure))
    component_handler.handler(event, LambdaContext())
    return [custom_resource.json.loads(each["input"]) for each in states.executions.values()], failures


@pytest.mark.parametrize("kind", ["Create", "Update", "Delete"])
def test_a_watcher_gives_up_two_minutes_before_cloudformation_does(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    event = watch(kind)["Event"]
    ((document,), failures) = handled(monkeypatch, event)
    assert (document["Event"], document["Until"], document["Settle"]) == (event, 1000 + 3600 - 120, False)
    assert failures == []


@pytest.mark.parametrize(("physical_id", "is_refused"), [(ARN, True), ("not-created-request", False)])
def test_a_component_is_not_forgotten_because_its_properties_are_malformed(
    monkeypatch: pytest.MonkeyPatch, physical_id: str, *, is_refused: bool
) -> None:
    event = watch("Delete")["Event"] | {"PhysicalResourceId": physical_id}
    event["ResourceProperties"] = {**properties(0), "EndpointName": "no name"}
    started, (failure,) = handled(monkeypatch, event)
    assert started == []
    assert ("EndpointName" in (failure or "")) is is_refused
