"""``Custom::OptimizationJob`` and ``Custom::TrainingJob``: reuse an artifact, or start or join its job.

Create and Update end within seconds: a state machine watches the job and signals the stack's wait condition. The
physical ID is the artifact key, so a changed recipe replaces the resource. Every step can be repeated;
docs/reliability.md explains their order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ..aws import client
from ..custom_resource import Event, custom_resource, issued_at, signal, start_watching
from ..documents import failed_request, is_artifact_key, object_in
from ..errors import DeploymentError, Superseded, code_of, message_of
from ..jobs.sagemaker_jobs import ARTIFACT_JOBS, RUNNING, SageMakerJobs, job_name
from ..jobs.source import ResolvedSource, resolve, with_reads
from ..requests.properties import ArtifactSource, HubSource, JobProperties, S3Source, StoreProperties, validate
from ..store.artifact_integrity import check_manifest
from ..store.artifact_store import ArtifactStore, Claim, artifact_data, artifact_key
from ..store.json_records import NewerRecord
from ..store.owner_records import APPLIED, CONFIRMED, LEAVING, Owner, OwnerRecord, OwnerRecords
from ..telemetry import Counted, log

_MOST_ATTEMPTS = 50
# The function has 180 seconds. SageMaker ends a training job's code 120 seconds after the stop signal, then uploads.
_STOPPING_SECONDS = 150.0
_REJOIN_ATTEMPTS = 6
# The properties that determine the artifact. They include the handle: otherwise an update of an unrelated property
# would use new content of an unpinned version or S3 prefix, and its wait condition would already be complete.
_DECISIVE = ("RecipeKey", "Source", "Reads", "Bucket", "WaitHandle")


class _Deployment:
    """A request for a resource, with the clients and records it needs."""

    def __init__(self, event: Event, props: StoreProperties) -> None:
        self.event = event
        self.physical_id = event.get("PhysicalResourceId")
        self.owner = Owner(event["StackId"], event["LogicalResourceId"])
        self.request: str = event["RequestId"]
        self.sagemaker = client("sagemaker")
        self.s3 = client("s3")
        # A stack must not need an upgrade to be deleted.
        deletes = event["RequestType"] == "Delete"
        self.store = ArtifactStore(self.s3, props.bucket, props.kms_key_arn, any_schema=deletes)
        self.records = OwnerRecords(self.s3, props.bucket, props.kms_key_arn, any_schema=deletes)
        self.kind = ARTIFACT_JOBS[props.job_kind]
        self.jobs = SageMakerJobs(self.sagemaker, self.kind)
        self.stopped: list[str] = []

    def begin(
        self, *, properties: str = "", gives_up: Callable[[OwnerRecord], Collection[str]] | None = None
    ) -> OwnerRecord:
        """Record the request as the resource's latest one; see ``OwnerRecords.begin``."""
        issued = issued_at(self.event["ResponseURL"])
        return self.records.begin(
            self.owner,
            self.request,
            issued=issued,
            physical_id=self.physical_id,
            properties=properties,
            gives_up=gives_up,
        )

    def job_request(self, key: str, attempt: int, props: JobProperties, source: ResolvedSource) -> dict[str, object]:
        """Return the body of the operation that creates an attempt's job."""
        name, output = job_name(self.store.bucket, key, attempt), self.store.model_uri(key, attempt)
        return self.kind.request(name, key, output, props, source, self.store)

    def abandon(self, key: str) -> None:
        """Remove the owner from the claim of an artifact that its record has left; stop the job if no owner remains."""
        claim = self._agreed(key)
        if claim is not None and self.store.manifest(key, claim.attempt) is None:
            claim = self.store.give_up_job(key)
        if claim is not None and claim.released and claim.made_in(self.owner.account):
            name = job_name(self.store.bucket, key, claim.attempt)
            self.jobs.stop(name)
            self.stopped.append(name)
            log(Counted.job_released, artifact_key=key, attempt=claim.attempt)
        self.records.left(self.owner, self.request, key)

    def _agreed(self, key: str) -> Claim | None:
        """Make the claim agree with the owner's record; return the claim if the owner has left it."""
        # A later request may refer to the artifact again before the claim is changed, so the record is read again
        # after every change, and the job is released only then.
        refers = self.records.get(self.owner).wants(key)
        while True:
            claim = self._rejoin(key) if refers else self._left(key)
            before, refers = refers, self.records.get(self.owner).wants(key)
            if refers == before:
                return claim

    def _left(self, key: str) -> Claim | None:
        claim = self.store.claim(key)
        if claim is None:
            return None
        # CloudFormation describes only stacks of the same account and Region.
        near = self.owner.stack_id.split(":")[:5]
        other_stacks = [owner for owner in claim.owners if owner.stack_id != self.owner.stack_id]
        describable = [owner for owner in other_stacks if owner.stack_id.split(":")[:5] == near]
        cloudformation = client("cloudformation") if describable else None
        gone = [owner for owner in describable if _is_gone(owner.stack_id, cloudformation)]
        return self.store.leave(key, self.owner, finished=True, gone=gone)

    def _rejoin(self, key: str) -> None:
        for attempt in range(_REJOIN_ATTEMPTS):
            if self.store.rejoin(key, self.owner):
                return
            # A concurrent pruning will notice the reference and restore the claim.
            time.sleep(0.2 * 2**attempt)

    def undo(self, key: str) -> None:
        """Undo this failed or superseded request, unless an earlier one refers to the artifact."""
        self.records.withdraw(self.owner, self.request, key)
        self.abandon(key)
        claim = self.store.claim(key)
        # A job that was created too late belongs to an earlier attempt.
        for attempt in range(1, claim.attempt if claim is not None else 1):
            self.jobs.stop(job_name(self.store.bucket, key, attempt))

    def undo_earlier_tries(self) -> None:
        """Undo interrupted attempts at this request, which a later request has superseded."""
        record = self.records.get(self.owner)
        if chosen := record.chosen.get(self.request):
            self.undo(chosen)
        for key in sorted((record.keys.keys() | self.present) - {chosen}):
            self.abandon(key)

    @property
    def present(self) -> set[str]:
        """The resource's artifact, if any."""
        return {self.physical_id} if is_artifact_key(self.physical_id) else set()


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    props = validate(JobProperties, event["ResourceProperties"])
    deployment = _Deployment(event, props)
    digest = _digest(event["ResourceProperties"])
    try:
        before = event.get("OldResourceProperties")
        record = deployment.begin(properties=_digest(before) if before is not None else "")
        deployment.store.check_region(deployment.s3.meta.region_name)
        kept = _kept(event, props, record, digest)
        source = _source(deployment, props, is_needed=kept is None)
        key = kept or artifact_key(props.recipe_key, source.identity)
        # Refuses an invalid request before anything is written.
        deployment.jobs.check(deployment.job_request(key, 1, props, source))
        key = deployment.records.refer(deployment.owner, deployment.request, key).chosen[deployment.request]
    except Superseded:
        deployment.undo_earlier_tries()
        raise
    try:
        job, uri = _make(deployment, key, props, source)
        record = deployment.records.settle(
            deployment.owner, deployment.request, key, properties=digest, before=deployment.physical_id
        )
    except Exception:
        # After a failure here, the next request for the resource leaves the artifact.
        with contextlib.suppress(ClientError, BotoCoreError, DeploymentError):
            deployment.undo(key)
        raise
    # References of interrupted requests and failed deletions.
    for stale in sorted(record.keys_in(LEAVING)):
        deployment.abandon(stale)
    return key, {"ArtifactKey": key, "JobName": job, "ModelDataUri": uri, **source.timeout_attributes}


