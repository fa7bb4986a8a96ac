"""The artifact store's records in S3: who makes an artifact (claim) and what it is (manifest).

::

    artifacts/<key>/claim.json            who is making it, and which stacks refer to it
    artifacts/<key>/manifest.json         what made it; written last, so its presence means "complete"
    artifacts/<key>/model/<attempt>/...   the output of one attempt

The claim is only ever written with a condition (``If-None-Match`` or ``If-Match``), so two stacks that want
the same artifact at once agree on one job without a lock service.
Each attempt writes below a prefix of its own: what a failed attempt left never mixes with the next one's output.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from .errors import DeploymentError

_SWAP_ATTEMPTS = 30


def artifact_key(recipe_key: str, source_identity: str) -> str:
    """SHA-256 of what decides the artifact's bytes; the planner computes the same one."""
    return hashlib.sha256(f"{recipe_key}\n{source_identity}".encode()).hexdigest()


@dataclass(frozen=True, order=True)
class Owner:
    """The resource of a stack that refers to an artifact."""

    stack_id: str
    logical_id: str


@dataclass(frozen=True)
class Claim:
    """Which job makes the artifact, and who refers to it.

    ``released`` is set when the last owner leaves an unfinished job: a later claimant must not attach to a job
    that is being stopped.
    """

    artifact_key: str
    attempt: int = 1
    owners: tuple[Owner, ...] = ()
    released: bool = False
    source: dict[str, Any] = field(default_factory=dict[str, Any])
    description: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> str:
        """The content of ``claim.json``."""
        return json.dumps({"schema": 1, **asdict(self)}, sort_keys=True, indent=1)

    @staticmethod
    def from_json(text: bytes | str) -> Claim:
        """Read the content of ``claim.json``."""
        raw = json.loads(text)
        raw.pop("schema", None)
        raw["owners"] = tuple(Owner(**owner) for owner in raw.get("owners", ()))
        return Claim(**raw)


class ArtifactStore:
    """The records of one bucket. Every method may be repeated."""

    def __init__(self, s3: Any, bucket: str, kms_key_arn: str | None = None) -> None:
        self._s3 = s3
        self.bucket = bucket
        self._encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_arn} if kms_key_arn else {}

    def model_uri(self, key: str, attempt: int) -> str:
        """Where attempt number ``attempt`` writes the artifact: an ``s3://`` prefix that ends in a slash."""
        return f"s3://{self.bucket}/{_prefix(key)}model/{attempt}/"

    def manifest(self, key: str) -> dict[str, Any] | None:
        """The manifest, or None where there is none, it is damaged, or its output is gone."""
        body = self._read(f"{_prefix(key)}manifest.json")
        try:
            manifest = json.loads(body[0]) if body else None
        except ValueError:
            return None
        if not isinstance(manifest, dict) or not {"model_data_uri", "image", "job_name"} <= set(manifest):
            return None
        return manifest if self.files(manifest["model_data_uri"]) else None

    def write_manifest(self, key: str, manifest: dict[str, Any]) -> None:
        """Write the manifest, which completes the artifact."""
        self._put(f"{_prefix(key)}manifest.json", json.dumps(manifest, sort_keys=True, indent=1, default=str))

    def files(self, uri: str) -> list[dict[str, Any]]:
        """The objects below an ``s3://`` prefix of this bucket: ``{"name", "size", "etag"}`` each, by name."""
        prefix = uri.removeprefix(f"s3://{self.bucket}/")
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        found = [
            {"name": item["Key"].removeprefix(prefix), "size": item["Size"], "etag": item["ETag"].strip('"')}
            for page in pages
            for item in page.get("Contents", [])
        ]
        return sorted(found, key=lambda item: item["name"])

    def claim(self, key: str) -> Claim | None:
        """The claim as it stands."""
        found = self._read(f"{_prefix(key)}claim.json")
        return Claim.from_json(found[0]) if found else None

    def join(self, key: str, owner: Owner, **details: Any) -> Claim:
        """Make ``owner`` one of the claim's owners, creating the claim where there is none.

        A claim that was released starts over with the next attempt.
        """

        def joined(claim: Claim | None) -> Claim:
            if claim is None:
                return Claim(artifact_key=key, owners=(owner,), **details)
            owners = tuple(sorted({*claim.owners, owner}))
            if claim.released:
                return replace(claim, owners=owners, released=False, attempt=claim.attempt + 1, **details)
            return replace(claim, owners=owners)

        return self._swap(key, joined)

    def next_attempt(self, key: str, failed: Claim) -> Claim:
        """Move on from an attempt whose job failed; where another owner has done so already, its claim stands."""

        def advanced(claim: Claim | None) -> Claim:
            current = claim or failed
            return replace(current, attempt=current.attempt + 1) if current.attempt == failed.attempt else current

        return self._swap(key, advanced)

    def leave(self, key: str, owner: Owner, *, finished: bool) -> Claim | None:
        """Take ``owner`` off the claim; the last one to leave an unfinished job releases it."""
        if self.claim(key) is None:
            return None

        def left(claim: Claim | None) -> Claim:
            current = claim or Claim(artifact_key=key)
            owners = tuple(other for other in current.owners if other != owner)
            return replace(current, owners=owners, released=not owners and not finished)

        return self._swap(key, left)

    def _swap(self, key: str, change: Callable[[Claim | None], Claim]) -> Claim:
        name = f"{_prefix(key)}claim.json"
        for attempt in range(_SWAP_ATTEMPTS):
            found = self._read(name)
            before = Claim.from_json(found[0]) if found else None
            after = change(before)
            if after == before:
                return after
            condition = {"IfMatch": found[1]} if found else {"IfNoneMatch": "*"}
            try:
                self._put(name, after.to_json(), **condition)
                return after
            except ClientError as error:
                # 404: the claim was deleted between the read and the write, so read it again.
                if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 409, 412):
                    raise
            time.sleep(random.uniform(0, 0.05 * (attempt + 1)))  # noqa: S311 - jitter, no secret
        raise DeploymentError(
            f"the claim s3://{self.bucket}/{name} is being changed by too many deployments at once; deploy again"
        )

    def _read(self, name: str) -> tuple[bytes, str] | None:
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=name)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise
        return answer["Body"].read(), answer["ETag"]

    def _put(self, name: str, body: str, **condition: str) -> None:
        self._s3.put_object(
            Bucket=self.bucket,
            Key=name,
            Body=body.encode(),
            ContentType="application/json",
            **self._encryption,
            **condition,
        )


def _prefix(key: str) -> str:
    return f"artifacts/{key}/"
