"""``Custom::OptimizedArtifact``: a reference to an existing artifact by its key, which is the physical ID.

The handler writes only this owner's record, because another account may own the store and share it for reading. It
writes the record before it reads the artifact, so that a concurrent pruning notices it (operations/pruning.py).
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ..aws import client
from ..custom_resource import Event, custom_resource, issued_at
from ..documents import failed_request, list_in, nested, object_in
from ..errors import DeploymentError, Superseded, code_of
from ..jobs.sagemaker_jobs import ARTIFACT_JOBS, RUNNING, SageMakerJobs, job_name
from ..jobs.source import is_of
from ..requests.properties import ArtifactProperties, StoreProperties, validate
from ..store.artifact_integrity import check_manifest
from ..store.artifact_store import ArtifactStore, Claim, artifact_key
from ..store.json_records import NewerRecord
from ..store.owner_records import LEAVING, Owner, OwnerRecords
from ..telemetry import log

# A response has 4,096 bytes and up to three quotes.
_LONGEST_QUOTE = 320
_DEPLOY_ITS_STACK = (
    "redeploy the stack that makes it, which runs another job, then deploy this stack when that job has ended. A stack "
    "that did not wait for its job deploys only with a change, such as another max_runtime of the job"
)


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    props = validate(ArtifactProperties, event["ResourceProperties"])
    owner, request, key = _owner(event), event["RequestId"], props.artifact_key
    physical_id = event.get("PhysicalResourceId")
    s3 = client("s3")
    store = ArtifactStore(s3, props.bucket, props.kms_key_arn)
    records = OwnerRecords(s3, props.bucket, props.kms_key_arn)
    records.begin(owner, request, issued=issued_at(event["ResponseURL"]), physical_id=physical_id)
    store.check_region(s3.meta.region_name)
    records.refer(owner, request, key)
    try:
        manifest = _manifest(store, props, owner)
        record = records.settle(owner, request, key, before=physical_id)
    except Superseded:
        # The later request decides on the reference.
        raise
    except Exception:
        # After a failure here, the next request for the resource removes the reference.
        with contextlib.suppress(ClientError, BotoCoreError, DeploymentError):
            records.withdraw(owner, request, key)
            records.left(owner, request, key)
        raise
    # References of interrupted requests.
    for stale in sorted(record.keys_in(LEAVING)):
        records.left(owner, request, stale)
    log("referred", artifact_key=key, job_name=manifest["job_name"])
    attributes = {"ModelDataUri": "model_data_uri", "Image": "image", "JobName": "job_name"}
    return key, {"ArtifactKey": key, **{name: manifest[member] for name, member in attributes.items()}}


def _delete(event: Event) -> None:
    store = validate(StoreProperties, event["ResourceProperties"])
    # A stack must not need an upgrade to be deleted.
    records = OwnerRecords(client("s3"), store.bucket, store.kms_key_arn, any_schema=True)
    owner, request = _owner(event), event["RequestId"]
    physical_id = event.get("PhysicalResourceId")
    try:
        record = records.begin(
            owner,
            request,
            issued=issued_at(event["ResponseURL"]),
            physical_id=physical_id,
            gives_up=lambda record: record.deleted_with(physical_id),
        )
        for key in sorted(record.keys_in(LEAVING)):
            records.left(owner, request, key)
            log("unreferenced", artifact_key=key)
    except NewerRecord as newer:
        # The record's form is unknown. `artifacts prune` removes the reference after the stack is deleted.
        log("unchanged", reason=str(newer))
    except ClientError as error:
        # Without the bucket, or if the creation failed before it referred to anything, there is no reference.
        has_bucket = code_of(error) != "NoSuchBucket"
        if has_bucket and (failed_request(physical_id) is None or records.may_refer(owner)):
            raise


def _owner(event: Event) -> Owner:
    return Owner(event["StackId"], event["LogicalResourceId"])


def _manifest(store: ArtifactStore, props: ArtifactProperties, owner: Owner) -> dict[str, Any]:
    """Return the artifact's manifest.

    Raises:
        DeploymentError: if the artifact is missing, damaged, or made by another recipe than the declared one.
    """
    key = props.artifact_key
    claim = store.claim(key)
    # The files of a released claim may be removed at any time.
    is_released = claim is not None and claim.released
    manifest = store.manifest(key, claim.attempt if claim is not None else None) if not is_released else None
    if manifest is None:
        problem, next_step = _missing(store, props, claim, owner)
        raise DeploymentError(f"the artifact {key} is not in the store {store.bucket}: {problem}. Next: {next_step}")
    identity = str(nested(manifest, "source", "identity") or "")
    by_this_recipe = props.recipe_key is None or artifact_key(props.recipe_key, identity) == key
    if not by_this_recipe or (props.source is not None and not is_of(props.source, identity)):
        actual = _described(object_in(manifest.get("description")))
        raise DeploymentError(
            f"the artifact {key} in the store {store.bucket} was made by another recipe: it is {actual}, made from "
            f"{_quoted(identity) or 'an unknown source'}, but this stack declares {_described(props.description)}. "
            "They differ in model, techniques, settings, accelerator, tensor parallel degree, or container image "
            "(which the release of constructs-optim chooses). Next: declare the recipe of the stack that made the "
            "artifact, with the same release, or use the key of this recipe"
        )
    check_manifest(store, key, manifest)
    return manifest


def _missing(store: ArtifactStore, props: ArtifactProperties, claim: Claim | None, owner: Owner) -> tuple[str, str]:
    """Return why an artifact is missing, and the next step."""
    written = store.written_manifest(props.artifact_key)
    if claim is None and written is None:
        problem = f"no job has made it there, and none is running. This stack declares {_described(props.description)}"
        return problem, (
            "deploy a stack with an OptimizationJob of this recipe and store, then deploy this stack when the job has "
            "ended; or correct the key or the store"
        )
    if claim is None or (written is not None and written.get("attempt", claim.attempt) == claim.attempt):
        if claim is not None and claim.released:
            return "all stacks have released it, and its files may be deleted at any time", _DEPLOY_ITS_STACK
        return "its manifest exists, but files were removed or changed since", _DEPLOY_ITS_STACK
    if claim.failure:
        return f"the last attempt failed: {_quoted(claim.failure)}", _DEPLOY_ITS_STACK
    if claim.released:
        return "the stacks that requested it released it before it was complete", _DEPLOY_ITS_STACK
    # The second part of a stack's ARN is its name.
    ids = [owner.stack_id for owner in claim.owners if claim.made_in(owner.account) and "/" in owner.stack_id]
    names = list(dict.fromkeys(stack_id.split("/")[1] for stack_id in ids))
    stacks = f" for the stack{'s' if len(names) > 1 else ''} {', '.join(names[:3])}" if names else ""
    if not claim.made_in(owner.account):
        until = f", by {_minute(dt.datetime.fromtimestamp(claim.due, dt.UTC))} at the latest" if claim.due else ""
        next_step = "deploy again when its job has ended; only that account can describe the job"
        return f"account {claim.maker} is making it{stacks}{until}", next_step
    name, kind = job_name(store.bucket, claim.artifact_key, claim.attempt), ARTIFACT_JOBS[props.job_kind]
    job = SageMakerJobs(client("sagemaker"), kind).describe(name)
    if job is None:
        return f"its {kind.title} {name} does not exist", _DEPLOY_ITS_STACK
    status = kind.status(job)
    if kind.has_status(job, *RUNNING):
        since = _minute(job["CreationTime"].astimezone(dt.UTC))
        problem = f"the {kind.title} {name} is making it{stacks} and is {status} (created {since})"
        return problem, f"run `constructs-optim jobs watch {name}`, and deploy again when the job has ended"
    if kind.has_status(job, "COMPLETED"):
        problem = f"the {kind.title} {name} has completed, but its manifest is not written yet"
        return problem, f"deploy again in a few minutes. If that does not help, {_DEPLOY_ITS_STACK}"
    reason = _quoted(job.get("FailureReason") or "SageMaker gives no reason")
    return f"the {kind.title} {name} is {status}: {reason}", _DEPLOY_ITS_STACK


def _minute(time: dt.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _described(description: Mapping[str, object]) -> str:
    parts = [description.get("Model"), *list_in(description.get("Techniques"))]
    instance = f" for {description['InstanceType']}" if description.get("InstanceType") else ""
    return _quoted(" + ".join(str(part) for part in parts if part) + instance) or "an artifact without a description"


def _quoted(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 3]}..."


handler = custom_resource(ensure=_ensure, delete=_delete)
