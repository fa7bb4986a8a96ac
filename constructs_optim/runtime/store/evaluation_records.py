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

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..errors import DeploymentError
from .json_records import Record, encryption, lacks
from .run_records import RunRecords

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3.client import S3Client


class EvaluationRecords(RunRecords):
    """The records of one evaluation. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None, key: str) -> None:
        """Prepare to read and write below ``evaluations/<key>/``."""
        super().__init__(s3, bucket, kms_key_arn, "evaluations", key)
        self._encryption = encryption(kms_key_arn)

    def open_output(self, location: str, path: str) -> StreamingBody:
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
            if not lacks(self._s3, self.bucket, f"{prefix}/{path}", error):
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
