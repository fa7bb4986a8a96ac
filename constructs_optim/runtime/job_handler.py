"""``Custom::OptimizationJob`` and ``Custom::TrainingJob``: make sure that the artifact exists or is being made.

Create and Update end within seconds: what takes hours is watched by a state machine, which signals the stack's wait
condition. The physical id is the artifact key, so a changed recipe replaces the resource and CloudFormation itself
asks for the old one's deletion, or for the new one's when the update is rolled back.

The order of the steps is what makes every one of them repeatable: the request is written down first, the artifact
before it is claimed, the claim before the job, the watcher last (docs/reliability.md).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from .artifact_integrity import check_manifest
from .artifact_jobs import of_kind
from .artifact_store import ArtifactStore, Claim, artifact_key
from .cloudformation import Event, issued_at, signal
from .custom_resource import answer, client, deleted_artifacts, failed_request
from .errors import DeploymentError, code_of
from .owner_records import BEGUN, Owner, OwnerRecord, OwnerRecords, Superseded
from .properties import (
    ArtifactSource,
    HubSource,
    JobProperties,
    is_artifact_key,
    parse_job_kind,
    parse_job_properties,
    parse_store,
)
from .sagemaker_jobs import SageMakerJobs, job_name
from .source import ResolvedSource, resolve, with_reads
from .stacks import gone
from .telemetry import entry_point, log
from .value_shapes import object_in
from .watching import deadline

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

_MOST_ATTEMPTS = 50
# 28 days, the most a job may be given (API reference, StoppingCondition).
_LONGEST_SECONDS = 2_419_200
# A function has 180. SageMaker ends a training job's code 120 seconds after it was told to end, and uploads then.
_STOPPING_SECONDS = 150.0


@entry_point
def handler(event: Event, context: LambdaContext) -> None:
    """Entry point. Whatever happens, CloudFormation gets an answer."""
    answer(event, context, ensure=_ensure, delete=_delete)


class _Deployment:
    """One resource's request, and what it is carried out with."""

    def __init__(self, event: Event, kind: str, bucket: str, kms_key_arn: str | None) -> None:
        self.event = event
        self.owner = Owner(event["StackId"], event["LogicalResourceId"])
        self.request: str = event["RequestId"]
        self.sagemaker = client("sagemaker")
        self.s3 = client("s3")
        self.store = ArtifactStore(self.s3, bucket, kms_key_arn)
        self.records = OwnerRecords(self.s3, bucket, kms_key_arn)
        self.made_by = of_kind(kind)
        self.jobs = SageMakerJobs(self.sagemaker, self.made_by.kind)
        self.stopped: list[str] = []

    def begin(self) -> OwnerRecord:
        """Write the request down as the resource's latest."""
        return self.records.begin(
            self.owner,
            self.request,
            issued=issued_at(self.event["ResponseURL"]),
            physical_id=self.event.get("PhysicalResourceId"),
        )

    def abandon(self, key: str) -> None:
        """Give up the owner's interest; the job is stopped when nobody else has one and it is not finished."""
        claim = self.store.claim(key)
        if claim is not None:
            others = [owner for owner in claim.owners if owner != self.owner]
            dead = gone(others, self.owner, client("cloudformation")) if others else ()
            finished = self.store.manifest(key, claim.attempt) is not None
            claim = self.store.leave(key, self.owner, finished=finished, gone=dead)
        if claim is not None and claim.released and claim.made_in(self.owner.account):
            name = job_name(self.store.bucket, key, claim.attempt)
            self.jobs.stop(name)
            self.stopped.append(name)
            log("released", artifact=key, attempt=claim.attempt)
        self.records.forget(self.owner, key)

    def wait_for_stopped_jobs(self) -> None:
        """Give stopped jobs the time to end before CloudFormation goes on.

        It deletes their role next, without which a training job cannot write its checkpoint, and their security
        groups, which cannot be deleted while a job uses them. What was to be done is done by now, so that whatever
        goes wrong here fails nothing.
        """
        until = time.monotonic() + _STOPPING_SECONDS
        for name in self.stopped:
            with contextlib.suppress(ClientError, BotoCoreError):
                self.jobs.wait_while_stopping(name, until)


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    wanted = parse_job_properties(event["ResourceProperties"])
    deployment = _Deployment(event, wanted.kind, wanted.bucket, wanted.kms_key_arn)

    def find() -> tuple[ResolvedSource, str]:
        model = resolve(wanted.source, sagemaker=deployment.sagemaker, s3=deployment.s3)
        source = with_reads(model, wanted.reads, deployment.s3)
        return source, _key(event, wanted, source)

    try:
        deployment.begin()
    except Superseded:
        # An earlier try of this very request may have joined the claim after the later one had left it, and died.
        _give_up(deployment, find()[1])
        raise
    deployment.store.check_region(deployment.s3.meta.region_name)
    source, key = find()
    deployment.records.refer(deployment.owner, deployment.request, key)
    try:
        attributes = _make(deployment, key, wanted, source)
        record = deployment.records.settle(deployment.owner, deployment.request, key)
    except Exception:
        # What cannot be given up now is given up by CloudFormation's next request for the resource.
        with contextlib.suppress(ClientError, BotoCoreError, DeploymentError):
            _give_up(deployment, key)
        raise
    # A resource has one artifact, and during an update the one before: all else is left from requests that died, or
    # from a deletion that failed and that CloudFormation has forgotten.
    for stale in sorted(set(record.keys) - {key, event.get("PhysicalResourceId")}):
        deployment.abandon(stale)
    return key, attributes


