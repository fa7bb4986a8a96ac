"""``Custom::Preflight``: what it answers to a creation, an update, a rollback and a deletion."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.handlers import preflight_handler
from constructs_optim.runtime.preflight.context import Context
from constructs_optim.runtime.preflight.report import PreflightFinding, Report
from constructs_optim.runtime.requests.preflight_properties import PreflightProperties
from constructs_optim.runtime.requests.properties import S3Source
from constructs_optim.templates import resource_types

from ..support.custom_resource_events import custom_resource_event
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import Responses

PROBLEM = PreflightFinding("image", "problem", "it is not there", "name another")
ADVICE = PreflightFinding("quota", "advice", "not checked", "allow the call")
EARLY = PreflightFinding("role", "problem", "it may not", "allow it", is_early=True)
FLEET = {
    "EndpointName": "chat",
    "InstanceTypes": ["ml.g5.12xlarge"],
    "InstanceCount": "1",
    "BatchSize": "1",
    "Definition": "old",
}


class Stacks:
    """CloudFormation's status of the stack, and the types of its resources; None where it does not say."""

    def __init__(self, status: str | None, types: list[str] | None) -> None:
        self._status, self._types = status, types

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        if self._status is None:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self._status}]}

    def get_paginator(self, operation: str) -> Stacks:
        assert operation == "list_stack_resources"
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        if self._types is None:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "ListStackResources")
        listed = [{"ResourceType": each, "ResourceStatus": "CREATE_COMPLETE"} for each in self._types]
        deleted = {"ResourceType": "AWS::SageMaker::Endpoint", "ResourceStatus": "DELETE_COMPLETE"}
        return [{"StackResourceSummaries": [*listed, deleted]}]


class Handler:
    """The handler, with stated reports of its checks and a stated status of its stack."""

    def __init__(self, responses: Responses, monkeypatch: pytest.MonkeyPatch) -> None:
        self.responses, self.reports, self.contexts = responses, list[Report](), list[Context]()
        self.needs: list[PreflightProperties] = []
        self.pauses: list[float] = []
        self.status: str | None = "UPDATE_IN_PROGRESS"
        self.types: list[str] | None = ["AWS::IAM::Role"]
        monkeypatch.setattr(preflight_handler, "run", self._run)
        clients = {"cloudformation": lambda: Stacks(self.status, self.types)}
        monkeypatch.setattr(preflight_handler, "client", lambda name: clients[name]())
        monkeypatch.setattr("constructs_optim.runtime.handlers.preflight_handler.time.sleep", self.pauses.append)

    def _run(self, needs: PreflightProperties, context: Context) -> Report:
        self.needs.append(needs)
        self.contexts.append(context)
        return self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]

    def send(self, kind: str, *findings: PreflightFinding, **event: Any) -> dict[str, Any]:
        if findings or not self.reports:
            self.reports = [Report(findings, 1)]
        preflight_handler.handler(
            {
                **custom_resource_event(
                    kind,
                    self.responses.url,
                    stack_id="arn:aws:cloudformation:us-west-2:111122223333:stack/Chat/1",
                    request_id="r",
                    logical_id="Preflight",
                    properties={"Fleets": [FLEET]},
                ),
                **event,
            },
            LambdaContext(0.5),
        )
        return self.responses.received[-1]


@pytest.fixture
def handler(responses: Responses, monkeypatch: pytest.MonkeyPatch) -> Handler:
    return Handler(responses, monkeypatch)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.message, record.__dict__["finding"]) for record in caplog.records if "finding" in record.__dict__]


