"""Faults that tests inject by name, to check how a deployment handles them."""

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
    "training_interrupted": "managed spot training jobs are interrupted while their code runs, and restart",
    "training_writes_nothing": "training jobs complete without writing their output",
    "throttled": "the next count calls of operation return ThrottlingException",
    "server_error": "the next count calls of operation return status 500",
    "endpoint_busy": "the next count calls of operation return that the endpoint is being updated",
    "limit_exceeded": "calls of operation return ResourceLimitExceeded; reason: the message",
    "hub_unavailable": "DescribeHubContent returns status 503",
    "endpoint_fails": "endpoints that are created or updated fail; reason: their FailureReason",
    "no_capacity": "no instance can be launched, or none of instance_type; a variant fails over to its next pool",
    "update_fails": "updates of endpoints and inference components fail and roll back; reason: their FailureReason",
    "silent_rollback": "an endpoint whose update rolls back has no FailureReason, and its updates seem to succeed",
    "rollback_fails": "endpoints that roll back end as UpdateRollbackFailed; reason: added to their FailureReason",
    "access_denied": "calls of operation by a function return AccessDenied",
    "key_disabled": "calls of S3's operation by a function return KMS.DisabledException",
    "function_dies_before": "a function's process is killed when it calls operation, before the service acts",
    "function_dies_after": "a function's process is killed when it calls operation, after the service acts",
    "function_hangs": "a function's call of operation is never answered",
    "message_lost": "a function's message to CloudFormation (operation Respond or Signal) never arrives",
    "message_twice": "a function's call of operation arrives twice",
    "event_twice": "CloudFormation's events reach a function twice",
}
_NO_LIMIT_LEFT = "The account-level service limit is 0 Instances, with current utilization of 0 Instances"


@dataclass
class Fault:
    """One fault.

    ``count`` is the number of times it takes effect, None for no limit; ``skip`` the number of calls that succeed
    first; ``path`` part of the request's path, for example ``claim.json``, or of a training job's name;
    ``instance_type`` the affected type, empty for all; ``struck`` the number of times it took effect.
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
        """Return the fault as the control interface shows it."""
        return asdict(self)


class Faults:
    """The active faults."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: list[Fault] = []

    def inject(self, fault: Fault) -> None:
        """Add a fault.

        Raises:
            ApiError: if there is no fault of that name.
        """
        if fault.name not in NAMES:
            raise ApiError("ValidationException", f"{fault.name!r} is not a fault; use one of {', '.join(NAMES)}")
        with self._lock:
            self._active.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._active.clear()

    def active(self) -> list[Fault]:
        """Return the active faults."""
        with self._lock:
            return list(self._active)

    def strikes(self, name: str, operation: str | None = None, path: str = "", instance_type: str = "") -> Fault | None:
        """Return the active fault of that name for ``operation``, if any, and count it as used once."""
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
        """Fail a call of ``operation`` if a fault applies to it.

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
