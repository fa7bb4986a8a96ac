"""The artifacts of a store as an operator sees them: each with its state, its files and who refers to it."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError, code_of
from constructs_optim.runtime.jobs.sagemaker_jobs import job_name
from constructs_optim.runtime.store.artifact_integrity import attempt_of, differences
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Claim, Owner
from constructs_optim.runtime.store.json_records import NewerRecord, in_threads
from constructs_optim.runtime.store.owner_records import OwnerRecord, OwnerRecords, UnreadableRecord

from .jobs import Job, JobStatus, describe_job, owner_to_json

_KEY = re.compile(r"artifacts/([0-9a-f]{64})/(.+)")
_MODEL_FILE = re.compile(r"model/(\d+)/(.+)")
REQUESTS_AT_ONCE = 48
"""How many requests are under way at a time; the client should keep as many connections (``max_pool_connections``)."""
_PREFIX = re.compile(r"[0-9a-f]{1,64}")


class State(StrEnum):
    """How far an artifact has come."""

    ready = "ready"
    being_made = "being made"
    failed = "failed"
    damaged = "damaged"
    half_made = "half-made"
    newer = "of a newer release"
    released = "released"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that an attempt wrote; ``name`` is relative to the attempt's prefix, ``size`` in bytes."""

    attempt: int
    name: str
    size: int
    etag: str
    modified_at: dt.datetime

    def to_json(self) -> dict[str, Any]:
        """The file as ``artifacts show --format json`` prints it."""
        return {**asdict(self), "modified_at": self.modified_at.isoformat()}


