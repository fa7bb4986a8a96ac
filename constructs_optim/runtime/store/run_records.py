"""What the store keeps of the runs of one thing: an evaluation, or a recommendation.

::

    <kind>/<key>/given_up.json              when the last stack that wanted it gave it up
    <kind>/<key>/runs/<run>/run.json        that the run has begun
    <kind>/<key>/runs/<run>/output/...      what its job wrote
    <kind>/<key>/runs/<run>/result.json     what came of it
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from .json_records import JsonRecords, Record

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_SHORT = 24


def run_of(*parts: str) -> str:
    """The name of a run, the same each time the same request is carried out."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def run_job_name(key: str, run: str) -> str:
    """The name of a run's job: creating it twice is noticed."""
    return f"optim-{key[:_SHORT]}-{run[:16]}"


class RunRecords:
    """The records of what has one key. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None, kind: str, key: str) -> None:
        """Prepare to read and write below ``<kind>/<key>/``."""
        self._s3 = s3
        self.bucket: str = bucket
        self.key: str = key
        self._prefix = f"{kind}/{key}/"
        self._records = JsonRecords(s3, bucket, kms_key_arn)

    def output_uri(self, run: str) -> str:
        """Where a run's job writes: an ``s3://`` prefix that ends in a slash."""
        return f"s3://{self.bucket}/{self._of(run)}"

    def give_up(self, issued: int) -> None:
        """Whatever was asked for by then is not wanted any more; ``issued`` in seconds since 1970."""
        self._records.swap(self._given_up, lambda before: {"issued": max(issued, (before or {}).get("issued", 0))})

    def is_given_up(self, issued: int) -> bool:
        """Whether what was asked for then is not wanted any more."""
        return (self._records.read(self._given_up) or {}).get("issued", -1) >= issued

    def begin(self, run: str, job: str, **more: str) -> None:
        """Write down that a run begins, before its job is created; ``more`` is kept with it."""
        self._records.write(f"{self._of(run)}run.json", {"schema": 1, "job_name": job, **more})

    def begun(self, run: str) -> Record | None:
        """What :meth:`begin` wrote down."""
        return self._records.read(f"{self._of(run)}run.json")

    def runs(self) -> list[str]:
        """The runs that have begun."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self._prefix}runs/", Delimiter="/"
        )
        return [each.get("Prefix", "").split("/")[-2] for page in pages for each in page.get("CommonPrefixes", ())]

    def run_result(self, run: str) -> Record | None:
        """What came of a run; None while nothing has."""
        return self._records.read(f"{self._of(run)}result.json")

    @property
    def _given_up(self) -> str:
        return f"{self._prefix}given_up.json"

    def _of(self, run: str) -> str:
        return f"{self._prefix}runs/{run}/"
