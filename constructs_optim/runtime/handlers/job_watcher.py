"""One poll of a job by the state machine. When the job has ended, writes the manifest and signals the stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..aws import client
from ..custom_resource import DONE, Output, again, end, is_out_of_time, poll, poll_run
from ..errors import DeploymentError
from ..jobs.sagemaker_jobs import ARTIFACT_JOBS, REPEATS, ArtifactJobKind, SageMakerJobs, job_name, remove_setting
from ..requests.properties import ArtifactWatch, validate
from ..store.artifact_integrity import check_manifest
from ..store.artifact_store import ArtifactStore, Claim, artifact_data
from ..telemetry import LambdaContext, count, entry_point, log


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input, with ``Error`` if the state machine failed."""
    watch = validate(ArtifactWatch, event)
    name, kind = job_name(watch.bucket, watch.artifact_key, watch.attempt), ARTIFACT_JOBS[watch.kind]
    failed, advice = f"watching the {kind.title} {name} failed", "Deploy again to attach to it"
    return poll_run(watch, lambda: _poll(watch, name, kind), failed=failed, advice=advice)


def _poll(watch: ArtifactWatch, name: str, kind: ArtifactJobKind) -> Output:
    store = ArtifactStore(client("s3"), watch.bucket, watch.kms_key_arn)
    claim = store.claim(watch.artifact_key)
    if claim is not None and not claim.made_in(watch.account):
        return _follow(watch, store, claim, kind.title)
    try:
        job = SageMakerJobs(client("sagemaker"), kind).describe(name)
        if job is None:
            raise DeploymentError(f"the {kind.title} {name} no longer exists; deploy again to start a new job")
        advice = ". Set a longer timeout (at most 12 hours), or run the job in a stack with wait=False"
        waiting = poll(watch, kind, name, job, advice=advice)
    except DeploymentError as error:
        return _fail(watch, store, str(error))
    return waiting or _complete(watch, store, claim, kind, job)


def _follow(watch: ArtifactWatch, store: ArtifactStore, claim: Claim, title: str) -> Output:
    """Wait for another account's job by its claim and manifest."""
    if not watch.wait_handle:
        return DONE
    manifest = store.manifest(watch.artifact_key, claim.attempt)
    if manifest is not None:
        try:
            check_manifest(store, watch.artifact_key, manifest)
        except DeploymentError as error:
            return end(watch, failure=str(error))
        return end(watch, data=artifact_data(manifest))
    failure = None
    if claim.failure:
        failure = f"failed: {claim.failure}"
        if REPEATS not in claim.failure:
            failure += ". Deploy again to run it here"
    elif claim.released:
        failure = "was canceled there. Deploy again to run it here"
    elif is_out_of_time(watch):
        failure = "has not ended in the time that this deployment waits. Deploy again later"
    if failure is not None:
        return end(
            watch, failure=f"the {title} of account {claim.maker} for the artifact {watch.artifact_key} {failure}"
        )
    log("followed", artifact_key=watch.artifact_key, maker=claim.maker)
    return again(60)


def _complete(
    watch: ArtifactWatch, store: ArtifactStore, claim: Claim | None, kind: ArtifactJobKind, job: Mapping[str, Any]
) -> Output:
    name, output = job[kind.name_member], kind.output(job)
    uri = kind.artifact_uri(output if output.endswith("/") else f"{output}/", name)
    # Done before the manifest, which lists the final files.
    prefix = uri.removeprefix(f"s3://{store.bucket}/")
    for setting in kind.superfluous_settings(job):
        remove_setting(client("s3"), store.bucket, prefix, setting, watch.kms_key_arn)
    files = store.with_checksums(uri, store.files(uri))
    if not files:
        return _fail(watch, store, f"the {kind.title} {name} completed but wrote nothing to {uri}; deploy again")
    started, ended = kind.span(job)
    manifest = {
        "schema": 1,
        "artifact_key": watch.artifact_key,
        "attempt": watch.attempt,
        "image": kind.image(job),
        "model_data_uri": uri,
        "job_name": name,
        "job_arn": job[f"{kind.name}Arn"],
        "source": claim.source if claim else {},
        "description": claim.description if claim else {},
        **kind.recorded(job),
        "started_at": started.isoformat(),
        "ended_at": ended.isoformat(),
        "duration_seconds": round((ended - started).total_seconds()),
        "size_bytes": sum(file["size"] for file in files),
        "files": files,
    }
    # Do not overwrite a later attempt's manifest.
    if claim is None or claim.attempt == watch.attempt:
        store.write_manifest(watch.artifact_key, manifest)
    count("JobSeconds", (ended - started).total_seconds())
    return end(watch, data=artifact_data(manifest))


def _fail(watch: ArtifactWatch, store: ArtifactStore, failure: str) -> Output:
    """Signal the failure to the stack, and record it in the claim for accounts that cannot describe the job."""
    store.fail(watch.artifact_key, watch.attempt, failure)
    return end(watch, failure=failure)
