"""One poll of a recommendation job by the state machine; stores its result and signals the stack."""

from __future__ import annotations

from collections.abc import Mapping

from ..aws import client
from ..custom_resource import Output, end, poll, poll_run
from ..errors import DeploymentError
from ..jobs.runs import recommendation_data
from ..jobs.sagemaker_jobs import RECOMMENDATION, SageMakerJobs
from ..requests.properties import validate
from ..requests.run_properties import RecommendationWatch
from ..store.run_records import RESULT, RunRecords, run_job_name
from ..telemetry import LambdaContext, entry_point


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input, with ``Error`` if the state machine failed."""
    watch = validate(RecommendationWatch, event)
    region, account = context.invoked_function_arn.split(":")[3:5]
    key, failed = watch.request.key(account, region), "watching the recommendation job failed"
    return poll_run(watch, lambda: _poll(watch, key), failed=failed, advice="Deploy again")


def _poll(watch: RecommendationWatch, key: str) -> Output:
    try:
        return _stored(watch, key)
    except DeploymentError as error:
        return end(watch, failure=str(error))


def _stored(watch: RecommendationWatch, key: str) -> Output:
    """Store the job's result once it has ended."""
    request, name = watch.request, run_job_name(key, watch.run)
    job = SageMakerJobs(client("sagemaker"), RECOMMENDATION).describe(name)
    if job is None:
        raise DeploymentError(f"the recommendation job {name} no longer exists. Deploy again to start a new job")
    if waiting := poll(watch, RECOMMENDATION, name, job, advice=": set a longer timeout, or wait=False"):
        return waiting
    if not job.get("Recommendations"):
        raise DeploymentError(
            f"the recommendation job {name} completed but recommends nothing: allow other instance types, let "
            "SageMaker choose the framework, or allow optimizations of the model"
        )
    times = {"started": job.get("StartTime") or job["CreationTime"], "ended": job.get("EndTime")}
    result = {
        "asked": {**request.question, "fingerprint": watch.fingerprint},
        "job": {"name": name, **{which: at.isoformat() for which, at in times.items() if at is not None}},
        "recommendations": job["Recommendations"],
    }
    records = RunRecords(client("s3"), "recommendations", request.bucket, request.kms_key_arn, key)
    records.write(RESULT, result, watch.run)
    records.write(RESULT, result)
    return end(watch, data=recommendation_data(job["Recommendations"][0]))
