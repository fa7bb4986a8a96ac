"""Every watcher in the real state machine: polls that fail for a while and then work end as if they had worked.

SageMaker and Application Auto Scaling are the local cloud's. Nine polls exhaust the retries of the state machine, after
which it passes the error to the watcher; eighteen exhaust those of that invocation too.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, product
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.handlers import (
    component_watcher,
    evaluation_watcher,
    job_watcher,
    recommendation_watcher,
    restart_watcher,
    scaling_watcher,
    shadow_watcher,
)
from constructs_optim.runtime.hosting import scaling_registration, serving, suspended_scaling
from constructs_optim.runtime.hosting.suspended_scaling import SuspendedScaling, SuspendedScalingRecord
from constructs_optim.runtime.requests.hosting_properties import ScalingWatch
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.store.run_records import CURRENT, RESULT
from constructs_optim_local.cloud import LocalCloud

from ..explore import world
from ..support.evaluations import Evaluation
from ..support.hosting import IMAGE, settled
from ..support.in_process import InProcessCloud
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, ROLE, Responses
from ..support.run_files import content
from ..support.sampling import one_in
from ..support.scaled_variants import variant
from ..support.state_machines import Crash, Execution, failing
from ..support.waiting import a_moment
from . import test_component_handler as components
from . import test_recommendation_handler as recommendations
from . import test_restart_watcher as restarts
from . import test_shadow_watcher as shadows
from .test_recommendation_handler import config

__all__ = ["config"]

G5, G6 = "ml.g5.12xlarge", "ml.g6.12xlarge"


def throttled() -> Exception:
    return ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "DescribeEndpoint")


@dataclass
class Watched:
    """A watcher's function, its input, what each wait does, and what came of it."""

    function: Callable[[dict[str, Any]], Any]
    document: dict[str, Any]
    sleep: Callable[[float], None]
    outcome: Callable[[], Any]

    def run(self, failures: range, error: Callable[[], Exception] = throttled) -> tuple[str, Any, set[str]]:
        execution = Execution(failing(self.function, failures, error), self.document, self.sleep)
        return execution.status, self.outcome(), execution.states


Watch = Callable[[], Watched]


def briefly(_: float) -> None:
    a_moment()


@pytest.fixture
def a_job(cloud: LocalCloud, responses: Responses, machine: str) -> Watch:
    from ..support.handler_clients import Requests

    def made() -> Watched:
        requests = Requests(cloud, responses, machine)
        key = requests.send("Create", "one")["PhysicalResourceId"]
        of_job = {"Bucket": BUCKET, "ArtifactKey": key, "Attempt": 1, "Account": "000000000000"}
        document = {**of_job, "WaitHandle": responses.url}
        return Watched(
            lambda event: job_watcher.handler(event, LambdaContext(120)),
            document,
            briefly,
            lambda: (responses.received[-1]["Status"], requests.store.manifest(key) is not None),
        )

    return made


@pytest.fixture
def an_evaluation(cloud: LocalCloud, responses: Responses, machine: str, evaluated_endpoint: None) -> Watch:
    def made() -> Watched:
        evaluation = Evaluation(cloud, responses, machine)
        document = {
            "Request": evaluation.request,
            "Run": evaluation.run,
            "Issued": 1000,
            "WaitHandle": responses.url,
        }
        return Watched(
            lambda event: evaluation_watcher.handler(event, LambdaContext(120)),
            document,
            briefly,
            lambda: (responses.received[-1]["Status"], (content(evaluation.records, CURRENT) or {}).get("accepted")),
        )

    return made


@pytest.fixture
def a_recommendation(cloud: LocalCloud, responses: Responses, machine: str, config: str) -> Watch:
    def made() -> Watched:
        recommendation = recommendations.Recommendation(cloud, responses, machine, config)
        recommendation.send("Create", "one")
        (name,) = recommendation.jobs()
        run = name.rpartition("-")[2]
        document = {
            "Request": recommendation.request,
            "Run": run,
            "Fingerprint": "s3:1",
            "WaitHandle": f"{responses.url}handle",
        }
        return Watched(
            lambda event: recommendation_watcher.handler(event, LambdaContext()),
            document,
            briefly,
            lambda: responses.received[-1]["Status"],
        )

    return made


