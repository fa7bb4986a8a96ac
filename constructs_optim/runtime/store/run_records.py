"""The store's records of evaluations, recommendations, and shadows, and of their runs.

::

    evaluations/<key>/current.json              the current run, whether it was accepted, its misses, and the newest
                                                accepted runs
    evaluations/<key>/result.json               the current run's measurements
    evaluations/<key>/given_up.json             when the resource of a stack was last deleted
    evaluations/<key>/runs/<run>/run.json       written when the run begins
    evaluations/<key>/runs/<run>/output/...     the output of the benchmark job
    evaluations/<key>/runs/<run>/result.json    the run's measurements
    evaluations/<key>/runs/<run>/requests.json  the times and tokens of its requests
    evaluations/<key>/runs/<run>/pooled.json    the same while they are measured, of embeddings, scores or classes
    evaluations/<key>/runs/<run>/report.md      the results as a page
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

Equal requests share results. An evaluation may repeat a run to decide its requirements; a repetition has a folder of
its own, without answers and report. A recommendation's run is stopped with its resource; its name starts with that
resource's digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from ..errors import DeploymentError
from .json_records import JsonRecords, Model, NewerRecord, Stored, StoredPart, StoredRecord, encryption, get_object

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3.client import S3Client

CURRENT, RESULT, RUN, COMPLETIONS = "current.json", "result.json", "run.json", "answers.json"
REQUESTS, POOLED = "requests.json", "pooled.json"
OBSERVING = "observing"
"""The outcome of a shadow run that is still active."""
MOST_RUNS = 12
"""The most accepted runs of an evaluation to compare a later version with."""


class GivenUp(StoredRecord):
    """When a resource was last deleted, in seconds since 1970."""

    issued: int


class BegunRun(StoredRecord):
    """A run's job; for a recommendation, with the fingerprint of the model's files."""

    job_name: str
    fingerprint: str | None = None


class Decision(StoredRecord):
    """An evaluation's current run, and whether it met its requirements; ``before`` is the replaced version's key.

    ``runs`` are the newest accepted runs, the last one last, whose spread later versions are compared with.
    """

    run: str
    accepted: bool
    runs: tuple[str, ...] = ()
    before: str | None = None
    lossless: bool = False
    misses: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()

    @property
    def measurements(self) -> tuple[str, ...]:
        """The accepted runs; records of earlier releases have only the current one."""
        return self.runs or (self.run,)

    def with_run(self, run: str) -> Decision:
        """Return a copy with one more accepted run, which becomes the current one.

        An interrupted poll may have added it before.
        """
        others = (each for each in self.measurements if each != run)
        return self.updated(run=run, runs=(*others, run)[-MOST_RUNS:])


class Answers(StoredRecord):
    """Completions, the references of the first of them, and the digest of the prompts' file."""

    answers: tuple[str | None, ...]
    references: tuple[str | None, ...]
    prompts_digest: str


class MeasuredLevel(StoredPart):
    """An evaluation's metrics at one concurrency."""

    concurrency: int
    metrics: dict[str, float]


class MeasuredSubject(StoredPart):
    """The fleet that an evaluation measured."""

    instance_type: str = ""
    copies: int = 0


class Measurements(StoredRecord):
    """The members of an evaluation's result that the gate reads."""

    levels: tuple[MeasuredLevel, ...]
    subject: MeasuredSubject = MeasuredSubject()


class ReportedSubject(MeasuredSubject):
    """The fleet as the report names it."""

    label: str
    endpoint_name: str
    instance_count: int
    artifact_key: str


class ReportedPrice(StoredPart):
    """The price that the report shows."""

    instance_price_per_hour: float
    discount: float
    source: str


class ReportedForecast(StoredPart):
    """A forecast that the report compares with the measurement."""

    concurrency: int
    metric: str
    value: float
    low: float
    high: float
    measured: float
    holds: bool


