"""Shadow runs against the local cloud, which replicates requests and captures both answers.

The tests play the parts of the state machine and of CloudFormation. The local cloud publishes no metrics of
invocations, so that the tests publish them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from itertools import count, cycle, product
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime import aws
from constructs_optim.runtime.custom_resource import issued_at
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.handlers import restart_watcher, shadow_handler, shadow_watcher
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.shadow_properties import ShadowRequest
from constructs_optim.runtime.shadow.observation import RunState
from constructs_optim.runtime.store.run_records import CURRENT, RESULT, RUN, RunRecords, run_of
from constructs_optim_local.cloud import LocalCloud

from ..support.custom_resource_events import custom_resource_event
from ..support.hosting import make_model, settled
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, Responses, idle_state_machine
from ..support.notifications import Notifications
from ..support.run_files import content
from ..support.sampling import one_in
from ..support.watchers import later

ACCOUNT, REGION = "000000000000", "us-west-2"
_numbers = count()
REQUEST = {"messages": [{"role": "user", "content": ""}], "temperature": 0}


class Run:
    """An endpoint with a shadow, and its run."""

    def __init__(self, cloud: LocalCloud, responses: Responses, machine: str) -> None:
        self.cloud, self.responses, self.machine = cloud, responses, machine
        self.sagemaker, self.runtime = cloud.client("sagemaker"), cloud.client("sagemaker-runtime")
        self.name, self.run, self.clock = f"shadowed{next(_numbers)}", f"{next(_numbers):016x}", 0.0
        capture = {
            "EnableCapture": True,
            "InitialSamplingPercentage": 100,
            "DestinationS3Uri": f"s3://{BUCKET}/captures",
            "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
            "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
        }
        for model in (self.name, f"{self.name}-candidate"):
            make_model(self.sagemaker, model)
        production, candidate = (
            self._variant("AllTraffic", self.name),
            self._variant("Shadow", f"{self.name}-candidate"),
        )
        for ending, more in {
            "shadow": {"ShadowProductionVariants": [candidate], "DataCaptureConfig": capture},
            "ended": {"DataCaptureConfig": capture},
        }.items():
            self.sagemaker.create_endpoint_config(
                EndpointConfigName=f"{self.name}-{ending}", ProductionVariants=[production], **more
            )
        promoted = {**candidate, "VariantName": "AllTraffic"}
        self.sagemaker.create_endpoint_config(
            EndpointConfigName=f"{self.name}-promoted", ProductionVariants=[promoted], DataCaptureConfig=capture
        )
        self.sagemaker.create_endpoint(EndpointName=self.name, EndpointConfigName=f"{self.name}-shadow")
        assert settled(self.sagemaker, self.name)["EndpointStatus"] == "InService"
        self.request: dict[str, Any] = {
            "Label": self.name,
            "EndpointName": self.name,
            "ShadowConfigName": f"{self.name}-shadow",
            "EndedConfigName": f"{self.name}-ended",
            "Production": {"VariantName": "AllTraffic", "ArtifactKey": "a" * 64, "InstanceType": "ml.g5.12xlarge"},
            "Candidate": {"VariantName": "Shadow", "ArtifactKey": "b" * 64, "InstanceType": "ml.g5.12xlarge"},
            "Captures": f"s3://{BUCKET}/captures",
            "SamplePercent": 100,
            "DurationSeconds": 7200,
            "Margin": 0.1,
            "LatencyTolerance": 0.1,
            "Checks": [{"Kind": "answered"}, {"Kind": "exact_match", "AtLeast": 0.6}],
            "Bucket": BUCKET,
        }

    @staticmethod
    def _variant(name: str, model: str) -> dict[str, Any]:
        return {
            "VariantName": name,
            "ModelName": model,
            "InstanceType": "ml.g5.12xlarge",
            "InitialInstanceCount": 1,
            "InitialVariantWeight": 1.0,
        }

    @property
    def records(self) -> RunRecords:
        key = validate(ShadowRequest, self.request).key(ACCOUNT, REGION)
        return RunRecords(self.cloud.client("s3"), "shadows", BUCKET, None, key)

    def ask(self, requests: int) -> None:
        for number in range(requests):
            body = {**REQUEST, "messages": [{"role": "user", "content": f"{self.name} {next(_numbers)} {number}"}]}
            self.runtime.invoke_endpoint(EndpointName=self.name, Body=json.dumps(body), ContentType="application/json")

    def publish(self, minutes: int, requests: int = 20, **candidate: float) -> None:
        """Metrics of the minutes after the run began, the same for both variants except for those of the candidate."""
        stored = content(self.records, RUN, self.run)
        assert stored is not None
        data: list[Any] = []
        for minute in range(minutes):
            at = dt.datetime.fromtimestamp(stored["minute"] + 60 * minute, dt.UTC)
            for variant in ("AllTraffic", "Shadow"):
                dimensions = [
                    {"Name": "EndpointName", "Value": self.name},
                    {"Name": "VariantName", "Value": variant},
                ]
                values = {"Invocations": requests, "InvocationModelErrors": 0, "ModelLatency": 1000 + minute % 7}
                values |= candidate if variant == "Shadow" else {}
                data += [
                    {"MetricName": name, "Dimensions": dimensions, "Timestamp": at, "Value": float(value)}
                    for name, value in values.items()
                ]
        for start in range(0, len(data), 100):
            self.cloud.client("cloudwatch").put_metric_data(
                Namespace="AWS/SageMaker", MetricData=data[start : start + 100]
            )

    def poll(self, **more: Any) -> dict[str, Any]:
        event = {"Request": self.request, "Run": self.run, "Issued": 1000, **more}
        return shadow_watcher.handler(event, LambdaContext(120))

    def came_into_service(self, event: str, **more: Any) -> dict[str, Any]:
        """A poll of the execution that EventBridge starts when the endpoint has come into service."""
        watch = {"Request": self.request, "Run": event, "StackId": self.event("Update", "none")["StackId"], **more}
        return shadow_watcher.handler(watch, LambdaContext(120))

    def goes_back(self) -> None:
        """CloudFormation deploys the configuration with the shadow variant again."""
        self.sagemaker.update_endpoint(EndpointName=self.name, EndpointConfigName=f"{self.name}-shadow")
        assert "ShadowProductionVariants" in settled(self.sagemaker, self.name)

    def end(self) -> dict[str, Any]:
        """Poll until the run is done; the endpoint then."""
        for _ in range(20):
            if self.poll()["Done"]:
                return settled(self.sagemaker, self.name)
            settled(self.sagemaker, self.name)
        raise AssertionError("the run does not end")

    @property
    def report(self) -> dict[str, Any]:
        found = content(self.records, RESULT)
        assert found is not None
        return found

    def event(self, kind: str, request: str, **more: Any) -> dict[str, Any]:
        return {
            **custom_resource_event(
                kind,
                f"{self.responses.url}?X-Amz-Date=20261121T120000Z&X-Amz-Expires=7200",
                stack_id=f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/Chat/{self.name}",
                request_id=request,
                logical_id="ShadowRun",
                properties={"Request": self.request, "StateMachineArn": self.machine},
            ),
            **more,
        }


@pytest.fixture(scope="module")
def machine(cloud: LocalCloud) -> str:
    return idle_state_machine(cloud, "shadow-watcher")


@pytest.fixture
def run(cloud: LocalCloud, responses: Responses, machine: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    shadowed = Run(cloud, responses, machine)
    real = shadow_watcher.time.time
    monkeypatch.setattr(shadow_watcher.time, "time", lambda: real() + shadowed.clock)
    yield shadowed
    cloud.clear_performances()
    cloud.clear_faults()


def test_a_candidate_whose_answers_are_others_is_caught_and_the_shadow_ends(run: Run, cloud: LocalCloud) -> None:
    cloud.set_performance("Shadow", answers_differently=1.0)
    assert run.poll()["Done"] is False
    run.ask(40)
    ended = run.end()
    assert ended["EndpointConfigName"] == f"{run.name}-ended"
    assert "ShadowProductionVariants" not in ended
    assert (run.report["outcome"], run.report["pairs"]) == ("worse", 40)
    assert run.report["reason"] == "The candidate is worse by exact_match"
    [match] = [finding for finding in run.report["findings"] if finding["measure"] == "exact_match"]
    assert (match["outcome"], match["estimate"], match["called_after"]) == ("worse", 1.0, 31)
    page = (
        cloud.client("s3")
        .get_object(Bucket=BUCKET, Key=run.records.uri("report.md", run.run).removeprefix(f"s3://{BUCKET}/"))["Body"]
        .read()
    )
    assert b"# The candidate is worse" in page
    assert b"40 pairs" in page


@pytest.mark.parametrize(("promoted", "ending"), [(True, "promoted"), (False, "ended")])
def test_an_equal_candidate_passes_and_is_promoted_if_that_is_asked_for(run: Run, promoted: bool, ending: str) -> None:
    if promoted:
        run.request["PromotedConfigName"] = f"{run.name}-promoted"
    run.poll()
    run.ask(90)
    run.publish(130)
    run.clock = 8100
    ended = run.end()
    assert run.report["outcome"] == "pass", run.report["findings"]
    assert run.report["reason"] == "No measure is worse by its margin"
    assert ended["EndpointConfigName"] == f"{run.name}-{ending}"


@pytest.mark.parametrize("failures", [{"MidStreamErrors": 2}, {"Invocation5XXErrors": 2}, {"InvocationModelErrors": 2}])
def test_a_candidate_whose_responses_fail_or_break_off_is_worse(run: Run, failures: dict[str, float]) -> None:
    run.poll()
    run.publish(130, **failures)
    run.clock = 8100
    run.end()
    assert run.report["outcome"] == "worse"
    assert [each["measure"] for each in run.report["findings"] if each["outcome"] == "worse"] == ["errors"]


def test_a_request_that_cannot_be_read_does_not_end_the_run(run: Run) -> None:
    run.poll()
    # The containers' parser on Python 3.11 takes about 990 levels.
    nested = '{"messages": [{"role": "user", "content": "Hi"}], "metadata": ' + '{"a":' * 500 + "1" + "}" * 501
    run.runtime.invoke_endpoint(EndpointName=run.name, ContentType="application/json", Body=nested)
    run.ask(90)
    run.publish(130)
    run.clock = 8100
    run.end()
    assert (run.report["pairs"], run.report["unusable_captures"]) == (90, 2), "a capture of each variant"
    assert run.report["outcome"] == "pass"


def test_thin_traffic_ends_as_not_decided_and_is_not_promoted(run: Run) -> None:
    run.request["PromotedConfigName"] = f"{run.name}-promoted"
    run.poll()
    run.ask(5)
    assert run.poll()["Done"] is False
    run.clock = 7300
    ended = run.end()
    assert (run.report["outcome"], run.report["pairs"]) == ("not decided", 5)
    assert run.report["reason"] == (
        "5 pairs in 2.03 hours, which show as much as 5 independent ones, do not decide answered, exact_match, "
        "latency, errors"
    )
    assert ended["EndpointConfigName"] == f"{run.name}-ended"


def test_the_metrics_of_both_variants_are_read_by_the_minute(run: Run) -> None:
    asked: list[tuple[str, str, str, str, int]] = []

    def record(params: dict[str, Any], **_: Any) -> None:
        for each in params["MetricDataQueries"]:
            stat = each["MetricStat"]
            (variant,) = [of["Value"] for of in stat["Metric"]["Dimensions"] if of["Name"] == "VariantName"]
            asked.append((variant, each["Id"], stat["Metric"]["MetricName"], stat["Stat"], stat["Period"]))

    events, name = aws.client("cloudwatch").meta.events, "provide-client-params.cloudwatch.GetMetricData"
    events.register(name, record)
    try:
        run.poll()
        run.publish(3)
        run.clock = 600
        run.poll()
    finally:
        events.unregister(name, record)
    # CloudWatch takes periods that are multiples of 60 (API reference, MetricStat).
    assert set(asked) == {
        (variant, *query, 60)
        for variant in ("AllTraffic", "Shadow")
        for query in (
            ("latency", "ModelLatency", "Average"),
            ("requests", "Invocations", "Sum"),
            ("invocation_model_errors", "InvocationModelErrors", "Sum"),
            ("invocation_4xx_errors", "Invocation4XXErrors", "Sum"),
            ("invocation_5xx_errors", "Invocation5XXErrors", "Sum"),
            ("mid_stream_errors", "MidStreamErrors", "Sum"),
        )
    }


def test_captures_are_read_once(run: Run) -> None:
    run.poll()
    run.ask(3)
    for _ in range(3):
        run.poll()
    stored = content(run.records, RUN, run.run)
    assert stored is not None
    assert stored["observed"]["pairs"] == 3
    # What is kept has no prompt and no answer.
    assert run.name + " " not in json.dumps(stored)


def test_what_was_decided_before_is_not_compared_again(run: Run) -> None:
    run.records.write(CURRENT, {"outcome": "worse", "run": "0" * 16})
    assert run.end()["EndpointConfigName"] == f"{run.name}-ended"
    assert content(run.records, RESULT) is None


def test_a_run_ends_where_another_configuration_was_deployed(run: Run) -> None:
    run.poll()
    run.sagemaker.update_endpoint(EndpointName=run.name, EndpointConfigName=f"{run.name}-ended")
    # On a busy machine, the update is over by now.
    assert run.poll() in (later(30), {"Done": True})
    settled(run.sagemaker, run.name)
    assert run.end()["EndpointConfigName"] == f"{run.name}-ended"
    assert run.report["reason"] == "Another configuration was deployed"


def test_a_promotion_that_is_rolled_back_leaves_production(run: Run, cloud: LocalCloud) -> None:
    run.request["PromotedConfigName"] = f"{run.name}-promoted"
    run.records.write(CURRENT, {"outcome": "pass", "run": "0" * 16})
    cloud.inject("update_fails")
    run.poll()
    settled(run.sagemaker, run.name)
    cloud.clear_faults()
    assert run.end()["EndpointConfigName"] == f"{run.name}-ended"


@pytest.mark.parametrize("polls", [1, 4])
def test_an_endpoint_that_is_busy_is_promoted_later(run: Run, cloud: LocalCloud, polls: int) -> None:
    run.request["PromotedConfigName"] = f"{run.name}-promoted"
    run.records.write(CURRENT, {"outcome": "pass", "run": "0" * 16})
    cloud.inject("endpoint_busy", operation="UpdateEndpoint", count=polls)
    for _ in range(polls):
        assert run.poll() == later(30)
    assert run.end()["EndpointConfigName"] == f"{run.name}-promoted"


def test_a_promotion_that_a_quota_refuses_ends_the_shadow(run: Run, cloud: LocalCloud) -> None:
    run.request["PromotedConfigName"] = f"{run.name}-promoted"
    run.records.write(CURRENT, {"outcome": "pass", "run": "0" * 16})
    cloud.inject("limit_exceeded", operation="UpdateEndpoint", count=1)
    assert run.poll()["Done"] is False
    assert run.end()["EndpointConfigName"] == f"{run.name}-ended"


def test_a_refused_end_is_reported_with_its_reason_and_retried_until_it_is_accepted(
    run: Run, cloud: LocalCloud
) -> None:
    topic = cloud.client("sns").create_topic(Name=run.name)["TopicArn"]
    notifications = Notifications.of(cloud, topic)
    run.request["TopicArn"] = topic
    run.records.write(CURRENT, {"outcome": "worse", "run": "0" * 16})
    cloud.inject("limit_exceeded", operation="UpdateEndpoint", reason="the limit is 1 Instances")
    assert [run.poll()["WaitSeconds"] for _ in range(5)] == [30, 30, 3600, 3600, 3600]
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-shadow"
    cloud.clear_faults()
    assert run.end()["EndpointConfigName"] == f"{run.name}-ended"
    [message] = notifications.received()
    assert message["Subject"] == f"Shadow of {run.name}: not ended"
    assert "could not be removed" in message["Message"]
    assert "the limit is 1 Instances" in message["Message"]


class Endings:
    """An endpoint that serves a shadow whatever update it accepts, because its alarms roll each one back.

    ``answers`` are the answers to the next updates: a refusal, or "" for an update that is accepted.
    """

    def __init__(self, run: Run, monkeypatch: pytest.MonkeyPatch, answers: list[str]) -> None:
        self.moved, self.told = 0, list[str]()
        endpoint = {
            "EndpointStatus": "InService",
            "EndpointConfigName": f"{run.name}-shadow",
            "FailureReason": "the alarm errors rolled it back",
        }

        def move(*_: object) -> str:
            self.moved += 1
            return answers[self.moved - 1] if self.moved <= len(answers) else ""

        monkeypatch.setattr(shadow_watcher, "_endpoint", lambda request: endpoint)
        monkeypatch.setattr(shadow_watcher, "_move", move)
        monkeypatch.setattr(shadow_watcher, "_tell", lambda request, what, message: self.told.append(message))


@pytest.mark.parametrize("refusals", [0, 1, 3, 5])
def test_an_end_that_alarms_roll_back_is_tried_three_times_and_told_however_often_it_was_refused_before(
    run: Run, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    run.records.write(CURRENT, {"outcome": "worse", "run": "0" * 16})
    endings = Endings(run, monkeypatch, ["the limit is 1 Instances"] * refusals)
    output: dict[str, Any] = {"Done": False}
    while not output["Done"]:
        output = run.poll(Look=output)
    assert endings.moved == refusals + 3
    reasons = [message.rpartition(": ")[2] for message in endings.told]
    assert reasons == ["the limit is 1 Instances"] * (refusals >= 3) + ["the alarm errors rolled it back"]


def test_an_endpoint_that_is_busy_after_refused_ends_is_told_of_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.records.write(CURRENT, {"outcome": "worse", "run": "0" * 16})
    endings = Endings(run, monkeypatch, ["the limit is 1 Instances"] * 3 + ["Cannot update in-progress endpoint"] * 4)
    for _ in range(7):
        assert run.poll()["Done"] is False
    assert len(endings.told) == 1


def test_an_end_without_records_that_alarms_roll_back_is_tried_three_times_and_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_watcher, "RunRecords", NoStore)
    endings = Endings(run, monkeypatch, ["the limit is 1 Instances"])
    output: dict[str, Any] = {"Done": False}
    for _ in range(9):
        output = run.poll(Error=POLLS_FAIL, Look=output)
        if output["Done"]:
            break
    assert (output["Done"], endings.moved) == (True, 4)
    reasons = [message.rpartition(": ")[2] for message in endings.told]
    assert reasons == ["the limit is 1 Instances", "the alarm errors rolled it back"]


def test_a_shadow_ends_although_its_topic_is_gone(run: Run, cloud: LocalCloud) -> None:
    run.poll()
    run.request["TopicArn"] = f"arn:aws:sns:{REGION}:{ACCOUNT}:gone"
    run.clock = 7300
    assert run.poll()["Done"] is False
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-ended"
    assert run.report["outcome"] == "not decided"


def test_a_run_whose_watching_fails_ends_the_shadow(run: Run) -> None:
    run.poll()
    assert run.poll(Error={"Error": "Lambda.Unknown"})["Done"] is False
    assert run.end()["EndpointConfigName"] == f"{run.name}-ended"
    assert run.report["outcome"] == "not decided"
    assert run.report["reason"] == ("Watching failed: the function ended as Lambda.Unknown, out of time or memory")


POLLS_FAIL = {"Error": "DeploymentError", "Cause": "it is damaged"}
NEWER = b'{"schema":99}'
DAMAGED = [b"", b"{", b"[]", b"{}", b'"x"', b'{"schema":1,"began":"x"}', NEWER]


@pytest.mark.parametrize(
    ("damaged", "file"), one_in(8, product(DAMAGED, ["current.json", "run.json", "given_up.json"]))
)
def test_a_run_whose_records_cannot_be_read_ends_the_shadow(
    run: Run, monkeypatch: pytest.MonkeyPatch, file: str, damaged: bytes
) -> None:
    run.poll()
    folder = f"shadows/{run.records.key}/"
    told: list[str] = []
    monkeypatch.setattr(shadow_watcher, "_tell", lambda request, what, message: told.append(what))
    name = f"{folder}runs/{run.run}/{file}" if file == "run.json" else f"{folder}{file}"
    run.cloud.client("s3").put_object(Bucket=BUCKET, Key=name, Body=damaged)
    if file == "current.json":
        # It is read at the end, which writes it before.
        run.clock = 7300
    else:
        with pytest.raises(DeploymentError, match=file):
            run.poll()
    for _ in range(20):
        if run.poll(Error=POLLS_FAIL)["Done"]:
            break
        settled(run.sagemaker, run.name)
    ended = settled(run.sagemaker, run.name)
    assert (ended["EndpointConfigName"], "ShadowProductionVariants" in ended) == (f"{run.name}-ended", False)
    if file == "current.json" and damaged != NEWER:
        assert ((content(run.records, CURRENT) or {})["outcome"], told) == (run.report["outcome"], ["not decided"])


class NoStore:
    """The store's records, when the store is gone."""

    key = "none"

    def __init__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "the key is disabled"}}, "GetObject")


