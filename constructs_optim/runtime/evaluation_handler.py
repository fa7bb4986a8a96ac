"""``Custom::EndpointEvaluation``: have what an endpoint serves now evaluated, and tell the stack whether it may stay.

Create and Update end within seconds: a state machine watches the benchmark job, reads what it measured and signals the
stack's wait condition, where the deployment depends on it. The physical id is the evaluation's key, which changes with
what is served: an update knows by it what is replaced, and its rollback finds the old evaluation as it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

from .cloudformation import issued_at, signal
from .custom_resource import CLIENT, answer
from .evaluation_properties import EvaluationProperties, EvaluationRequest, parse_evaluation_properties
from .evaluation_records import EvaluationRecords, benchmark_name, run_of
from .evaluation_verdict import Verdict
from .properties import is_artifact_key
from .sagemaker_jobs import BENCHMARK, SageMakerJobs
from .telemetry import entry_point, log
from .watching import deadline

# A function has 180 seconds.
_PATIENCE_SECONDS, _COMING_SECONDS = 120, 10


@entry_point
def handler(event: Mapping[str, Any], context: object) -> None:
    """Entry point. Whatever happens, CloudFormation gets an answer."""
    answer(event, context, ensure=_ensure, delete=_delete)


def _ensure(event: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    wanted = parse_evaluation_properties(event["ResourceProperties"])
    request = wanted.request
    key = request.key(*_place(event))
    records = _records(request, key)
    decision = records.current()
    if decision is not None and decision["accepted"]:
        # What is served now was evaluated before: an update back to it, or other requirements. A rollback comes here as
        # well, and is not held up by what is found: its wait condition was met long ago.
        before = _replaced(event, key) or decision.get("before")
        verdict = Verdict(request, records, _records(request, before) if before else None)
        found = verdict.misses(decision["run"])
        log("evaluated before", evaluation=key, misses=len(found))
        if wanted.wait_handle:
            signal(wanted.wait_handle, failure=verdict.refusal(found), data=key)
    else:
        _start(event, wanted, key)
    return key, {"EvaluationKey": key, "ResultUri": f"s3://{request.bucket}/evaluations/{key}/result.json"}


def _replaced(event: Mapping[str, Any], key: str) -> str | None:
    """The evaluation of what an update replaces."""
    replaced = event.get("PhysicalResourceId")
    return str(replaced) if is_artifact_key(replaced) and replaced != key else None


def _start(event: Mapping[str, Any], wanted: EvaluationProperties, key: str) -> None:
    """Start the watcher, once for each event: a repeated event finds the execution it started before."""
    run = run_of(event["StackId"], event["RequestId"])
    try:
        _client("stepfunctions").start_execution(
            stateMachineArn=wanted.state_machine_arn,
            name=f"{key[:32]}-{run}",
            input=json.dumps(
                {
                    "Request": event["ResourceProperties"]["Request"],
                    "Run": run,
                    "Issued": issued_at(event["ResponseURL"]),
                    "Before": _replaced(event, key),
                    "Deadline": deadline(wanted.wait_seconds),
                    "WaitHandle": wanted.wait_handle,
                }
            ),
        )
        log("evaluation started", evaluation=key, run=run)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            raise


def _delete(event: Mapping[str, Any]) -> None:
    """Stop what is still measured; results stay in the store."""
    request = parse_evaluation_properties(event["ResourceProperties"]).request
    physical_id = event.get("PhysicalResourceId")
    # The request of a creation that failed may have started its execution all the same.
    key = str(physical_id) if is_artifact_key(physical_id) else request.key(*_place(event))
    records = _records(request, key)
    try:
        records.give_up(issued_at(event["ResponseURL"]))
        _stop_all(records)
    except ClientError as error:
        # With the bucket went where a job's output would go.
        if error.response["Error"]["Code"] != "NoSuchBucket":
            raise


def _stop_all(records: EvaluationRecords) -> None:
    """Stop the jobs of all runs, and wait until they have: SageMaker keeps a workload configuration that is in use."""
    jobs, began = SageMakerJobs(_client("sagemaker"), BENCHMARK), time.monotonic()
    while time.monotonic() < began + _PATIENCE_SECONDS:
        names = [benchmark_name(records.key, run) for run in records.runs()]
        for name in names:
            jobs.stop(name)
        found = [jobs.describe(name) for name in names]
        # A run that has begun and has no job may be about to have one; it stops that by itself.
        expected = None in found and time.monotonic() < began + _COMING_SECONDS
        stopping = any(job is not None and BENCHMARK.status(job) == "Stopping" for job in found)
        if not expected and not stopping:
            return
        time.sleep(1)


def _records(request: EvaluationRequest, key: str) -> EvaluationRecords:
    return EvaluationRecords(_client("s3"), request.bucket, request.kms_key_arn, key)


def _place(event: Mapping[str, Any]) -> tuple[str, str]:
    """The account and region of the stack."""
    region, account = event["StackId"].split(":")[3:5]
    return account, region


def _client(name: str) -> Any:
    return boto3.client(name, config=CLIENT)
