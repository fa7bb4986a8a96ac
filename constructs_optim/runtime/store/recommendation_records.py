"""What the store keeps of recommendations.

::

    recommendations/<key>/result.json             the newest result, for whoever asks the same again
    recommendations/<key>/given_up/<owner>.json   when that resource of a stack gave it up
    recommendations/<key>/runs/<run>/run.json     that the run has begun, and what the model's files were
    recommendations/<key>/runs/<run>/output/...   what the recommendation job wrote
    recommendations/<key>/runs/<run>/result.json  the run's own result

Results are shared by all that ask the same. Runs are not: one is stopped with the resource that began it, whose name
begins the run's.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from .json_records import Record
from .run_records import RunRecords

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_OWNER_DIGITS = 8


def owner_of(stack_id: str, logical_id: str) -> str:
    """What the runs of one resource of a stack have in common: 8 hexadecimal digits."""
    return hashlib.sha256(f"{stack_id}\n{logical_id}".encode()).hexdigest()[:_OWNER_DIGITS]


def owner_in(run: str) -> str:
    """The owner of a run, by its name."""
    return run[:_OWNER_DIGITS]


class RecommendationRecords(RunRecords):
    """The records of what is asked under one key, as one owner sees them. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None, key: str, owner: str) -> None:
        """Prepare to read and write below ``recommendations/<key>/``."""
        super().__init__(s3, bucket, kms_key_arn, "recommendations", key)
        self.owner = owner

    @property
    def result_uri(self) -> str:
        """Where the result is, or will be."""
        return f"s3://{self.bucket}/{self._prefix}result.json"

    def output_uri(self, run: str) -> str:
        """Where a run's job writes: an ``s3://`` prefix that ends in a slash, apart from the records."""
        return f"{super().output_uri(run)}output/"

    def runs(self) -> list[str]:
        """The owner's runs that have begun."""
        return [run for run in super().runs() if owner_in(run) == self.owner]

    def result(self) -> Record | None:
        """The newest result."""
        return self._records.read(f"{self._prefix}result.json")

    def finish(self, run: str, result: Record) -> None:
        """Keep a run's result, as the newest as well."""
        self._records.write(f"{self._of(run)}result.json", result)
        self._records.write(f"{self._prefix}result.json", result)

    @property
    def _given_up(self) -> str:
        return f"{self._prefix}given_up/{self.owner}.json"
