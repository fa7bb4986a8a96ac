"""Why an endpoint does not serve what its stack deployed: the alarms that SageMaker rolled the update back for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim.runtime.handlers import serving_handler
from constructs_optim.runtime.hosting import serving

from ..support.answers import Answers
from ..support.custom_resource_events import custom_resource_event
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import Responses

CREATED = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
NO_ALARM = ("describe_alarms", {})
NO_HISTORY = ("describe_alarm_history", {"AlarmHistoryItems": []})
_ARN = "arn:aws:sagemaker:us-west-2:111122223333"


@pytest.fixture
def responses() -> Iterator[Responses]:
    received = Responses()
    yield received
    received.stop()


def config(name: str, created: dt.datetime = CREATED) -> tuple[str, Any]:
    variant = {"VariantName": "AllTraffic", "ModelName": "chat", "InstanceType": "ml.g5.12xlarge"}
    return "describe_endpoint_config", {
        "EndpointConfigName": name,
        "EndpointConfigArn": f"{_ARN}:endpoint-config/{name}",
        "ProductionVariants": [variant],
        "CreationTime": created,
    }


def endpoint(serves: str, *alarms: str, **more: Any) -> tuple[str, Any]:
    rollback = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": name} for name in alarms]}} if alarms else {}
    policy: dict[str, Any] = {
        "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}}
    }
    return "describe_endpoint", {
        "EndpointName": "chat",
        "EndpointArn": f"{_ARN}:endpoint/chat",
        "EndpointConfigName": serves,
        "EndpointStatus": "InService",
        "CreationTime": CREATED,
        "LastModifiedTime": CREATED,
        "LastDeploymentConfig": {**policy, **rollback},
        **more,
    }


def reason(responses: Responses, monkeypatch: pytest.MonkeyPatch, *sagemaker: Any, cloudwatch: Any = ()) -> str:
    """The reason with which the check of a deployment of the configuration ``new`` fails."""
    stack = {"StackName": "Chat", "CreationTime": CREATED, "StackStatus": "UPDATE_IN_PROGRESS"}
    answers = Answers(
        cloudformation=[("describe_stacks", {"Stacks": [stack]})],
        sagemaker=list(sagemaker),
        cloudwatch=list(cloudwatch),
    )
    for module in (serving, serving_handler):
        monkeypatch.setattr(module, "client", answers.client)
    event = custom_resource_event(
        "Update",
        responses.url,
        stack_id="arn:aws:cloudformation:us-west-2:111122223333:stack/Chat/1",
        request_id="request",
        logical_id="Served",
        properties={"EndpointName": "chat", "EndpointConfigName": "new"},
        physical_id="Served",
        old_properties={"EndpointName": "chat", "EndpointConfigName": "old"},
    )
    serving_handler.handler(event, LambdaContext())
    (response,) = responses.received
    assert response["Status"] == ("SUCCESS" if response["Reason"] == "done" else "FAILED")
    return response["Reason"]


@pytest.mark.parametrize(("seconds", "serves"), [(-1, True), (0, True), (1, False)])
def test_a_configuration_that_is_newer_than_the_endpoints_last_change_is_not_served(
    seconds: int, *, serves: bool, responses: Responses, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = CREATED + dt.timedelta(seconds=seconds)
    found = reason(responses, monkeypatch, endpoint("new"), config("new", created))
    assert (found == "done") is serves
    assert serves or "created at 2026-11-20 12:00:01 UTC, after the endpoint chat last changed" in found


def in_alarm(name: str, state: str) -> tuple[str, Any]:
    return "describe_alarms", {"MetricAlarms": [{"AlarmName": name, "StateValue": state}]}


def composite(name: str, state: str) -> tuple[str, Any]:
    return "describe_alarms", {"CompositeAlarms": [{"AlarmName": name, "StateValue": state}]}


def was_in_alarm(summary: str = "Alarm updated from OK to ALARM") -> tuple[str, Any]:
    return "describe_alarm_history", {"AlarmHistoryItems": [{"HistorySummary": summary}]}


@pytest.mark.parametrize(
    ("alarms", "cloudwatch", "cause"),
    [
        ([], [], "it gives no reason, and no alarm of the update went into ALARM"),
        (["Errors"], [in_alarm("Errors", "ALARM")], "Errors went into ALARM"),
        # It may have returned to OK since.
        (["Errors"], [in_alarm("Errors", "OK"), was_in_alarm()], "Errors went into ALARM"),
        (["Errors"], [in_alarm("Errors", "OK"), was_in_alarm("Alarm updated from ALARM to OK")], "it gives no reason"),
        (["Errors"], [in_alarm("Errors", "OK"), NO_HISTORY], "it gives no reason"),
        (
            ["Errors", "Latency"],
            [in_alarm("Errors", "ALARM"), was_in_alarm(), composite("Latency", "OK"), NO_HISTORY],
            "Errors, Latency went into ALARM",
        ),
        (
            ["Service"],
            [NO_ALARM, NO_HISTORY, composite("Service", "ALARM")],
            "Service went into ALARM",
        ),
        # Permissions for single alarms include no composite ones.
        (["Errors"], [("describe_alarms", "AccessDenied"), composite("Errors", "ALARM")], "Errors went into ALARM"),
        (["Errors"], [("describe_alarms", "AccessDenied")] * 2, "it gives no reason"),
        (["Errors"], [("describe_alarms", "InternalServiceFault")], "DescribeAlarms failed with InternalServiceFault"),
    ],
)
def test_a_rolled_back_update_names_the_alarms_that_were_in_alarm(
    alarms: list[str],
    cloudwatch: list[Any],
    cause: str,
    responses: Responses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sagemaker = [endpoint("old", *alarms), config("old"), config("new")]
    found = reason(responses, monkeypatch, *sagemaker, cloudwatch=cloudwatch)
    assert cause in found
    if "failed with" not in cause:
        said = "SageMaker rolled back the update of the endpoint chat, which serves old instead of new: "
        assert found.startswith(f"Served: {said}{cause}")


def test_without_alarms_sagemakers_reason_is_given(responses: Responses, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = endpoint("old", FailureReason="the container did not answer the ping")
    found = reason(responses, monkeypatch, failed, config("old"), config("new"))
    assert "SageMaker's reason: the container did not answer the ping. Next: see the log group" in found


def test_an_endpoint_that_was_deleted_is_not_served(responses: Responses, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reason(responses, monkeypatch, ("describe_endpoint", "ResourceNotFound"))
    assert "the endpoint chat was deleted outside the stack" in found


def test_alarms_count_since_the_new_configuration_was_created(
    responses: Responses, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = CREATED + dt.timedelta(hours=1)
    requests: list[dict[str, Any]] = []
    real = Answers.client

    def recorded(self: Answers, service: str) -> Any:
        found = real(self, service)
        if service == "cloudwatch":
            found.meta.events.register_first("provide-client-params", lambda params, **_: requests.append(params))
        return found

    monkeypatch.setattr(Answers, "client", recorded)
    sagemaker = [endpoint("old", "Errors"), config("old"), config("new", created)]
    reason(responses, monkeypatch, *sagemaker, cloudwatch=[in_alarm("Errors", "OK"), was_in_alarm()])
    asked = {"AlarmName": "Errors", "AlarmTypes": ["MetricAlarm"], "HistoryItemType": "StateUpdate"}
    assert requests[-1] == {**asked, "StartDate": created}
