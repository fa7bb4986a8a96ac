from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from constructs_optim.recipe.catalog import availability
from constructs_optim.runtime import custom_resource, telemetry
from constructs_optim.runtime.aws import client
from constructs_optim.runtime.store.json_records import JsonRecords
from constructs_optim.runtime.telemetry import Counted, HandlerFailed, count, entry_point, log

from ..support.custom_resource_events import custom_resource_event
from ..support.lambda_context import LambdaContext
from ..support.s3_clients import BUCKET
from ..support.telemetry import CapturedLogs

STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Chat/1234"
KEY = "a" * 64
EVENT = custom_resource_event(
    "Create",
    "https://custom.s3.amazonaws.com/x?X-Amz-Signature=MARKsignature",
    stack_id=STACK,
    request_id="request-1",
    logical_id="Llama70BJob",
    properties={"Environment": {"HF_TOKEN": "MARKtoken"}},
)


@pytest.fixture
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")


def invoke(work: Any, event: Mapping[str, Any] = EVENT, context: object = None) -> Any:
    return entry_point(lambda event, context: work())(event, context or LambdaContext(60, "Watcher"))


def test_the_installed_powertools_matches_the_lambda_layer_release() -> None:
    assert version("aws-lambda-powertools") == availability.powertools().release


def test_every_log_line_names_its_stack_resource_and_request(logs: CapturedLogs) -> None:
    invoke(lambda: log("received", request_type="Create", status=1))
    line = logs.line("received")
    assert line["level"] == "INFO"
    assert (line["stack_id"], line["logical_id"], line["request_id"]) == (STACK, "Llama70BJob", "request-1")
    assert line["function_request_id"] == LambdaContext(60, "Watcher").aws_request_id
    assert (line["request_type"], line["status"]) == ("Create", 1)
    assert line["location"].startswith("<lambda>:"), "the line of the call, not of the function that logs"


def test_keys_of_a_log_line_persist_on_later_lines(logs: CapturedLogs) -> None:
    def work() -> None:
        log("created", job_name="optim-1", artifact_key=KEY)
        log("polled", status="STARTING")

    invoke(work)
    line = logs.line("polled")
    assert (line["artifact_key"], line["job_name"], line["status"]) == (KEY, "optim-1", "STARTING")


def test_an_invocation_does_not_inherit_log_keys_of_another(logs: CapturedLogs) -> None:
    invoke(lambda: log("created", job_name="optim-1", artifact_key=KEY))
    invoke(lambda: log("polled"), event={})
    assert {"artifact_key", "job_name", "stack_id"}.isdisjoint(logs.line("polled"))


def test_log_lines_of_a_poll_name_the_artifact_of_its_input(logs: CapturedLogs) -> None:
    invoke(lambda: log("polled"), event={"ArtifactKey": KEY, "Attempt": 1})
    assert logs.line("polled")["artifact_key"] == KEY


@pytest.mark.parametrize(
    ("event", "fields", "metric"),
    [
        (Counted.artifact_reused, {"artifact_key": KEY}, "ArtifactReused"),
        (Counted.job_created, {"job_name": "optim-1", "artifact_key": KEY}, "JobStarted"),
        (Counted.model_created, {"model_name": "optim-chat"}, "ModelCreated"),
        (Counted.job_attached, {"job_name": "optim-1", "status": "INPROGRESS"}, "JobAttached"),
        (Counted.job_released, {"artifact_key": KEY, "attempt": 1}, "JobStopped"),
        (Counted.job_completed, {"failure": ""}, "JobCompleted"),
        (Counted.job_failed, {"failure": "it failed"}, "JobFailed"),
        (Counted.deployment_failed, {"reason": "no such model"}, "DeploymentFailed"),
    ],
)
def test_each_counted_log_event_publishes_its_metric(
    logs: CapturedLogs, event: Counted, fields: dict[str, Any], metric: str
) -> None:
    invoke(lambda: log(event, **fields))
    assert logs.metrics() == {metric: [1.0]}
    assert logs.line(event.message)["level"] == ("ERROR" if metric.endswith("Failed") else "INFO")


def test_a_poll_without_a_status_change_publishes_no_metrics(logs: CapturedLogs) -> None:
    invoke(lambda: log("polled", job_name="optim-1", status="INPROGRESS"))
    assert logs.metrics() == {}
    assert "No application metrics" not in logs.text()


