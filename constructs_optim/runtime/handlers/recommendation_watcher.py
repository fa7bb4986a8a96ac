"""One look at a recommendation job, made by the watching state machine each time it wakes.

Answers ``{"Done": false, "WaitSeconds": n}`` until the job has ended, its result is in the store and the stack has been
told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..custom_resource import client
from ..errors import DeploymentError, InvalidEvent
from ..jobs import recommendation_report
from ..jobs.sagemaker_jobs import RECOMMENDATION, SageMakerJobs
from ..jobs.watching import end, look_later
from ..requests.fields import validate
from ..requests.recommendation_properties import RecommendationRequest
from ..store.recommendation_records import RecommendationRecords, owner_in
from ..store.run_records import run_job_name
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
        return _look(event, request, records, run)
    except DeploymentError as error:
        return end(event, failure=str(error))


def _look(
    event: Mapping[str, object], request: RecommendationRequest, records: RecommendationRecords, run: str
) -> dict[str, object]:
    name = run_job_name(records.key, run)
    job = SageMakerJobs(client("sagemaker"), RECOMMENDATION).describe(name)
    if job is None:
        raise DeploymentError(f"the recommendation job {name} is not there any more. Deploy again to have another")
    status = RECOMMENDATION.status(job)
    log("looked", job=name, status=status)
    if status != RECOMMENDATION.completed:
        return _wait(event, name, job, status)
    if not job.get("Recommendations"):
        raise DeploymentError(
            f"the recommendation job {name} completed and recommends nothing: allow other instance types, a framework "
            "of its own choice, or optimizations of the model"
        )
    result = recommendation_report.result(request, str(event.get("Fingerprint")), name, job)
    records.finish(run, result)
    return end(event, data=recommendation_report.signal_data(result))


def _wait(event: Mapping[str, object], name: str, job: Mapping[str, Any], status: str) -> dict[str, object]:
    if status in ("Failed", "Stopped"):
        reason = job.get("FailureReason") or "it was stopped from outside this deployment"
        raise DeploymentError(f"the recommendation job {name} ended as {status}: {reason}. Deploy again to repeat it")
    return look_later(
        event,
        f"the recommendation job {name} is still {status}",
        since=job["CreationTime"],
        advice=": give it a longer timeout, or wait=False",
    )