@pytest.fixture
def a_component(
    cloud: LocalCloud,
    responses: Responses,
    sagemaker: Any,
    partitioned_endpoints: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Watch:
    monkeypatch.setattr(component_watcher, "_SECONDS", 0)

    def made() -> Watched:
        for name in components.names(sagemaker):
            sagemaker.delete_inference_component(InferenceComponentName=name)
        components.until(lambda: components.names(sagemaker), lambda found: not found)
        event = components.request(responses, "Create")
        document = {"Event": event, "Until": int(time.time()) + 600}
        return Watched(
            lambda event: component_watcher.handler(event, LambdaContext()),
            document,
            briefly,
            lambda: (responses.received[-1]["Status"], components.names(sagemaker)),
        )

    return made


@pytest.fixture
def a_restart(cloud: LocalCloud, responses: Responses, monkeypatch: pytest.MonkeyPatch) -> Watch:
    def made() -> Watched:
        restarted = restarts.Restarted(cloud, monkeypatch)
        document: dict[str, Any] = {}
        with pytest.MonkeyPatch.context() as patched:
            # The request of the harness.
            patched.setattr(restart_watcher, "handler", lambda event, context: document.update(event) or {"Done": True})
            restarted.poll("a")
        return Watched(
            lambda event: restart_watcher.handler(event, LambdaContext(120)),
            document,
            briefly,
            lambda: restarted.config == f"{restarted.name}-2",
        )

    return made


@pytest.fixture
def a_shadow(cloud: LocalCloud, responses: Responses, machine: str, monkeypatch: pytest.MonkeyPatch) -> Watch:
    real = shadow_watcher.time.time
    clock = [0.0]
    monkeypatch.setattr(shadow_watcher.time, "time", lambda: real() + clock[0])

    def made() -> Watched:
        clock[0] = 0.0
        run = shadows.Run(cloud, responses, machine)
        run.poll()
        run.ask(2)

        def sleep(seconds: float) -> None:
            # The run lasts two hours, and is polled every five minutes; the state machine's own waits do not count.
            clock[0] += 2_000 if 100 < seconds < 1_000 else 0
            briefly(seconds)

        return Watched(
            lambda event: shadow_watcher.handler(event, LambdaContext(120)),
            {"Request": run.request, "Run": run.run, "Issued": 1000},
            sleep,
            lambda: (
                settled(run.sagemaker, run.name)["EndpointConfigName"].rpartition("-")[2],
                (content(run.records, RESULT) or {}).get("pairs"),
                (content(run.records, CURRENT) or {}).get("ending"),
            ),
        )

    return made


@pytest.fixture(scope="module")
def machine(cloud: LocalCloud) -> str:
    from ..support.local_cloud import idle_state_machine

    return idle_state_machine(cloud, "watching")


WATCHERS = ["a_job", "an_evaluation", "a_recommendation", "a_component", "a_restart", "a_shadow"]


# Of each pair make test tries the first: polls fail from the beginning for every other watcher, and later for the rest.
FIRST_FAILURES = [(name, (first + place) % 2) for place, name in enumerate(WATCHERS) for first in (0, 1)]


@pytest.mark.parametrize(("name", "first"), one_in(4, FIRST_FAILURES))
def test_polls_that_fail_nine_times_end_as_if_they_had_worked(
    request: pytest.FixtureRequest, name: str, first: int
) -> None:
    made: Watch = request.getfixturevalue(name)
    expected = made().run(range(0))
    assert expected[0] == "SUCCEEDED"
    failed = made().run(range(first, first + 9))
    assert failed[:2] == expected[:2]


# They hold what no request holds: an endpoint that must scale again, a shadow that costs money, a restart.
@pytest.mark.parametrize("name", one_in(2, ["a_restart", "a_shadow"]))
@pytest.mark.parametrize("error", [throttled, Crash], ids=["throttled", "crashed"])
def test_a_watcher_without_a_stack_that_waits_outlasts_any_number_of_failures(
    request: pytest.FixtureRequest, name: str, error: Callable[[], Exception]
) -> None:
    made: Watch = request.getfixturevalue(name)
    expected = made().run(range(0))
    status, outcome, states = made().run(range(1, 40), error)
    assert status == "SUCCEEDED"
    assert "KeepTrying" in states
    if name == "a_shadow" and error is Crash:
        # It ends at once, because the next poll might not return either.
        assert outcome[0] == expected[1][0]
    else:
        assert outcome == expected[1]


@pytest.mark.parametrize("name", one_in(2, ["a_job", "an_evaluation", "a_recommendation", "a_component"]))
@pytest.mark.parametrize("error", [throttled, Crash], ids=["throttled", "crashed"])
def test_a_stack_that_waits_is_answered_if_polls_keep_failing(
    request: pytest.FixtureRequest, responses: Responses, name: str, error: Callable[[], Exception]
) -> None:
    made: Watch = request.getfixturevalue(name)
    watched, calls = made(), Counter[str]()
    real = watched.function

    def broken(event: dict[str, Any]) -> Any:
        calls["given up" if event.get("Error") else "polled"] += 1
        if not event.get("Error"):
            raise error()
        if event.get("Error") and error is throttled:
            event = {**event, "Error": {"Error": "Lambda.Unknown"}}
        return real(event)

    watched.function = broken
    before = len(responses.received)
    status, _, states = watched.run(range(0))
    assert status == "SUCCEEDED"
    assert "KeepTrying" not in states
    (answer,) = responses.received[before:]
    # A custom resource's response, or a wait condition's signal.
    assert answer["Status"] == ("FAILED" if name == "a_component" else "FAILURE")
    assert calls["given up"] == 1


class Hosting:
    """SageMaker and Application Auto Scaling in memory, with a model and its configurations."""

    def __init__(self) -> None:
        self.cloud = InProcessCloud(endpoint_seconds=0.1)
        self.sagemaker, self.scaling = (self.cloud.client(each) for each in ("sagemaker", "application-autoscaling"))
        self.sagemaker.create_model(ModelName="m", PrimaryContainer={"Image": IMAGE}, ExecutionRoleArn=ROLE)
        for name, of_variant, instance_type in (
            ("before", "AllTraffic", G5),
            ("after", "AllTraffic", G6),
            ("renamed", "Main", G6),
        ):
            serving_variant = {
                "VariantName": of_variant,
                "ModelName": "m",
                "InstanceType": instance_type,
                "InitialInstanceCount": 1,
            }
            self.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[serving_variant])


