"""The artifact store's records in S3: which job makes an artifact (claim) and how it was made (manifest).

::

    artifacts/<key>/claim.json            who is making it, and which stacks refer to it
    artifacts/<key>/manifest.json         how it was made; written last, so its presence means "complete"
    artifacts/<key>/model/<attempt>/...   the output of one attempt
    artifacts/<key>/tensorboard/...       a training's events for TensorBoard
    checkpoints/<key>/...                 where a training goes on after an interruption; they expire

Two stacks that want the same artifact at once agree on one job by its claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, Any

from botocore.exceptions import ClientError
from pydantic import Field, ValidationError

from ..errors import DeploymentError
from .json_records import SCHEMA, JsonRecords, StoredPart, StoredRecord, in_threads, lacks, objects, schema_of
from .owner_records import Owner

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


def region_of(s3: S3Client, bucket: str) -> str:
    """The region of a bucket."""
    # Not by HeadBucket, which counts as a listing without a prefix: readers of a shared store may make none.
    location = s3.get_bucket_location(Bucket=bucket).get("LocationConstraint") or "us-east-1"
    return "eu-west-1" if location == "EU" else location


def artifact_key(recipe_key: str, source_identity: str) -> str:
    """SHA-256 of what decides the artifact's bytes; the planner computes the same one."""
    return hashlib.sha256(f"{recipe_key}\n{source_identity}".encode()).hexdigest()


class Claim(StoredRecord):
    """Which job makes the artifact, and who refers to it."""

    artifact_key: str
    attempt: int = 1
    owners: tuple[Owner, ...] = ()
    # The last owner has left an unfinished job: nobody may attach to it any more.
    released: bool = False
    # The account whose job makes it: no other can describe the job. Empty: not known.
    maker: str = ""
    # When the job must have ended, in seconds since 1970; 0: not known.
    due: int = 0
    # Why the attempt failed.
    failure: str = ""
    source: dict[str, Any] = Field(default_factory=dict)
    description: dict[str, Any] = Field(default_factory=dict)

    def made_in(self, account: str) -> bool:
        """Whether the attempt's job is one of ``account``."""
        return self.maker in ("", account)

    def joined_by(self, owner: Owner) -> Claim:
        """A copy that ``owner`` is one of the owners of."""
        return self.updated(owners=tuple(sorted({*self.owners, owner})))

    def again(self, maker: str, due: int) -> Claim:
        """The next attempt, made by ``maker``."""
        return self.updated(attempt=self.attempt + 1, maker=maker, due=due, failure="", released=False)

    def released_if_abandoned(self) -> Claim:
        """A copy that is released where no owner is of the account that runs the job, which no other one can stop.

        Once released it stays so until somebody joins: its files may be on their way out.
        """
        is_abandoned = not any(self.made_in(owner.account) for owner in self.owners)
        return self.updated(released=self.released or is_abandoned)


class _File(StoredPart):
    name: str
    size: int
    etag: str
    checksums: dict[str, Any] = Field(default_factory=dict)


class _Manifest(StoredPart):
    """The members of a manifest that are read."""

    model_data_uri: str
    image: str
    job_name: str
    files: Annotated[list[_File], Field(min_length=1)]


