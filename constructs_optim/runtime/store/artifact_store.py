"""The artifact store's records in S3: an artifact's claim and its manifest.

::

    artifacts/<key>/claim.json            the attempt whose job produces it, and the stacks that refer to it
    artifacts/<key>/manifest.json         the job and its files; written last, so its presence means "complete"
    artifacts/<key>/model/<attempt>/...   the output of one attempt
    artifacts/<key>/tensorboard/...       the events of a training job for TensorBoard
    checkpoints/<key>/...                 the checkpoints of a training job, which expire

Through the claim, concurrent deployments of the same artifact share one job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from botocore.exceptions import ClientError
from pydantic import Field, ValidationError

from ..errors import DeploymentError
from .json_records import SCHEMA, JsonRecords, StoredPart, StoredRecord, in_threads, lacks, objects, schema_of
from .owner_records import Owner

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


def region_of(s3: S3Client, bucket: str) -> str:
    """Return a bucket's Region."""
    # HeadBucket needs permission to list without a prefix, which readers of a shared store do not have.
    location = s3.get_bucket_location(Bucket=bucket).get("LocationConstraint") or "us-east-1"
    return "eu-west-1" if location == "EU" else location


def artifact_key(recipe_key: str, source_identity: str) -> str:
    """Return the SHA-256 of the inputs that determine the artifact's bytes; the planner computes the same key."""
    return hashlib.sha256(f"{recipe_key}\n{source_identity}".encode()).hexdigest()


class Claim(StoredRecord):
    """The attempt whose job produces the artifact, and the resources that refer to it."""

    artifact_key: str
    attempt: int = 1
    owners: tuple[Owner, ...] = ()
    # The last owner has left an unfinished job, so no deployment may join it.
    released: bool = False
    # The job's account, the only one that can describe the job; empty if unknown.
    maker: str = ""
    # The time by which the job must have ended, in seconds since 1970; 0 if unknown.
    due: int = 0
    # Why the attempt failed.
    failure: str = ""
    source: dict[str, Any] = Field(default_factory=dict)
    description: dict[str, Any] = Field(default_factory=dict)

    def made_in(self, account: str) -> bool:
        """Return whether the attempt's job runs in ``account``."""
        return self.maker in ("", account)

    def joined_by(self, owner: Owner) -> Claim:
        """Return a copy that ``owner`` also owns."""
        return self.updated(owners=tuple(sorted({*self.owners, owner})))

    def again(self, maker: str, due: int) -> Claim:
        """Return the claim of the next attempt, with a job in the account ``maker``."""
        return self.updated(attempt=self.attempt + 1, maker=maker, due=due, failure="", released=False)

    def released_if_abandoned(self) -> Claim:
        """Return a copy, released if no owner is left in the job's account, which alone can stop the job."""
        # A claim stays released until an owner joins, because its files may be removed at any time.
        is_abandoned = not any(self.made_in(owner.account) for owner in self.owners)
        return self.updated(released=self.released or is_abandoned)


class _File(StoredPart):
    name: str
    size: int
    etag: str
    checksums: dict[str, Any] = Field(default_factory=dict)


class _Manifest(StoredPart):
    """The members of a manifest that this code reads."""

    model_data_uri: str
    image: str
    job_name: str
    files: Annotated[list[_File], Field(min_length=1)]