@pytest.fixture(scope="module")
def hosting() -> Hosting:
    return Hosting()


class Scaled:
    """A variant whose scaling an update of its stack has suspended, in memory, on a clock that waits advance."""

    stack_id = "arn:aws:cloudformation:us-west-2:000000000000:stack/Chat/1234"
    numbers = count()

    def __init__(self, hosting: Hosting, patch: pytest.MonkeyPatch, statuses: Callable[[int], str | None]) -> None:
        self.cloud, self.sagemaker, self.scaling = hosting.cloud, hosting.sagemaker, hosting.scaling
        self.name, self.polls, self._statuses = f"chat-{next(self.numbers)}", 0, statuses
        calls = SimpleNamespace(
            call=lambda _, act: act(), changed=lambda: None, now=0.0, rng=Random(0), happened=Counter[str](), lines=None
        )
        self.s3: Any = world.S3(calls, encrypted=False, conflicts=0.0)  # type: ignore[arg-type]
        clients = {
            "sagemaker": self.sagemaker,
            "application-autoscaling": self.scaling,
            "s3": self.s3,
            "cloudformation": self,
            "cloudwatch": SimpleNamespace(describe_alarms=lambda **_: {"MetricAlarms": []}),
        }
        for module in (scaling_registration, serving, suspended_scaling):
            patch.setattr(module, "client", lambda name: clients[name])
        self.sagemaker.create_endpoint(EndpointName=self.name, EndpointConfigName="before")
        self.cloud.advance(10)
        self.key = variant(self.name)
        self.scaling.register_scalable_target(**self.key, MinCapacity=1, MaxCapacity=4)
        target = {"TargetValue": 8.0, "PredefinedMetricSpecification": {"PredefinedMetricType": _INVOCATIONS}}
        self.scaling.put_scaling_policy(
            **self.key,
            PolicyName="ByHand",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=target,
        )
        registration = scaling_registration.registration_of(self.key["ResourceId"])
        assert registration is not None
        self.watch = {"StackId": self.stack_id, "EndpointName": self.name, "Bucket": BUCKET}
        self.record = SuspendedScalingRecord(self.stack_id, validate(ScalingWatch, self.watch))
        self.record.write(
            SuspendedScaling(
                stack_id=self.stack_id,
                variants={"AllTraffic": [G5]},
                registrations=[registration],
                since=int(time.time()),
                request="one",
            )
        )
        scaling_registration.deregister(registration)

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - boto3's
        status = self._statuses(self.polls)
        if status is None:
            message = f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": status}]}

    def get_paginator(self, operation: str) -> Any:
        """The stack's resources: its scalable target alone."""
        assert operation == "list_stack_resources"
        physical_id = "|".join(self.key[name] for name in ("ResourceId", "ScalableDimension", "ServiceNamespace"))
        kind = "AWS::ApplicationAutoScaling::ScalableTarget"
        resources = [{"ResourceType": kind, "PhysicalResourceId": physical_id}]
        return SimpleNamespace(paginate=lambda **_: iter([{"StackResourceSummaries": resources}]))

    def sleep(self, seconds: float) -> None:
        self.cloud.advance(1)

    def poll(self, event: dict[str, Any]) -> Any:
        self.polls += 1
        return scaling_watcher.handler(event, LambdaContext())

    @property
    def registered(self) -> list[str] | None:
        found = scaling_registration.registration_of(self.key["ResourceId"])
        return sorted(found.policy_names) if found is not None else None


