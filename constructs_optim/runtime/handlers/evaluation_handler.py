"""``Custom::EndpointEvaluation``: evaluate a served recipe, and signal whether it meets its requirements.

A state machine watches the benchmark job and signals the stack's wait condition. The physical ID is the evaluation's
key, which changes with the served recipe. It tells an update which version it replaces, and a rollback which earlier
evaluation to use.
"""

from __future__ import annotations

from ..aws import client
from ..custom_resource import Event, account_and_region, custom_resource, issued_at, signal, start_watching
from ..documents import is_artifact_key
from ..jobs.runs import give_up_runs
from ..jobs.sagemaker_jobs import BENCHMARK
from ..requests.properties import validate
from ..requests.run_properties import EvaluationProperties, EvaluationRequest
from ..store.run_records import CURRENT, RESULT, Decision, RunRecords, run_of
from ..telemetry import log


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    props = validate(EvaluationProperties, event["ResourceProperties"])
    request = props.request
    key = request.key(*account_and_region(event))
    physical_id = event.get("PhysicalResourceId")
    replaced = physical_id if is_artifact_key(physical_id) and physical_id != key else None
    records = _records(request, key)
    decision = records.get(CURRENT, Decision)
    if decision is not None and decision.accepted:
        # An update back to an evaluated version, or with other requirements. The verdict does not affect a rollback,
        # whose wait condition is already complete.
        # Only such updates need the statistics, whose import takes as long as that of the other modules together.
        from ..evaluation.gate import judge

        before = replaced or decision.before
        verdict = judge(request, records, _records(request, before) if before else None, decision.run)
        log("evaluated before", evaluation=key, misses=len(verdict.misses))
        if props.wait_handle:
            signal(props.wait_handle, failure=verdict.refusal, data=key)
    else:
        run = run_of(event["StackId"], event["RequestId"])
        document = {
            "Request": event["ResourceProperties"]["Request"],
            "Run": run,
            "Issued": issued_at(event["ResponseURL"]),
            "Before": replaced,
        }
        if start_watching(props, f"{key[:32]}-{run}", document):
            log("evaluation started", evaluation=key, run=run)
    return key, {"EvaluationKey": key, "ResultUri": records.uri(RESULT)}


def _delete(event: Event) -> None:
    request = validate(EvaluationProperties, event["ResourceProperties"]).request
    physical_id = event.get("PhysicalResourceId")
    # A failed creation may have started its execution.
    key = physical_id if is_artifact_key(physical_id) else request.key(*account_and_region(event))
    give_up_runs(BENCHMARK if request.load is None else None, _records(request, key), issued_at(event["ResponseURL"]))


def _records(request: EvaluationRequest, key: str) -> RunRecords:
    return RunRecords(client("s3"), "evaluations", request.bucket, request.kms_key_arn, key)


handler = custom_resource(ensure=_ensure, delete=_delete)