def test_a_run_without_its_store_ends_the_shadow(run: Run, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    run.poll()
    topic = cloud.client("sns").create_topic(Name=run.name)["TopicArn"]
    notifications = Notifications.of(cloud, topic)
    run.request["TopicArn"] = topic
    monkeypatch.setattr(shadow_watcher, "RunRecords", NoStore)
    cloud.inject("limit_exceeded", operation="UpdateEndpoint", count=1, reason="the limit is 1 Instances")
    assert run.poll(Error=POLLS_FAIL) == later(3600) | {"Updates": 0}
    [message] = notifications.received()
    assert message["Subject"] == f"Shadow of {run.name}: not ended"
    assert run.poll(Error=POLLS_FAIL) == later(30) | {"Updates": 1}
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-ended"
    assert run.poll(Error=POLLS_FAIL) == {"Done": True}


def test_a_run_continues_after_polls_recover(run: Run) -> None:
    run.poll()
    run.ask(3)
    assert run.poll(Error={"Error": "ClientError", "Cause": "throttled"})["Done"] is False
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-shadow"


def refused(*_: object) -> NoReturn:
    raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "Describe")


@pytest.mark.parametrize("outcome", ["observing", "worse"])
def test_an_event_leaves_the_shadow_alone_while_it_is_unknown_whether_a_run_watches_it(
    run: Run, deployed: list[str], monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    decision = {"outcome": outcome, "run": "0" * 16}
    run.records.write(CURRENT, decision)
    written = content(run.records, CURRENT)
    moved: list[str] = []
    monkeypatch.setattr(shadow_watcher, "_move", lambda request, name: moved.append(name) or "")
    for broken, replacement in {
        "stack_status": refused,
        "_endpoint": refused,
        "RunRecords": NoStore,
        "RunRecords.get": refused,
        "RunRecords.change": refused,
    }.items():
        for error in ("ClientError", "Lambda.Unknown"):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(f"{shadow_watcher.__name__}.{broken}", replacement)
                answer = run.came_into_service(FIRST, Error={"Error": error})
            if (broken, outcome) == ("RunRecords.change", "observing"):
                assert answer == {"Done": True}, "the record says that a run watches it"
            else:
                assert (answer["Done"], answer["WaitSeconds"]) == (False, 3600), broken
            assert not moved, broken
    assert content(run.records, CURRENT) == written
    assert content(run.records, RUN, FIRST) is None


def test_an_event_ends_a_shadow_that_no_run_can_watch_when_polls_fail(
    run: Run, deployed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []
    monkeypatch.setattr(shadow_watcher, "_move", lambda request, name: moved.append(name) or "")
    folder = f"shadows/{run.records.key}"
    for damaged, error in zip(DAMAGED, cycle(("ClientError", "Lambda.Unknown"))):
        run.cloud.client("s3").put_object(Bucket=BUCKET, Key=f"{folder}/current.json", Body=damaged)
        for status, expected in (("DELETE_COMPLETE", []), ("UPDATE_COMPLETE", [f"{run.name}-ended"])):
            deployed[:] = [status]
            answer = run.came_into_service(FIRST, Error={"Error": error})
            assert (answer["Done"], moved) == (not expected, expected), (damaged, status)
        moved.clear()
    # The record of the execution itself is damaged: what is known of the candidate stays.
    run.records.write(CURRENT, {"outcome": "worse", "run": "0" * 16})
    run.cloud.client("s3").put_object(Bucket=BUCKET, Key=f"{folder}/runs/{FIRST}/run.json", Body=b"{")
    assert run.came_into_service(FIRST, Error={"Error": "Lambda.Unknown"})["Done"] is False
    assert (moved, (content(run.records, CURRENT) or {})["outcome"]) == ([f"{run.name}-ended"], "worse")


def test_an_event_leaves_the_shadow_to_its_run_when_polls_fail(run: Run, deployed: list[str]) -> None:
    shadow_handler.handler(run.event("Create", "first"), LambdaContext())
    for error in ("ClientError", "Lambda.Unknown"):
        assert run.came_into_service(FIRST, Error={"Error": error}) == {"Done": True}
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-shadow"


def test_a_deleted_run_stops_and_leaves_the_endpoint_to_the_stack(run: Run) -> None:
    run.responses.received.clear()
    shadow_handler.handler(run.event("Create", "first"), LambdaContext(120))
    created = run.responses.received[-1]
    assert created["Status"] == "SUCCESS"
    assert created["Data"]["ReportUri"].endswith("/result.json")
    deletion = run.event("Delete", "last", PhysicalResourceId=created["PhysicalResourceId"])
    deletion["ResponseURL"] = deletion["ResponseURL"].replace("T12", "T13")
    shadow_handler.handler(deletion, LambdaContext(120))
    assert run.responses.received[-1]["Status"] == "SUCCESS"
    run.run = run_of(deletion["StackId"], "first")
    assert run.poll(Issued=issued_at(deletion["ResponseURL"]) - 1) == {"Done": True}
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-shadow"


def moves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The configurations to which the endpoint is moved from here on."""
    moved: list[str] = []
    monkeypatch.setattr(shadow_watcher, "_move", lambda request, name: moved.append(name) or "")
    return moved


FIRST, SECOND = "0bd4a141-0a02-9d8a-f977-3924c3fb259c", "0bd4a141-0a02-9d8a-f977-3924c3fb259d"


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the stack's status is at each look; the last one lasts."""
    statuses = ["UPDATE_COMPLETE"]
    monkeypatch.setattr(
        shadow_watcher, "stack_status", lambda stack_id: statuses.pop(0) if len(statuses) > 1 else statuses[0]
    )
    return statuses


@pytest.mark.parametrize(("outcome", "ending"), [("worse", "ended"), ("not decided", "ended"), ("pass", "promoted")])
def test_a_shadow_that_comes_back_with_a_deployment_is_ended_as_it_was(
    run: Run, deployed: list[str], outcome: str, ending: str
) -> None:
    run.request["PromotedConfigName"] = f"{run.name}-promoted"
    run.records.write(CURRENT, {"outcome": outcome, "run": "0" * 16})
    deployed.insert(0, "UPDATE_ROLLBACK_IN_PROGRESS")
    assert run.came_into_service(FIRST) == later(30)
    assert run.came_into_service(FIRST) == later(30)
    # The same event once more, while the endpoint is updated.
    assert run.came_into_service(SECOND)["Done"]
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-{ending}"
    assert run.came_into_service(FIRST)["Done"]
    assert run.came_into_service(SECOND)["Done"]
    run.goes_back()
    run.came_into_service(SECOND)
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-{ending}"


def test_a_shadow_that_a_run_watches_is_left_to_it(run: Run, deployed: list[str]) -> None:
    shadow_handler.handler(run.event("Create", "first"), LambdaContext())
    assert run.came_into_service(FIRST)["Done"]
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-shadow"


def test_an_event_leaves_a_run_alone_that_begins_at_the_same_time(
    run: Run, deployed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run.records.write(CURRENT, {"outcome": "not decided", "run": "0" * 16})
    moved, real = moves(monkeypatch), shadow_watcher._endpoint

    def begins(request: ShadowRequest) -> Any:
        run.records.write(CURRENT, {"outcome": "observing", "run": run.run})
        return real(request)

    monkeypatch.setattr(shadow_watcher, "_endpoint", begins)
    assert run.came_into_service(FIRST) == {"Done": True}
    assert not moved
    assert not (content(run.records, CURRENT) or {}).get("ending")


def test_a_promotion_that_failed_is_not_tried_again_by_itself(run: Run, cloud: LocalCloud, deployed: list[str]) -> None:
    run.request["PromotedConfigName"] = f"{run.name}-promoted"
    run.records.write(CURRENT, {"outcome": "pass", "run": "0" * 16})
    cloud.inject("update_fails", count=1)
    assert run.came_into_service(FIRST)["Done"] is False
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-shadow"
    # The endpoint is in service again, and there is an event of that.
    assert run.came_into_service(SECOND)["Done"]
    run.came_into_service(FIRST)
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-ended"
    run.came_into_service(FIRST)
    run.goes_back()
    run.came_into_service(SECOND)
    assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-ended"


def test_a_run_that_is_never_in_service_ends_with_its_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.poll()
    real = shadow_watcher._endpoint
    monkeypatch.setattr(
        shadow_watcher, "_endpoint", lambda request: {**(real(request) or {}), "EndpointStatus": "Failed"}
    )
    assert run.poll() == later(30)
    run.clock = 7300
    run.poll()
    assert run.report["outcome"] == "not decided"


def test_a_verdict_that_an_interrupted_poll_recorded_stays_and_is_told(
    run: Run, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cloud.client("sns").create_topic(Name=run.name)["TopicArn"]
    notifications, moved = Notifications.of(cloud, topic), moves(monkeypatch)
    run.request["TopicArn"] = topic
    run.poll()
    run.records.write(CURRENT, {"outcome": "worse", "run": run.run})
    # Another look would not decide, and the run would go on.
    assert run.poll() == later(30)
    assert moved == [f"{run.name}-ended"]
    assert (content(run.records, CURRENT) or {})["outcome"] == "worse"
    [message] = notifications.received()
    assert message["Subject"] == f"Shadow of {run.name}: worse"


def test_a_verdict_is_told_once_although_the_endpoint_is_busy_when_it_is_found(run: Run, cloud: LocalCloud) -> None:
    topic = cloud.client("sns").create_topic(Name=run.name)["TopicArn"]
    notifications = Notifications.of(cloud, topic)
    run.request["TopicArn"] = topic
    run.poll()
    run.clock = 7300
    cloud.inject("endpoint_busy", operation="UpdateEndpoint", count=2)
    assert [run.poll(), run.poll()] == [later(30)] * 2
    stored = content(run.records, RUN, run.run)
    assert stored is not None
    assert (stored["phase"], stored["files"]) == ("ending", [])
    assert run.end()["EndpointConfigName"] == f"{run.name}-ended"
    assert [message["Subject"] for message in notifications.received()] == [f"Shadow of {run.name}: not decided"]


@pytest.mark.parametrize("earlier", ["pass", "worse"])
def test_polls_that_keep_failing_replace_no_verdict(run: Run, monkeypatch: pytest.MonkeyPatch, earlier: str) -> None:
    moved = moves(monkeypatch)
    run.records.write(CURRENT, {"outcome": earlier, "run": "0" * 16})
    monkeypatch.setattr(shadow_watcher, "_state", refused)
    assert run.poll(Error=POLLS_FAIL)["Done"] is False
    assert moved == [f"{run.name}-ended"]
    assert (content(run.records, CURRENT) or {})["outcome"] == earlier
    assert content(run.records, RESULT) is None


def test_a_run_that_ends_leaves_a_later_one_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = moves(monkeypatch)
    run.poll()
    decision = {"outcome": "observing", "run": "0" * 16, "ending": None}
    run.records.write(CURRENT, decision)
    run.clock = 7300
    assert run.poll() == {"Done": True}
    assert not moved
    current = content(run.records, CURRENT) or {}
    assert {name: current[name] for name in decision} == decision


def test_an_execution_that_has_ended_takes_no_shadow_from_another_that_ends_it(run: Run) -> None:
    run.sagemaker.update_endpoint(EndpointName=run.name, EndpointConfigName=f"{run.name}-ended")
    settled(run.sagemaker, run.name)
    run.records.write(CURRENT, {"outcome": "worse", "run": "0" * 16, "ending": SECOND, "since": 2e9})
    state = RunState(began=0, minute=0, phase="ending")
    run.records.write(RUN, state.model_dump(), run.run)
    assert run.poll() == {"Done": True}
    assert (content(run.records, CURRENT) or {})["ending"] == SECOND


class NoBucket(NoStore):
    """The store's records, when its bucket is deleted."""

    def __getattr__(self, name: str) -> Any:
        raise ClientError({"Error": {"Code": "NoSuchBucket", "Message": "it does not exist"}}, "GetObject")


def test_a_shadow_ends_when_its_store_is_deleted(
    run: Run, deployed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_watcher, "RunRecords", NoBucket)
    for poll in (run.poll, lambda: run.came_into_service(FIRST)):
        assert poll() == later(30) | {"Updates": 1}
        assert settled(run.sagemaker, run.name)["EndpointConfigName"] == f"{run.name}-ended"
        assert poll() == {"Done": True}
        run.goes_back()


def test_captures_that_come_faster_than_they_are_read_do_not_keep_the_run_from_its_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    monkeypatch.setattr(shadow_watcher.Observer, "observe", lambda self, now, until: not looks.append(now))
    monkeypatch.setattr(shadow_watcher, "_READING_SECONDS", 0)
    # Besides the 24 regular polls.
    monkeypatch.setattr(shadow_watcher, "_MOST_POLLS", 24 + 3)
    assert [run.poll()["WaitSeconds"] for _ in range(5)] == [1, 1, 1, 300, 300]
    assert len(looks) == 5
    run.clock = 7300
    run.end()
    assert run.report["outcome"] == "not decided"


def test_a_poll_reads_on_while_there_is_more(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([True, True, False])
    monkeypatch.setattr(shadow_watcher.Observer, "observe", lambda self, now, until: next(looks))
    assert run.poll()["WaitSeconds"] == 300
    assert not list(looks)


@pytest.mark.parametrize(("duration", "seconds"), [(3600, 180), (7200, 300), (86_400, 300), (2_592_000, 3702)])
def test_a_run_polls_20_times_at_least_and_at_most_700_times(run: Run, duration: int, seconds: int) -> None:
    run.request["DurationSeconds"] = duration
    assert run.poll() == {"Done": False, "WaitSeconds": seconds}


def test_the_last_polls_come_with_the_end_of_the_run(run: Run) -> None:
    run.poll()
    for clock, least, most in ((7100, 60, 100), (7199, 5, 5)):
        run.clock = clock
        assert least <= run.poll()["WaitSeconds"] <= most


@pytest.mark.parametrize(("duration", "grace"), [(3600, 600), (14_400, 1440)])
def test_what_waits_at_the_end_is_read_for_a_tenth_of_the_run_or_ten_minutes(
    run: Run, monkeypatch: pytest.MonkeyPatch, duration: int, grace: int
) -> None:
    monkeypatch.setattr(shadow_watcher.Observer, "observe", lambda self, now, until: True)
    monkeypatch.setattr(shadow_watcher, "_READING_SECONDS", 0)
    moved = moves(monkeypatch)
    run.request["DurationSeconds"] = duration
    run.poll()
    run.clock = duration + grace - 60
    assert run.poll() == {"Done": False, "WaitSeconds": 1}
    assert not moved
    run.clock = duration + grace
    assert run.poll() == later(30)
    assert moved == [f"{run.name}-ended"]


def test_a_run_that_ends_undecided_writes_it_tells_it_and_keeps_the_number_of_instances(
    run: Run, cloud: LocalCloud
) -> None:
    topic = cloud.client("sns").create_topic(Name=run.name)["TopicArn"]
    notifications, requests = Notifications.of(cloud, topic), list[dict[str, Any]]()
    run.request["TopicArn"] = topic
    run.poll()
    before = content(run.records, RUN, run.run)
    run.ask(2)
    run.clock = 7300
    events, name = aws.client("sagemaker").meta.events, "provide-client-params.sagemaker.UpdateEndpoint"

    def record(params: dict[str, Any], **_: Any) -> None:
        requests.append(dict(params))

    events.register(name, record)
    earliest = shadow_watcher.time.time()
    try:
        assert run.poll() == later(30)
    finally:
        events.unregister(name, record)
    assert requests == [
        {
            "EndpointName": run.name,
            "EndpointConfigName": f"{run.name}-ended",
            "RetainAllVariantProperties": True,
            "RetainDeploymentConfig": True,
        }
    ]
    decision = content(run.records, CURRENT) or {}
    since = decision.pop("since")
    assert int(earliest) <= since <= shadow_watcher.time.time()
    expected = {"schema": 1, "outcome": "not decided", "run": run.run, "promotion_failed": False}
    assert decision == {**expected, "ending": run.run}
    assert content(run.records, RESULT, run.run) == run.report
    stored = content(run.records, RUN, run.run) or {}
    assert stored.pop("observed")["pairs"] == 2
    assert stored.pop("minute") % 60 == 0
    assert before is not None
    del before["observed"], before["minute"]
    # Ending the shadow needs no places of captures.
    unread: dict[str, Any] = {"hour": "", "read": [], "waiting": []}
    assert stored == {**before, "phase": "ending", "updates": 1, "production": unread, "candidate": unread}
    [message] = notifications.received()
    folder = f"s3://{BUCKET}/shadows/{run.records.key}/runs/{run.run}"
    assert message["Subject"] == f"Shadow of {run.name}: not decided"
    assert message["Message"] == f"{run.report['reason']}. Report: {folder}/report.md"
    settled(run.sagemaker, run.name)
    assert run.poll() == {"Done": True}
    assert content(run.records, CURRENT) == {**expected, "ending": None, "since": since}


def test_a_promotion_is_tried_again_by_a_later_run_of_a_candidate_that_has_passed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.request["PromotedConfigName"] = f"{run.name}-promoted"
    earlier = {"outcome": "pass", "run": "0" * 16, "promotion_failed": True}
    run.records.write(CURRENT, earlier)
    moved, earliest = moves(monkeypatch), shadow_watcher.time.time()
    assert run.poll() == later(30)
    assert moved == [f"{run.name}-promoted"]
    decision = content(run.records, CURRENT) or {}
    assert int(earliest) <= decision.pop("since") <= shadow_watcher.time.time()
    assert decision == {"schema": 1, **earlier, "ending": run.run, "promotion_failed": False}


@pytest.mark.parametrize(("age", "takes_over"), [(86_300, False), (86_500, True)])
def test_an_execution_that_has_not_ended_a_shadow_for_a_day_is_taken_for_dead(
    run: Run, deployed: list[str], monkeypatch: pytest.MonkeyPatch, age: int, *, takes_over: bool
) -> None:
    moved, now = moves(monkeypatch), shadow_watcher.time.time()
    earlier = {"outcome": "worse", "run": "0" * 16, "ending": SECOND, "since": now - age, "promotion_failed": False}
    run.records.write(CURRENT, earlier)
    assert run.came_into_service(FIRST) == (later(30) if takes_over else {"Done": True})
    assert moved == ([f"{run.name}-ended"] if takes_over else [])
    decision = content(run.records, CURRENT) or {}
    if takes_over:
        assert int(now) <= decision["since"] <= shadow_watcher.time.time()
        earlier |= {"ending": FIRST, "since": decision["since"]}
    assert decision == {"schema": 1, **earlier}


@pytest.mark.parametrize("status", ["DELETE_COMPLETE", "DELETE_FAILED", None])
def test_an_event_of_a_stack_that_is_deleted_leaves_its_shadow(
    run: Run, monkeypatch: pytest.MonkeyPatch, status: str | None
) -> None:
    moved = moves(monkeypatch)
    monkeypatch.setattr(shadow_watcher, "stack_status", lambda stack_id: status)
    run.records.write(CURRENT, {"outcome": "worse", "run": "0" * 16})
    assert run.came_into_service(FIRST) == {"Done": True}
    assert not moved
    assert not (content(run.records, CURRENT) or {}).get("ending")


@pytest.mark.parametrize("changed", [{}, {"Margin": 0.2}], ids=["same_candidate", "other_criteria"])
def test_an_update_gives_up_the_run_before_it_and_not_its_own(run: Run, changed: dict[str, Any]) -> None:
    shadow_handler.handler(run.event("Create", "first"), LambdaContext(120))
    earlier, key = run.records, run.responses.received[-1]["PhysicalResourceId"]
    run.request |= changed
    update = run.event("Update", "second", PhysicalResourceId=key)
    shadow_handler.handler(update, LambdaContext(120))
    issued = issued_at(update["ResponseURL"])
    assert run.responses.received[-1]["Status"] == "SUCCESS"
    assert (run.records.key == earlier.key) is not changed
    assert earlier.is_given_up(issued - 1)
    assert not run.records.is_given_up(issued)


@pytest.mark.parametrize(
    ("outcome", "of_this_request", "stays"),
    [
        ("not decided", True, True),
        ("not decided", False, False),
        ("observing", False, False),
        ("worse", False, True),
        ("pass", False, True),
    ],
)
def test_a_request_begins_a_run_unless_it_has_done_so_before_or_the_candidate_has_a_verdict(
    run: Run, outcome: str, *, of_this_request: bool, stays: bool
) -> None:
    event = run.event("Create", "first")
    own = run_of(event["StackId"], event["RequestId"])
    before = {"outcome": outcome, "run": own if of_this_request else "0" * 16}
    run.records.write(CURRENT, before)
    shadow_handler.handler(event, LambdaContext(120))
    current = content(run.records, CURRENT) or {}
    expected = before if stays else {"outcome": "observing", "run": own}
    assert {name: current[name] for name in expected} == expected


@pytest.mark.parametrize(("code", "status"), [("NoSuchBucket", "SUCCESS"), ("AccessDenied", "FAILED")])
def test_a_run_is_deleted_without_its_store_but_not_while_the_store_cannot_be_reached(
    run: Run, monkeypatch: pytest.MonkeyPatch, code: str, status: str
) -> None:
    monkeypatch.setattr(shadow_handler, "RunRecords", NoBucket if code == "NoSuchBucket" else NoStore)
    shadow_handler.handler(run.event("Delete", "last", PhysicalResourceId="a" * 64), LambdaContext(120))
    response = run.responses.received[-1]
    assert (response["Status"], code in response["Reason"]) == (status, status == "FAILED")


@pytest.mark.parametrize("is_known", [True, False])
def test_a_deletion_gives_up_the_runs_that_were_requested_before_it(run: Run, *, is_known: bool) -> None:
    key = "c" * 64 if is_known else run.records.key
    physical_id = key if is_known else "not-created-first"
    deletion = run.event("Delete", "last", PhysicalResourceId=physical_id)
    shadow_handler.handler(deletion, LambdaContext(120))
    assert run.responses.received[-1]["Status"] == "SUCCESS"
    issued = issued_at(deletion["ResponseURL"])
    records = RunRecords(run.cloud.client("s3"), "shadows", BUCKET, None, key)
    assert records.is_given_up(issued)
    assert not records.is_given_up(issued + 1)
    assert run.records.is_given_up(issued) is not is_known


def serves(run: Run, monkeypatch: pytest.MonkeyPatch, status: str, ending: str = "shadow") -> None:
    """The endpoint has this status and configuration from now on."""
    endpoint = {"EndpointStatus": status, "EndpointConfigName": f"{run.name}-{ending}"}
    monkeypatch.setattr(shadow_watcher, "_endpoint", lambda request: endpoint)


CHANGING = ["Creating", "Updating", "SystemUpdating", "RollingBack"]


@pytest.mark.parametrize("status", one_in(2, CHANGING))
def test_a_shadow_is_not_ended_while_its_endpoint_changes(
    run: Run, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    moved = moves(monkeypatch)
    run.records.write(CURRENT, {"outcome": "worse", "run": "0" * 16})
    serves(run, monkeypatch, status)
    assert run.poll() == later(30)
    with monkeypatch.context() as patched:
        patched.setattr(shadow_watcher, "RunRecords", NoBucket)
        # The number of updates so far is only in the output.
        assert run.poll(Look={"Updates": 2}) == later(30) | {"Updates": 2}
    assert not moved


@pytest.mark.parametrize(
    ("status", "waits"),
    [
        ("Creating", True),
        ("Updating", True),
        ("SystemUpdating", True),
        ("RollingBack", False),
        ("InService", False),
        ("Failed", False),
    ],
)
def test_a_run_waits_for_the_configuration_to_which_the_endpoint_is_updated(
    run: Run, monkeypatch: pytest.MonkeyPatch, status: str, *, waits: bool
) -> None:
    serves(run, monkeypatch, status, "ended")
    assert run.poll() == (later(30) if waits else {"Done": True})
    assert (content(run.records, RESULT) is None) is waits


def test_a_run_without_the_answers_that_it_compares_with_ends_the_shadow(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = moves(monkeypatch)
    run.request["Checks"] = [{"Kind": "reference", "Reference": f"s3://{BUCKET}/None-of-these.jsonl"}]
    assert run.poll() == later(30)
    assert moved == [f"{run.name}-ended"]
    said = f"The object s3://{BUCKET}/None-of-these.jsonl with the reference answers does not exist"
    assert (run.report["outcome"], run.report["reason"]) == ("not decided", said)


def test_a_run_that_ends_after_its_verdict_was_lost_leaves_the_candidate_undecided(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.records.write(RUN, RunState(began=0, minute=0, phase="ending").model_dump(), run.run)
    monkeypatch.setattr(shadow_watcher, "_endpoint", lambda request: None)
    assert run.poll() == {"Done": True}
    current = content(run.records, CURRENT) or {}
    assert (current["outcome"], current["run"], current.get("ending")) == ("not decided", run.run, None)


@pytest.mark.parametrize("module", [shadow_watcher, restart_watcher])
@pytest.mark.parametrize(
    ("code", "message", "is_gone"),
    [
        ("ValidationException", 'Could not find endpoint "chat".', True),
        ("ValidationException", "1 validation error detected", False),
        ("ThrottlingException", "Could not find the time", False),
    ],
)
def test_only_an_endpoint_that_sagemaker_does_not_know_is_gone(
    monkeypatch: pytest.MonkeyPatch, module: Any, code: str, message: str, *, is_gone: bool
) -> None:
    sagemaker = Mock()
    sagemaker.describe_endpoint.side_effect = ClientError({"Error": {"Code": code, "Message": message}}, "Describe")
    monkeypatch.setattr(module, "client", lambda name: sagemaker)
    if is_gone:
        assert module._endpoint(Mock()) is None
    else:
        with pytest.raises(ClientError, match=message):
            module._endpoint(Mock())