class ReportedResult(StoredRecord):
    """The members of an evaluation's result that the report shows."""

    levels: tuple[MeasuredLevel, ...]
    subject: ReportedSubject
    started: str
    price: ReportedPrice | None = None
    forecast: tuple[ReportedForecast, ...] = ()
    notes: tuple[str, ...] = ()


class _LevelSamples(StoredPart):
    concurrency: int
    seconds: float
    requests: tuple[tuple[float | int | str | None, ...], ...]


class StoredSamples(StoredRecord):
    """The requests of a run as rows, in the order of ``columns``; only the column ``prompt`` may have text."""

    columns: tuple[str, ...]
    levels: tuple[_LevelSamples, ...]

    @model_validator(mode="after")
    def _has_rows_of_columns(self) -> StoredSamples:
        if "start" not in self.columns:
            raise ValueError("there is no column start")
        for level in self.levels:
            for row in level.requests:
                if len(row) != len(self.columns):
                    raise ValueError("a row and the columns have different lengths")
                cells = zip(self.columns, row, strict=True)
                if any(isinstance(cell, str) and column != "prompt" for column, cell in cells):
                    raise ValueError("a number is text")
        return self


class SentRequests(StoredPart):
    """The requests of one number of users, which the function of an evaluation sent.

    Each has its start in seconds, its latency in milliseconds (None: it failed), the tokens that the server read, and
    the number of its inputs. ``seconds`` is how long they took, ``ended`` a time in seconds since 1970, ``busy`` the
    function's share of a processor meanwhile, and ``wanted`` the number of requests to send (None: as many as fit in
    the time).
    """

    concurrency: int
    seconds: float
    ended: float
    busy: float
    wanted: int | None
    errors: dict[str, int]
    requests: tuple[tuple[float, float | None, int | None, int], ...]


class StoredRequests(StoredRecord):
    """The levels of a run that are measured so far."""

    levels: tuple[SentRequests, ...]


class _Asked(StoredPart):
    fingerprint: str | None = None


class _RecommendationJob(StoredPart):
    name: str


class RecommendationResult(StoredRecord):
    """The members of a recommendation's result that the handler reads."""

    asked: _Asked
    job: _RecommendationJob
    recommendations: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]


class ShadowDecision(StoredRecord):
    """The verdict on a candidate.

    ``ending`` is the execution that ends the shadow, since ``since`` in seconds since 1970; None if none does.
    """

    outcome: Literal["observing", "not decided", "worse", "pass"]
    run: str
    ending: str | None = None
    since: float = 0
    promotion_failed: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the candidate is not compared again."""
        return self.outcome in ("worse", "pass")


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

    def get(self, file: str, model: type[Model], run: str = "") -> Model | None:
        """Return a file's content as a model; None if the file does not exist."""
        return self._records.get(self._name(file, run), model)

    def write(self, file: str, content: Mapping[str, object], run: str = "") -> None:
        """Write a file of the evaluation or recommendation, or of one run."""
        self._records.write(self._name(file, run), {"schema": 1, **content})

    def change(self, file: str, model: type[Stored], change: Callable[[Stored | None], Stored]) -> Stored:
        """Change a file by compare-and-swap; return its new content."""
        return self._records.change(self._name(file, ""), model, change)

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

        def given_up(before: GivenUp | None) -> GivenUp:
            return GivenUp(issued=max(issued, before.issued)) if before is not None else GivenUp(issued=issued)

        try:
            self._records.change(self._given_up, GivenUp, given_up)
        except NewerRecord:
            # A stack must not need an upgrade to be deleted. Its runs are stopped all the same.
            return
        except DeploymentError:
            # A deletion is later than the requests that the damaged record gave up, and must not depend on it.
            self._records.write(self._given_up, GivenUp(issued=issued).to_record())

    def is_given_up(self, issued: int) -> bool:
        """Return whether the requests issued at ``issued``, in seconds since 1970, were given up."""
        given_up = self._records.get(self._given_up, GivenUp)
        return given_up is not None and given_up.issued >= issued

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
