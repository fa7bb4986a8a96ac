"""Faults that tests inject by name, to see how a deployment handles them."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import Any

from .api.error import ApiError

NAMES = {
    "job_fails": "optimization jobs end as FAILED; reason: their FailureReason",
    "job_never_starts": "optimization jobs stay STARTING",
    "job_never_finishes": "optimization jobs stay INPROGRESS",
    "job_writes_nothing": "optimization jobs complete without writing their output",
    "benchmark_fails": "AI benchmark jobs end as Failed; reason: their FailureReason",
    "benchmark_never_finishes": "AI benchmark jobs stay InProgress",
    "benchmark_writes_nothing": "AI benchmark jobs complete without writing their output",
    "recommendation_fails": "AI recommendation jobs end as Failed; reason: their FailureReason",
    "recommendation_never_finishes": "AI recommendation jobs stay InProgress",
    "training_fails": "training jobs end as Failed before their code runs; reason: their FailureReason",
    "training_never_starts": "training jobs stay Starting",
    "training_never_finishes": "training jobs stay Training, and their code does not begin",
    "training_interrupted": "managed spot training jobs are interrupted while their code runs, and begin anew",
    "training_writes_nothing": "training jobs complete without writing their output",
    "throttled": "calls of operation answer ThrottlingException, the next count of them",
    "server_error": "calls of operation answer 500, the next count of them",
    "endpoint_busy": "calls of operation answer that the endpoint is being updated, the next count of them",
    "limit_exceeded": "calls of operation answer ResourceLimitExceeded; reason: the message",
    "hub_unavailable": "DescribeHubContent answers 503",
    "endpoint_fails": "endpoints that are created or updated fail; reason: their FailureReason",
    "no_capacity": "no instance can be launched, or none of instance_type; a variant with another pool falls over",
    "update_fails": "updates of endpoints and inference components fail and roll back; reason: their FailureReason",
    "silent_rollback": "an endpoint whose update rolls back says no FailureReason, and its updates seem to succeed",
    "rollback_fails": "endpoints that roll back end as UpdateRollbackFailed; reason: added to their FailureReason",
    "access_denied": "calls of operation by a function answer AccessDenied",
    "key_disabled": "calls of S3's operation by a function answer KMS.DisabledException",
    "function_dies_before": "a function's process is killed when it calls operation, before the service acts",
    "function_dies_after": "a function's process is killed when it calls operation, after the service has acted",
    "function_hangs": "a function's call of operation is never answered",
    "message_lost": "what a function sends to CloudFormation (operation Respond or Signal) never arrives",
    "message_twice": "a function's call of operation arrives twice",
    "event_twice": "CloudFormation's events reach a function twice",
}
_NO_LIMIT_LEFT = "The account-level service limit is 0 Instances, with current utilization of 0 Instances"


@dataclass
class Fault:
    """One fault.

    ``count`` is how often it strikes, None for until it is cleared; ``skip`` how many calls it lets pass before;
    ``path`` a part of the request's path, for instance ``claim.json``, or of a training job's name; ``instance_type``
    the type it is about, empty for every one; ``struck`` how often it has struck.
    """

    name: str
    operation: str | None = None
    count: int | None = None
    reason: str = ""
    path: str = ""
    skip: int = 0
    instance_type: str = ""
    struck: int = 0

    def to_json(self) -> dict[str, Any]:
        """The fault as the control interface shows it."""
        return asdict(self)


class Faults:
    """The faults in force."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: list[Fault] = []

    def inject(self, fault: Fault) -> None:
        """Put a fault in force.

        Raises:
            ApiError: for a name that is none.
        """
        if fault.name not in NAMES:
            raise ApiError("ValidationException", f"{fault.name!r} is no fault; there are {', '.join(NAMES)}")
        with self._lock:
            self._active.append(fault)

    def clear(self) -> None:
        """End them all."""
        with self._lock:
            self._active.clear()

    def active(self) -> list[Fault]:
        """Those in force."""
        with self._lock:
            return list(self._active)

    def strikes(self, name: str, operation: str | None = None, path: str = "", instance_type: str = "") -> Fault | None:
        """The fault of that name if it is in force for ``operation``; one strike is used up."""
        with self._lock:
            for fault in self._active:
                about = fault.operation in (None, operation) and fault.instance_type in ("", instance_type)
                if fault.name == name and about and fault.path in path:
                    if fault.skip > 0:
                        fault.skip -= 1
                        continue
                    fault.struck += 1
                    if fault.count is not None:
                        fault.count -= 1
                        if fault.count <= 0:
                            self._active.remove(fault)
                    return fault
        return None

    def before(self, operation: str) -> None:
        """Fail a call of ``operation`` where a fault says so.

        Raises:
            ApiError: the fault's error.
        """
        if self.strikes("throttled", operation):
            raise ApiError("ThrottlingException", "Rate exceeded")
        if self.strikes("server_error", operation):
            raise ApiError("InternalFailure", "We encountered an internal error. Please try again.", 500)
        if self.strikes("endpoint_busy", operation):
            raise ApiError("ValidationException", "Cannot update in-progress endpoint.")
        if limit := self.strikes("limit_exceeded", operation):
            raise ApiError("ResourceLimitExceeded", limit.reason or _NO_LIMIT_LEFT)
        if self.strikes("access_denied", operation):
            raise ApiError("AccessDeniedException", f"User is not authorized to perform: sagemaker:{operation}")
        if operation == "DescribeHubContent" and self.strikes("hub_unavailable"):
            raise ApiError("ServiceUnavailable", "The service is temporarily unavailable", 503)
