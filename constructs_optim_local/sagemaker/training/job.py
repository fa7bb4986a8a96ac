"""One training job's description and statuses.

Source: API reference, DescribeTrainingJob (the secondary statuses of each status; times; ``FailureReason`` has up to
1,024 characters) and SecondaryStatusTransition. Assumed, without a source: a stopped job is Uploading while its model
is written, and times are rounded up to whole seconds.
"""

from __future__ import annotations

import copy
import datetime as dt
import math
import threading
from typing import Any

from constructs_optim_local.clock import Clock
from constructs_optim_local.sagemaker.records import Record

_STATUSES = {
    "Starting": "InProgress",
    "Downloading": "InProgress",
    "Training": "InProgress",
    "Interrupted": "InProgress",
    "Restarting": "InProgress",
    "Uploading": "InProgress",
    "Stopping": "Stopping",
    "Completed": "Completed",
    "Failed": "Failed",
    "Stopped": "Stopped",
    "MaxRuntimeExceeded": "Stopped",
    "MaxWaitTimeExceeded": "Stopped",
}
_MESSAGES = {
    "Starting": "Starting the training job",
    "Downloading": "Downloading input data",
    "Training": "Training image download completed. Training in progress.",
    "Interrupted": "The managed spot training instances were interrupted",
    "Restarting": "Restarting the training job",
    "Uploading": "Uploading generated training model",
    "Stopping": "Stopping the training job",
    "Completed": "Training job completed",
    "Failed": "Training job failed",
    "Stopped": "Training job stopped",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    "MaxWaitTimeExceeded": "Training job exceeded MaxWaitTimeInSeconds provided",
}
ENDS = ("Completed", "Failed", "Stopped")
LONGEST_REASON = 1024


class TrainingJob:
    """A job's record. Safe to use from several threads."""

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record, self._clock, self._lock = record, clock, threading.RLock()
        self._record["SecondaryStatusTransitions"] = []
        self.stop_asked = threading.Event()
        self.enter("Starting")

    @property
    def name(self) -> str:
        """The job's name."""
        return self._record["TrainingJobName"]

    @property
    def request(self) -> Record:
        """The request that created the job. These members never change."""
        return self._record

    @property
    def status(self) -> str:
        """The TrainingJobStatus."""
        with self._lock:
            return self._record["TrainingJobStatus"]

    def describe(self) -> Record:
        """Return the response of DescribeTrainingJob."""
        with self._lock:
            return copy.deepcopy({key: value for key, value in self._record.items() if not key.startswith("_")})

    def history(self) -> list[dict[str, Any]]:
        """Return the past and current secondary statuses, with their times."""
        with self._lock:
            entries = self._record["SecondaryStatusTransitions"]
            return [{"status": entry["Status"], "time": entry["StartTime"].timestamp()} for entry in entries]

    def ask_to_stop(self) -> bool:
        """Request the job's stop, and return whether it was in progress."""
        with self._lock:
            if self._record["TrainingJobStatus"] != "InProgress":
                return False
            self.enter("Stopping")
            self.stop_asked.set()
            return True

    def set(self, **members: Any) -> None:
        """Change members of the description."""
        with self._lock:
            self._record.update(members)

    def enter(self, secondary: str, **members: Any) -> None:
        """Enter a secondary status. A stopping job can only upload, then end."""
        with self._lock:
            status, at = _STATUSES[secondary], self._clock.now()
            if self._record.get("TrainingJobStatus") == "Stopping" and status not in ENDS:
                if secondary != "Uploading":
                    return
                status = "Stopping"
            transitions = self._record["SecondaryStatusTransitions"]
            if transitions:
                transitions[-1]["EndTime"] = at
            entry = {"Status": secondary, "StartTime": at, "StatusMessage": _MESSAGES[secondary]}
            if status in ENDS:
                entry["EndTime"] = at
            transitions.append(entry)
            self._record.update(members, TrainingJobStatus=status, SecondaryStatus=secondary, LastModifiedTime=at)

    def begin_training(self) -> None:
        """Record when the job first got its instances."""
        with self._lock:
            self._record.setdefault("TrainingStartTime", self._clock.now())

    def end(self, secondary: str, *, unbilled: float, **members: Any) -> None:
        """Enter the final status. ``unbilled`` is the number of seconds without instances since the training began.

        A job that completes after a stop request is Stopped, as its caller expects.
        """
        with self._lock:
            if secondary == "Completed" and self.stop_asked.is_set():
                secondary = "Stopped"
            began: dt.datetime | None = self._record.get("TrainingStartTime")
            if began is not None:
                at = self._clock.now()
                seconds = (at - began).total_seconds()
                members |= {
                    "TrainingEndTime": at,
                    "TrainingTimeInSeconds": math.ceil(seconds),
                    "BillableTimeInSeconds": math.ceil(seconds - unbilled),
                }
            self.enter(secondary, **members)


def algorithm_error(text: str, status: int) -> str:
    """Return the FailureReason of code that ended with an exit status. ``text`` is its ``output/failure`` file."""
    ending = f", exit code: {status}"
    return f"AlgorithmError: {text}"[: LONGEST_REASON - len(ending)] + ending
