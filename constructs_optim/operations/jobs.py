"""Lists, describes, watches, and stops the jobs that produce artifacts."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from constructs_optim.runtime.jobs.sagemaker_jobs import OPTIMIZATION, TRAINING, JobKind, SageMakerJobs
from constructs_optim.runtime.store.artifact_store import Owner
from constructs_optim.runtime.store.json_records import in_threads

JOB_NAME = re.compile(r"optim-(?P<key>[0-9a-f]{32})-[0-9a-f]{8}-(?P<attempt>\d+)")
"""Names from ``sagemaker_jobs.job_name``: the first half of the artifact's key, the store, the attempt."""

_MOST_DESCRIBED = 100


class JobStatus(StrEnum):
    """The statuses of a job (SageMaker API reference, OptimizationJobStatus; TrainingJobStatus in capitals)."""

    starting = "STARTING"
    in_progress = "INPROGRESS"
    stopping = "STOPPING"
    completed = "COMPLETED"
    failed = "FAILED"
    stopped = "STOPPED"


@dataclass(frozen=True)
class Job:
    """The description of a job."""

    name: str
    kind: str
    status: str
    instance_type: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    max_runtime_seconds: int | None = None
    failure_reason: str | None = None
    # Set by ArtifactInventory.with_owners for jobs of its store; an orphaned job runs for an artifact without owners.
    artifact_key: str | None = None
    owners: tuple[Owner, ...] | None = None
    orphaned: bool | None = None

    @property
    def ended(self) -> bool:
        """Whether the job ended. An unknown status counts as running."""
        return self.status in (JobStatus.completed, JobStatus.failed, JobStatus.stopped)

    @property
    def attempt(self) -> int | None:
        """The number of the attempt; None if this library did not start the job."""
        matched = JOB_NAME.fullmatch(self.name)
        return int(matched["attempt"]) if matched else None

    def age_seconds(self, now: dt.datetime) -> float:
        """Return how long ago the job was created; 0 if SageMaker's clock is ahead of ``now``."""
        return max(0.0, (now - self.created_at).total_seconds())

    def running_seconds(self, now: dt.datetime) -> float:
        """Return how long the job has run; 0 before SageMaker starts it."""
        if self.started_at is None:
            return 0.0
        return max(0.0, ((self.ended_at or now) - self.started_at).total_seconds())

    def to_json(self, now: dt.datetime) -> dict[str, Any]:
        """Return the job in the form that ``jobs list --json`` prints."""
        return {
            **vars(self),
            "attempt": self.attempt,
            "age_seconds": round(self.age_seconds(now)),
            "running_seconds": round(self.running_seconds(now)),
        }


def list_jobs(sagemaker: Any, *, statuses: Sequence[JobStatus] = ()) -> list[Job]:
    """Return this library's jobs in the client's account and Region, newest first; all statuses by default.

    SageMaker's lists have no failure reasons. So the newest 100 jobs that failed or were stopped are described.
    """
    jobs = [
        job
        for kind, pages in (
            (OPTIMIZATION, sagemaker.get_paginator("list_optimization_jobs")),
            (TRAINING, sagemaker.get_paginator("list_training_jobs")),
        )
        for page in pages.paginate(NameContains="optim-", PaginationConfig={"PageSize": 100})
        for summary in page[f"{kind.name}Summaries"]
        if (job := _job(summary, kind)).attempt is not None and (not statuses or job.status in statuses)
    ]
    jobs.sort(key=lambda job: job.created_at, reverse=True)
    failed = [job.name for job in jobs if job.status in (JobStatus.failed, JobStatus.stopped)][:_MOST_DESCRIBED]
    described = in_threads(lambda name: describe_job(sagemaker, name), failed)
    reasons = {job.name: job.failure_reason for job in described if job is not None}
    return [replace(job, failure_reason=reasons.get(job.name, job.failure_reason)) for job in jobs]


def describe_job(sagemaker: Any, name: str) -> Job | None:
    """Describe a job; None if it does not exist."""
    for kind in (OPTIMIZATION, TRAINING):
        described = SageMakerJobs(sagemaker, kind).describe(name)
        if described is not None:
            return _job(described, kind)
    return None


def watch_job(sagemaker: Any, name: str, *, poll_seconds: float) -> Iterator[Job]:
    """Describe a job every ``poll_seconds`` until it has ended or is deleted."""
    while (job := describe_job(sagemaker, name)) is not None:
        yield job
        if job.ended:
            return
        time.sleep(poll_seconds)


def stop_job(sagemaker: Any, name: str) -> Job | None:
    """Stop a job if it runs, and describe it."""
    for kind in (OPTIMIZATION, TRAINING):
        SageMakerJobs(sagemaker, kind).stop(name)
    return describe_job(sagemaker, name)


def _job(described: Mapping[str, Any], kind: JobKind) -> Job:
    """Create a job of either kind, from its description or its summary in a list."""
    resources, work = described.get("ResourceConfig", {}), kind.name.removesuffix("Job")
    return Job(
        name=described[kind.name_member],
        kind=kind.title,
        status=kind.status(described).upper(),
        instance_type=described.get("DeploymentInstanceType") or resources.get("InstanceType"),
        created_at=described["CreationTime"],
        started_at=described.get(f"{work}StartTime"),
        ended_at=described.get(f"{work}EndTime"),
        max_runtime_seconds=described.get("StoppingCondition", {}).get("MaxRuntimeInSeconds"),
        failure_reason=described.get("FailureReason") or _why_stopped(described, kind),
    )


def _why_stopped(described: Mapping[str, Any], kind: JobKind) -> str | None:
    """Return why a job is stopped: the limit that it reached, or a request; None for other jobs."""
    if not kind.has_status(described, "STOPPED"):
        return None
    reached_limit = str(described.get("SecondaryStatus")).endswith("Exceeded") and "StoppingCondition" in described
    return kind.failure_reason(described) if reached_limit else "a request stopped it"
