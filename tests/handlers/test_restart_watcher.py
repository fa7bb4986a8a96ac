"""Restarts against the local cloud: an endpoint moves between two configurations with the same content.

The tests play the part of the state machine.
"""

from __future__ import annotations

import json
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.handlers import restart_watcher
from constructs_optim.runtime.requests.restart_properties import RestartRequest
from constructs_optim_local.cloud import LocalCloud

from ..support.endpoint_updates import make_alarm, serving, trip
from ..support.hosting import settled
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, Responses
from ..support.waiting import until
from ..support.watchers import later

STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Chat/1"
HOUR = 3_600
_numbers = count()


class Restarted:
    """An endpoint with two configurations, and an alarm that is on."""

    def __init__(self, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = f"restarted-{next(_numbers)}"
        self.sagemaker, self.cloudwatch = cloud.client("sagemaker"), cloud.client("cloudwatch")
        self.now, self.deploys = 1_000_000.0, False
        serving(self.sagemaker, self.name, count=2)
        make_alarm(self.cloudwatch, self.name)
        trip(self.cloudwatch, self.name)
        monkeypatch.setattr(restart_watcher, "time", SimpleNamespace(time=lambda: self.now))
        monkeypatch.setattr(restart_watcher, "_is_deployed", lambda request: self.deploys)

    @property
    def config(self) -> str:
        return self.sagemaker.describe_endpoint(EndpointName=self.name)["EndpointConfigName"]

    def poll(self, run: str, **more: Any) -> dict[str, Any]:
        request = {
            "EndpointName": self.name,
            "ConfigNames": [self.name, f"{self.name}-2"],
            "AlarmName": self.name,
            "AtMostEverySeconds": 12 * HOUR,
            "StackId": STACK,
            "Bucket": BUCKET,
        }
        return restart_watcher.handler({"Request": request, "Run": run, **more}, LambdaContext(120))

    def restart(self, run: str) -> None:
        until(lambda: self.poll(run), lambda output: output["Done"])


@pytest.fixture
def restarted(cloud: LocalCloud, responses: Responses, monkeypatch: pytest.MonkeyPatch) -> Restarted:
    return Restarted(cloud, monkeypatch)


def test_a_restart_moves_the_endpoint_to_the_other_configuration_and_the_next_one_back(restarted: Restarted) -> None:
    restarted.restart("a")
    endpoint = settled(restarted.sagemaker, restarted.name)
    assert endpoint["EndpointConfigName"] == f"{restarted.name}-2"
    assert endpoint["ProductionVariants"][0]["CurrentInstanceCount"] == 2
    restarted.now += 12 * HOUR
    restarted.restart("b")
    assert restarted.config == restarted.name


def test_a_restart_keeps_what_scaling_has_set_and_records_each_step(restarted: Restarted, cloud: LocalCloud) -> None:
    name, times = f"restarts/000000000000/us-west-2/{restarted.name}.json", int(restarted.now)

    def stored() -> dict[str, Any]:
        return json.loads(cloud.client("s3").get_object(Bucket=BUCKET, Key=name)["Body"].read())

    assert restarted.poll("a") == later(30)
    begun = {"schema": 1, "restarted": times, "updates": 1, "refusal": "", "reported": False}
    assert stored() == {**begun, "run": "a", "target": f"{restarted.name}-2"}
    sent = [call["request"] for call in cloud.calls("UpdateEndpoint")]
    expected = {"EndpointName": restarted.name, "RetainAllVariantProperties": True, "RetainDeploymentConfig": True}
    assert sent[-1] == {**expected, "EndpointConfigName": f"{restarted.name}-2"}
    settled(restarted.sagemaker, restarted.name)
    assert restarted.poll("a") == {"Done": True}
    # A day later, the next one takes the place of the first.
    restarted.now += 24 * HOUR
    cloud.inject("limit_exceeded", operation="UpdateEndpoint", reason="the limit is 1 Instances", count=2)
    assert restarted.poll("b") == later(30)
    refused = {"run": "b", "restarted": times + 24 * HOUR, "target": restarted.name}
    refused |= {"refusal": "the limit is 1 Instances"}
    assert {**stored(), "refusal": "the limit is 1 Instances"} == {**begun, **refused}
    assert "the limit is 1 Instances" in stored()["refusal"]
    assert restarted.poll("b") == later(30)
    assert restarted.poll("b") == later(3600)
    assert {**stored(), "refusal": "the limit is 1 Instances"} == {**begun, **refused, "updates": 2, "reported": True}
    cloud.clear_faults()


def test_the_number_of_instances_is_what_scaling_has_set(restarted: Restarted) -> None:
    restarted.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=restarted.name,
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}],
    )
    restarted.restart("a")
    assert settled(restarted.sagemaker, restarted.name)["ProductionVariants"][0]["CurrentInstanceCount"] == 3


