"""Jobs that make artifacts: which there are, of either kind, who wants what they make, and how one of them fares."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from constructs_optim.runtime.jobs.sagemaker_jobs import (
    OPTIMIZATION,
    TRAINING,
    JobKind,
    SageMakerJobs,
)
from constructs_optim.runtime.store.artifact_store import Owner

if TYPE_CHECKING:
    from .artifacts import ArtifactInventory

# runtime/jobs/sagemaker_jobs.job_name: the artifact key's first half, the store, the attempt.
_NAME = re.compile(r"optim-([0-9a-f]{32})-([0-9a-f]{8})-(\d+)")
_PAGE = 100


class JobStatus(StrEnum):
    """The statuses of a job (SageMaker API reference, OptimizationJobStatus; TrainingJobStatus in capitals)."""

    starting = "STARTING"
    in_progress = "INPROGRESS"
    stopping = "STOPPING"
    completed = "COMPLETED"
    failed = "FAILED"
    stopped = "STOPPED"


_TRAINING_STATUSES = {
    JobStatus.in_progress: "InProgress",
    JobStatus.stopping: "Stopping",
    JobStatus.completed: "Completed",
    JobStatus.failed: "Failed",
    JobStatus.stopped: "Stopped",
}

ENDED = frozenset({JobStatus.completed, JobStatus.failed, JobStatus.stopped})
"""A job in one of these, and in no other, has come to its end."""


@dataclass(frozen=True)
class JobName:
    """The parts of a name that this library gave a job."""

    key_prefix: str
    store: str
    attempt: int

    @staticmethod
    def parse(name: str) -> JobName | None:
        """The parts, or None for the name of a job that is not this library's."""
        found = _NAME.fullmatch(name)
        return JobName(found[1], found[2], int(found[3])) if found else None

    def is_of(self, bucket: str) -> bool:
        """Whether the job writes to the store in ``bucket``."""
        return self.store == hashlib.sha256(bucket.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Job:
    """One look at a job.

    ``artifact_key`` and ``owners`` are known for jobs of a store that was looked into, otherwise None. So is
    ``orphaned``: whether the job still runs and no stack wants what it makes.
    """

    name: str
    kind: str
    status: str
    instance_type: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    max_runtime_seconds: int | None = None
    failure_reason: str | None = None
    artifact_key: str | None = None
    owners: tuple[Owner, ...] | None = None
    orphaned: bool | None = None

    @property
    def ended(self) -> bool:
        """Whether it has come to its end, good or bad. A status that is not known here counts as running."""
        return self.status in ENDED

    @property
    def attempt(self) -> int | None:
        """Which attempt at its artifact it is, or None for a job that is not this library's."""
        parts = JobName.parse(self.name)
        return parts.attempt if parts else None

    def running_seconds(self, now: dt.datetime) -> float:
        """How long it has run, or ran; 0 before SageMaker has started it."""
        if self.started_at is None:
            return 0.0
        return max(0.0, ((self.ended_at or now) - self.started_at).total_seconds())

    def to_json(self, now: dt.datetime) -> dict[str, Any]:
        """The job as ``jobs list --format json`` prints it; times in ISO 8601, durations in seconds."""
        return {
            "name": self.name,
            "kind": self.kind,
            "status": self.status,
            "instance_type": self.instance_type,
            "attempt": self.attempt,
            "created_at": self.created_at.isoformat(),
            "started_at": self.started_at.isoformat() if self.started_at else None,
            "ended_at": self.ended_at.isoformat() if self.ended_at else None,
            "age_seconds": round((now - self.created_at).total_seconds()),
            "running_seconds": round(self.running_seconds(now)),
            "artifact_key": self.artifact_key,
            "owners": None if self.owners is None else [owner_to_json(owner) for owner in self.owners],
            "orphaned": self.orphaned,
        }


def owner_to_json(owner: Owner) -> dict[str, str]:
    """An owner as every command prints it."""
    return {"stack_id": owner.stack_id, "logical_id": owner.logical_id}


def list_jobs(
    sagemaker: Any, *, statuses: Sequence[JobStatus] = (), inventory: ArtifactInventory | None = None
) -> list[Job]:
    """The jobs of this library in the client's account and region, newest first.

    Args:
        sagemaker: a SageMaker client.
        statuses: only jobs in one of these. Default: all.
        inventory: the store whose jobs get their artifact key and owners. Default: none.
    """
    found = [
        job
        for kind, pages in (
            (OPTIMIZATION, sagemaker.get_paginator("list_optimization_jobs")),
            (TRAINING, sagemaker.get_paginator("list_training_jobs")),
        )
        for page in pages.paginate(**_listed(kind, statuses))
        for summary in page[f"{kind.name}Summaries"]
        if (job := _job(summary, kind)).attempt is not None and (not statuses or job.status in statuses)
    ]
    found.sort(key=lambda job: job.created_at, reverse=True)
    return found if inventory is None else [_with_owners(job, inventory) for job in found]


def _listed(kind: JobKind, statuses: Sequence[JobStatus]) -> dict[str, Any]:
    """What is asked for; the service filters by one status at a time."""
    # An optimization job begins as STARTING, which a training job never is.
    of_kind = _TRAINING_STATUSES.get(statuses[0]) if kind is TRAINING and statuses else None
    asked = of_kind if kind is TRAINING else (statuses[0].value if statuses else None)
    return {
        "NameContains": "optim-",
        "SortBy": "CreationTime",
        "SortOrder": "Descending",
        "PaginationConfig": {"PageSize": _PAGE},
        **({"StatusEquals": asked} if asked is not None and len(statuses) == 1 else {}),
    }


def describe_job(sagemaker: Any, name: str, *, inventory: ArtifactInventory | None = None) -> Job | None:
    """One look at the job of that name, or None where there is none; ``inventory`` as in :func:`list_jobs`."""
    for kind in (OPTIMIZATION, TRAINING):
        described = SageMakerJobs(sagemaker, kind).describe(name)
        if described is not None:
            job = _job(described, kind)
            return job if inventory is None else _with_owners(job, inventory)
    return None


def watch_job(
    sagemaker: Any, name: str, *, poll_seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Job]:
    """Look at a job every ``poll_seconds`` until it has ended; the last look is the one that saw the end.

    Yields nothing where there is no such job, and ends early where it is deleted meanwhile.
    """
    while (job := describe_job(sagemaker, name)) is not None:
        yield job
        if job.ended:
            return
        sleep(poll_seconds)


def stop_job(sagemaker: Any, name: str) -> Job | None:
    """Stop the job if it runs, and look at it once more. Ended already is no error."""
    for kind in (OPTIMIZATION, TRAINING):
        SageMakerJobs(sagemaker, kind).stop(name)
    return describe_job(sagemaker, name)


def _job(described: Mapping[str, Any], kind: JobKind) -> Job:
    """A job of either kind, from its description or its line in a list."""
    resources, began = described.get("ResourceConfig", {}), kind.name.removesuffix("Job")
    return Job(
        name=described[kind.name_member],
        kind=kind.title,
        status=kind.status(described).upper(),
        instance_type=described.get("DeploymentInstanceType") or resources.get("InstanceType"),
        created_at=described["CreationTime"],
        started_at=described.get(f"{began}StartTime"),
        ended_at=described.get(f"{began}EndTime"),
        max_runtime_seconds=described.get("StoppingCondition", {}).get("MaxRuntimeInSeconds"),
        failure_reason=described.get("FailureReason"),
    )


def _with_owners(job: Job, inventory: ArtifactInventory) -> Job:
    """The job with what the store knows of it; as it is where it belongs to another store."""
    name = JobName.parse(job.name)
    if name is None or not name.is_of(inventory.bucket):
        return job
    for key in inventory.keys(name.key_prefix):
        claim = inventory.claim(key)
        # Nobody wants an attempt that was given up, that another one has followed, or that another account makes.
        current = (
            claim is not None
            and not claim.released
            and claim.attempt == name.attempt
            and claim.made_in(inventory.account)
        )
        owners = inventory.owners(key, claim) if current else ()
        return replace(job, artifact_key=key, owners=owners, orphaned=not job.ended and not owners)
    return replace(job, owners=(), orphaned=not job.ended)
