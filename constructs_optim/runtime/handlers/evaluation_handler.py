"""``Custom::EndpointEvaluation``: evaluate what an endpoint serves now, and signal whether it may stay.

Create and Update end within seconds: a state machine watches the benchmark job, reads what it measured and signals the
stack's wait condition, where the deployment depends on it. The physical id is the evaluation's key, which changes with
what is served: an update knows by it what is replaced, and its rollback finds the old evaluation as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..aws import client
from ..cloudformation import Event, issued_at, signal
from ..custom_resource import handle
from ..documents import is_artifact_key
from ..errors import code_of
from ..evaluation.gate import Verdict
from ..jobs.sagemaker_jobs import BENCHMARK, SageMakerJobs
from ..jobs.watching import deadline, start_watching, stop_runs
from ..requests.evaluation_properties import EvaluationProperties, EvaluationRequest
from ..requests.fields import validate
from ..store.run_records import EvaluationRecords, run_of
from ..telemetry import entry_point, log

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@entry_point
def handler(event: Event, context: LambdaContext) -> None:
    """Entry point. Whatever happens, CloudFormation gets a response."""
    handle(event, context, ensure=_ensure, delete=_delete)


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    wanted = validate(EvaluationProperties, event["ResourceProperties"])
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


def _replaced(event: Event, key: str) -> str | None:
    """The evaluation of what an update replaces."""
    replaced = event.get("PhysicalResourceId")
    return str(replaced) if is_artifact_key(replaced) and replaced != key else None


def _start(event: Event, wanted: EvaluationProperties, key: str) -> None:
    """Start the watcher, once for each event: a repeated event finds the execution it started before."""
    run = run_of(event["StackId"], event["RequestId"])
    started = start_watching(
        client("stepfunctions"),
        wanted.state_machine_arn,
        f"{key[:32]}-{run}",
        {
            "Request": event["ResourceProperties"]["Request"],
            "Run": run,
            "Issued": issued_at(event["ResponseURL"]),
            "Before": _replaced(event, key),
            "Deadline": deadline(wanted.wait_seconds),
            "WaitHandle": wanted.wait_handle,
        },
    )
    if started:
        log("evaluation started", evaluation=key, run=run)


def _delete(event: Event) -> None:
    """Stop what is still measured; results stay in the store."""
    request = validate(EvaluationProperties, event["ResourceProperties"]).request
    physical_id = event.get("PhysicalResourceId")
    # The request of a creation that failed may have started its execution all the same.
    key = str(physical_id) if is_artifact_key(physical_id) else request.key(*_place(event))
    records = _records(request, key)
    try:
        records.give_up(issued_at(event["ResponseURL"]))
        stop_runs(SageMakerJobs(client("sagemaker"), BENCHMARK), records)
    except ClientError as error:
        # With the bucket went where a job's output would go.
        if code_of(error) != "NoSuchBucket":
            raise


def _records(request: EvaluationRequest, key: str) -> EvaluationRecords:
    return EvaluationRecords(client("s3"), request.bucket, request.kms_key_arn, key)


def _place(event: Event) -> tuple[str, str]:
    """The account and region of the stack."""
    region, account = event["StackId"].split(":")[3:5]
    return account, region