def _give_up(deployment: _Deployment, key: str) -> None:
    """Undo what a request did that failed or was superseded, unless the artifact was its owner's before."""
    reference = deployment.records.get(deployment.owner).keys.get(key)
    if reference is None or (reference.state == BEGUN and reference.request == deployment.request):
        deployment.abandon(key)


def _make(deployment: _Deployment, key: str, wanted: JobProperties, source: ResolvedSource) -> dict[str, str]:
    """Claim the artifact, and start or join what makes it where it is not there."""
    store, event = deployment.store, deployment.event
    claim = store.join(
        key,
        deployment.owner,
        due=_due(wanted),
        source={"identity": source.identity},
        description=dict(wanted.description),
    )
    manifest = store.manifest(key, claim.attempt)
    if manifest is not None:
        check_manifest(store, key, manifest, repositories=wanted.serving_repositories)
        log("reused", artifact=key)
        if wanted.wait_handle:
            signal(wanted.wait_handle, data=signal_data(manifest))
        return _attributes(key, manifest["job_name"], manifest["model_data_uri"], source)
    claim = _start(deployment, claim, wanted, source)
    _watch(event, wanted, claim)
    name = job_name(wanted.bucket, key, claim.attempt)
    uri = deployment.made_by.artifact_uri(store.model_uri(key, claim.attempt), name)
    return _attributes(key, name, uri, source)


def _key(event: Event, wanted: JobProperties, source: ResolvedSource) -> str:
    """The artifact's key; an update that does not touch recipe or source keeps the one it has.

    Without that, the redeployment of an unrelated property would pick up whatever a model's unpinned version or an
    S3 prefix has become, behind a wait condition that is satisfied already.
    """
    kept = event.get("PhysicalResourceId")
    old = event.get("OldResourceProperties", {})
    new = event["ResourceProperties"]
    pinned = not wanted.reads and (
        isinstance(wanted.source, ArtifactSource)
        or (isinstance(wanted.source, HubSource) and wanted.source.version is not None)
    )
    same = all(old.get(name) == new.get(name) for name in ("RecipeKey", "Source", "Reads", "Bucket", "WaitHandle"))
    if same and not pinned and is_artifact_key(kept):
        return kept
    return artifact_key(wanted.recipe_key, source.identity)


def _start(deployment: _Deployment, claim: Claim, wanted: JobProperties, source: ResolvedSource) -> Claim:
    """Attach to the claim's job or create it; move to the next attempt where the last one came to nothing."""
    store, jobs, account = deployment.store, deployment.jobs, deployment.owner.account
    key = claim.artifact_key
    for _ in range(_MOST_ATTEMPTS):
        if not claim.made_in(account):
            if not claim.failure and (not claim.due or time.time() < claim.due):
                log("follows", artifact=key, maker=claim.maker)
                return claim
            claim = store.next_attempt(key, claim, maker=account, due=_due(wanted))
            continue
        name = job_name(wanted.bucket, key, claim.attempt)
        output = store.model_uri(key, claim.attempt)
        job = jobs.describe(name)
        if job is None and not store.files(output):
            if claim.attempt > 1:
                # Its last owner may have died between leaving and stopping it.
                jobs.stop(job_name(wanted.bucket, key, claim.attempt - 1))
            if jobs.create(deployment.made_by.request(name, key, output, wanted, source, store)):
                log("created", job=name, artifact=key)
                return claim
            continue
        if job is not None and _is_usable(job, name, deployment, key, output):
            log("attached", job=name, artifact=key, status=jobs.kind.status(job))
            return claim
        claim = store.next_attempt(key, claim, maker=account, due=_due(wanted))
    raise DeploymentError(
        f"{_MOST_ATTEMPTS} jobs for the artifact {key} exist already and none of them can be used; "
        f"delete the {jobs.kind.title}s named {job_name(wanted.bucket, key, 0)[:-1]}*, then deploy again"
    )


