"""The life cycle of benchmark and recommendation jobs: InProgress, then Completed or Failed; or Stopping and Stopped.

A job has no thread: each read first advances it to the state that the elapsed time implies.

Sources: API reference, CreateAIBenchmarkJob, CreateAIRecommendationJob and related operations; developer guide (only a
job in a terminal state can be deleted). Assumed, without a source: the wording of a refusal.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from constructs_optim_local.api.error import ApiError, not_found, validation_error
from constructs_optim_local.faults import Faults
from constructs_optim_local.sagemaker.records import (
    Record,
    Records,
    Scope,
)

_STOPPING_SECONDS = 0.5


class AiJobs:
    """The jobs of one kind in one account and Region."""

    def __init__(
        self,
        scope: Scope,
        faults: Faults,
        *,
        kind: str,
        path: str,
        label: str,
        fault: str,
        finish: Callable[[Record], str | None],
    ) -> None:
        """Create an empty collection of jobs.

        Args:
            scope: the jobs' account and Region.
            faults: the faults to inject: ``<fault>_fails`` and ``<fault>_never_finishes``.
            kind: prefix of the API's members, for example ``AIBenchmarkJob``.
            path: resource type in the jobs' ARNs, for example ``ai-benchmark-job``.
            label: the jobs' name in messages.
            fault: prefix of the faults' names.
            finish: writes a job's results at its end, and returns why it failed, or None.
        """
        self._scope, self._faults, self._fault, self._finish = scope, faults, fault, finish
        self._kind, self._path, self._label = kind, path, label
        self._history: dict[str, list[dict[str, Any]]] = {}
        self.records = Records(
            missing=lambda name: not_found(f"{label.capitalize()} {name} does not exist"),
            taken=lambda name: ApiError("ResourceInUse", f"{label.capitalize()} {name} already exists"),
        )

    def arn(self, name: str) -> str:
        """Return the ARN of a job."""
        return self._scope.arn(self._path, name)

    def add(self, request: Record, seconds: float, **more: Any) -> Record:
        """Start a job with a duration. Members in ``more`` override the request's."""
        name, created = request[f"{self._kind}Name"], self._scope.now()
        arn = self.arn(name)
        kept = {key: value for key, value in request.items() if key != "Tags"} | more
        self.records.add(
            name,
            {**kept, f"{self._kind}Arn": arn, "CreationTime": created, "StartTime": created, "_seconds": seconds},
        )
        self._scope.tag(arn, request.get("Tags"))
        self._history[name.lower()] = []
        self._enter(self.records.get(name), "InProgress", created)
        return {f"{self._kind}Arn": arn}

    def describe(self, request: Record) -> Record:
        """Run the Describe operation."""
        job = self.settled(request[f"{self._kind}Name"])
        tags = self._scope.tags.get(job[f"{self._kind}Arn"], {})
        shown = {key: value for key, value in job.items() if not key.startswith("_")}
        return {**shown, **({"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]} if tags else {})}

    def stop(self, request: Record) -> Record:
        """Run the Stop operation."""
        job = self.settled(request[f"{self._kind}Name"])
        if job[f"{self._kind}Status"] != "InProgress":
            raise validation_error(
                f"The request was rejected because the {self._label} is in status {job[f'{self._kind}Status']}"
            )
        self._enter(job, "Stopping", self._scope.now())
        return {f"{self._kind}Arn": job[f"{self._kind}Arn"]}

    def delete(self, request: Record) -> Record:
        """Run the Delete operation."""
        job = self.settled(request[f"{self._kind}Name"])
        if job[f"{self._kind}Status"] in ("InProgress", "Stopping"):
            raise validation_error(
                f"Cannot delete the {self._label} in status {job[f'{self._kind}Status']}; it must be in a terminal "
                "state: stop it first"
            )
        self.records.remove(request[f"{self._kind}Name"])
        return {f"{self._kind}Arn": job[f"{self._kind}Arn"]}

    def list(self, request: Record, *more: str) -> Record:
        """Run the List operation; ``more`` are further members of a summary."""
        self.settle_all()
        members = (*(f"{self._kind}{member}" for member in ("Name", "Arn", "Status")), "CreationTime", "EndTime", *more)
        return self.records.page(
            f"{self._kind}s", request, lambda job: {key: job[key] for key in members if key in job}
        )

    def settle_all(self) -> None:
        """Advance every job to the current time."""
        for name in [*self.records.by_name]:
            self.settled(name)

    def is_running(self, job: Record) -> bool:
        """Return whether a job has not ended."""
        return job[f"{self._kind}Status"] in ("InProgress", "Stopping")

    def to_json(self) -> list[dict[str, Any]]:
        """Return each job with its history of statuses, in the order of creation."""
        self.settle_all()
        return [
            {
                "name": job[f"{self._kind}Name"],
                "status": job[f"{self._kind}Status"],
                "history": list(self._history[name]),
            }
            for name, job in self.records.by_name.items()
        ]

    def settled(self, name: str) -> Record:
        """Return the job in its current state."""
        job = self.records.get(name)
        age = (self._scope.now() - job["_since"]).total_seconds()
        match job[f"{self._kind}Status"]:
            case "InProgress" if age >= job["_seconds"] and not self._faults.strikes(f"{self._fault}_never_finishes"):
                self._end(job)
            case "Stopping" if age >= _STOPPING_SECONDS:
                self._enter(job, "Stopped", self._scope.now())
            case _:
                pass
        return job

    def _end(self, job: Record) -> None:
        if fault := self._faults.strikes(f"{self._fault}_fails"):
            reason = fault.reason or "InternalServerError: we encountered an internal error"
        else:
            reason = self._finish(job)
        if reason is not None:
            job["FailureReason"] = reason
        self._enter(job, "Completed" if reason is None else "Failed", self._scope.now())

    def _enter(self, job: Record, status: str, at: dt.datetime) -> None:
        job[f"{self._kind}Status"], job["_since"] = status, at
        if status in ("Completed", "Failed", "Stopped"):
            job["EndTime"] = at
        self._history[job[f"{self._kind}Name"].lower()].append({"status": status, "time": at.timestamp()})