def _make(deployment: _Deployment, key: str, props: JobProperties, source: ResolvedSource) -> tuple[str, str]:
    """Claim the artifact, and start or join its job if it is missing; return the job's name and the artifact's URI."""
    store, event = deployment.store, deployment.event
    identity = {"identity": source.identity}
    claim = store.join(key, deployment.owner, due=_due(props), source=identity, description=props.description)
    manifest = store.manifest(key, claim.attempt)
    if manifest is not None:
        check_manifest(store, key, manifest)
        log(Counted.artifact_reused, artifact_key=key)
        if props.wait_handle:
            signal(props.wait_handle, data=artifact_data(manifest))
        return manifest["job_name"], manifest["model_data_uri"]
    claim = _start(deployment, claim, props, source)
    # A repeated event uses the same execution.
    once = hashlib.sha256(f"{event['StackId']}{event['RequestId']}".encode()).hexdigest()[:32]
    document = {
        "Kind": props.job_kind,
        "Bucket": props.bucket,
        "KmsKeyArn": props.kms_key_arn,
        "ArtifactKey": key,
        "Attempt": claim.attempt,
        "Account": deployment.owner.account,
    }
    start_watching(props, f"{key[:32]}-{once}", document)
    name = job_name(props.bucket, key, claim.attempt)
    return name, deployment.kind.artifact_uri(store.model_uri(key, claim.attempt), name)