def _due(wanted: JobProperties) -> int:
    """When a job that starts now must have ended: its longest runtime, and an hour for waiting and stopping."""
    limits = object_in(wanted.request.get("StoppingCondition")).values()
    # Waiting for spot capacity is longer than running.
    longest = max((int(str(seconds)) for seconds in limits), default=0) or _LONGEST_SECONDS
    return int(time.time()) + longest + 3600


def _is_usable(job: Mapping[str, Any], name: str, deployment: _Deployment, key: str, output: str) -> bool:
    """Whether a job of the name makes or has made the artifact, and nothing of it was taken away since."""
    store, made_by = deployment.store, deployment.made_by
    if made_by.output(job).rstrip("/") != output.rstrip("/"):
        return False
    if not made_by.kind.has_completed(job):
        return made_by.kind.is_running(job)
    uri = made_by.artifact_uri(output, name)
    written = store.written_manifest(key)
    if written is not None and written["model_data_uri"] == uri:
        # A manifest whose files are all there would have been reused.
        return False
    return bool(store.files(uri))


def _watch(event: Event, wanted: JobProperties, claim: Claim) -> None:
    """Start the watcher, once for each event: a repeated event finds the execution it started before."""
    once = hashlib.sha256(f"{event['StackId']}{event['RequestId']}".encode()).hexdigest()[:32]
    try:
        client("stepfunctions").start_execution(
            stateMachineArn=wanted.state_machine_arn,
            name=f"{claim.artifact_key[:32]}-{once}",
            input=json.dumps(
                {
                    "Kind": wanted.kind,
                    "Bucket": wanted.bucket,
                    "KmsKeyArn": wanted.kms_key_arn,
                    "ArtifactKey": claim.artifact_key,
                    "Attempt": claim.attempt,
                    "ServingRepositories": list(wanted.serving_repositories),
                    "Account": Owner(event["StackId"], event["LogicalResourceId"]).account,
                    "Deadline": deadline(wanted.wait_seconds),
                    "WaitHandle": wanted.wait_handle,
                }
            ),
        )
    except ClientError as error:
        if code_of(error) != "ExecutionAlreadyExists":
            raise


def _delete(event: Event) -> None:
    bucket, kms_key_arn = parse_store(event["ResourceProperties"])
    deployment = _Deployment(event, parse_job_kind(event["ResourceProperties"]), bucket, kms_key_arn)
    physical_id = event.get("PhysicalResourceId")
    try:
        record = deployment.begin()
        for key in sorted(deleted_artifacts(record, physical_id)):
            deployment.abandon(key)
        deployment.wait_for_stopped_jobs()
    except ClientError as error:
        if code_of(error) == "NoSuchBucket":
            # With the bucket went the claims, and where a job's output would go: it can be of use to nobody.
            if is_artifact_key(physical_id):
                deployment.jobs.stop_all(bucket, str(physical_id))
        elif failed_request(physical_id) is None or deployment.records.may_refer(deployment.owner):
            raise
        # Otherwise the creation failed before it referred to anything, maybe for the reason that this one fails for.


def signal_data(manifest: Mapping[str, Any]) -> str:
    """What a wait condition's Data carries: ``|image|model data URI|job name|``.

    The bars let a template take a part out of the JSON that CloudFormation wraps it in, with Fn::Split.
    """
    return f"|{manifest['image']}|{manifest['model_data_uri']}|{manifest['job_name']}|"


def _attributes(key: str, job: str, model_data_uri: str, source: ResolvedSource) -> dict[str, str]:
    return {"ArtifactKey": key, "JobName": job, "ModelDataUri": model_data_uri, **source.timeout_attributes}