@dataclass(frozen=True, slots=True)
class Artifact:
    """All that a store holds of one artifact.

    ``detail`` says why it is in its state. ``is_complete``: its manifest is of the claim's attempt, whose job is
    therefore over. ``files`` are those of all attempts. ``unreadable`` are those of its records that are there and no
    JSON of their kind. ``is_newer``: a newer release wrote its claim or manifest. ``changed_at`` is when anything of it
    was last written: also when a stack came to refer to it, or ceased to.
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

    @property
    def size_bytes(self) -> int:
        """What its files take up, of all attempts."""
        return sum(file.size for file in self.files)

    @property
    def is_cleared(self) -> bool:
        """Whether it was released and only its claim is left, which numbers the attempts."""
        return self.state is State.released and not (self.files or self.manifest or self.unreadable)

    @property
    def made_at(self) -> str | None:
        """When its job ended, in ISO 8601; None until its manifest is written."""
        return self.manifest.get("ended_at") if self.manifest else None

    @property
    def description(self) -> dict[str, Any]:
        """Model and techniques, for people."""
        return (self.claim.description if self.claim else None) or (self.manifest or {}).get("description") or {}

    def summary(self) -> dict[str, Any]:
        """The artifact as ``artifacts list --format json`` prints it."""
        return {
            "artifact_key": self.key,
            "state": self.state.value,
            "detail": self.detail,
            "description": self.description,
            "size_bytes": self.size_bytes,
            "made_at": self.made_at,
            "changed_at": self.changed_at.isoformat(),
            "owner_count": len(self.owners),
        }

    def to_json(self) -> dict[str, Any]:
        """The artifact as ``artifacts show --format json`` prints it."""
        return {
            **self.summary(),
            "owners": [owner_to_json(owner) for owner in self.owners],
            "job": {"name": self.job.name, "status": self.job.status} if self.job else None,
            "claim": self.claim.to_record() if self.claim else None,
            "manifest": self.manifest,
            "files": [file.to_json() for file in self.files],
        }


@dataclass(frozen=True)
class OwnerRecordsFound:
    """What the store's owners refer to.

    ``unreadable`` are objects of other accounts that are no record of theirs: what they would refer to is not known.
    """

    records: tuple[OwnerRecord, ...]
    unreadable: tuple[UnreadableRecord, ...] = ()


class ArtifactInventory:
    """What a store's bucket holds.

    One listing of the bucket and two small reads an artifact; a job is looked at only where no manifest tells what
    became of it.
    """

    def __init__(self, s3: Any, sagemaker: Any, bucket: str, *, account: str) -> None:
        """Prepare to look.

        Args:
            s3: an S3 client.
            sagemaker: a SageMaker client of the region in which the store's jobs run.
            bucket: the store's bucket.
            account: whose credentials these are: jobs of other accounts cannot be looked at.
        """
        self.bucket = bucket
        self.account = account
        self.store: ArtifactStore = ArtifactStore(s3, bucket)
        self._s3, self._sagemaker = s3, sagemaker

    def all(self) -> Iterator[Artifact]:
        """Every artifact, by key: as they are listed, so that a large store needs no more memory than a small one."""
        # Read before the threads ask for them, each on its own.
        _ = self._owners_by_key
        # S3 lists by name, so the objects of an artifact follow each other.
        listed = itertools.groupby(self.objects("artifacts/"), lambda item: _key_of(item["Key"]))
        found = ((key, list(items)) for key, items in listed if key is not None)
        return in_threads(lambda each: self._artifact(*each), found, threads=REQUESTS_AT_ONCE)

    def one(self, key: str) -> Artifact | None:
        """The artifact of that key, or None where the store holds nothing of it."""
        objects = [item for item in self.objects(f"artifacts/{key}/") if _KEY.fullmatch(item["Key"])]
        return self._artifact(key, objects) if objects else None

    def keys(self, prefix: str = "") -> list[str]:
        """The keys that begin with ``prefix``, in their order; none for a prefix that no key can have."""
        if prefix and not _PREFIX.fullmatch(prefix):
            return []
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"artifacts/{prefix}", Delimiter="/"
        )
        folders = [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", [])]
        # The slash that ends ``artifacts/<key>/`` takes the place of a file's name.
        return [match[1] for folder in folders if (match := _KEY.fullmatch(f"{folder}."))]

    def is_versioned(self) -> bool | None:
        """Whether the bucket keeps old versions of what is deleted; None where these credentials may not ask."""
        try:
            return self._s3.get_bucket_versioning(Bucket=self.bucket).get("Status") == "Enabled"
        except ClientError:
            return None

    def claim(self, key: str) -> Claim | None:
        """The claim as it stands; None also where it cannot be read."""
        try:
            return self._read_claim(key)
        except NewerRecord:
            return None

    def _read_claim(self, key: str) -> Claim | None:
        try:
            return self.store.claim(key)
        except NewerRecord:
            raise
        except (DeploymentError, KeyError, TypeError):
            return None

    def owners(self, key: str, claim: Claim | None) -> tuple[Owner, ...]:
        """Who refers to the artifact, as far as this account may know: by the claim, or by a record of its own."""
        recorded = self._owners_by_key.get(key, ())
        return tuple(sorted({*recorded, *(claim.owners if claim else ())}))

    @property
    def hides_owners(self) -> bool:
        """Whether the store is shared with this account, and shows it no references but its own."""
        _ = self._visible_records
        return "owner_records" not in vars(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of other accounts could not be read, and what follows from that."""
        return tuple(
            f"{unreadable.problem} (account {unreadable.account}). It is not counted, and while it is there nothing is "
            "pruned: have that account restore it, or delete it"
            for unreadable in self._visible_records.unreadable
        )

    @cached_property
    def owner_records(self) -> OwnerRecordsFound:
        """What the store's owners refer to, as it was when it was first asked for."""
        return self.read_owner_records()

    def read_owner_records(self) -> OwnerRecordsFound:
        """What the store's owners refer to now.

        Raises:
            ClientError: AccessDenied, in a store of another account.
            DeploymentError: when a record of this account cannot be read: then nobody knows what it refers to.
        """
        return self._read_owner_records()

    @cached_property
    def _visible_records(self) -> OwnerRecordsFound:
        try:
            return self.owner_records
        except ClientError as error:
            if code_of(error) != "AccessDenied":
                raise
            return self._read_owner_records(self.account)

    @cached_property
    def _owners_by_key(self) -> Mapping[str, tuple[Owner, ...]]:
        found: dict[str, tuple[Owner, ...]] = {}
        for record in self._visible_records.records:
            for key in record.keys:
                found[key] = (*found.get(key, ()), record.owner)
        return found

    def _read_owner_records(self, account: str | None = None) -> OwnerRecordsFound:
        records: list[OwnerRecord] = []
        unreadable: list[UnreadableRecord] = []
        for found in OwnerRecords(self._s3, self.bucket).all(account, threads=REQUESTS_AT_ONCE):
            if isinstance(found, OwnerRecord):
                records.append(found)
            elif found.account == self.account:
                raise DeploymentError(
                    f"{found.problem}. Until then nobody knows what it refers to; delete it when its stack is gone"
                )
            else:
                unreadable.append(found)
        return OwnerRecordsFound(tuple(records), tuple(unreadable))

    def objects(self, prefix: str) -> Iterator[dict[str, Any]]:
        """The bucket's objects below ``prefix``, as ListObjectsV2 describes them."""
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            yield from page.get("Contents", [])

    def _artifact(self, key: str, objects: list[dict[str, Any]]) -> Artifact:
        names = {item["Key"].removeprefix(f"artifacts/{key}/") for item in objects}
        claim, manifest = None, None
        newer: list[str] = []
        try:
            claim = self._read_claim(key) if "claim.json" in names else None
        except NewerRecord:
            newer.append("claim.json")
        try:
            manifest = self.store.written_manifest(key) if "manifest.json" in names else None
        except NewerRecord:
            newer.append("manifest.json")
        records = {"claim.json": claim, "manifest.json": manifest}
        unreadable = tuple(
            name for name, record in records.items() if name in names and record is None and name not in newer
        )
        facts = _Facts(self.account, claim, manifest, unreadable, tuple(newer), tuple(_files(key, objects)))
        if claim is not None and facts.is_up_to_its_job:
            facts.job = describe_job(self._sagemaker, job_name(self.bucket, key, claim.attempt))
        state, detail = facts.judged()
        return Artifact(
            key=key,
            state=state,
            detail=detail,
            is_complete=facts.is_complete,
            claim=claim,
            manifest=manifest,
            files=facts.files,
            owners=self.owners(key, claim),
            job=facts.job,
            unreadable=unreadable,
            changed_at=max(item["LastModified"] for item in objects),
            is_newer=bool(newer),
        )


