"""What the store keeps of evaluations.

::

    evaluations/<key>/current.json              which run counts, whether it was let through, and what was missed
    evaluations/<key>/result.json               its measurements
    evaluations/<key>/given_up.json             when the last stack that wanted it gave it up
    evaluations/<key>/runs/<run>/run.json       that the run has begun
    evaluations/<key>/runs/<run>/output/...     what the benchmark job wrote
    evaluations/<key>/runs/<run>/result.json    the run's measurements
    evaluations/<key>/runs/<run>/report.md      the same for people
    evaluations/<key>/runs/<run>/answers.json   answers to the prompts of the quality gate
"""

from __future__ import annotations

import hashlib
from typing import Any

from botocore.exceptions import ClientError

from .errors import DeploymentError
from .json_records import JsonRecords, Record

_SHORT = 24


def run_of(*parts: str) -> str:
    """The name of a run, the same each time the same request is carried out."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def benchmark_name(key: str, run: str) -> str:
    """The name of a run's benchmark job: creating it twice is noticed."""
    return f"optim-{key[:_SHORT]}-{run[:16]}"


class EvaluationRecords:
    """The records of one evaluation. Every method may be repeated."""

    def __init__(self, s3: Any, bucket: str, kms_key_arn: str | None, key: str) -> None:
        self._s3, self.bucket, self.key = s3, bucket, key
        self._records = JsonRecords(s3, bucket, kms_key_arn)
        self._encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_arn} if kms_key_arn else {}

    def output_uri(self, run: str) -> str:
        """Where a run's benchmark job writes: an ``s3://`` prefix that ends in a slash."""
        return f"s3://{self.bucket}/{self._of(run)}"

    def open_output(self, location: str, path: str) -> Any:
        """A file of a job's output, to be read from its beginning.

        Args:
            location: the output location in the job's description, which is below the one that was asked for.
            path: of the file below that.

        Raises:
            DeploymentError: where there is no such file.
        """
        prefix = location.removeprefix(f"s3://{self.bucket}/").rstrip("/")
        try:
            return self._s3.get_object(Bucket=self.bucket, Key=f"{prefix}/{path}")["Body"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            raise DeploymentError(f"the benchmark job wrote nothing to s3://{self.bucket}/{prefix}/{path}") from error

    def current(self) -> Record | None:
        """Which run counts; None where none has ended."""
        return self._records.read(f"{self._prefix}current.json")

    def result(self) -> Record | None:
        """The measurements of the run that counts."""
        return self._records.read(f"{self._prefix}result.json")

    def decide(self, decision: Record) -> None:
        """Write down which run counts, and what came of it."""
        self._records.write(f"{self._prefix}current.json", {"schema": 1, **decision})

    def give_up(self, issued: int) -> None:
        """Whatever was asked for by then is not wanted any more; ``issued`` in seconds since 1970."""
        self._records.swap(
            f"{self._prefix}given_up.json", lambda before: {"issued": max(issued, (before or {}).get("issued", 0))}
        )

    def is_given_up(self, issued: int) -> bool:
        """Whether what was asked for then is not wanted any more."""
        return (self._records.read(f"{self._prefix}given_up.json") or {}).get("issued", -1) >= issued

    def begin(self, run: str, job: str) -> None:
        """Write down that a run begins, before its job is created."""
        self._records.write(f"{self._of(run)}run.json", {"schema": 1, "job_name": job})

    def runs(self) -> list[str]:
        """The runs that have begun."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self._prefix}runs/", Delimiter="/"
        )
        return [each["Prefix"].split("/")[-2] for page in pages for each in page.get("CommonPrefixes", [])]

    def run_result(self, run: str) -> Record | None:
        """A run's measurements; None while it has none."""
        return self._records.read(f"{self._of(run)}result.json")

    def finish(self, run: str, result: Record, report: str) -> None:
        """Keep a run's measurements and report. The run's own are written last: with them it has ended."""
        self._s3.put_object(
            Bucket=self.bucket,
            Key=f"{self._of(run)}report.md",
            Body=report.encode(),
            ContentType="text/markdown; charset=utf-8",
            **self._encryption,
        )
        self._records.write(f"{self._prefix}result.json", result)
        self._records.write(f"{self._of(run)}result.json", result)

    def answers(self, run: str) -> Record | None:
        """The answers so far."""
        return self._records.read(f"{self._of(run)}answers.json")

    def write_answers(self, run: str, answers: Record) -> None:
        """Keep the answers so far."""
        self._records.write(f"{self._of(run)}answers.json", answers)

    @property
    def _prefix(self) -> str:
        return f"evaluations/{self.key}/"

    def _of(self, run: str) -> str:
        return f"{self._prefix}runs/{run}/"