def _source(deployment: _Deployment, props: JobProperties, *, is_needed: bool) -> ResolvedSource:
    """Return the model's current files, which may be missing unless they are needed."""
    try:
        model = resolve(props.source, sagemaker=deployment.sagemaker, s3=deployment.s3)
        return with_reads(model, props.reads, deployment.s3)
    except DeploymentError:
        if is_needed or not isinstance(props.source, S3Source):
            raise
        return ResolvedSource(identity="", uri=props.source.uri, accept_eula=props.source.accept_eula)


def _digest(properties: Mapping[str, object]) -> str:
    """Return a digest of the properties that determine the artifact."""
    decisive = json.dumps([properties.get(name) for name in _DECISIVE], sort_keys=True)
    return hashlib.sha256(decisive.encode()).hexdigest()[:32]


def _kept(event: Event, props: JobProperties, record: OwnerRecord, digest: str) -> str | None:
    """Return the artifact that an update restores or keeps, regardless of the model's current files; None if none."""
    pinned = not props.reads and (
        isinstance(props.source, ArtifactSource)
        or (isinstance(props.source, HubSource) and props.source.version is not None)
    )
    present = event.get("PhysicalResourceId")
    # A creation does not restore an artifact.
    made = set[str]() if pinned or present is None else record.made_with(digest)
    return present if present in made else min(made, default=None)


def _start(deployment: _Deployment, claim: Claim, props: JobProperties, source: ResolvedSource) -> Claim:
    """Join the claim's job or create it; start the next attempt if the last one failed."""
    store, jobs, account = deployment.store, deployment.jobs, deployment.owner.account
    key = claim.artifact_key
    if artifact_key(props.recipe_key, source.identity) != key:
        # The artifact cannot be made again: the model's files have changed since it was claimed.
        kept = key in deployment.records.get(deployment.owner).keys_in(APPLIED, CONFIRMED)
        if not kept and claim.made_in(account) and not jobs.describe(job_name(props.bucket, key, claim.attempt)):
            raise DeploymentError("the model's files changed during the deployment; deploy again")
        log("unchanged", artifact_key=key, attempt=claim.attempt)
        return claim
    for _ in range(_MOST_ATTEMPTS):
        if not claim.made_in(account):
            if not claim.failure and (not claim.due or time.time() < claim.due):
                log("follows", artifact_key=key, maker=claim.maker)
                return claim
            claim = store.next_attempt(key, claim, maker=account, due=_due(props))
            continue
        name = job_name(props.bucket, key, claim.attempt)
        output = store.model_uri(key, claim.attempt)
        job = jobs.describe(name)
        if job is None and not store.files(output):
            if claim.attempt > 1:
                # The last owner may have been interrupted before it stopped the job.
                jobs.stop(job_name(props.bucket, key, claim.attempt - 1))
            # The job of a superseded request would have no owner.
            deployment.records.check_latest(deployment.owner, deployment.request)
            if jobs.create(deployment.job_request(key, claim.attempt, props, source)):
                log(Counted.job_created, job_name=name, artifact_key=key)
                return claim
            continue
        if job is not None and _is_usable(job, name, deployment, key, output):
            log(Counted.job_attached, job_name=name, artifact_key=key, status=jobs.kind.status(job))
            return claim
        claim = store.next_attempt(key, claim, maker=account, due=_due(props))
    raise DeploymentError(
        f"{_MOST_ATTEMPTS} jobs for the artifact {key} already exist, and none of them can be used; "
        f"delete the {jobs.kind.title}s named {job_name(props.bucket, key, 0)[:-1]}*, then deploy again"
    )


