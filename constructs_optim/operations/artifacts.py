"""The artifacts of a store with their states, files, and owners."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError, code_of
from constructs_optim.runtime.jobs.sagemaker_jobs import job_name
from constructs_optim.runtime.store.artifact_integrity import Finding, attempt_of, differences, misplaced
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Claim, Owner
from constructs_optim.runtime.store.json_records import NewerRecord, in_threads
from constructs_optim.runtime.store.owner_records import OwnerRecord, OwnerRecords, UnreadableRecord

from .jobs import JOB_NAME, Job, JobStatus, describe_job

_KEY = re.compile(r"artifacts/([0-9a-f]{64})/(.+)")
_MODEL_FILE = re.compile(r"(?:model/(\d+)|tensorboard)/(.+)")
REQUESTS_AT_ONCE = 48
"""The number of concurrent requests; the client needs as many connections (``max_pool_connections``)."""
_Record = TypeVar("_Record")


class State(StrEnum):
    """The state of an artifact."""

    ready = "ready"
    in_progress = "in progress"
    failed = "failed"
    damaged = "damaged"
    incomplete = "incomplete"
    newer = "of a newer release"
    released = "released"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of an attempt, or TensorBoard's (attempt 0); ``name`` is relative to its prefix, ``size`` in bytes."""

    attempt: int
    name: str
    size: int
    etag: str
    modified_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact of a store: its records, files, and owners.

    ``detail`` explains the state. ``is_complete``: the manifest belongs to the claim's attempt. ``files`` are the files
    of all attempts. ``unreadable`` names invalid records. ``is_newer``: a newer release wrote its claim or manifest.
    ``changed_at`` is when any of its objects was last written, which includes new and removed references of stacks.
    ``failure`` is why the job of the claim's attempt failed; None if it did not.
    """

    key: str
    state: State
    detail: str
    is_complete: bool
    claim: Claim | None
    manifest: dict[str, Any] | None
    files: tuple[StoredFile, ...]
    owners: tuple[Owner, ...]
    job: Job | None
    unreadable: tuple[str, ...]
    changed_at: dt.datetime
    is_newer: bool = False
    failure: str | None = None

    @property
    def size_bytes(self) -> int:
        """The size of its files, of all attempts."""
        return sum(file.size for file in self.files)

    @property
    def is_cleared(self) -> bool:
        """Whether only its claim remains, which numbers the attempts."""
        return self.state is State.released and not (self.files or self.manifest or self.unreadable)

    @property
    def made_at(self) -> str | None:
        """When its job ended, in ISO 8601; None until its manifest is written."""
        return self.manifest.get("ended_at") if self.manifest else None

    @property
    def description(self) -> dict[str, Any]:
        """Model and techniques."""
        return (self.claim.description if self.claim else None) or (self.manifest or {}).get("description") or {}

    def summary(self) -> dict[str, Any]:
        """Return the artifact in the form that ``artifacts list --json`` prints."""
        return {
            "artifact_key": self.key,
            "state": self.state,
            "detail": self.detail,
            "description": self.description,
            "size_bytes": self.size_bytes,
            "made_at": self.made_at,
            "changed_at": self.changed_at,
            "owner_count": len(self.owners),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the artifact in the form that ``artifacts show --json`` prints."""
        return {
            **self.summary(),
            "owners": self.owners,
            "job": {"name": self.job.name, "status": self.job.status, "failure_reason": self.job.failure_reason}
            if self.job
            else None,
            "claim": self.claim.to_record() if self.claim else None,
            "manifest": self.manifest,
            "files": self.files,
        }


@dataclass(frozen=True)
class OwnerReferences:
    """The owner records of a store; ``is_partial``: only those of this account are readable."""

    records: tuple[OwnerRecord, ...]
    # Records of other accounts, which may refer to any artifact.
    unreadable: tuple[UnreadableRecord, ...] = ()
    is_partial: bool = False


