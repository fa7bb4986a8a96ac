"""The state machine of the watchers, interpreted by ministack, with a function in this process instead of Lambda."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from ministack.services import stepfunctions

from constructs_optim.constructs.stack import handler as stack_handler

Function = Callable[[dict[str, Any]], Mapping[str, Any]]
# ministack's Region outside a request.
_MACHINE = "arn:aws:states:us-east-1:000000000000:stateMachine:watcher"
_WATCHER = "arn:aws:lambda:us-east-1:000000000000:function:watcher"
# Step Functions permits 25,000; no test needs as many.
_MOST_EVENTS = 3_000


class Crash(Exception):
    """An invocation that does not return, such as one that is out of memory."""


class Execution:
    """An execution of the watchers' state machine; ``sleep`` gets the seconds of each wait."""

    def __init__(self, function: Function, document: Mapping[str, Any], sleep: Callable[[float], None]) -> None:
        definition = json.dumps({"Comment": "", **stack_handler._STATES}).replace("${WatcherArn}", _WATCHER)
        self.slept: list[float] = []
        execution: dict[str, Any] = {
            "executionArn": f"{_MACHINE}:execution",
            "stateMachineArn": _MACHINE,
            "name": "execution",
            "status": "RUNNING",
            "startDate": "2026-01-01T00:00:00Z",
            "input": json.dumps(document),
            "events": [],
        }

        def call(_: str, payload: dict[str, Any]) -> Any:
            try:
                return json.loads(json.dumps(function(json.loads(json.dumps(payload)))))
            except Crash as crash:
                raise stepfunctions._ExecutionError("Lambda.Unknown", str(crash)) from crash
            except Exception as error:
                raise stepfunctions._ExecutionError(type(error).__name__, str(error)) from error

        add = stepfunctions._add_event

        def add_event(of: dict[str, Any], kind: str, details: dict[str, Any] | None = None) -> Any:
            if len(of["events"]) >= _MOST_EVENTS:
                raise RuntimeError("the execution's history is full")
            return add(of, kind, details)

        def wait(seconds: float) -> None:
            self.slept.append(seconds)
            sleep(seconds)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(stepfunctions, "_executions", {execution["executionArn"]: execution})
            patched.setattr(stepfunctions, "_state_machines", {_MACHINE: {"name": "watcher", "definition": definition}})
            patched.setattr(stepfunctions, "_call_lambda", call)
            patched.setattr(stepfunctions, "_scaled_sleep", wait)
            patched.setattr(stepfunctions, "_add_event", add_event)
            patched.setattr(stepfunctions, "time", SimpleNamespace(sleep=lambda _: None))
            patched.setattr(stepfunctions, "_emit_execution_status_event", lambda _: None)
            stepfunctions._run_execution(execution["executionArn"])
        self.status: str = execution["status"]
        self.reason: str = execution.get("cause", "")
        entered = (event.get("stateEnteredEventDetails") for event in execution["events"])
        self.states: set[str] = {details["name"] for details in entered if details}


def failing(function: Function, numbers: range, error: Callable[[], Exception]) -> Function:
    """The function, whose invocations with these numbers (from 0) fail instead."""
    invocations = iter(range(1_000_000))

    def invoked(event: dict[str, Any]) -> Mapping[str, Any]:
        if next(invocations) in numbers:
            raise error()
        return function(event)

    return invoked
