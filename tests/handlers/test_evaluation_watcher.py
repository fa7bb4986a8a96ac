"""Evaluations against the local cloud: polls that die, are retried, or are overtaken by the deletion of their stack.

The tests play the parts of the state machine and of CloudFormation, to send polls and requests in rare orders.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.runtime import aws, custom_resource
from constructs_optim.runtime.custom_resource import issued_at
from constructs_optim.runtime.evaluation import acceptance
from constructs_optim.runtime.evaluation.repetitions import MOST_MEASUREMENTS
from constructs_optim.runtime.evaluation.samples import samples_of
from constructs_optim.runtime.handlers import evaluation_handler, evaluation_watcher
from constructs_optim.runtime.jobs.sagemaker_jobs import SageMakerJobs
from constructs_optim.runtime.store.run_records import CURRENT, REQUESTS, RESULT, RUN, run_job_name, run_of
from constructs_optim_local.cloud import LocalCloud

from ..support.evaluations import Evaluation
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, Responses, idle_state_machine
from ..support.run_files import content
from ..support.sampling import one_in
from ..support.waiting import until


class Died(BaseException):
    """A function's process that ends at once: nothing it would still do happens."""


@pytest.fixture(scope="module")
def machine(cloud: LocalCloud) -> str:
    return idle_state_machine(cloud, "evaluation-watcher")


@pytest.fixture
def evaluation(
    cloud: LocalCloud, responses: Responses, machine: str, evaluated_endpoint: None, monkeypatch: pytest.MonkeyPatch
) -> Evaluation:
    monkeypatch.setattr(custom_resource, "_may_be_too_early", lambda error: False)
    return Evaluation(cloud, responses, machine)


