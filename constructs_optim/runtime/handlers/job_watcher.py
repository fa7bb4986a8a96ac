"""One poll of a running job, made by the watching state machine each time it wakes.

Returns ``{"Done": false, "WaitSeconds": n}`` while the job runs. When it has ended, the manifest is written and the
wait condition signalled, in that order: a repeated poll does both again, to the same effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..aws import client
from ..documents import is_artifact_key, list_in
from ..errors import DeploymentError, InvalidEvent
from ..jobs.artifact_jobs import KINDS, ArtifactJobs, remove_setting
from ..jobs.sagemaker_jobs import SageMakerJobs, job_name
from ..jobs.signals import artifact_data
from ..jobs.watching import (
    DONE,
    again,
    end,
    is_out_of_time,
    poll_later,
)
from ..store.artifact_integrity import check_manifest
from ..store.artifact_store import ArtifactStore, Claim
from ..telemetry import count, entry_point, log

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> dict[str, object]:
    """Entry point. ``event`` is the execution's input, with ``Error`` where the state machine gave up."""
    bucket, key, attempt = event.get("Bucket"), event.get("ArtifactKey"), event.get("Attempt")
    if not isinstance(bucket, str) or not is_artifact_key(key) or not isinstance(attempt, int):
        raise InvalidEvent("the execution's input needs Bucket, ArtifactKey and Attempt")
    kind = event.get("Kind", "OptimizationJob")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidEvent(f"the execution's input has a Kind that is none: {kind!r}")
    name, made_by = job_name(bucket, key, attempt), KINDS[kind]
    if event.get("Error"):
        failure = f"watching the {made_by.kind.title} {name} failed: {event['Error']}. Deploy again to attach to it"
        return end(event, failure=failure)
    account = event.get("Account", "")
    store = ArtifactStore(client("s3"), bucket, _kms_key_arn(event))
    claim = store.claim(key)
    poll = _Poll(event, store, claim, key, attempt, made_by)
    if claim is not None and not claim.made_in(str(account)):
        return poll.follow(claim)
    return poll.poll_job(name)


def _kms_key_arn(event: Mapping[str, object]) -> str | None:
    arn = event.get("KmsKeyArn")
    return arn if isinstance(arn, str) else None


class _Poll:
    def __init__(
        self,
        event: Mapping[str, object],
        store: ArtifactStore,
        claim: Claim | None,
        key: str,
        attempt: int,
        made_by: ArtifactJobs,
    ) -> None:
        self.event, self.store, self.claim, self.made_by = event, store, claim, made_by
        self.key, self.attempt = key, attempt

    def poll_job(self, name: str) -> dict[str, object]:
        """Poll a job of this account."""
        kind = self.made_by.kind
        job = SageMakerJobs(client("sagemaker"), kind).describe(name)
        if job is None:
            return self._fail(f"the {kind.title} {name} does not exist any more; deploy again to start it anew")
        status = kind.status(job)
        log("polled", job_name=name, status=status)
        if kind.has_completed(job):
            return self._complete(job)
        if kind.has_failed(job):
            reason = self.made_by.failure(job)
            return self._fail(f"the {kind.title} {name} ended as {status}: {reason}. Deploy again to run another one")
        return poll_later(
            self.event,
            f"the {kind.title} {name} is still {status}",
            since=job["CreationTime"],
            advice=". Give it a longer timeout (12 hours at most), or let a stack with wait=False run it",
        )

    def follow(self, claim: Claim) -> dict[str, object]:
        """Wait for a job that another account runs: of that one there are only the records.

        There is nothing to do but signal to a stack, which waits for 12 hours at most.
        """
        if not self.event.get("WaitHandle"):
            return DONE
        manifest = self.store.manifest(self.key, claim.attempt)
        if manifest is not None:
            repositories = [str(name) for name in list_in(self.event.get("ServingRepositories"))]
            try:
                check_manifest(self.store, self.key, manifest, repositories=repositories)
            except DeploymentError as error:
                return end(self.event, failure=str(error))
            return end(self.event, data=artifact_data(manifest))
        of_account = f"the {self.made_by.kind.title} of account {claim.maker} for the artifact {self.key}"
        if claim.failure:
            failure = f"{of_account} failed: {claim.failure}. Deploy again to run it here"
            return end(self.event, failure=failure)
        if claim.released:
            return end(self.event, failure=f"{of_account} was given up there. Deploy again to run it here")
        if is_out_of_time(self.event):
            failure = f"{of_account} has not ended in the time this deployment waits. Deploy again later"
            return end(self.event, failure=failure)
        log("followed", artifact_key=self.key, maker=claim.maker)
        return again(60)

    def _complete(self, job: Mapping[str, Any]) -> dict[str, object]:
        claim, made_by = self.claim, self.made_by
        kind = made_by.kind
        name = job[kind.name_member]
        output = made_by.output(job)
        uri = made_by.artifact_uri(output if output.endswith("/") else f"{output}/", name)
        # Before the manifest, which states the files as they stay.
        prefix = uri.removeprefix(f"s3://{self.store.bucket}/")
        for setting in made_by.superfluous_settings(job):
            remove_setting(client("s3"), self.store.bucket, prefix, setting, _kms_key_arn(self.event))
        files = self.store.files(uri, checksums=True)
        if not files:
            return self._fail(f"the {kind.title} {name} completed but wrote nothing to {uri}; deploy again")
        started, ended = made_by.span(job)
        manifest = {
            "schema": 1,
            "artifact_key": self.key,
            "attempt": self.attempt,
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
        if claim is None or claim.attempt == self.attempt:
            self.store.write_manifest(self.key, manifest)
        count("JobSeconds", (ended - started).total_seconds())
        return end(self.event, data=artifact_data(manifest))

    def _fail(self, failure: str) -> dict[str, object]:
        """The attempt failed: say so in the claim, for those who cannot look at the job, and to the stack."""
        self.store.fail(self.key, self.attempt, failure)
        return end(self.event, failure=failure)
