"""One training job: its description, and its statuses.

Source: API reference, DescribeTrainingJob (which secondary statuses go with which status; times; ``FailureReason`` has
up to 1,024 characters) and SecondaryStatusTransition. Assumed, for no source says so: that a stopped job whose model is
written is Uploading meanwhile, and that times are rounded up to whole seconds.
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
    """A job's record. Safe to use from the thread that runs it and from those that ask."""

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record, self._clock, self._lock = record, clock, threading.RLock()
        self._record["SecondaryStatusTransitions"] = []
        self.stop_asked = threading.Event()
        self.enter("Starting")

    @property
    def name(self) -> str:
        """Its name."""
        return self._record["TrainingJobName"]

    @property
    def request(self) -> Record:
        """What it was created with, which does not change."""
        return self._record

    @property
    def status(self) -> str:
        """Its TrainingJobStatus."""
        with self._lock:
            return self._record["TrainingJobStatus"]

    def describe(self) -> Record:
        """What DescribeTrainingJob tells."""
        with self._lock:
            return copy.deepcopy({key: value for key, value in self._record.items() if not key.startswith("_")})

    def history(self) -> list[dict[str, Any]]:
        """The secondary statuses it went through, with their times."""
        with self._lock:
            entries = self._record["SecondaryStatusTransitions"]
            return [{"status": entry["Status"], "time": entry["StartTime"].timestamp()} for entry in entries]

    def ask_to_stop(self) -> bool:
        """Have it stopped; whether it was in progress."""
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
        """Move on to a secondary status. A job that is stopping only ends, or uploads before."""
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
        """Note when it came to its instances first."""
        with self._lock:
            self._record.setdefault("TrainingStartTime", self._clock.now())

    def end(self, secondary: str, *, unbilled: float, **members: Any) -> None:
        """Move on to its last status; ``unbilled`` is how many seconds since its beginning it had no instances.

        A job that completes after a stop request is Stopped, as the caller expects.
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
    """The FailureReason of code that ended with an exit status; ``text`` is what it left in ``output/failure``."""
    ending = f", exit code: {status}"
    return f"AlgorithmError: {text}"[: LONGEST_REASON - len(ending)] + ending