class ArtifactInventory:
    """The artifacts of a store. A job is described only for an artifact without a manifest."""

    def __init__(self, s3: Any, sagemaker: Any, bucket: str, *, account: str) -> None:
        """Create an inventory with a SageMaker client of the bucket's Region, for the account of the credentials."""
        self.bucket = bucket
        self.account = account
        self.store: ArtifactStore = ArtifactStore(s3, bucket)
        self._s3, self._sagemaker = s3, sagemaker

    def all(self) -> Iterator[Artifact]:
        """Yield all artifacts by key, so that memory does not grow with the store."""
        # Cached here, before threads use it.
        _ = self._owners_by_key

        def key_of(item: dict[str, Any]) -> str | None:
            match = _KEY.fullmatch(item["Key"])
            return match[1] if match else None

        # S3 lists by name, so the objects of an artifact are adjacent.
        listed = itertools.groupby(self.objects("artifacts/"), key_of)
        grouped = ((key, list(items)) for key, items in listed if key is not None)
        return in_threads(lambda group: self._artifact(*group), grouped, threads=REQUESTS_AT_ONCE)

    def get(self, key: str) -> Artifact | None:
        """Return the artifact with a key; None if the store has no object of it."""
        objects = [item for item in self.objects(f"artifacts/{key}/") if _KEY.fullmatch(item["Key"])]
        return self._artifact(key, objects) if objects else None

    def keys(self, prefix: str = "") -> list[str]:
        """Return the sorted keys that start with ``prefix``."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"artifacts/{prefix}", Delimiter="/"
        )
        folders = [folder["Prefix"] for page in pages for folder in page.get("CommonPrefixes", [])]
        # The pattern requires a file name after the slash.
        return [match[1] for folder in folders if (match := _KEY.fullmatch(f"{folder}."))]

    def is_versioned(self) -> bool | None:
        """Return whether the bucket is versioned; None if the credentials cannot read this."""
        try:
            return self._s3.get_bucket_versioning(Bucket=self.bucket).get("Status") == "Enabled"
        except ClientError:
            return None

    def with_owners(self, job: Job) -> Job:
        """Return the job with its artifact and owners; unchanged if it belongs to another store."""
        name = JOB_NAME.fullmatch(job.name)
        if name is None or job.name != job_name(self.bucket, name["key"], int(name["attempt"])):
            return job
        key = next(iter(self.keys(name["key"])), None)
        try:
            claim = self.store.claim(key) if key is not None else None
        except DeploymentError:
            claim = None
        # A released or earlier attempt has no owners, and neither does one of another account.
        is_current = claim and not claim.released and claim.attempt == job.attempt and claim.made_in(self.account)
        owners = self._owners(key, claim) if key is not None and is_current else ()
        return replace(job, artifact_key=key, owners=owners, orphaned=not job.ended and not owners)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A message for every unreadable record of another account."""
        return tuple(
            f"{unreadable.problem} (account {unreadable.account}). Its references are not counted, and it prevents "
            "pruning: ask that account to restore it, or delete it"
            for unreadable in self.owner_records.unreadable
        )

    @cached_property
    def owner_records(self) -> OwnerReferences:
        """The readable owner records, as of the first access."""
        try:
            return self.read_owner_records()
        except ClientError as error:
            if code_of(error) != "AccessDenied":
                raise
            return replace(self.read_owner_records(self.account), is_partial=True)

    @cached_property
    def _owners_by_key(self) -> Mapping[str, tuple[Owner, ...]]:
        owners: dict[str, tuple[Owner, ...]] = {}
        for record in self.owner_records.records:
            for key in record.keys:
                owners[key] = (*owners.get(key, ()), record.owner)
        return owners

    def read_owner_records(self, account: str | None = None) -> OwnerReferences:
        """Read the owner records of one account, or of all accounts, which only the bucket's account can do.

        Raises an error if a record of this account cannot be read.
        """
        records: list[OwnerRecord] = []
        unreadable: list[UnreadableRecord] = []
        for record in OwnerRecords(self._s3, self.bucket).all(account, threads=REQUESTS_AT_ONCE):
            if isinstance(record, OwnerRecord):
                records.append(record)
            elif record.account == self.account:
                raise DeploymentError(
                    f"{record.problem}. Until then its references are unknown; delete it when its stack is gone"
                )
            else:
                unreadable.append(record)
        return OwnerReferences(tuple(records), tuple(unreadable))

    def objects(self, prefix: str) -> Iterator[dict[str, Any]]:
        """Yield the bucket's objects under ``prefix``, as ListObjectsV2 describes them."""
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            yield from page.get("Contents", [])

    def _owners(self, key: str, claim: Claim | None) -> tuple[Owner, ...]:
        """Return the owners of an artifact, from its claim and the readable owner records."""
        return tuple(sorted({*self._owners_by_key.get(key, ()), *(claim.owners if claim else ())}))

    def _artifact(self, key: str, objects: list[dict[str, Any]]) -> Artifact:
        names = {item["Key"].removeprefix(f"artifacts/{key}/") for item in objects}
        newer: list[str] = []
        unreadable: list[str] = []

        def read(name: str, record_of: Callable[[str], _Record | None]) -> _Record | None:
            if name not in names:
                return None
            try:
                record = record_of(key)
            except NewerRecord:
                newer.append(name)
                return None
            except DeploymentError:
                record = None
            if record is None:
                unreadable.append(name)
            return record

        claim = read("claim.json", self.store.claim)
        manifest = read("manifest.json", self.store.written_manifest)
        files = tuple(
            StoredFile(int(match[1] or 0), match[2], item["Size"], item["ETag"].strip('"'), item["LastModified"])
            for item in objects
            if (match := _MODEL_FILE.fullmatch(item["Key"].removeprefix(f"artifacts/{key}/")))
        )
        is_complete = manifest is not None and (claim is None or attempt_of(manifest) >= claim.attempt)
        job = None
        # Jobs of other accounts cannot be described.
        if claim is not None and not is_complete and not newer and claim.made_in(self.account):
            job = describe_job(self._sagemaker, job_name(self.bucket, key, claim.attempt))
        failure = _failure(claim, job) if claim is not None else None
        if claim is not None and claim.released:
            unused = "no deployment uses it; a new deployment starts the next attempt"
            state, detail = State.released, f"{failure}; no deployment uses it" if failure else unused
        elif newer:
            state, detail = (
                State.newer,
                f"a newer release wrote {' and '.join(newer)}: upgrade constructs-optim to see more",
            )
        elif unreadable:
            state, detail = State.damaged, f"{' and '.join(unreadable)} cannot be read"
        elif manifest is not None and is_complete:
            state, detail = _state_by_files(manifest, files)
        elif claim is None:
            state, detail = State.incomplete, "it has files, but neither a claim nor a manifest"
        else:
            state, detail = _state_by_job(claim, job, failure, is_own=claim.made_in(self.account))
        return Artifact(
            key=key,
            state=state,
            detail=detail,
            is_complete=is_complete,
            claim=claim,
            manifest=manifest,
            files=files,
            owners=self._owners(key, claim),
            job=job,
            unreadable=tuple(unreadable),
            changed_at=max(item["LastModified"] for item in objects),
            is_newer=bool(newer),
            failure=failure,
        )