def test_a_problem_fails_the_creation_and_advice_is_only_logged(
    handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    failed = handler.send("Create", PROBLEM, ADVICE)
    assert failed["Status"] == "FAILED"
    assert "(1) image: it is not there. Next: name another." in failed["Reason"]
    assert "quota" not in failed["Reason"]
    created = handler.send("Create", ADVICE)
    assert (created["Status"], created["PhysicalResourceId"]) == ("SUCCESS", "preflight")
    assert created["Data"] == {}
    assert logged(caplog)[-1] == ("preflight advice", "not checked")
    assert handler.contexts[-1].is_update is False, "an endpoint may be older than its preflight"


@pytest.mark.parametrize("types", [None, ["AWS::SageMaker::Endpoint"], ["Custom::OptimizationJob"]])
def test_a_stack_that_runs_already_is_only_advised_when_it_gains_its_preflight(
    handler: Handler, types: list[str] | None, caplog: pytest.LogCaptureFixture
) -> None:
    handler.types = types
    created = handler.send("Create", PROBLEM)
    assert created["Status"] == "SUCCESS"
    assert logged(caplog) == [("preflight advice", "it is not there")]


def test_the_types_that_start_something_are_those_of_templates() -> None:
    assert {*resource_types.JOBS, "AWS::SageMaker::Endpoint"} == preflight_handler.STARTED


def test_an_update_looks_at_what_is_new_or_changed(handler: Handler) -> None:
    two = [{**FLEET, "EndpointName": "two"}, FLEET]
    models = [{"Kind": "s3", "S3Uri": f"s3://models/{name}/"} for name in ("old", "new")]
    role = {"RoleArn": "arn:aws:iam::111122223333:role/jobs", "Reads": ["s3://models/old/"], "Images": ["i"]}
    before = {"Fleets": [FLEET], "Models": models[:1], "Roles": [role]}
    after = {"Fleets": two, "Models": models, "Roles": [{**role, "Reads": ["s3://models/old/", "s3://models/new/"]}]}
    assert handler.send("Update", OldResourceProperties=before, ResourceProperties=after)["Status"] == "SUCCESS"
    (needs,) = handler.needs
    assert [fleet.endpoint_name for fleet in needs.fleets] == ["two"]
    assert [model.uri for model in needs.models if isinstance(model, S3Source)] == ["s3://models/new/"]
    assert [(need.reads, need.images) for need in needs.roles] == [(("s3://models/new/",), ())]
    assert handler.contexts[-1].is_update is True


def test_an_endpoint_is_updated_when_its_definition_changes(handler: Handler) -> None:
    for changed in ({"Definition": "new"}, {"BatchSize": "2"}, {}):
        after = {"Fleets": [{**FLEET, **changed}]}
        handler.send("Update", OldResourceProperties={"Fleets": [FLEET]}, ResourceProperties=after)
    assert [len(needs.fleets) for needs in handler.needs] == [1, 0, 0]


def test_an_update_from_another_release_is_only_advised(handler: Handler) -> None:
    old = {"Fleets": ["of another release"]}
    assert handler.send("Update", PROBLEM, OldResourceProperties=old)["Status"] == "SUCCESS"
    assert handler.contexts[-1].is_update is False
    assert handler.send("Update", PROBLEM, OldResourceProperties={"Fleets": [FLEET]})["Status"] == "FAILED"


@pytest.mark.parametrize("status", ["UPDATE_ROLLBACK_IN_PROGRESS", None])
def test_a_rollback_is_never_failed(handler: Handler, status: str | None) -> None:
    handler.status = status
    assert handler.send("Update", PROBLEM, OldResourceProperties={})["Status"] == "SUCCESS"
    # Whatever its properties are: those of an older release are not validated.
    bad = {"Fleets": ["of another release"]}
    assert handler.send("Update", PROBLEM, OldResourceProperties={}, ResourceProperties=bad)["Status"] == "SUCCESS"
    assert handler.contexts == []


def test_a_deletion_does_nothing(handler: Handler) -> None:
    assert handler.send("Delete", PROBLEM, PhysicalResourceId="preflight")["Status"] == "SUCCESS"
    assert handler.contexts == []


def test_permissions_that_were_granted_a_moment_ago_are_waited_for(handler: Handler) -> None:
    handler.reports = [Report((EARLY,), 1), Report((EARLY,), 1), Report((), 1)]
    assert handler.send("Create")["Status"] == "SUCCESS"
    assert handler.pauses == [2, 4]
    handler.pauses.clear()
    assert handler.send("Create", EARLY)["Status"] == "FAILED"
    assert handler.pauses == [2, 4, 8, 16]


def test_properties_that_are_malformed_are_named(handler: Handler) -> None:
    failed = handler.send("Create", ResourceProperties={"Fleets": [{**FLEET, "InstanceCount": "many"}]})
    assert failed["Status"] == "FAILED"
    assert "Fleets[0].InstanceCount" in failed["Reason"]
