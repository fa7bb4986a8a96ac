"""One look at a running job, made by the watching state machine each time it wakes.

Answers ``{"Done": false, "WaitSeconds": n}`` while the job runs. When it has ended, the manifest is written and the
wait condition signalled, in that order: a repeated look does both again, to the same effect.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import boto3

from .artifact_store import ArtifactStore, Claim
from .custom_resource import CLIENT
from .errors import InvalidEvent
from .job_handler import signal_data
from .properties import is_artifact_key
from .sagemaker_jobs import COMPLETED, SageMakerJobs, job_name
from .telemetry import count, entry_point, log
from .watching import again, end, hours, is_out_of_time, tell, wait_seconds

_ENDED_BADLY = frozenset({"FAILED", "STOPPED"})


@entry_point
def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Entry point. ``event`` is the execution's input, with ``Error`` where the state machine gave up."""
    bucket, key, attempt = event.get("Bucket"), event.get("ArtifactKey"), event.get("Attempt")
    if (
        not isinstance(bucket, str)
        or not isinstance(key, str)
        or not is_artifact_key(key)
        or not isinstance(attempt, int)
    ):
        raise InvalidEvent("the execution's input needs Bucket, ArtifactKey and Attempt")
    name = job_name(bucket, key, attempt)
    if event.get("Error"):
        failure = f"watching the optimization job {name} failed: {event['Error']}. Deploy again to attach to it"
        return end(event, failure=failure)
    store = ArtifactStore(boto3.client("s3", config=CLIENT), bucket, event.get("KmsKeyArn"))
    claim = store.claim(key)
    if claim is not None and not claim.made_in(event.get("Account", "")):
        return _follow(event, store, claim)
    return _look(event, store, claim, name)


def _look(event: Mapping[str, Any], store: ArtifactStore, claim: Claim | None, name: str) -> dict[str, Any]:
    """Look at a job of this account."""
    job = SageMakerJobs(boto3.client("sagemaker", config=CLIENT)).describe(name)
    if job is None:
        failure = f"the optimization job {name} does not exist any more; deploy again to start it anew"
        return _fail(event, store, failure)
    status = job["OptimizationJobStatus"]
    log("looked", job=name, status=status)
    if status == COMPLETED:
        return _complete(event, store, claim, job)
    if status in _ENDED_BADLY:
        reason = job.get("FailureReason") or "it was stopped from outside this deployment"
        failure = f"the optimization job {name} ended as {status}: {reason}. Deploy again to run another one"
        return _fail(event, store, failure)
    age = dt.datetime.now(dt.UTC) - job["CreationTime"]
    if is_out_of_time(event):
        tell(
            event,
            failure=f"the optimization job {name} is still {status} after {hours(age)}, which is as long as this "
            "deployment waits. Give it a longer timeout (12 hours at most), or let a stack with wait=False run it",
        )
    return again(wait_seconds(age))


def _follow(event: Mapping[str, Any], store: ArtifactStore, claim: Claim) -> dict[str, Any]:
    """Wait for a job that another account runs: of that one there are only the records."""
    key = event["ArtifactKey"]
    manifest = store.manifest(key, claim.attempt)
    if manifest is not None:
        return end(event, data=signal_data(manifest))
    of_account = f"the optimization job of account {claim.maker} for the artifact {key}"
    if claim.failure:
        return end(event, failure=f"{of_account} came to nothing: {claim.failure}. Deploy again to run it here")
    if claim.released:
        return end(event, failure=f"{of_account} was given up there. Deploy again to run it here")
    if is_out_of_time(event):
        return end(event, failure=f"{of_account} has not ended in the time this deployment waits. Deploy again later")
    log("followed", artifact=key, maker=claim.maker)
    return again(60)


def _complete(
    event: Mapping[str, Any], store: ArtifactStore, claim: Claim | None, job: Mapping[str, Any]
) -> dict[str, Any]:
    key = event["ArtifactKey"]
    uri = job["OutputConfig"]["S3OutputLocation"]
    files = store.files(uri, checksums=True)
    if not files:
        name = job["OptimizationJobName"]
        return _fail(event, store, f"the optimization job {name} completed but wrote nothing to {uri}; deploy again")
    started = job.get("OptimizationStartTime") or job["CreationTime"]
    ended = job.get("OptimizationEndTime") or job["LastModifiedTime"]
    manifest = {
        "schema": 1,
        "artifact_key": key,
        "attempt": event["Attempt"],
        "image": job.get("OptimizationOutput", {}).get("RecommendedInferenceImage") or _requested_image(job),
        "model_data_uri": uri,
        "job_name": job["OptimizationJobName"],
        "job_arn": job["OptimizationJobArn"],
        "source": claim.source if claim else {},
        "description": claim.description if claim else {},
        "request": {
            member: job[member]
            for member in (
                "ModelSource",
                "DeploymentInstanceType",
                "OptimizationConfigs",
                "OptimizationEnvironment",
            )
            if member in job
        },
        "started_at": started.isoformat(),
        "ended_at": ended.isoformat(),
        "duration_seconds": round((ended - started).total_seconds()),
        "size_bytes": sum(file["size"] for file in files),
        "files": files,
    }
    # A later attempt is under way where this one was given up; its manifest is not to be overwritten.
    if claim is None or claim.attempt == event["Attempt"]:
        store.write_manifest(key, manifest)
    count("JobSeconds", (ended - started).total_seconds())
    return end(event, data=signal_data(manifest))


def _requested_image(job: Mapping[str, Any]) -> str:
    """The image the job ran with, for a service that recommends none."""
    for configuration in job["OptimizationConfigs"]:
        for member in configuration.values():
            if member.get("Image"):
                return member["Image"]
    return ""


def _fail(event: Mapping[str, Any], store: ArtifactStore, failure: str) -> dict[str, Any]:
    """The attempt came to nothing: say so in the claim, for those who cannot look at the job, and to the stack."""
    store.fail(event["ArtifactKey"], event["Attempt"], failure)
    return end(event, failure=failure)