class ArtifactStore:
    """The claims, manifests, and files of a bucket. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None = None, *, any_schema: bool = False) -> None:
        self._s3 = s3
        self.bucket = bucket
        self._records = JsonRecords(s3, bucket, kms_key_arn, any_schema=any_schema)

    def check_region(self, region: str) -> None:
        """Require the store to be in ``region`` (CreateModel: "... must be in the same AWS Region as the model")."""
        actual = region_of(self._s3, self.bucket)
        if actual != region:
            raise DeploymentError(
                f"the artifact store {self.bucket} is in {actual}, but this stack is in {region}: SageMaker reads "
                f"models only from buckets in its own Region. Use a store in {region}"
            )

    def model_uri(self, key: str, attempt: int) -> str:
        """Return the ``s3://`` prefix of an attempt's output, with a final slash."""
        return f"s3://{self.bucket}/{_prefix(key)}model/{attempt}/"

    def manifest(self, key: str, attempt: int | None = None) -> dict[str, Any] | None:
        """Return the manifest (of ``attempt`` if given); None if the store's files differ from it."""
        manifest = self.written_manifest(key)
        if manifest is None or (attempt is not None and manifest.get("attempt", attempt) != attempt):
            return None
        # ETags suffice here; checksums cost a request for each file.
        written = [{name: of for name, of in file.items() if name != "checksums"} for file in manifest["files"]]
        return manifest if self.files(manifest["model_data_uri"]) == written else None

    def written_manifest(self, key: str) -> dict[str, Any] | None:
        """Return the manifest regardless of its files; None if there is no valid one."""
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
        """Write the manifest, which completes the artifact; members that a newer release added are kept."""
        name = f"{_prefix(key)}manifest.json"
        try:
            existing = self._records.read(name) or {}
        except DeploymentError:
            existing = {}
        if existing.get("attempt") != manifest.get("attempt"):
            existing = {}
        if schema_of(existing) <= SCHEMA:
            self._records.write(name, {**existing, **manifest})

    def files(self, uri: str) -> list[dict[str, Any]]:
        """Return the objects below an ``s3://`` prefix of this bucket by name, each as ``{"name", "size", "etag"}``."""
        prefix = uri.removeprefix(f"s3://{self.bucket}/")
        return [
            {"name": name.removeprefix(prefix), "size": size, "etag": etag.strip('"')}
            for name, size, etag in sorted(objects(self._s3, self.bucket, prefix))
        ]

    def with_checksums(self, uri: str, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return files below ``uri`` with S3's ``{"checksums": {"CRC64NVME": "..."}}``; each file takes a request."""
        prefix = uri.removeprefix(f"s3://{self.bucket}/")
        checksums = in_threads(self._checksums, [prefix + file["name"] for file in files])
        return [{**file, "checksums": of_file} for file, of_file in zip(files, checksums, strict=True)]

    def _checksums(self, name: str) -> dict[str, str]:
        """Return the checksums that S3 computed at the upload (by default CRC64NVME since December 2024)."""
        try:
            head = self._s3.head_object(Bucket=self.bucket, Key=name, ChecksumMode="ENABLED")
        except ClientError as error:
            # The object was deleted after the listing.
            if lacks(self._s3, self.bucket, name, error):
                return {}
            raise
        return {
            member.removeprefix("Checksum"): str(value)
            for member, value in sorted(head.items())
            if member.startswith("Checksum") and member != "ChecksumType"
        }

    def claim(self, key: str) -> Claim | None:
        """Return an artifact's claim; None if there is none."""
        return self._records.get(_claim_name(key), Claim)

    def join(self, key: str, owner: Owner, *, due: int = 0, **details: Any) -> Claim:
        """Add ``owner`` to the claim's owners; a released claim starts the next attempt."""

        def joined(claim: Claim | None) -> Claim:
            if claim is None:
                return Claim(artifact_key=key, owners=(owner,), maker=owner.account, due=due, **details)
            if claim.released:
                claim = claim.again(owner.account, due).updated(**details)
            return claim.joined_by(owner)

        return self._records.change(_claim_name(key), Claim, joined)

    def next_attempt(self, key: str, failed: Claim, *, maker: str = "", due: int = 0) -> Claim:
        """Start the attempt after a failed one, unless another owner has already started it."""

        def advanced(claim: Claim | None) -> Claim:
            current = claim or failed
            return current.again(maker, due) if current.attempt == failed.attempt else current

        return self._records.change(_claim_name(key), Claim, advanced)

    def fail(self, key: str, attempt: int, reason: str) -> None:
        """Record why an attempt failed, for accounts that cannot describe its job."""
        claim = self.claim(key)
        if claim is not None and claim.attempt == attempt:
            self._change(key, lambda now: now.updated(failure=reason) if now.attempt == attempt else now)

    def leave(self, key: str, owner: Owner, *, finished: bool, gone: Collection[Owner] = ()) -> Claim | None:
        """Remove ``owner`` and the ``gone`` owners from the claim; release it if an unfinished job is abandoned."""

        def left(current: Claim) -> Claim:
            owners = tuple(existing for existing in current.owners if existing not in (owner, *gone))
            remaining = current.updated(owners=owners)
            return remaining if finished else remaining.released_if_abandoned()

        return self._change(key, left) if self.claim(key) is not None else None

    def rejoin(self, key: str, owner: Owner) -> bool:
        """Add ``owner`` again after a mistaken removal; return False if the claim is released."""
        if self.claim(key) is None:
            return True
        return owner in self._change(key, lambda now: now if now.released else now.joined_by(owner)).owners

    def give_up_job(self, key: str) -> Claim:
        """Release the claim of an unfinished artifact if no owner is left in the job's account."""
        return self._change(key, Claim.released_if_abandoned)

    def release(self, key: str) -> bool:
        """Release a claim without owners, so that its files can be removed; return False if it has owners."""
        return self._change(key, lambda now: now if now.owners else now.updated(released=True)).released

    def restore(self, key: str) -> None:
        """Undo ``release`` unless the claim has owners again."""
        self._change(key, lambda now: now if now.owners else now.updated(released=False))

    def _change(self, key: str, change: Callable[[Claim], Claim]) -> Claim:
        """Change an existing claim, or an empty one if it was deleted."""
        return self._records.change(_claim_name(key), Claim, lambda claim: change(claim or Claim(artifact_key=key)))


# With the bars, a template can use Fn::Split to take a part out of the JSON in which CloudFormation wraps a wait
# condition's Data.
def artifact_data(manifest: Mapping[str, Any]) -> str:
    """Return ``|image|model data URI|job name|`` from an artifact's manifest."""
    return f"|{manifest['image']}|{manifest['model_data_uri']}|{manifest['job_name']}|"


def _prefix(key: str) -> str:
    return f"artifacts/{key}/"


def _claim_name(key: str) -> str:
    return f"{_prefix(key)}claim.json"