def test_a_metric_has_its_unit_the_handler_s_name_and_no_other_dimension(
    logs: CapturedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry._metrics, "service", "job_watcher")
    invoke(lambda: (count("JobSeconds", 5400), count("ClaimContended"), count("ClaimContended")))
    assert logs.units() == {"JobSeconds": "Seconds", "ClaimContended": "Count"}
    assert logs.metrics() == {"JobSeconds": [5400.0], "ClaimContended": [1.0, 1.0]}
    (published,) = [json.loads(line) for line in logs.text().splitlines()]
    assert published["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
    assert published["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "ConstructsOptim"
    assert published["service"] == "job_watcher"


def test_a_write_that_lost_a_race_counts_as_contention(logs: CapturedLogs, s3: Any) -> None:
    records = JsonRecords(s3, BUCKET)

    def change(record: Any) -> dict[str, Any]:
        if record is None:
            records.write("claim.json", {"by": ["another"]})
        return {"by": [*(record or {"by": []})["by"], "us"]}

    assert invoke(lambda: records.swap("claim.json", change)) == {"by": ["another", "us"]}
    assert logs.metrics() == {"ClaimContended": [1.0]}


def test_metrics_are_published_when_the_handler_crashes(logs: CapturedLogs) -> None:
    def work() -> None:
        count("ClaimContended")
        raise KeyError("Bucket")

    with pytest.raises(KeyError):
        invoke(work)
    assert logs.metrics() == {"ClaimContended": [1.0], "InvocationFailed": [1.0]}
    line = logs.line("crashed")
    assert (line["level"], line["exception_name"]) == ("ERROR", "KeyError")
    assert "in work" in line["traceback"]


def test_an_exception_that_carries_a_secret_reaches_lambda_without_it(logs: CapturedLogs) -> None:
    def work() -> None:
        try:
            raise OSError(f"cannot PUT {EVENT['ResponseURL']}")
        except OSError as error:
            raise RuntimeError(f"giving up on {EVENT}") from error

    with pytest.raises(HandlerFailed, match="RuntimeError: giving up on") as raised:
        invoke(work)
    assert "MARK" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert "in work" in logs.line("crashed")["traceback"]
    assert "MARK" not in logs.text()


def test_a_secret_in_the_cause_alone_is_kept_from_lambda_as_well(logs: CapturedLogs) -> None:
    def work() -> None:
        raise RuntimeError("giving up") from OSError(f"cannot PUT {EVENT['ResponseURL']}")

    with pytest.raises(HandlerFailed, match="RuntimeError: giving up"):
        invoke(work)
    assert "MARK" not in logs.text()


def test_whole_events_are_never_logged_even_with_powertools_log_event(
    logs: CapturedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOGGER_LOG_EVENT", "true")
    invoke(lambda: log("received"))
    assert [line["message"] for line in logs.lines()] == ["received"]


def test_failures_are_logged_at_a_level_above_info(logs: CapturedLogs, request: pytest.FixtureRequest) -> None:
    before = telemetry._logger.log_level
    request.addfinalizer(lambda: telemetry._logger.setLevel(before))
    telemetry._logger.setLevel("ERROR")
    invoke(lambda: (log("received"), log(Counted.deployment_failed, reason="no such model")))
    assert [line["message"] for line in logs.lines()] == ["failed"]


def test_polls_keep_their_clients_until_one_fails(aws_environment: None) -> None:
    first = invoke(lambda: client("sns"))
    assert invoke(lambda: client("sns")) is first, "the connections of a warm function are kept"
    with pytest.raises(ZeroDivisionError):
        invoke(lambda: 1 / 0)
    assert invoke(lambda: client("sns")) is not first, "it would have the failed one's connections and used-up retries"


def test_each_request_of_cloudformation_has_new_clients(aws_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[object] = []

    def ensure(event: custom_resource.Event) -> tuple[str, dict[str, str]]:
        used.append(client("sns"))
        return "it", {}

    def respond(*_: object, **__: object) -> None:
        assert client("sns") is used[-1], "within a request, all use the same clients"

    monkeypatch.setattr(custom_resource, "respond", respond)
    handler = custom_resource.custom_resource(ensure=ensure, delete=lambda event: None)
    for _ in range(2):
        invoked: Any = handler
        invoked(EVENT, LambdaContext(60, "Handler"))
    assert used[0] is not used[1]


def test_a_watcher_gives_up_with_other_clients_than_the_poll_that_failed(aws_environment: None) -> None:
    used: list[object] = []

    def poll() -> custom_resource.Output:
        used.append(client("sns"))
        raise ConnectionError

    def give_up(reason: str) -> custom_resource.Output:
        used.append(client("sns"))
        return custom_resource.DONE

    custom_resource.poll_or_give_up({"Error": "ConnectionError"}, poll, give_up)
    assert used[0] is not used[1]


@pytest.mark.parametrize(
    ("environment", "has_sdk", "is_traced"),
    [
        ({"_X_AMZN_TRACE_ID": "Root=1-5759e988;Sampled=1"}, True, True),
        ({"_X_AMZN_TRACE_ID": "Root=1-5759e988;Sampled=1"}, False, False),
        ({"_X_AMZN_TRACE_ID": "Root=1-5759e988;Sampled=0"}, True, False),
        ({}, True, False),
        ({"_X_AMZN_TRACE_ID": "Sampled=1", "POWERTOOLS_TRACE_DISABLED": "True"}, True, False),
        ({"_X_AMZN_TRACE_ID": "Sampled=1", "POWERTOOLS_TRACE_DISABLED": "1"}, True, False),
        ({"_X_AMZN_TRACE_ID": "Sampled=1", "POWERTOOLS_TRACE_DISABLED": "false"}, True, True),
    ],
)
def test_an_invocation_is_traced_if_it_is_sampled_and_the_layer_has_the_sdk(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], *, has_sdk: bool, is_traced: bool
) -> None:
    for name in ("_X_AMZN_TRACE_ID", "POWERTOOLS_TRACE_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    tracer = Mock()
    module = SimpleNamespace(tracer=lambda redactor: tracer) if has_sdk else None
    monkeypatch.setitem(sys.modules, f"{telemetry.__package__}.tracing", module)

    def handler(event: Mapping[str, Any], context: Any) -> None: ...

    traced: Any = telemetry._traced(handler)
    assert (traced is tracer.capture_lambda_handler.return_value) is is_traced
    assert (traced is handler) is not is_traced
    if is_traced:
        # A response has signed URLs.
        tracer.capture_lambda_handler.assert_called_once_with(handler, capture_response=False)