def _due(props: JobProperties) -> int:
    """Return when a job that starts now must have ended: after its time limit and an hour for waiting and stopping."""
    limits = object_in(props.request.get("StoppingCondition")).values()
    # The wait limit for spot capacity includes the runtime. The maximum is 28 days (API reference, StoppingCondition).
    longest = max((int(str(seconds)) for seconds in limits), default=0) or 2_419_200
    return int(time.time()) + longest + 3600


def _is_usable(job: Mapping[str, Any], name: str, deployment: _Deployment, key: str, output: str) -> bool:
    """Return whether the job is running, or has completed and all its files are still in the store."""
    store, kind = deployment.store, deployment.kind
    if kind.output(job).rstrip("/") != output.rstrip("/"):
        return False
    if not kind.has_status(job, "COMPLETED"):
        return kind.has_status(job, *RUNNING)
    uri = kind.artifact_uri(output, name)
    written = store.written_manifest(key)
    if written is not None and written["model_data_uri"] == uri:
        # Its files must be incomplete: otherwise the manifest would have been reused.
        return False
    return bool(store.files(uri))


def _delete(event: Event) -> None:
    deployment = _Deployment(event, validate(StoreProperties, event["ResourceProperties"]))
    physical_id = deployment.physical_id
    try:
        try:
            record = deployment.begin(gives_up=lambda record: record.deleted_with(physical_id))
        except Superseded:
            deployment.undo_earlier_tries()
            raise
        for key in sorted(record.keys_in(LEAVING) | deployment.present):
            deployment.abandon(key)
        # CloudFormation deletes the stopped jobs' role and security groups next.
        until = time.monotonic() + _STOPPING_SECONDS
        for name in deployment.stopped:
            with contextlib.suppress(ClientError, BotoCoreError):
                deployment.jobs.wait_while_stopping(name, until)
    except NewerRecord as newer:
        # The record's form is unknown. `artifacts prune` removes the owner after the stack is deleted.
        log("unchanged", reason=str(newer))
    except ClientError as error:
        if code_of(error) == "NoSuchBucket":
            # Without the bucket there are no claims, and the jobs' output would be lost.
            for key in deployment.present:
                deployment.jobs.stop_all(deployment.store.bucket, key)
        elif failed_request(physical_id) is None or deployment.records.may_refer(deployment.owner):
            raise
        # Otherwise the creation failed before it referred to an artifact, perhaps for the same reason.


def _is_gone(stack_id: str, cloudformation: Any) -> bool:
    """Return whether the stack is deleted; a stack that cannot be described counts as existing."""
    try:
        stacks = cloudformation.describe_stacks(StackName=stack_id)["Stacks"]
    except ClientError as error:
        return "does not exist" in message_of(error)
    except BotoCoreError:
        return False
    return all(stack["StackStatus"] == "DELETE_COMPLETE" for stack in stacks)


handler = custom_resource(ensure=_ensure, delete=_delete)