@pytest.fixture
def after_call(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """Runs an action right after the n-th call to AWS that a function makes from now on."""
    plan: dict[int, Callable[[], None]] = {}
    made = count()
    session = inspect.unwrap(aws.session)()

    def called(**_: Any) -> None:
        if act := plan.pop(next(made), None):
            act()

    session.get_component("event_emitter").register_first("after-call", called)
    monkeypatch.setattr(aws, "session", lambda: session)

    def arm(number: int, act: Callable[[], None]) -> None:
        nonlocal made
        made = count()
        plan[number] = act

    return arm


def die() -> None:
    raise Died


def test_an_evaluation_ends_with_a_result_a_report_and_a_decision(evaluation: Evaluation) -> None:
    signal = evaluation.poll_to_the_end()
    assert signal["Status"] == "SUCCESS"
    result = content(evaluation.records, RESULT)
    assert result is not None
    assert result["subject"]["endpoint_name"] == evaluation.name
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert (decision["accepted"], decision["run"]) == (True, evaluation.run)
    for users, sample in samples_of(content(evaluation.records, REQUESTS, evaluation.run) or {}):
        (level,) = [level for level in result["levels"] if level["concurrency"] == users]
        assert sample.drawn()["time_to_first_token_p50"] == pytest.approx(level["metrics"]["time_to_first_token_p50"])


def test_an_evaluation_creates_a_job_and_writes_a_decision_as_its_request_says(
    evaluation: Evaluation, cloud: LocalCloud
) -> None:
    evaluation.request |= {"Lossless": True, "Tags": [{"Key": "team", "Value": "chat"}]}
    assert evaluation.poll() == {"Done": False, "WaitSeconds": 5}
    name = run_job_name(evaluation.records.key, evaluation.run)
    assert cloud.calls("CreateAIBenchmarkJob")[-1]["request"] == {
        "AIBenchmarkJobName": name,
        "BenchmarkTarget": {"Endpoint": {"Identifier": evaluation.name}},
        "OutputConfig": {
            "S3OutputLocation": f"s3://{BUCKET}/evaluations/{evaluation.records.key}/runs/{evaluation.run}/output/"
        },
        "AIWorkloadConfigIdentifier": evaluation.workload,
        "RoleArn": evaluation.request["RoleArn"],
        "Tags": [{"Key": "team", "Value": "chat"}],
    }
    assert content(evaluation.records, RUN, evaluation.run) == {"schema": 1, "job_name": name}
    evaluation.poll_to_the_end()
    assert content(evaluation.records, CURRENT) == {
        "schema": 1,
        "run": evaluation.run,
        "accepted": True,
        "runs": [evaluation.run],
        "before": None,
        "lossless": True,
        "misses": [],
        "undecided": [],
    }


def test_a_scheduled_run_becomes_the_current_result_and_keeps_the_decision(evaluation: Evaluation) -> None:
    evaluation.poll_to_the_end(Before="b" * 64)
    decided = content(evaluation.records, CURRENT)
    evaluation.run = "scheduled"
    until(lambda: evaluation.poll(WaitHandle=None), lambda output: output["Done"])
    runs = [*(decided or {})["runs"], "scheduled"]
    assert content(evaluation.records, CURRENT) == {**(decided or {}), "run": "scheduled", "runs": runs}


@pytest.mark.parametrize("step", one_in(3, [1, 3, 4, 5, 6, 9, 12, 15, 17]))
def test_an_interrupted_poll_is_recovered_by_the_next_one(
    evaluation: Evaluation, after_call: Callable[[int, Callable[[], None]], None], step: int
) -> None:
    after_call(step, die)
    with pytest.raises(Died):
        evaluation.poll_to_the_end()
    assert evaluation.poll_to_the_end()["Status"] == "SUCCESS"
    jobs = evaluation.sagemaker.list_ai_benchmark_jobs(NameContains=evaluation.records.key[:20])["AIBenchmarkJobs"]
    assert len(jobs) == 1


def test_a_benchmark_job_created_after_its_evaluation_was_abandoned_is_stopped(
    evaluation: Evaluation, after_call: Callable[[int, Callable[[], None]], None], cloud: LocalCloud
) -> None:
    cloud.inject("benchmark_never_finishes")
    # Calls: given up? result? job? run.json; then the stack is deleted, and only then the job is created.
    after_call(3, lambda: evaluation.records.give_up(2000))
    evaluation.poll(issued=1000)
    assert evaluation.job["AIBenchmarkJobStatus"] in ("Stopping", "Stopped")


def test_an_abandoned_evaluation_starts_no_run_until_it_is_requested_again(evaluation: Evaluation) -> None:
    evaluation.records.give_up(2000)
    assert evaluation.poll(issued=1000)["Done"]
    assert evaluation.records.runs() == []
    assert not evaluation.poll(issued=3000)["Done"], "a later request starts it again"


def test_an_event_delivered_twice_starts_one_execution(evaluation: Evaluation, cloud: LocalCloud) -> None:
    event = evaluation.event("Create", "request-1")
    for _ in range(2):
        evaluation_handler.handler(event, LambdaContext(30))
    first, second = evaluation.responses.received
    assert first["Status"] == second["Status"] == "SUCCESS"
    assert first["PhysicalResourceId"] == second["PhysicalResourceId"] == evaluation.records.key
    listed = cloud.client("stepfunctions").list_executions(stateMachineArn=evaluation.machine)["executions"]
    assert len([each for each in listed if each["name"].startswith(evaluation.records.key[:32])]) == 1


@pytest.mark.parametrize("before", ["b" * 64, None, "not-created-first"])
def test_an_execution_is_told_what_to_measure_and_which_version_it_replaces(
    evaluation: Evaluation, cloud: LocalCloud, before: str | None
) -> None:
    event = evaluation.event("Update", "request-1", **({"PhysicalResourceId": before} if before else {}))
    evaluation_handler.handler(event, LambdaContext(30))
    assert evaluation.responses.received[-1]["Data"] == {
        "EvaluationKey": evaluation.records.key,
        "ResultUri": f"s3://{BUCKET}/evaluations/{evaluation.records.key}/result.json",
    }
    states = cloud.client("stepfunctions")
    listed = states.list_executions(stateMachineArn=evaluation.machine)["executions"]
    [execution] = [each for each in listed if each["name"].startswith(evaluation.records.key[:32])]
    run = run_of(event["StackId"], "request-1")
    assert execution["name"] == f"{evaluation.records.key[:32]}-{run}"
    assert json.loads(states.describe_execution(executionArn=execution["executionArn"])["input"]) == {
        "Request": evaluation.request,
        "Run": run,
        "Issued": issued_at(event["ResponseURL"]),
        "Before": before if before == "b" * 64 else None,
        "Deadline": None,
        "WaitHandle": None,
    }


def test_an_accepted_endpoint_is_not_measured_again(evaluation: Evaluation, cloud: LocalCloud) -> None:
    evaluation.poll_to_the_end()
    event = evaluation.event("Update", "request-2", PhysicalResourceId=evaluation.records.key)
    evaluation_handler.handler(event, LambdaContext(30))
    assert evaluation.responses.received[-1]["Status"] == "SUCCESS"
    listed = cloud.client("stepfunctions").list_executions(stateMachineArn=evaluation.machine)["executions"]
    assert not [each for each in listed if each["name"].startswith(evaluation.records.key[:32])]


@pytest.mark.parametrize(("beyond", "status"), [(100.0, "SUCCESS"), (1e-6, "FAILURE")])
def test_a_stack_that_waits_for_an_accepted_endpoint_gets_the_verdict_on_its_own_requirements(
    evaluation: Evaluation, cloud: LocalCloud, beyond: float, status: str
) -> None:
    evaluation.poll_to_the_end()
    (level,) = (content(evaluation.records, RESULT) or {})["levels"]
    limit = {
        "Formula": "client_latency_p50",
        "Title": "latency",
        "AtMost": beyond * level["metrics"]["client_latency_p50"],
    }
    evaluation.request["Gate"] = {"Limits": [limit]}
    event = evaluation.event("Update", "request-4", PhysicalResourceId=evaluation.records.key)
    event["ResourceProperties"] |= {"WaitHandle": f"{evaluation.responses.url}handle"}
    received = len(evaluation.responses.received)
    evaluation_handler.handler(event, LambdaContext(30))
    signal, response = evaluation.responses.received[received:]
    assert response["Status"] == "SUCCESS"
    assert (signal["Status"], signal["Data"]) == (status, evaluation.records.key)
    assert ("does not meet its requirements" in signal["Reason"]) is (status == "FAILURE")
    listed = cloud.client("stepfunctions").list_executions(stateMachineArn=evaluation.machine)["executions"]
    assert not [each for each in listed if each["name"].startswith(evaluation.records.key[:32])]


def test_a_result_waits_for_the_completions_that_one_poll_cannot_make(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def completed(request: object, records: object, run: str, context: object) -> bool:
        made.append(run)
        return len(made) > 2

    monkeypatch.setattr(evaluation_watcher, "complete_prompts", completed)
    for number in (1, 2):
        output = until(evaluation.poll, lambda _, number=number: len(made) == number)
        assert output == {"Done": False, "WaitSeconds": 1}
        assert content(evaluation.records, RESULT) is None
    assert evaluation.poll_to_the_end()["Status"] == "SUCCESS"
    assert made == [evaluation.run] * 3
    assert content(evaluation.records, RESULT) is not None


def test_deleting_an_evaluation_waits_until_its_benchmark_has_stopped(
    evaluation: Evaluation, cloud: LocalCloud
) -> None:
    cloud.inject("benchmark_never_finishes")
    evaluation.poll(issued=0)
    event = evaluation.event("Delete", "request-3", PhysicalResourceId=evaluation.records.key)
    evaluation_handler.handler(event, LambdaContext(30))
    assert evaluation.responses.received[-1]["Status"] == "SUCCESS"
    assert evaluation.job["AIBenchmarkJobStatus"] == "Stopped"


def test_an_account_without_access_to_benchmarks_gets_the_next_step_in_the_failure(
    evaluation: Evaluation, cloud: LocalCloud
) -> None:
    cloud.inject("access_denied", operation="CreateAIBenchmarkJob")
    signal = evaluation.poll_to_the_end()
    assert signal["Status"] == "FAILURE"
    assert "CreateAIBenchmarkJob failed with AccessDeniedException: " in signal["Reason"]
    assert "Next: ask your account team or AWS Support" in signal["Reason"]


def test_an_evaluation_of_an_instance_type_without_a_price_has_a_note_and_no_prices(
    evaluation: Evaluation, cloud: LocalCloud
) -> None:
    evaluation.request["Subjects"][0]["InstanceType"] = "ml.g5.unheard"
    assert evaluation.poll_to_the_end()["Status"] == "SUCCESS"
    result = content(evaluation.records, RESULT)
    assert result is not None
    assert "price" not in result
    assert "price_per_million_output_tokens" not in result["levels"][0]["metrics"]
    assert "The price of ml.g5.unheard is unknown" in result["notes"][0]


def test_a_failed_benchmark_fails_the_deployment_with_its_reason(evaluation: Evaluation, cloud: LocalCloud) -> None:
    cloud.inject("benchmark_fails", reason="the tokenizer is not to be had")
    signal = evaluation.poll_to_the_end()
    assert signal["Status"] == "FAILURE"
    assert "ended as Failed: the tokenizer is not to be had" in signal["Reason"]


def test_an_endpoint_beyond_a_gate_limit_fails_the_deployment_without_a_baseline(
    evaluation: Evaluation, cloud: LocalCloud
) -> None:
    evaluation.request["Gate"] = {
        "Limits": [{"Formula": "time_to_first_token_p99", "Title": "TTFT, p99", "Unit": "ms", "AtMost": "2000"}]
    }
    cloud.set_performance(evaluation.name, ttft_ms=5000)
    signal = evaluation.poll_to_the_end()
    assert signal["Status"] == "FAILURE"
    assert "TTFT, p99 at 2 users is" in signal["Reason"]
    assert "above the maximum of 2,000 ms" in signal["Reason"]
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert not decision["accepted"]


def limited(evaluation: Evaluation, cloud: LocalCloud, *, beyond: float) -> None:
    """A limit that the median time to first token, which is the same in every measurement, is a little beyond."""
    cloud.set_performance(evaluation.name, ttft_ms=500, contention=0)
    evaluation.request["Gate"] = {
        "Limits": [{"Formula": "time_to_first_token_p50", "Title": "TTFT", "Unit": "ms", "AtMost": str(500 / beyond)}]
    }


def jobs_of(evaluation: Evaluation) -> list[str]:
    listed = evaluation.sagemaker.list_ai_benchmark_jobs(NameContains=evaluation.records.key[:20])
    return [job["AIBenchmarkJobName"] for job in listed["AIBenchmarkJobs"]]


def report_of(evaluation: Evaluation) -> str:
    key = f"evaluations/{evaluation.records.key}/runs/{evaluation.run}/report.md"
    return evaluation.cloud.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read().decode()


def soon() -> int:
    return int(time.time()) + 3600


def test_a_limit_that_one_measurement_does_not_decide_is_measured_again(
    evaluation: Evaluation, cloud: LocalCloud
) -> None:
    limited(evaluation, cloud, beyond=1.1)
    assert evaluation.poll_to_the_end(Deadline=soon())["Status"] == "FAILURE"
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert len(decision["runs"]) == len(jobs_of(evaluation)) > 1
    assert decision["runs"][0] == evaluation.run
    assert f"- The verdict is that on {len(decision['runs'])} measurements together." in report_of(evaluation)


def test_what_all_measurements_leave_undecided_is_accepted_and_told(evaluation: Evaluation, cloud: LocalCloud) -> None:
    limited(evaluation, cloud, beyond=1.05)
    assert evaluation.poll_to_the_end(Deadline=soon())["Status"] == "SUCCESS"
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert (decision["accepted"], len(decision["undecided"])) == (True, 1)
    assert 1 < len(jobs_of(evaluation)) <= MOST_MEASUREMENTS
    assert "- Not decided: TTFT at 2 users is" in report_of(evaluation)


@pytest.mark.parametrize("step", one_in(3, [1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34]))
def test_an_interrupted_repetition_is_recovered_by_the_next_poll(
    evaluation: Evaluation, cloud: LocalCloud, after_call: Callable[[int, Callable[[], None]], None], step: int
) -> None:
    limited(evaluation, cloud, beyond=1.1)
    evaluation.poll(Deadline=soon())
    until(lambda: evaluation.job["AIBenchmarkJobStatus"], lambda status: status == "Completed")
    after_call(step, die)
    with pytest.raises(Died):
        evaluation.poll_to_the_end(Deadline=soon())
    assert evaluation.poll_to_the_end(Deadline=soon())["Status"] == "FAILURE"
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert len(decision["runs"]) == len(jobs_of(evaluation)) == 2


@pytest.mark.parametrize("more", [{"Deadline": None}, {"Deadline": 2}, {"WaitHandle": None}])
def test_nothing_is_measured_again_for_which_no_stack_waits_long_enough(
    evaluation: Evaluation, cloud: LocalCloud, more: dict[str, Any]
) -> None:
    limited(evaluation, cloud, beyond=1.1)
    until(lambda: evaluation.poll(**more), lambda output: output["Done"])
    assert len(jobs_of(evaluation)) == 1
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert decision["accepted"]


def begin_repetition(evaluation: Evaluation, cloud: LocalCloud) -> None:
    """Poll until the second benchmark runs, which never ends."""
    limited(evaluation, cloud, beyond=1.1)

    evaluation.poll(Deadline=soon())
    until(lambda: evaluation.job["AIBenchmarkJobStatus"], lambda status: status == "Completed")
    cloud.inject("benchmark_never_finishes")
    until(lambda: (evaluation.poll(Deadline=soon()), len(jobs_of(evaluation)))[1], lambda count: count == 2)


@pytest.mark.parametrize(
    "more",
    [
        {"Deadline": 1},
        {"Deadline": int(time.time()) + 120},
        {"Deadline": int(time.time()) + 36_000, "Error": {"Error": "ClientError", "Cause": "throttled"}},
    ],
    ids=["past", "soon", "polls keep failing"],
)
def test_a_stack_that_cannot_wait_for_a_repetition_gets_the_verdict_on_what_was_measured(
    evaluation: Evaluation, cloud: LocalCloud, more: dict[str, Any]
) -> None:
    begin_repetition(evaluation, cloud)
    assert evaluation.poll(**more)["Done"]
    assert evaluation.responses.received[-1]["Status"] == "SUCCESS"
    (repetition,) = set(jobs_of(evaluation)) - {run_job_name(evaluation.records.key, evaluation.run)}
    job = evaluation.sagemaker.describe_ai_benchmark_job(AIBenchmarkJobName=repetition)
    assert job["AIBenchmarkJobStatus"] in ("Stopping", "Stopped")
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert decision["runs"] == [evaluation.run]
    assert decision["undecided"][0].endswith("; another measurement, which was to decide it, failed or took too long")


def test_a_repetition_that_cannot_be_stopped_is_left_out_of_the_verdict(
    evaluation: Evaluation, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_repetition(evaluation, cloud)
    # As botocore raises it after its retries, which take a minute.
    throttled = ClientError(
        {"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "StopAIBenchmarkJob"
    )
    monkeypatch.setattr(SageMakerJobs, "stop", Mock(side_effect=throttled))
    assert evaluation.poll(Deadline=1)["Done"]
    assert evaluation.responses.received[-1]["Status"] == "SUCCESS"


def test_a_repetition_that_fails_is_left_out_of_the_verdict(evaluation: Evaluation, cloud: LocalCloud) -> None:
    limited(evaluation, cloud, beyond=1.1)
    evaluation.poll(Deadline=soon())
    until(lambda: evaluation.job["AIBenchmarkJobStatus"], lambda status: status == "Completed")
    cloud.inject("benchmark_fails", reason="out of memory")
    assert evaluation.poll_to_the_end(Deadline=soon())["Status"] == "SUCCESS"
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert decision["runs"] == [evaluation.run]


def test_deleting_an_evaluation_stops_its_repetition(evaluation: Evaluation, cloud: LocalCloud) -> None:
    begin_repetition(evaluation, cloud)
    event = evaluation.event("Delete", "request-4", PhysicalResourceId=evaluation.records.key)
    evaluation_handler.handler(event, LambdaContext(30))
    for name in jobs_of(evaluation):
        job = evaluation.sagemaker.describe_ai_benchmark_job(AIBenchmarkJobName=name)
        assert job["AIBenchmarkJobStatus"] in ("Completed", "Stopped")
    assert evaluation.poll(Deadline=soon())["Done"]


def test_scheduled_runs_become_the_known_runs_of_a_version(evaluation: Evaluation) -> None:
    evaluation.poll_to_the_end()
    deployed = evaluation.run
    for night in ("first-night", "second-night"):
        evaluation.run = night
        until(lambda: evaluation.poll(WaitHandle=None), lambda output: output["Done"])
    # As after an interruption.
    evaluation.poll(WaitHandle=None)
    decision = content(evaluation.records, CURRENT)
    assert decision is not None
    assert (decision["run"], decision["runs"]) == ("second-night", [deployed, "first-night", "second-night"])


def test_a_benchmark_without_output_fails_the_deployment(evaluation: Evaluation, cloud: LocalCloud) -> None:
    cloud.inject("benchmark_writes_nothing")
    signal = evaluation.poll_to_the_end()
    assert signal["Status"] == "FAILURE"
    assert "wrote nothing to s3://" in signal["Reason"]


def test_a_stack_past_the_deadline_of_its_evaluation_gets_the_reason(evaluation: Evaluation, cloud: LocalCloud) -> None:
    cloud.inject("benchmark_never_finishes")
    evaluation.poll()
    assert not evaluation.poll(Deadline=1)["Done"]
    assert "is still InProgress after" in evaluation.responses.received[-1]["Reason"]


SPECULATING = {
    "Length": '1 + sum(rate(accepted_total{"aws.sagemaker.endpoint.name"="evaluated"}[$window])) / '
    'sum(rate(drafts_total{"aws.sagemaker.endpoint.name"="evaluated"}[$window]))',
    "Drafts": 'sum(rate(drafts_total{"aws.sagemaker.endpoint.name"="evaluated"}[$window]))',
}


def test_an_evaluation_of_drafts_measures_their_acceptance(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "_LATE_SECONDS", 0)
    evaluation.cloud.client("cloudwatch").start_otel_enrichment()
    for minute in range(-30, 31):
        # Ten drafts a second, of which 2.2 tokens each are accepted.
        count = 600 * (minute + 31)
        text = f"drafts_total {count}\naccepted_total {2.2 * count}\n"
        evaluation.cloud.collect_engine_metrics(text, endpoint=evaluation.name, seconds_ago=-60 * minute)
    evaluation.request["Acceptance"] = SPECULATING
    assert evaluation.poll_to_the_end()["Status"] == "SUCCESS"
    result = content(evaluation.records, RESULT)
    assert result is not None
    [level] = result["levels"]
    assert level["metrics"]["acceptance_length"] == pytest.approx(3.2)
    assert level["metrics"]["drafts"] == pytest.approx(10 * (level["seconds"] + 120), rel=0.05)
    # recipe/evaluation/result.py reads it.
    assert EvaluationResult.model_validate(result).levels[0].metrics["acceptance_length"] == pytest.approx(3.2)
    s3 = evaluation.cloud.client("s3")
    key = f"evaluations/{evaluation.records.key}/runs/{evaluation.run}/report.md"
    report = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode()
    assert "| acceptance length | drafts |" in report
    published = evaluation.cloud.client("cloudwatch").list_metrics(
        Namespace="ConstructsOptim/Evaluation", MetricName="AcceptanceLength"
    )["Metrics"]
    assert {"Name": "EndpointName", "Value": evaluation.name} in published[0]["Dimensions"]


def test_an_evaluation_reports_that_its_metrics_were_not_published(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "_LATE_SECONDS", 0)
    evaluation.request["Acceptance"] = {"Length": "absent"}
    assert evaluation.poll_to_the_end()["Status"] == "SUCCESS"
    result = content(evaluation.records, RESULT)
    assert result is not None
    assert "acceptance_length" not in result["levels"][0]["metrics"]
    (note,) = [note for note in result["notes"] if "acceptance length" in note]
    assert note.startswith("CloudWatch has no acceptance length for the time with 2 users.")
    assert "aws cloudwatch get-otel-enrichment" in note


def test_a_query_that_is_refused_is_a_note_too(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "_LATE_SECONDS", 0)
    evaluation.request["Acceptance"] = {"Length": "sum(drafts"}
    assert evaluation.poll_to_the_end()["Status"] == "SUCCESS"
    result = content(evaluation.records, RESULT)
    assert result is not None
    assert any("no acceptance length" in note for note in result["notes"])


def test_the_watcher_waits_until_the_last_metrics_are_published(evaluation: Evaluation) -> None:
    evaluation.request["Acceptance"] = SPECULATING
    output = until(evaluation.poll, lambda found: found["WaitSeconds"] > 60)
    assert not output["Done"]
    assert 60 < output["WaitSeconds"] <= 180


@pytest.mark.parametrize(
    ("component", "more"), [(None, {}), ("chat", {"InferenceComponents": [{"Identifier": "chat"}]})]
)
def test_a_benchmark_of_a_component_sends_its_requests_to_it(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch, component: str | None, more: dict[str, Any]
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(evaluation_watcher, "create_run", lambda jobs, records, job, issued, **_: asked.append(job))
    evaluation.request["InferenceComponentName"] = component
    assert evaluation.poll() == {**evaluation.poll(), "Done": False}
    assert [job["BenchmarkTarget"] for job in asked] == [{"Endpoint": {"Identifier": evaluation.name, **more}}] * 2
