"""One look at a running job, made by the watching state machine each time it wakes.

Answers ``{"Done": false, "WaitSeconds": n}`` while the job runs. When it has ended, the manifest is written and the
wait condition signalled, in that order: a repeated look does both again, to the same effect.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import boto3

from .artifact_jobs import ArtifactJobs, of_kind
from .artifact_store import ArtifactStore, Claim
from .custom_resource import CLIENT
from .errors import InvalidEvent
from .job_handler import signal_data
from .properties import is_artifact_key
from .property_reader import JOB_KINDS
from .sagemaker_jobs import SageMakerJobs, job_name
from .telemetry import count, entry_point, log
from .watching import again, end, hours, is_out_of_time, tell, wait_seconds


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
    kind = event.get("Kind", JOB_KINDS[0])
    if kind not in JOB_KINDS:
        raise InvalidEvent(f"the execution's input has a Kind that is none: {kind!r}")
    name, made_by = job_name(bucket, key, attempt), of_kind(kind)
    if event.get("Error"):
        failure = f"watching the {made_by.kind.title} {name} failed: {event['Error']}. Deploy again to attach to it"
        return end(event, failure=failure)
    store = ArtifactStore(boto3.client("s3", config=CLIENT), bucket, event.get("KmsKeyArn"))
    claim = store.claim(key)
    if claim is not None and not claim.made_in(event.get("Account", "")):
        return _follow(event, store, claim, made_by)
    return _look(event, store, claim, name, made_by)


def _look(
    event: Mapping[str, Any], store: ArtifactStore, claim: Claim | None, name: str, made_by: ArtifactJobs
) -> dict[str, Any]:
    """Look at a job of this account."""
    kind = made_by.kind
    job = SageMakerJobs(boto3.client("sagemaker", config=CLIENT), kind).describe(name)
    if job is None:
        return _fail(event, store, f"the {kind.title} {name} does not exist any more; deploy again to start it anew")
    status = kind.status(job)
    log("looked", job=name, status=status)
    if kind.has_completed(job):
        return _complete(event, store, claim, job, made_by)
    if kind.came_to_nothing(job):
        failure = f"the {kind.title} {name} ended as {status}: {made_by.failure(job)}. Deploy again to run another one"
        return _fail(event, store, failure)
    age = dt.datetime.now(dt.UTC) - job["CreationTime"]
    if is_out_of_time(event):
        tell(
            event,
            failure=f"the {kind.title} {name} is still {status} after {hours(age)}, which is as long as this "
            "deployment waits. Give it a longer timeout (12 hours at most), or let a stack with wait=False run it",
        )
    return again(wait_seconds(age))


def _follow(event: Mapping[str, Any], store: ArtifactStore, claim: Claim, made_by: ArtifactJobs) -> dict[str, Any]:
    """Wait for a job that another account runs: of that one there are only the records."""
    key = event["ArtifactKey"]
    manifest = store.manifest(key, claim.attempt)
    if manifest is not None:
        return end(event, data=signal_data(manifest))
    of_account = f"the {made_by.kind.title} of account {claim.maker} for the artifact {key}"
    if claim.failure:
        return end(event, failure=f"{of_account} came to nothing: {claim.failure}. Deploy again to run it here")
    if claim.released:
        return end(event, failure=f"{of_account} was given up there. Deploy again to run it here")
    if is_out_of_time(event):
        return end(event, failure=f"{of_account} has not ended in the time this deployment waits. Deploy again later")
    log("followed", artifact=key, maker=claim.maker)
    return again(60)


def _complete(
    event: Mapping[str, Any], store: ArtifactStore, claim: Claim | None, job: Mapping[str, Any], made_by: ArtifactJobs
) -> dict[str, Any]:
    key, kind = event["ArtifactKey"], made_by.kind
    name = job[kind.name_member]
    output = made_by.output(job)
    uri = made_by.artifact_uri(output if output.endswith("/") else f"{output}/", name)
    files = store.files(uri, checksums=True)
    if not files:
        return _fail(event, store, f"the {kind.title} {name} completed but wrote nothing to {uri}; deploy again")
    started, ended = made_by.span(job)
    manifest = {
        "schema": 1,
        "artifact_key": key,
        "attempt": event["Attempt"],
        "image": made_by.image(job),
        "model_data_uri": uri,
        "job_name": name,
        "job_arn": job[f"{kind.name}Arn"],
        "source": claim.source if claim else {},
        "description": claim.description if claim else {},
        **made_by.recorded(job),
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


def _fail(event: Mapping[str, Any], store: ArtifactStore, failure: str) -> dict[str, Any]:
    """The attempt came to nothing: say so in the claim, for those who cannot look at the job, and to the stack."""
    store.fail(event["ArtifactKey"], event["Attempt"], failure)
    return end(event, failure=failure)
