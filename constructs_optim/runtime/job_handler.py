"""``Custom::OptimizationJob``: make sure that the artifact exists or is being made, and who is to be told.

Create and Update end within seconds: what takes hours is watched by a state machine, which signals the stack's wait
condition. The physical id is the artifact key, so a changed recipe replaces the resource and CloudFormation itself
asks for the old one's deletion, or for the new one's when the update is rolled back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

from .artifact_store import ArtifactStore, Claim, Owner, artifact_key
from .cloudformation import signal
from .custom_resource import CLIENT, answer
from .errors import DeploymentError
from .log import log
from .optimization_jobs import COMPLETED, RUNNING, OptimizationJobs, job_name
from .properties import ArtifactSource, HubSource, JobProperties, is_artifact_key, parse_bucket, parse_job_properties
from .source import ResolvedSource, resolve

_MOST_ATTEMPTS = 50


def handler(event: Mapping[str, Any], context: object) -> None:
    """Entry point. Whatever happens, CloudFormation gets an answer."""
    answer(event, _ensure, _delete)


def _ensure(event: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    wanted = parse_job_properties(event["ResourceProperties"])
    clients = _clients()
    source = resolve(wanted.source, sagemaker=clients["sagemaker"], s3=clients["s3"])
    key = _key(event, wanted, source)
    store = ArtifactStore(clients["s3"], wanted.bucket, wanted.kms_key_arn)
    jobs = OptimizationJobs(clients["sagemaker"])
    owner = Owner(event["StackId"], event["LogicalResourceId"])
    referred_before = owner in getattr(store.claim(key), "owners", ())
    claim = store.join(key, owner, source={"identity": source.identity}, description=dict(wanted.description))
    manifest = store.manifest(key)
    if manifest is not None:
        log("reused", artifact=key)
        if wanted.wait_handle:
            signal(wanted.wait_handle, data=signal_data(manifest))
        return key, _attributes(key, manifest["job_name"], manifest["model_data_uri"])
    try:
        claim = _start(store, jobs, claim, wanted, source)
        _watch(event, clients["stepfunctions"], wanted, claim)
    except Exception:
        # An update that fails must not take away the reference its stack has had all along.
        if not referred_before:
            _abandon(store, jobs, key, owner)
        raise
    return key, _attributes(key, job_name(wanted.bucket, key, claim.attempt), store.model_uri(key, claim.attempt))


def _key(event: Mapping[str, Any], wanted: JobProperties, source: ResolvedSource) -> str:
    """The artifact's key; an update that does not touch recipe or source keeps the one it has.

    Without that, the redeployment of an unrelated property would pick up whatever a model's unpinned version or an
    S3 prefix has become, behind a wait condition that is satisfied already.
    """
    kept = event.get("PhysicalResourceId")
    old = event.get("OldResourceProperties") or {}
    new = event["ResourceProperties"]
    pinned = isinstance(wanted.source, ArtifactSource) or (
        isinstance(wanted.source, HubSource) and wanted.source.version is not None
    )
    same = all(old.get(name) == new.get(name) for name in ("RecipeKey", "Source", "Bucket", "WaitHandle"))
    if same and not pinned and isinstance(kept, str) and is_artifact_key(kept):
        return kept
    return artifact_key(wanted.recipe_key, source.identity)


def _start(
    store: ArtifactStore, jobs: OptimizationJobs, claim: Claim, wanted: JobProperties, source: ResolvedSource
) -> Claim:
    """Attach to the claim's job or create it; move to the next attempt where the last one came to nothing."""
    key = claim.artifact_key
    for _ in range(_MOST_ATTEMPTS):
        name = job_name(wanted.bucket, key, claim.attempt)
        output = store.model_uri(key, claim.attempt)
        job = jobs.describe(name)
        if job is None:
            if jobs.create(_request(name, output, wanted, source)):
                log("created", job=name, artifact=key)
                return claim
            continue
        status = job["OptimizationJobStatus"]
        ours = job["OutputConfig"]["S3OutputLocation"].rstrip("/") == output.rstrip("/")
        if ours and (status in RUNNING or (status == COMPLETED and store.files(output))):
            log("attached", job=name, artifact=key, status=status)
            return claim
        claim = store.next_attempt(key, claim)
    raise DeploymentError(
        f"{_MOST_ATTEMPTS} jobs for the artifact {key} exist already and none of them can be used; "
        f"delete the optimization jobs named {job_name(wanted.bucket, key, 0)[:-1]}*, then deploy again"
    )


def _request(name: str, output: str, wanted: JobProperties, source: ResolvedSource) -> dict[str, Any]:
    encryption = {"KmsKeyId": wanted.kms_key_arn} if wanted.kms_key_arn else {}
    return {
        **wanted.request,
        "OptimizationJobName": name,
        "RoleArn": wanted.role_arn,
        "ModelSource": source.model_source,
        "OutputConfig": {"S3OutputLocation": output, **encryption},
        "Tags": [{"Key": tag, "Value": value} for tag, value in wanted.tags],
    }


def _watch(event: Mapping[str, Any], stepfunctions: Any, wanted: JobProperties, claim: Claim) -> None:
    """Start the watcher, once for each event: a repeated event finds the execution it started before."""
    once = hashlib.sha256(f"{event['StackId']}{event['RequestId']}".encode()).hexdigest()[:32]
    try:
        stepfunctions.start_execution(
            stateMachineArn=wanted.state_machine_arn,
            name=f"{claim.artifact_key[:32]}-{once}",
            input=json.dumps(
                {
                    "Bucket": wanted.bucket,
                    "KmsKeyArn": wanted.kms_key_arn,
                    "ArtifactKey": claim.artifact_key,
                    "Attempt": claim.attempt,
                    "WaitHandle": wanted.wait_handle,
                }
            ),
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            raise


def _delete(event: Mapping[str, Any]) -> None:
    key = event.get("PhysicalResourceId")
    if not is_artifact_key(key):
        # A create that failed before it had a key: there is nothing of it.
        return
    clients = _clients()
    store = ArtifactStore(clients["s3"], parse_bucket(event["ResourceProperties"]))
    owner = Owner(event["StackId"], event["LogicalResourceId"])
    try:
        _abandon(store, OptimizationJobs(clients["sagemaker"]), str(key), owner)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchBucket":
            raise


def _abandon(store: ArtifactStore, jobs: OptimizationJobs, key: str, owner: Owner) -> None:
    """Give up ``owner``'s interest; the job is stopped when nobody else has one and it is not finished."""
    claim = store.leave(key, owner, finished=store.manifest(key) is not None)
    if claim is not None and claim.released:
        jobs.stop(job_name(store.bucket, key, claim.attempt))
        log("released", artifact=key, attempt=claim.attempt)


def signal_data(manifest: Mapping[str, Any]) -> str:
    """What a wait condition's Data carries: ``|image|model data URI|job name|``.

    The bars let a template take a part out of the JSON that CloudFormation wraps it in, with Fn::Split.
    """
    return f"|{manifest['image']}|{manifest['model_data_uri']}|{manifest['job_name']}|"


def _attributes(key: str, job: str, model_data_uri: str) -> dict[str, str]:
    return {"ArtifactKey": key, "JobName": job, "ModelDataUri": model_data_uri}


def _clients() -> dict[str, Any]:
    return {name: boto3.client(name, config=CLIENT) for name in ("s3", "sagemaker", "stepfunctions")}
