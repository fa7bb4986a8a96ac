"""Requests for a component in any order of its functions' calls: delivered twice or late, cancelled, rolled back.

SageMaker is the local cloud's, in this process, on a clock that the test advances; the state machine's executions are
kept in memory, as every look of a watcher is a step that hypothesis chooses.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.handlers import component_handler, component_watcher

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