def test_no_restart_follows_another_too_soon(restarted: Restarted) -> None:
    restarted.restart("a")
    restarted.now += 12 * HOUR - 1
    assert restarted.poll("b") == later(30)
    assert restarted.config == f"{restarted.name}-2"
    # The alarm is still on then, and no other event comes of it.
    restarted.now += 30
    restarted.restart("b")
    assert restarted.config == restarted.name


def test_of_two_that_begin_at_once_one_restarts(restarted: Restarted) -> None:
    assert not restarted.poll("a")["Done"]
    restarted.poll("b")
    until(lambda: restarted.poll("b"), lambda output: output["WaitSeconds"] == 3600)
    restarted.restart("a")
    trip(restarted.cloudwatch, restarted.name, "OK")
    assert restarted.poll("b")["Done"]
    assert restarted.config == f"{restarted.name}-2"


def test_no_restart_while_the_stack_is_deployed(restarted: Restarted) -> None:
    restarted.deploys = True
    assert restarted.poll("a") == later(60)
    assert restarted.config == restarted.name
    restarted.deploys = False
    restarted.restart("a")
    assert restarted.config == f"{restarted.name}-2"


def test_no_restart_of_another_deployments_configuration(restarted: Restarted) -> None:
    config = restarted.sagemaker.describe_endpoint_config(EndpointConfigName=restarted.name)
    other = f"{restarted.name}-other"
    variants = config["ProductionVariants"]
    restarted.sagemaker.create_endpoint_config(EndpointConfigName=other, ProductionVariants=variants)
    restarted.sagemaker.update_endpoint(EndpointName=restarted.name, EndpointConfigName=other)
    settled(restarted.sagemaker, restarted.name)
    assert restarted.poll("a")["Done"]
    assert restarted.config == other


def test_no_restart_when_the_alarm_is_off_again(restarted: Restarted) -> None:
    trip(restarted.cloudwatch, restarted.name, "OK")
    assert restarted.poll("a")["Done"]
    assert restarted.config == restarted.name


def test_a_restart_that_fails_twice_is_given_up(restarted: Restarted, cloud: LocalCloud) -> None:
    cloud.inject("update_fails", count=2)
    until(lambda: restarted.poll("a"), lambda output: output["WaitSeconds"] == 3600)
    cloud.clear_faults()
    endpoint = settled(restarted.sagemaker, restarted.name)
    assert (endpoint["EndpointStatus"], endpoint["EndpointConfigName"]) == ("InService", restarted.name)
    # And the next one waits as after any other; then this one tries again.
    assert restarted.poll("b") == later(3600)
    restarted.now += 12 * HOUR
    restarted.restart("a")
    assert restarted.config == f"{restarted.name}-2"