class ArtifactStore:
    """The records of one bucket, by :class:`JsonRecords`. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None = None, *, any_schema: bool = False) -> None:
        self._s3 = s3
        self.bucket = bucket
        self._records = JsonRecords(s3, bucket, kms_key_arn, any_schema=any_schema)

    def check_region(self, region: str) -> None:
        """Make sure that the store is in ``region``; a job's hours would be for nothing.

        Source: CreateModel, "the S3 path ... must be in the same AWS Region as the model".
        """
        actual = region_of(self._s3, self.bucket)
        if actual != region:
            raise DeploymentError(
                f"the artifact store {self.bucket} is in {actual} and this stack in {region}: SageMaker reads models "
                f"from buckets of its own region. Use a store of {region}"
            )

    def model_uri(self, key: str, attempt: int) -> str:
        """The ``s3://`` prefix that an attempt writes below; it ends in a slash."""
        return f"s3://{self.bucket}/{_prefix(key)}model/{attempt}/"

    def manifest(self, key: str, attempt: int | None = None) -> dict[str, Any] | None:
        """The manifest, of ``attempt`` if it is not None; None where its files are not those that it names."""
        manifest = self.written_manifest(key)
        if manifest is None or (attempt is not None and manifest.get("attempt", attempt) != attempt):
            return None
        # Checksums follow from the bytes that ETags stand for, and cost a request a file.
        written = [{name: of for name, of in file.items() if name != "checksums"} for file in manifest["files"]]
        return manifest if self.files(manifest["model_data_uri"]) == written else None

    def written_manifest(self, key: str) -> dict[str, Any] | None:
        """The manifest whatever became of its files; None where there is none that can be read."""
        name = f"{_prefix(key)}manifest.json"
        try:
            manifest = self._records.read(name)
        except DeploymentError:
            return None
        if manifest is None:
            return None
        self._records.check_schema(name, manifest)
        try:
            _Manifest.model_validate(manifest, strict=True)
        except ValidationError:
            return None
        return manifest

    def write_manifest(self, key: str, manifest: dict[str, Any]) -> None:
        """Write the manifest, which completes the artifact; what a newer release added to it stays."""
        name = f"{_prefix(key)}manifest.json"
        try:
            there = self._records.read(name) or {}
        except DeploymentError:
            there = {}
        if there.get("attempt") != manifest.get("attempt"):
            there = {}
        if schema_of(there) <= SCHEMA:
            self._records.write(name, {**there, **manifest})

    def files(self, uri: str) -> list[dict[str, Any]]:
        """The objects below an ``s3://`` prefix of this bucket, by name, each as ``{"name", "size", "etag"}``."""
        prefix = uri.removeprefix(f"s3://{self.bucket}/")
        return [
            {"name": name.removeprefix(prefix), "size": size, "etag": etag.strip('"')}
            for name, size, etag in sorted(objects(self._s3, self.bucket, prefix))
        ]

    def with_checksums(self, uri: str, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Files below ``uri`` with S3's ``{"checksums": {"CRC64NVME": "..."}}``, at one request a file."""
        prefix = uri.removeprefix(f"s3://{self.bucket}/")
        checksums = in_threads(self._checksums, [prefix + file["name"] for file in files])
        return [{**file, "checksums": of_file} for file, of_file in zip(files, checksums, strict=True)]

    def _checksums(self, name: str) -> dict[str, str]:
        """What S3 computed when the object was written (since December 2024 CRC64NVME, unless the writer chose)."""
        try:
            head = self._s3.head_object(Bucket=self.bucket, Key=name, ChecksumMode="ENABLED")
        except ClientError as error:
            # Deleted since it was listed.
            if lacks(self._s3, self.bucket, name, error):
                return {}
            raise
        return {
            member.removeprefix("Checksum"): str(value)
            for member, value in sorted(head.items())
            if member.startswith("Checksum") and member != "ChecksumType"
        }

    def claim(self, key: str) -> Claim | None:
        """The claim as it stands."""
        return self._records.get(_claim_name(key), Claim)

    def join(self, key: str, owner: Owner, *, due: int = 0, **details: Any) -> Claim:
        """Make ``owner`` one of the claim's owners; a claim that was released starts over with the next attempt."""

        def joined(claim: Claim | None) -> Claim:
            if claim is None:
                return Claim(artifact_key=key, owners=(owner,), maker=owner.account, due=due, **details)
            if claim.released:
                claim = claim.again(owner.account, due).updated(**details)
            return claim.joined_by(owner)

        return self._records.change(_claim_name(key), Claim, joined)

    def next_attempt(self, key: str, failed: Claim, *, maker: str = "", due: int = 0) -> Claim:
        """Move on from an attempt that failed; where another owner has done so already, its claim stands."""

        def advanced(claim: Claim | None) -> Claim:
            current = claim or failed
            return current.again(maker, due) if current.attempt == failed.attempt else current

        return self._records.change(_claim_name(key), Claim, advanced)

    def fail(self, key: str, attempt: int, reason: str) -> None:
        """Write down why an attempt failed, for accounts that cannot describe its job."""
        claim = self.claim(key)
        if claim is not None and claim.attempt == attempt:
            self._change(key, lambda now: now.updated(failure=reason) if now.attempt == attempt else now)

    def leave(self, key: str, owner: Owner, *, finished: bool, gone: Collection[Owner] = ()) -> Claim | None:
        """Take ``owner`` off the claim, and those who are ``gone``; release it where an unfinished job is abandoned."""

        def left(current: Claim) -> Claim:
            owners = tuple(other for other in current.owners if other != owner and other not in gone)
            now = current.updated(owners=owners)
            return now if finished else now.released_if_abandoned()

        return self._change(key, left) if self.claim(key) is not None else None

    def rejoin(self, key: str, owner: Owner) -> bool:
        """Put ``owner`` back on a claim that it was taken off by mistake; False where the claim is released."""
        if self.claim(key) is None:
            return True
        return owner in self._change(key, lambda now: now if now.released else now.joined_by(owner)).owners

    def give_up_job(self, key: str) -> Claim:
        """Release the claim of an unfinished artifact where nobody of the account that runs its job is left."""
        return self._change(key, Claim.released_if_abandoned)

    def release(self, key: str) -> bool:
        """Close a claim that nobody owns, so that its files can go; False where somebody owns it."""
        return self._change(key, lambda now: now if now.owners else now.updated(released=True)).released

    def restore(self, key: str) -> None:
        """Undo :meth:`release`, unless somebody has started over already."""
        self._change(key, lambda now: now if now.owners else now.updated(released=False))

    def _change(self, key: str, change: Callable[[Claim], Claim]) -> Claim:
        """Change a claim that is there; should it be gone, an empty one."""
        return self._records.change(_claim_name(key), Claim, lambda claim: change(claim or Claim(artifact_key=key)))


def _prefix(key: str) -> str:
    return f"artifacts/{key}/"


def _claim_name(key: str) -> str:
    return f"{_prefix(key)}claim.json"
