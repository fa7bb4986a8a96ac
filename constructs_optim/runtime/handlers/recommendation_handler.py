"""``Custom::ModelRecommendation``: a SageMaker recommendation of how to serve a model, shared by equal requests.

A state machine watches the job and signals the stack's wait condition. The physical ID is the request's key, so a
rollback reads the earlier result.
"""

from __future__ import annotations

from ..aws import client
from ..custom_resource import Event, account_and_region, custom_resource, issued_at, signal, start_watching
from ..documents import is_artifact_key
from ..errors import DeploymentError
from ..jobs.runs import create_run, give_up_runs, recommendation_data
from ..jobs.sagemaker_jobs import RECOMMENDATION, RUNNING, SageMakerJobs
from ..jobs.source import resolve
from ..requests.properties import S3Source, validate
from ..requests.run_properties import RecommendationProperties, RecommendationRequest
from ..store.run_records import (
    RESULT,
    RUN,
    BegunRun,
    RecommendationResult,
    RunRecords,
    owner_of,
    run_job_name,
    run_of,
)
from ..telemetry import Counted, log


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    props = validate(RecommendationProperties, event["ResourceProperties"])
    records = _records(event, props.request, props.request.key(*account_and_region(event)))
    result = records.get(RESULT, RecommendationResult)
    # A resource keeps its result: its wait condition is complete, so the stack cannot receive another one.
    known = event.get("PhysicalResourceId") == records.key
    fingerprint = None
    if result is None or not known:
        source = S3Source(S3Uri=props.request.model_uri)
        fingerprint = resolve(source, sagemaker=client("sagemaker"), s3=client("s3")).identity
    if result is not None and fingerprint in (None, result.asked.fingerprint):
        log("recommended before", recommendation=records.key)
        if props.wait_handle:
            signal(props.wait_handle, data=recommendation_data(result.recommendations[0]))
        name = result.job.name
    else:
        name = _start(event, props, records, str(fingerprint), known=known)
    return records.key, {"JobName": name, "RecommendationKey": records.key, "ResultUri": records.uri(RESULT)}


def _start(event: Event, props: RecommendationProperties, records: RunRecords, fingerprint: str, *, known: bool) -> str:
    """Start or join a job and start its watcher; a repeated event reuses both."""
    jobs, issued = SageMakerJobs(client("sagemaker"), RECOMMENDATION), issued_at(event["ResponseURL"])
    if records.is_given_up(issued):
        raise DeploymentError("the recommendation was deleted before this request was handled; deploy again")
    of_event = run_of(event["StackId"], event["RequestId"])
    usable = _usable_run(records, jobs, None if known else fingerprint)
    if usable is not None:
        run, fingerprint = usable
        log(Counted.job_attached, job_name=run_job_name(records.key, run))
    else:
        run = records.owner + of_event[: -len(records.owner)]
        records.write(RUN, {"job_name": run_job_name(records.key, run), "fingerprint": fingerprint}, run)
        advice = "Service Quotas lists their limits"
        create_run(jobs, records, _job(props, records, run), issued, advice=advice, is_retried=True)
    document = {"Request": event["ResourceProperties"]["Request"], "Run": run, "Fingerprint": fingerprint}
    start_watching(props, f"{records.key[:32]}-{of_event}", document)
    return run_job_name(records.key, run)


def _usable_run(records: RunRecords, jobs: SageMakerJobs, fingerprint: str | None) -> tuple[str, str] | None:
    """Return this resource's run that is active or has an unread result, with the fingerprint of its files."""
    for run in records.runs():
        try:
            begun = records.get(RUN, BegunRun, run)
        except DeploymentError as error:
            # Another job makes the result.
            log("run not joined", run=run, reason=str(error))
            continue
        files = begun.fingerprint if begun is not None else None
        if not files or fingerprint not in (None, files):
            continue
        job = jobs.describe(run_job_name(records.key, run))
        if job is None:
            continue
        is_useful = RECOMMENDATION.has_status(job, "COMPLETED") and job.get("Recommendations")
        if is_useful or RECOMMENDATION.has_status(job, *RUNNING):
            return run, files
    return None


def _job(props: RecommendationProperties, records: RunRecords, run: str) -> dict[str, object]:
    request = props.request
    reserved = {
        "CapacityReservationPreference": "capacity-reservations-only",
        "MlReservationArns": list(request.reservation_arns),
    }
    compute = {
        **({"InstanceTypes": list(request.instance_types)} if request.instance_types else {}),
        **({"CapacityReservationConfig": reserved} if request.reservation_arns else {}),
    }
    return {
        "AIRecommendationJobName": run_job_name(records.key, run),
        "ModelSource": {"S3": {"S3Uri": request.model_uri}},
        "OutputConfig": {"S3OutputLocation": records.uri("output/", run)},
        "AIWorkloadConfigIdentifier": request.workload_config_name,
        "PerformanceTarget": {"Constraints": [{"Metric": request.metric}]},
        "RoleArn": request.role_arn,
        "OptimizeModel": request.optimize_model,
        **({"InferenceSpecification": {"Framework": request.framework}} if request.framework else {}),
        **({"ComputeSpec": compute} if compute else {}),
        "Tags": props.tags,
    }


def _delete(event: Event) -> None:
    request = validate(RecommendationProperties, event["ResourceProperties"]).request
    physical_id = event.get("PhysicalResourceId")
    # A failed creation may have created its job.
    key = physical_id if is_artifact_key(physical_id) else request.key(*account_and_region(event))
    give_up_runs(RECOMMENDATION, _records(event, request, key), issued_at(event["ResponseURL"]))


def _records(event: Event, request: RecommendationRequest, key: str) -> RunRecords:
    owner = owner_of(event["StackId"], event["LogicalResourceId"])
    return RunRecords(client("s3"), "recommendations", request.bucket, request.kms_key_arn, key, owner)


handler = custom_resource(ensure=_ensure, delete=_delete)
