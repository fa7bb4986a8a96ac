"""Starts, polls and stops watched jobs, and signals their outcomes to the stack."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..aws import client
from ..cloudformation import Event, issued_at, signal
from ..documents import list_in, nested, object_in
from ..errors import DeploymentError, code_of, message_of
from ..store.owner_records import Owner, OwnerRecord, OwnerRecords
from ..store.run_records import RunRecords, run_job_name
from ..telemetry import Counted, log
from .sagemaker_jobs import JobKind, SageMakerJobs

if TYPE_CHECKING:
    from ..requests.fields import Watch
    from ..requests.properties import WatchedProperties

Output = dict[str, object]
"""The output of a poll, for the state machine."""
DONE: Output = {"Done": True}
"""The output that ends the state machine's execution."""
# Of a function's 180 seconds.
_PATIENCE_SECONDS, _COMING_SECONDS = 120, 10


def resource_owner(event: Event) -> Owner:
    """The owner of artifacts that is the event's resource."""
    return Owner(event["StackId"], event["LogicalResourceId"])


def begin(
    records: OwnerRecords,
    event: Event,
    *,
    properties: str = "",
    gives_up: Callable[[OwnerRecord], Collection[str]] | None = None,
) -> OwnerRecord:
    """Record an event as the latest request of its resource; ``gives_up`` returns the references of a deletion."""
    return records.begin(
        resource_owner(event),
        event["RequestId"],
        issued=issued_at(event["ResponseURL"]),
        physical_id=event.get("PhysicalResourceId"),
        properties=properties,
        gives_up=gives_up,
    )


def start_watching(props: WatchedProperties, name: str, document: Mapping[str, object]) -> bool:
    """Start the execution ``name`` with the input ``document``; False if an earlier attempt has started it."""
    deadline = None
    if props.wait_seconds is not None:
        # Fails the wait condition before it times out, as CloudFormation gives no reason for a timeout.
        deadline = int(time.time() + props.wait_seconds - min(60, props.wait_seconds / 10))
    text = json.dumps({**document, "Deadline": deadline, "WaitHandle": props.wait_handle})
    try:
        client("stepfunctions").start_execution(stateMachineArn=props.state_machine_arn, name=name, input=text)
    except ClientError as error:
        if code_of(error) != "ExecutionAlreadyExists":
            raise
        return False
    return True


def again(seconds: int) -> Output:
    """The output that makes the state machine poll again."""
    return {"Done": False, "WaitSeconds": seconds}


def wait_seconds(age: dt.timedelta, *, is_awaited: bool = False) -> int:
    """How many seconds to wait before the next poll."""
    # A stack waits for 12 hours at most.
    if age < dt.timedelta(hours=12) or is_awaited:
        return int(min(60, max(5, age.total_seconds() / 10)))
    # The longest job, which waits 28 days for spot capacity and runs for 28 days, stays within the 25,000 events of an
    # execution (AWS Step Functions developer guide, "Quotas").
    return int(min(3600, max(300, age.total_seconds() / 100)))


def is_out_of_time(watch: Watch) -> bool:
    """Whether the stack's deadline has passed."""
    return bool(watch.wait_handle) and watch.deadline is not None and time.time() >= watch.deadline