def _state_by_files(manifest: dict[str, Any], files: tuple[StoredFile, ...]) -> tuple[State, str]:
    attempt = attempt_of(manifest)
    # Only `verify` compares checksums, which take one request per file.
    stored = [{"name": file.name, "size": file.size, "etag": file.etag} for file in files if file.attempt == attempt]
    if not stored:
        return State.damaged, "all its files are missing"
    if wrong := differences(manifest["files"], stored):
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return State.damaged, f"{wrong[0].file} is {wrong[0].damage}{more}"
    return State.ready, f"attempt {attempt}, {len(stored)} files"


def _failure(claim: Claim, job: Job | None) -> str | None:
    """Return why the attempt's job failed, as its watcher recorded it or as SageMaker tells it; None if it did not."""
    if claim.failure or job is None or job.status not in (JobStatus.failed, JobStatus.stopped):
        return claim.failure or None
    return f"job {job.name} is {job.status}" + (f": {job.failure_reason}" if job.failure_reason else "")


def _state_by_job(claim: Claim, job: Job | None, failure: str | None, *, is_own: bool) -> tuple[State, str]:
    if failure is not None:
        return State.failed, failure
    if not is_own:
        return State.in_progress, f"account {claim.maker} runs its job, which these credentials cannot describe"
    if job is None:
        return State.incomplete, f"attempt {claim.attempt} has no job"
    if job.status == JobStatus.completed:
        return State.incomplete, f"job {job.name} completed, but there is no manifest"
    return State.in_progress, f"job {job.name} is {job.status}"


@dataclass(frozen=True)
class Verification:
    """The result of verifying an artifact; ``not_checked`` is the reason why it could not be verified."""

    artifact_key: str
    file_count: int = 0
    findings: tuple[Finding, ...] = ()
    not_checked: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether it was verified and is undamaged."""
        return self.not_checked is None and not self.findings


def verify(store: ArtifactStore, artifact: Artifact) -> Verification:
    """Compare an artifact's files with its manifest: names, sizes, ETags, and the checksums that S3 keeps.

    No bytes are read. Source: Amazon S3 user guide, "Checking object integrity": S3 keeps a checksum of every object
    (CRC64NVME unless the writer chose another algorithm), and checks what it stores against it.
    """
    if artifact.unreadable:
        damaged = (Finding(name, "unreadable", "it is not JSON of its kind") for name in artifact.unreadable)
        return Verification(artifact.key, findings=tuple(damaged))
    if artifact.manifest is None or artifact.state not in (State.ready, State.damaged):
        return Verification(artifact.key, not_checked=f"{artifact.state}: {artifact.detail}")
    if strays := misplaced(store, artifact.key, artifact.manifest):
        return Verification(artifact.key, findings=tuple(strays))
    expected, uri = artifact.manifest["files"], artifact.manifest["model_data_uri"]
    findings = differences(expected, store.with_checksums(uri, store.files(uri)))
    return Verification(artifact.key, len(expected), tuple(findings))