@dataclass
class _Facts:
    """What an artifact's state follows from."""

    account: str
    claim: Claim | None
    manifest: dict[str, Any] | None
    unreadable: tuple[str, ...]
    newer: tuple[str, ...]
    files: tuple[StoredFile, ...]
    job: Job | None = None

    @cached_property
    def is_complete(self) -> bool:
        """Whether there is a manifest that counts: not of an attempt that a later one has followed."""
        return self.manifest is not None and (self.claim is None or attempt_of(self.manifest) >= self.claim.attempt)

    @property
    def is_up_to_its_job(self) -> bool:
        """Whether only its job can tell what becomes of it, and can be looked at."""
        return not self.is_complete and not self._made_elsewhere and not self.newer

    @property
    def _made_elsewhere(self) -> str:
        return self.claim.maker if self.claim and not self.claim.made_in(self.account) else ""

    def judged(self) -> tuple[State, str]:
        """State and reason."""
        if self.claim is not None and self.claim.released:
            return State.released, "no deployment takes it up any more; a new one starts with the next attempt"
        if self.newer:
            return State.newer, f"it wrote {' and '.join(self.newer)}: upgrade constructs-optim to see more"
        if self.unreadable:
            return State.damaged, f"{' and '.join(self.unreadable)} cannot be read"
        if self.manifest is not None and self.is_complete:
            return self._judged_by_files(self.manifest)
        if self.claim is None:
            return State.half_made, "there are files, and neither claim nor manifest"
        return self._judged_by_job(self.claim)

    def _judged_by_files(self, manifest: dict[str, Any]) -> tuple[State, str]:
        attempt = attempt_of(manifest)
        # Checksums are left to `verify`: they cost a request a file.
        found = [
            {"name": file.name, "size": file.size, "etag": file.etag} for file in self.files if file.attempt == attempt
        ]
        wrong = differences(manifest["files"], found)
        if not found:
            return State.damaged, "all its files are gone"
        if wrong:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            return State.damaged, f"{wrong[0].file} is {wrong[0].damage}{more}"
        return State.ready, f"attempt {attempt}, {len(found)} files"

    def _judged_by_job(self, claim: Claim) -> tuple[State, str]:
        if claim.failure:
            return State.failed, claim.failure
        if self._made_elsewhere:
            return State.being_made, f"account {self._made_elsewhere} makes it; its job cannot be looked at from here"
        if self.job is None:
            return State.half_made, f"there is no job of attempt {claim.attempt}"
        if self.job.status == JobStatus.completed:
            return State.half_made, f"job {self.job.name} has completed, and there is no manifest"
        if self.job.ended:
            return State.failed, self.job.failure_reason or f"job {self.job.name} is {self.job.status}"
        return State.being_made, f"job {self.job.name} is {self.job.status}"


def _key_of(name: str) -> str | None:
    match = _KEY.fullmatch(name)
    return match[1] if match else None


def _files(key: str, objects: list[dict[str, Any]]) -> Iterator[StoredFile]:
    for item in objects:
        if match := _MODEL_FILE.fullmatch(item["Key"].removeprefix(f"artifacts/{key}/")):
            yield StoredFile(int(match[1]), match[2], item["Size"], item["ETag"].strip('"'), item["LastModified"])
