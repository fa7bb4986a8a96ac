"""The store's records of evaluations and recommendations, and of the runs of each.

::

    evaluations/<key>/current.json              which run counts, whether it was accepted, and its misses
    evaluations/<key>/result.json               its measurements
    evaluations/<key>/given_up.json             when the last stack that wanted it gave it up
    evaluations/<key>/runs/<run>/run.json       that the run has begun
    evaluations/<key>/runs/<run>/output/...     what the benchmark job wrote
    evaluations/<key>/runs/<run>/result.json    the run's measurements
    evaluations/<key>/runs/<run>/report.md      the same as a page
    evaluations/<key>/runs/<run>/answers.json   completions of the prompts of the quality gate

    recommendations/<key>/result.json             the newest result, for the next request of the same
    recommendations/<key>/given_up/<owner>.json   when that resource of a stack gave it up
    recommendations/<key>/runs/<run>/run.json     that the run has begun, and what the model's files were
    recommendations/<key>/runs/<run>/output/...   what the recommendation job wrote
    recommendations/<key>/runs/<run>/result.json  the run's own result

Results are shared by equal requests. A recommendation's runs are not: one is stopped with the resource that began it,
whose name begins the run's.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..errors import DeploymentError
from .json_records import JsonRecords, Record, encryption, lacks

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3.client import S3Client

_SHORT, _OWNER_DIGITS = 24, 8


def run_of(*parts: str) -> str:
    """The name of a run, the same each time the same request is handled."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def run_job_name(key: str, run: str) -> str:
    """The name of a run's job: creating it twice is noticed."""
    return f"optim-{key[:_SHORT]}-{run[:16]}"


def owner_of(stack_id: str, logical_id: str) -> str:
    """The 8 hexadecimal digits that the names of a resource's runs begin with."""
    return hashlib.sha256(f"{stack_id}\n{logical_id}".encode()).hexdigest()[:_OWNER_DIGITS]


def owner_in(run: str) -> str:
    """The owner of a run, by its name."""
    return run[:_OWNER_DIGITS]


class RunRecords:
    """The records of what has one key. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None, kind: str, key: str) -> None:
        self._s3 = s3
        self.bucket: str = bucket
        self.key: str = key
        self._prefix = f"{kind}/{key}/"
        self._records = JsonRecords(s3, bucket, kms_key_arn)
        self._given_up = f"{self._prefix}given_up.json"

    def output_uri(self, run: str) -> str:
        """The ``s3://`` prefix that a run's job writes below; it ends in a slash."""
        return f"s3://{self.bucket}/{self._of(run)}"

    def give_up(self, issued: int) -> None:
        """Give up all requests up to ``issued``, in seconds since 1970."""
        self._records.swap(self._given_up, lambda before: {"issued": max(issued, (before or {}).get("issued", 0))})

    def is_given_up(self, issued: int) -> bool:
        """Whether a request of that time was given up."""
        return (self._records.read(self._given_up) or {}).get("issued", -1) >= issued

    def begin(self, run: str, job: str, **more: str) -> None:
        """Write down that a run begins, before its job is created; ``more`` is kept with it."""
        self._records.write(f"{self._of(run)}run.json", {"schema": 1, "job_name": job, **more})

    def begun(self, run: str) -> Record | None:
        """The record of :meth:`begin`."""
        return self._records.read(f"{self._of(run)}run.json")

    def runs(self) -> list[str]:
        """The runs that have begun."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self._prefix}runs/", Delimiter="/"
        )
        return [folder.get("Prefix", "").split("/")[-2] for page in pages for folder in page.get("CommonPrefixes", ())]

    def run_result(self, run: str) -> Record | None:
        """The result of a run; None while there is none."""
        return self._records.read(f"{self._of(run)}result.json")

    def result(self) -> Record | None:
        """The result that counts: of an evaluation that of its current run, of a recommendation the newest."""
        return self._records.read(f"{self._prefix}result.json")

    def _of(self, run: str) -> str:
        return f"{self._prefix}runs/{run}/"


class EvaluationRecords(RunRecords):
    """The records of one evaluation. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None, key: str) -> None:
        super().__init__(s3, bucket, kms_key_arn, "evaluations", key)
        self._encryption = encryption(kms_key_arn)

    def open_output(self, location: str, path: str) -> StreamingBody:
        """The file ``path`` below a job's output location, to be read from its beginning.

        Raises:
            DeploymentError: where there is no such file.
        """
        key = f"{location.removeprefix(f's3://{self.bucket}/').rstrip('/')}/{path}"
        try:
            return self._s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        except ClientError as error:
            if not lacks(self._s3, self.bucket, key, error):
                raise
            raise DeploymentError(f"the benchmark job wrote nothing to s3://{self.bucket}/{key}") from error

    def current(self) -> Record | None:
        """The decision on the run that counts; None where none has ended."""
        return self._records.read(f"{self._prefix}current.json")

    def decide(self, decision: Record) -> None:
        """Write down which run counts, and the decision."""
        self._records.write(f"{self._prefix}current.json", {"schema": 1, **decision})

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

    def completions(self, run: str) -> Record | None:
        """The completions so far."""
        return self._records.read(f"{self._of(run)}answers.json")

    def write_completions(self, run: str, completions: Record) -> None:
        """Keep the completions so far."""
        self._records.write(f"{self._of(run)}answers.json", completions)


class RecommendationRecords(RunRecords):
    """The records of one request for recommendations, as one owner sees them. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None, key: str, owner: str) -> None:
        super().__init__(s3, bucket, kms_key_arn, "recommendations", key)
        self.owner = owner
        self.result_uri: str = f"s3://{bucket}/{self._prefix}result.json"
        self._given_up = f"{self._prefix}given_up/{owner}.json"

    def output_uri(self, run: str) -> str:
        """The ``s3://`` prefix that a run's job writes below, apart from the records; it ends in a slash."""
        return f"{super().output_uri(run)}output/"

    def runs(self) -> list[str]:
        """The owner's runs that have begun."""
        return [run for run in super().runs() if owner_in(run) == self.owner]

    def finish(self, run: str, result: Record) -> None:
        """Keep a run's result, as the newest as well."""
        self._records.write(f"{self._of(run)}result.json", result)
        self._records.write(f"{self._prefix}result.json", result)
