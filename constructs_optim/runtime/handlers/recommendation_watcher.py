"""One poll of a recommendation job, made by the watching state machine each time it wakes.

Returns ``{"Done": false, "WaitSeconds": n}`` until the job has ended, its result is in the store and the stack has been
told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..aws import client
from ..errors import DeploymentError, InvalidEvent
from ..jobs.sagemaker_jobs import RECOMMENDATION, SageMakerJobs
from ..jobs.signals import recommendation_data
from ..jobs.watching import end, poll_later
from ..requests.fields import validate
from ..requests.recommendation_properties import RecommendationRequest
from ..store.run_records import RecommendationRecords, owner_in, run_job_name
from ..telemetry import entry_point, log

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

_RUN = re.compile(r"[0-9a-f]{16}")


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> dict[str, object]:
    """Entry point. ``event`` is the execution's input, with ``Error`` where the state machine gave up."""
    request = validate(RecommendationRequest, event.get("Request"))
    run = event.get("Run")
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise InvalidEvent("the execution's input needs Run")
    if event.get("Error"):
        return end(event, failure=f"watching the recommendation job failed: {event['Error']}. Deploy again")
    region, account = context.invoked_function_arn.split(":")[3:5]
    key = request.key(account, region)
    records = RecommendationRecords(client("s3"), request.bucket, request.kms_key_arn, key, owner_in(run))
    try:
        return _poll(event, request, records, run)
    except DeploymentError as error:
        return end(event, failure=str(error))


def _poll(
    event: Mapping[str, object], request: RecommendationRequest, records: RecommendationRecords, run: str
) -> dict[str, object]:
    name = run_job_name(records.key, run)
    job = SageMakerJobs(client("sagemaker"), RECOMMENDATION).describe(name)
    if job is None:
        raise DeploymentError(f"the recommendation job {name} is not there any more. Deploy again to have another")
    status = RECOMMENDATION.status(job)
    log("polled", job_name=name, status=status)
    if status != RECOMMENDATION.completed:
        return _wait(event, name, job, status)
    if not job.get("Recommendations"):
        raise DeploymentError(
            f"the recommendation job {name} completed and recommends nothing: allow other instance types, a framework "
            "of its own choice, or optimizations of the model"
        )
    result = _result(request, str(event.get("Fingerprint")), name, job)
    records.finish(run, result)
    return end(event, data=recommendation_data(result))


def _wait(event: Mapping[str, object], name: str, job: Mapping[str, Any], status: str) -> dict[str, object]:
    if status in ("Failed", "Stopped"):
        reason = job.get("FailureReason") or "it was stopped from outside this deployment"
        raise DeploymentError(f"the recommendation job {name} ended as {status}: {reason}. Deploy again to repeat it")
    return poll_later(
        event,
        f"the recommendation job {name} is still {status}",
        since=job["CreationTime"],
        advice=": give it a longer timeout, or wait=False",
    )


def _result(request: RecommendationRequest, fingerprint: str, name: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """The document: what was asked, and the job's recommendations as they are.

    Args:
        request: what was asked.
        fingerprint: what the model's files were.
        name: the job's name.
        job: its description, of a job that has completed.
    """
    times = {"started": job.get("StartTime") or job["CreationTime"], "ended": job.get("EndTime")}
    return {
        "schema": 1,
        "asked": {**request.asked, "fingerprint": fingerprint},
        "job": {"name": name, **{which: at.isoformat() for which, at in times.items() if at is not None}},
        "recommendations": job["Recommendations"],
    }