def test_a_restart_that_a_quota_refuses_reports_the_quota(
    restarted: Restarted, cloud: LocalCloud, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.inject("limit_exceeded", operation="UpdateEndpoint", reason="the limit is 1 Instances")
    until(lambda: restarted.poll("a"), lambda output: output["WaitSeconds"] == 3600)
    cloud.clear_faults()
    (failed,) = [record for record in caplog.records if record.message == "restart failed"]
    assert vars(failed)["reason"] == "the limit is 1 Instances"
    assert restarted.config == restarted.name


def test_an_endpoint_that_is_gone_is_not_restarted(restarted: Restarted) -> None:
    restarted.sagemaker.delete_endpoint(EndpointName=restarted.name)
    assert restarted.poll("a")["Done"]


@pytest.mark.parametrize("error", ["ClientError", "Lambda.Unknown", "Sandbox.Timedout"])
def test_a_restart_continues_after_failed_polls(restarted: Restarted, error: str) -> None:
    until(lambda: restarted.poll("a", Error={"Error": error}), lambda output: output["Done"])
    assert restarted.config == f"{restarted.name}-2"


@pytest.mark.parametrize("damaged", [b"{", b"[]", b"{}", b'"x"', b'{"run":1,"restarted":"x"}', b'{"schema":99}'])
def test_a_record_that_cannot_be_read_ends_a_restart_with_its_name(
    restarted: Restarted, cloud: LocalCloud, caplog: pytest.LogCaptureFixture, damaged: bytes
) -> None:
    name = f"restarts/000000000000/us-west-2/{restarted.name}.json"
    cloud.client("s3").put_object(Bucket=BUCKET, Key=name, Body=damaged)
    assert restarted.poll("a") == {"Done": True}
    (failed,) = [record for record in caplog.records if record.message == "restart failed"]
    assert name in vars(failed)["reason"]
    assert restarted.config == restarted.name


def test_an_update_that_is_refused_is_tried_again(restarted: Restarted, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = restart_watcher.client, list[str]()

    class Busy:
        def __init__(self) -> None:
            self.inner: Any = real("sagemaker")

        def describe_endpoint(self, **request: Any) -> Any:
            return self.inner.describe_endpoint(**request)

        def update_endpoint(self, **request: Any) -> Any:
            calls.append(request["EndpointConfigName"])
            if len(calls) == 1:
                message = "Cannot update in-progress endpoint"
                raise ClientError({"Error": {"Code": "ValidationException", "Message": message}}, "UpdateEndpoint")
            return self.inner.update_endpoint(**request)

    busy = Busy()
    monkeypatch.setattr(restart_watcher, "client", lambda name: busy if name == "sagemaker" else real(name))
    restarted.restart("a")
    assert calls == [f"{restarted.name}-2"] * 2
    assert restarted.config == f"{restarted.name}-2"


@pytest.mark.parametrize("status", ["Failed", "OutOfService", "UpdateRollbackFailed", "Deleting"])
def test_an_endpoint_that_is_not_in_service_is_not_restarted(
    restarted: Restarted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, status: str
) -> None:
    broken = {"EndpointStatus": status, "EndpointConfigName": restarted.name}
    monkeypatch.setattr(restart_watcher, "_endpoint", lambda request: broken)
    assert restarted.poll("a") == {"Done": True}
    (told,) = [record for record in caplog.records if record.message == "not restarted"]
    assert vars(told)["reason"] == f"it is {status}"
    assert restarted.config == restarted.name


@pytest.mark.parametrize(
    ("status", "deploys"),
    [
        ("UPDATE_IN_PROGRESS", True),
        ("UPDATE_ROLLBACK_IN_PROGRESS", True),
        ("UPDATE_COMPLETE", False),
        ("UPDATE_FAILED", False),
        (None, False),
    ],
)
def test_a_stack_is_deployed_while_an_operation_is_in_progress(
    monkeypatch: pytest.MonkeyPatch, status: str | None, *, deploys: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(restart_watcher, "stack_status", lambda stack_id: asked.append(stack_id) or status)
    request = RestartRequest(
        endpoint_name="chat",
        config_names=("chat", "chat-2"),
        alarm_name="decay",
        at_most_every_seconds=HOUR,
        stack_id=STACK,
        bucket=BUCKET,
    )
    assert restart_watcher._is_deployed(request) is deploys
    assert asked == [STACK]


@pytest.mark.parametrize(
    ("refusal", "failure", "reason"),
    [
        ("the limit is 1", "an alarm", "the limit is 1"),
        ("", "an alarm", "an alarm"),
        ("", None, "SageMaker rolled back the endpoint's update"),
    ],
)
def test_a_restart_that_failed_reports_the_best_reason_once(
    restarted: Restarted,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    cloud: LocalCloud,
    refusal: str,
    failure: str | None,
    reason: str,
) -> None:
    record = {"run": "a", "restarted": int(restarted.now), "target": f"{restarted.name}-2", "updates": 2}
    body = json.dumps({"schema": 1, **record, "refusal": refusal}).encode()
    name = f"restarts/000000000000/us-west-2/{restarted.name}.json"
    cloud.client("s3").put_object(Bucket=BUCKET, Key=name, Body=body)
    endpoint = {"EndpointStatus": "InService", "EndpointConfigName": restarted.name}
    found = endpoint | ({"FailureReason": failure} if failure is not None else {})
    monkeypatch.setattr(restart_watcher, "_endpoint", lambda request: found)
    told: list[list[str]] = []
    # Only the run that failed knows why.
    for run in ("b", "a", "a"):
        assert restarted.poll(run) == later(3600)
        told.append([vars(record)["reason"] for record in caplog.records if record.message == "restart failed"])
    assert told == [[], [reason], [reason]]
