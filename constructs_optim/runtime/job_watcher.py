"""One look at a running job, made by the watching state machine each time it wakes.

Answers ``{"Done": false, "WaitSeconds": n}`` while the job runs. When it has ended, the manifest is written and the
wait condition signalled, in that order: a repeated look does both again, to the same effect.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import boto3

from .artifact_store import ArtifactStore
from .cloudformation import signal
from .custom_resource import CLIENT
from .errors import InvalidEvent
from .job_handler import signal_data
from .log import log
from .optimization_jobs import COMPLETED, OptimizationJobs, job_name
from .properties import is_artifact_key

_DONE = {"Done": True}
_ENDED_BADLY = frozenset({"FAILED", "STOPPED"})
_STACK_PATIENCE = dt.timedelta(hours=12)


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
        cause = event["Error"]
        _tell(
            event,
            failure=f"watching the optimization job {name} failed: {cause}. Deploy again to attach to it",
        )
        return _DONE
    job = OptimizationJobs(boto3.client("sagemaker", config=CLIENT)).describe(name)
    if job is None:
        _tell(
            event,
            failure=f"the optimization job {name} does not exist any more; deploy again to start it anew",
        )
        return _DONE
    status = job["OptimizationJobStatus"]
    log("looked", job=name, status=status)
    if status == COMPLETED:
        _complete(event, ArtifactStore(boto3.client("s3", config=CLIENT), bucket, event.get("KmsKeyArn")), job)
        return _DONE
    if status in _ENDED_BADLY:
        reason = job.get("FailureReason") or "it was stopped from outside this deployment"
        _tell(event, failure=f"the optimization job {name} ended as {status}: {reason}")
        return _DONE
    return {"Done": False, "WaitSeconds": wait_seconds(dt.datetime.now(dt.UTC) - job["CreationTime"])}


def wait_seconds(age: dt.timedelta) -> int:
    """How long to wait for the next look: a tenth of the job's age, 5 s at least and 60 s at most.

    A job that a stack no longer waits for is looked at every 5 minutes, which keeps the longest job (5 days) within
    the 25,000 events of one execution.
    """
    if age >= _STACK_PATIENCE:
        return 300
    return int(min(60, max(5, age.total_seconds() / 10)))


def _complete(event: Mapping[str, Any], store: ArtifactStore, job: Mapping[str, Any]) -> None:
    key = event["ArtifactKey"]
    uri = job["OutputConfig"]["S3OutputLocation"]
    files = store.files(uri)
    if not files:
        name = job["OptimizationJobName"]
        _tell(event, failure=f"the optimization job {name} completed but wrote nothing to {uri}; deploy again")
        return
    claim = store.claim(key)
    started = job.get("OptimizationStartTime") or job["CreationTime"]
    ended = job.get("OptimizationEndTime") or job["LastModifiedTime"]
    manifest = {
        "schema": 1,
        "artifact_key": key,
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
    store.write_manifest(key, manifest)
    _tell(event, data=signal_data(manifest))


def _requested_image(job: Mapping[str, Any]) -> str:
    """The image the job ran with, for a service that recommends none."""
    for configuration in job["OptimizationConfigs"]:
        for member in configuration.values():
            if member.get("Image"):
                return member["Image"]
    return ""


def _tell(event: Mapping[str, Any], *, failure: str | None = None, data: str = "") -> None:
    log("ended", failure=failure or "")
    if event.get("WaitHandle"):
        signal(event["WaitHandle"], failure=failure, data=data)