def poll(
    watch: Watch,
    kind: JobKind,
    name: str,
    job: Mapping[str, Any],
    *,
    advice: str,
) -> Output | None:
    """The output while a job runs; None once it has completed. A failed job is a :class:`DeploymentError`.

    A stack that has waited as long as it can is signalled, with ``advice``.
    """
    status = kind.status(job)
    log("polled", job_name=name, status=status)
    if kind.has_status(job, "COMPLETED"):
        return None
    if kind.has_status(job, "FAILED", "STOPPED"):
        reason = f"the {kind.title} {name} ended as {status}: {failure_reason(job)}"
        raise DeploymentError(f"{reason}. Deploy again to run another one")
    # SageMaker's clock may be ahead of this function's.
    age = max(dt.datetime.now(dt.UTC) - job["CreationTime"], dt.timedelta(0))
    is_late = is_out_of_time(watch)
    if is_late:
        minutes = int(age.total_seconds() // 60)
        reason = f"the {kind.title} {name} is still {status} after {minutes // 60} h {minutes % 60} min"
        send_signal(watch, failure=f"{reason}, which is as long as this deployment waits{advice}")
    return again(wait_seconds(age, is_awaited=bool(watch.wait_handle) and watch.deadline is not None and not is_late))


def failure_reason(job: Mapping[str, Any]) -> str:
    """``FailureReason``, or the limit that a training job reached."""
    limits = job.get("StoppingCondition", {})
    match job.get("FailureReason") or job.get("SecondaryStatus"):
        case "MaxRuntimeExceeded":
            return (
                f"it ran for longer than the {limits.get('MaxRuntimeInSeconds')} s of its max_runtime; another "
                "one goes on from its last checkpoint"
            )
        case "MaxWaitTimeExceeded":
            return (
                f"in {limits.get('MaxWaitTimeInSeconds')} s there was not enough spot capacity "
                "(TrainingCompute(spot_wait_seconds=...)); another one goes on from its last checkpoint"
            )
        case _:
            return job.get("FailureReason") or "it was stopped from outside this deployment"


def end(watch: Watch, *, failure: str | None = None, data: str = "") -> Output:
    """Signal the outcome to the stack, and end the execution."""
    log(Counted.job_failed if failure else Counted.job_completed, failure=failure or "")
    send_signal(watch, failure=failure, data=data)
    return DONE


def send_signal(watch: Watch, *, failure: str | None = None, data: str = "") -> None:
    """Signal the stack's wait condition, if any."""
    if watch.wait_handle:
        signal(watch.wait_handle, failure=failure, data=data)


# The bars let a template take a part out of the JSON that CloudFormation wraps a wait condition's Data in, with
# Fn::Split.
def artifact_data(manifest: Mapping[str, Any]) -> str:
    """``|image|model data URI|job name|`` of an artifact's manifest."""
    return f"|{manifest['image']}|{manifest['model_data_uri']}|{manifest['job_name']}|"


def recommendation_data(document: Mapping[str, Any]) -> str:
    """``|instance type|instance count|model package ARN|inference specification name|``; missing parts are empty."""
    first = document["recommendations"][0]
    model = object_in(nested(first, "ModelDetails"))
    # The deployment's configuration is more exact than the model package's list of supported instances.
    listed = [object_in(details) for details in list_in(model.get("InstanceDetails"))[:1]]
    instance = {**(listed[0] if listed else {}), **object_in(nested(first, "DeploymentConfiguration"))}
    parts = [instance.get(name) for name in ("InstanceType", "InstanceCount")]
    parts += [model.get(name) for name in ("ModelPackageArn", "InferenceSpecificationName")]
    return f"|{'|'.join('' if part is None else str(part) for part in parts)}|"


def create_run(
    jobs: SageMakerJobs, records: RunRecords, request: Mapping[str, Any], issued: int, *, advice: str, is_retried: bool
) -> None:
    """Create a run's job, and stop it if its resource was deleted meanwhile.

    ``advice`` is for a job that SageMaker refuses; with ``is_retried``, permissions may not be effective yet.
    """
    name = request[jobs.kind.name_member]
    try:
        created = jobs.create(request)
    except ClientError as error:
        code, message = code_of(error), message_of(error)
        may_be_early = is_retried and (code == "AccessDeniedException" or "assume" in message.lower())
        if may_be_early or code not in ("AccessDeniedException", "ResourceLimitExceeded", "ValidationException"):
            raise
        raise DeploymentError(
            f"Create{jobs.kind.name} failed with {code}: {message}. {jobs.kind.title.capitalize()}s are not open to "
            f"every account and region: an account team or AWS Support can tell, and {advice}"
        ) from error
    log(Counted.job_created if created else Counted.job_attached, job_name=name)
    if records.is_given_up(issued):
        # The deletion may have listed the jobs before this one was created.
        jobs.stop(name)


def give_up_runs(event: Event, kind: JobKind, records: RunRecords) -> None:
    """Stop all runs of a deleted resource and wait for them, as a workload in use cannot be deleted."""
    jobs, began = SageMakerJobs(client("sagemaker"), kind), time.monotonic()
    try:
        records.give_up(issued_at(event["ResponseURL"]))
        while time.monotonic() < began + _PATIENCE_SECONDS:
            names = [run_job_name(records.key, run) for run in records.runs()]
            for name in names:
                jobs.stop(name)
            descriptions = [jobs.describe(name) for name in names]
            # The job of a run that has just begun may not exist yet; create_run stops it then.
            is_expected = None in descriptions and time.monotonic() < began + _COMING_SECONDS
            is_stopping = any(job is not None and kind.has_status(job, "STOPPING") for job in descriptions)
            if not is_expected and not is_stopping:
                return
            time.sleep(1)
    except ClientError as error:
        # Without the bucket there is no output to keep.
        if code_of(error) != "NoSuchBucket":
            raise