_INVOCATIONS = "SageMakerVariantInvocationsPerInstance"
SETTLED = [
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_FAILED",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "CREATE_FAILED",
    "IMPORT_COMPLETE",
    "IMPORT_ROLLBACK_COMPLETE",
    "IMPORT_ROLLBACK_FAILED",
    "DELETE_FAILED",
    "DELETE_COMPLETE",
    None,
]
ENDPOINTS = ["before", "after", "renamed", "moving", "gone"]
CONTINUED_AFTER = 12


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patched:
        yield patched


@pytest.fixture
def suspended(hosting: Hosting, patch: pytest.MonkeyPatch) -> Iterator[Callable[..., Scaled]]:
    made: list[Scaled] = []

    def suspend(statuses: Callable[[int], str | None]) -> Scaled:
        made.append(Scaled(hosting, patch, statuses))
        return made[-1]

    yield suspend
    for each in made:
        with contextlib.suppress(ClientError):
            each.scaling.deregister_scalable_target(**each.key)
        with contextlib.suppress(ClientError):
            each.sagemaker.delete_endpoint(EndpointName=each.name)
    hosting.cloud.advance(10)


FAILURES = {"none": range(0), "nine": range(9), "many": range(1, 30)}


@pytest.mark.parametrize(("failures", "status", "endpoint_is"), one_in(8, product(FAILURES, SETTLED, ENDPOINTS)))
def test_scaling_is_suspended_only_while_an_operation_may_need_it(
    suspended: Callable[..., Scaled],
    caplog: pytest.LogCaptureFixture,
    status: str | None,
    endpoint_is: str,
    failures: str,
) -> None:
    """The operation ends with this status after two polls. The operator continues a failed one ten polls later."""
    is_failed = status is not None and status.endswith("_FAILED")
    then = "DELETE_COMPLETE" if status == "DELETE_FAILED" else "UPDATE_ROLLBACK_COMPLETE"

    def statuses(polls: int) -> str | None:
        if polls <= 2:
            return "UPDATE_IN_PROGRESS"
        return then if is_failed and polls > CONTINUED_AFTER else status

    scaled = suspended(statuses)
    if endpoint_is == "gone":
        scaled.sagemaker.delete_endpoint(EndpointName=scaled.name)
        scaled.cloud.advance(10)
    elif endpoint_is != "before":
        config = "after" if endpoint_is == "moving" else endpoint_is
        scaled.sagemaker.update_endpoint(EndpointName=scaled.name, EndpointConfigName=config)
        scaled.cloud.advance(0 if endpoint_is == "moving" else 10)
    execution = Execution(failing(scaled.poll, FAILURES[failures], throttled), scaled.watch, scaled.sleep)
    assert execution.status == "SUCCEEDED", execution.reason
    told = [record for record in caplog.records if record.message == "scaling suspended"]
    is_deleted = status in (None, "DELETE_COMPLETE", "DELETE_FAILED")
    if is_deleted or endpoint_is in ("gone", "renamed"):
        assert scaled.registered is None
    else:
        assert scaled.registered == ["ByHand"]
    assert scaled.record.get() is None
    # Waiting for a person, and giving up, are both said.
    waits = is_failed and endpoint_is != "gone" and (endpoint_is != "before" or status == "DELETE_FAILED")
    gives_up = endpoint_is == "renamed" and not is_deleted and "ROLLBACK" in str(then if is_failed else status)
    assert bool(told) is (waits or gives_up)


def test_a_record_of_a_later_operation_is_not_emptied_by_the_watcher_of_an_earlier_one(
    suspended: Callable[..., Scaled], patch: pytest.MonkeyPatch
) -> None:
    scaled = suspended(lambda polls: "UPDATE_ROLLBACK_COMPLETE")
    real, later = scaling_watcher.connect_alarms, list[SuspendedScaling]()

    def connected(stack_id: str, resource_id: str) -> None:
        if not later:
            known = scaled.record.get()
            assert known is not None
            later.append(scaled.record.write(known.updated(request="two")))
        real(stack_id, resource_id)

    patch.setattr(scaling_watcher, "connect_alarms", connected)
    assert scaled.poll(scaled.watch)["Done"] is False
    assert scaled.record.get() == later[0]
