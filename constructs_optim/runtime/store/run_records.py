"""The store's records of evaluations, recommendations, and shadows, and of their runs.

::

    evaluations/<key>/current.json              the current run, whether it was accepted, and its misses
    evaluations/<key>/result.json               the current run's measurements
    evaluations/<key>/given_up.json             when the resource of a stack was last deleted
    evaluations/<key>/runs/<run>/run.json       written when the run begins
    evaluations/<key>/runs/<run>/output/...     the output of the benchmark job
    evaluations/<key>/runs/<run>/result.json    the run's measurements
    evaluations/<key>/runs/<run>/requests.json  the times and tokens of its requests
    evaluations/<key>/runs/<run>/report.md      the same as a page
    evaluations/<key>/runs/<run>/answers.json   completions of the quality gate's prompts

    recommendations/<key>/result.json             the newest result, for the next equal request
    recommendations/<key>/given_up/<owner>.json   when that resource of a stack was deleted
    recommendations/<key>/runs/<run>/...          the same; run.json has the fingerprint of the model's files

    shadows/<key>/current.json                  the verdict on a candidate, for its next deployment, and whether a run
                                                is active
    shadows/<key>/result.json                   the run's report
    shadows/<key>/given_up.json                 when the resource of a stack was last deleted
    shadows/<key>/runs/<run>/run.json           the counts so far, and the captures that were read
    shadows/<key>/runs/<run>/result.json        the run's report
    shadows/<key>/runs/<run>/report.md          the same as a page

Equal requests share results. A recommendation's run is stopped with its resource; its name starts with that resource's
digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from ..errors import DeploymentError
from .json_records import JsonRecords, Record, encryption, get_object

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3.client import S3Client

CURRENT, RESULT, RUN, COMPLETIONS = "current.json", "result.json", "run.json", "answers.json"
REQUESTS = "requests.json"
OBSERVING = "observing"
"""The outcome of a shadow run that is still active."""


def run_of(*parts: str) -> str:
    """Return a run's name, the same for every attempt at a request."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def run_job_name(key: str, run: str) -> str:
    """Return the name of a run's job, which SageMaker creates only once."""
    return f"optim-{key[:24]}-{run[:16]}"


def owner_of(stack_id: str, logical_id: str) -> str:
    """Return the 8 hexadecimal digits with which the names of a resource's runs start."""
    return hashlib.sha256(f"{stack_id}\n{logical_id}".encode()).hexdigest()[:8]


class RunRecords:
    """The records of an evaluation or a shadow, or of a recommendation with the runs of one ``owner``."""

    def __init__(
        self,
        s3: S3Client,
        kind: Literal["evaluations", "recommendations", "shadows"],
        bucket: str,
        kms_key_arn: str | None,
        key: str,
        owner: str = "",
    ) -> None:
        self._s3 = s3
        self.bucket = bucket
        self.key = key
        self.owner = owner
        self._prefix = f"{kind}/{key}/"
        self._given_up = f"{self._prefix}given_up/{owner}.json" if owner else f"{self._prefix}given_up.json"
        self._records = JsonRecords(s3, bucket, kms_key_arn)
        self._encryption = encryption(kms_key_arn)

    def read(self, file: str, run: str = "") -> Record | None:
        """Return a file's content; None if the file does not exist."""
        return self._records.read(self._name(file, run))

    def write(self, file: str, content: Mapping[str, object], run: str = "") -> None:
        """Write a file of the evaluation or recommendation, or of one run."""
        self._records.write(self._name(file, run), {"schema": 1, **content})

    def swap(self, file: str, change: Callable[[Record | None], Record]) -> Record:
        """Change a file by compare-and-swap; return its new content."""
        return self._records.swap(self._name(file, ""), change)

    def write_report(self, run: str, report: str) -> None:
        """Write a run's report."""
        self._s3.put_object(
            Bucket=self.bucket,
            Key=self._name("report.md", run),
            Body=report.encode(),
            ContentType="text/markdown; charset=utf-8",
            **self._encryption,
        )

    def uri(self, file: str = "", run: str = "") -> str:
        """Return the ``s3://`` URI of a file or of the folder; a folder's URI ends in a slash."""
        return f"s3://{self.bucket}/{self._name(file, run)}"

    def give_up(self, issued: int) -> None:
        """Give up all requests up to ``issued``, in seconds since 1970."""
        self._records.swap(self._given_up, lambda before: {"issued": max(issued, (before or {}).get("issued", 0))})

    def is_given_up(self, issued: int) -> bool:
        """Return whether the requests issued at ``issued``, in seconds since 1970, were given up."""
        return (self._records.read(self._given_up) or {}).get("issued", -1) >= issued

    def runs(self) -> list[str]:
        """Return the runs that have begun, only those of this owner if there is one."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self._prefix}runs/", Delimiter="/"
        )
        folders = (folder.get("Prefix", "") for page in pages for folder in page.get("CommonPrefixes", ()))
        runs = [folder.split("/")[-2] for folder in folders]
        return [run for run in runs if run.startswith(self.owner)]

    def open_output(self, location: str, path: str) -> StreamingBody:
        """Open the file ``path`` below a job's output location."""
        key = f"{location.removeprefix(f's3://{self.bucket}/').rstrip('/')}/{path}"
        if (output := get_object(self._s3, self.bucket, key)) is None:
            raise DeploymentError(f"the benchmark job wrote nothing to s3://{self.bucket}/{key}")
        return output["Body"]

    def _name(self, file: str, run: str) -> str:
        return f"{self._prefix}runs/{run}/{file}" if run else f"{self._prefix}{file}"
