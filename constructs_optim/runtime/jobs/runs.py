"""The jobs of evaluations and recommendations: started for a run, and stopped when the resource is deleted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from ..aws import client
from ..documents import list_in, nested, object_in
from ..errors import DeploymentError, code_of, message_of
from ..store.run_records import RunRecords, run_job_name
from ..telemetry import Counted, log
from .sagemaker_jobs import JobKind, SageMakerJobs

# Within a function's 180 seconds.
_PATIENCE_SECONDS, _COMING_SECONDS = 120, 10


def create_run(
    jobs: SageMakerJobs, records: RunRecords, request: Mapping[str, Any], issued: int, *, advice: str, is_retried: bool
) -> None:
    """Create a run's job, and stop it if its resource was deleted in the meantime.

    ``advice`` goes into the error if SageMaker refuses the job. ``is_retried``: permissions may not be effective yet.
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
            f"Create{jobs.kind.name} failed with {code}: {message}. {jobs.kind.title.capitalize()}s are not available "
            f"to every account and Region. Next: ask your account team or AWS Support; {advice}"
        ) from error
    log(Counted.job_created if created else Counted.job_attached, job_name=name)
    if records.is_given_up(issued):
        # The deletion may have listed the jobs before this one was created.
        jobs.stop(name)


def give_up_runs(kind: JobKind | None, records: RunRecords, issued: int) -> None:
    """Stop all runs of a deleted resource and wait for them, because a workload in use cannot be deleted.

    ``kind`` is None for runs without jobs, which end with their next poll.
    """
    began = time.monotonic()
    try:
        records.give_up(issued)
        if kind is None:
            return
        jobs = SageMakerJobs(client("sagemaker"), kind)
        while time.monotonic() < began + _PATIENCE_SECONDS:
            names = [run_job_name(records.key, run) for run in records.runs()]
            for name in names:
                jobs.stop(name)
            descriptions = [jobs.describe(name) for name in names]
            # The job of a run that has just begun may not exist yet. In that case, create_run stops it.
            is_expected = None in descriptions and time.monotonic() < began + _COMING_SECONDS
            is_stopping = any(job is not None and kind.has_status(job, "STOPPING") for job in descriptions)
            if not is_expected and not is_stopping:
                return
            time.sleep(1)
    except ClientError as error:
        # Without the bucket there is no output to keep.
        if code_of(error) != "NoSuchBucket":
            raise


# With the bars, a template can use Fn::Split to take a part out of the JSON in which CloudFormation wraps a wait
# condition's Data.
def recommendation_data(recommendation: Mapping[str, Any]) -> str:
    """Return ``|instance type|instance count|model package ARN|inference specification|`` of a recommendation.

    Missing parts are empty.
    """
    model = object_in(nested(recommendation, "ModelDetails"))
    # The deployment's configuration is more specific than the model package's list of supported instances.
    listed = [object_in(details) for details in list_in(model.get("InstanceDetails"))[:1]]
    instance = {**(listed[0] if listed else {}), **object_in(nested(recommendation, "DeploymentConfiguration"))}
    parts = [instance.get(name) for name in ("InstanceType", "InstanceCount")]
    parts += [model.get(name) for name in ("ModelPackageArn", "InferenceSpecificationName")]
    return f"|{'|'.join('' if part is None else str(part) for part in parts)}|"
