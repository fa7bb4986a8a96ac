"""One build, as the API tells of it."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

Record = dict[str, Any]

IN_PROGRESS, SUCCEEDED, FAILED, STOPPED, TIMED_OUT = "IN_PROGRESS", "SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT"


class Build:
    """A build and its phases. Its methods may be called from any thread."""

    def __init__(self, record: Record) -> None:
        self._record: Record = {**record, "buildStatus": IN_PROGRESS, "buildComplete": False, "phases": []}
        self._lock = threading.Lock()
        self.stop_asked, self.over = threading.Event(), threading.Event()
        self.enter("SUBMITTED")

    @property
    def id(self) -> str:
        """``<project>:<uuid>``."""
        return self._record["id"]

    @property
    def request(self) -> Record:
        """What the build was given when it began."""
        return self._record

    @property
    def status(self) -> str:
        """IN_PROGRESS, SUCCEEDED, FAILED, STOPPED or TIMED_OUT."""
        return self._record["buildStatus"]

    @property
    def reason(self) -> str:
        """Why it failed, of the phase that did; empty where none did."""
        with self._lock:
            contexts = [context for phase in self._record["phases"] for context in phase.get("contexts", [])]
        return next((context["message"] for context in contexts if context["message"]), "")

    def enter(self, phase: str) -> None:
        """End the phase it is in well, and begin another."""
        with self._lock:
            self._end_phase(SUCCEEDED, "", "")
            self._record["phases"].append({"phaseType": phase, "startTime": _now()})
            self._record["currentPhase"] = phase

    def fail(self, status: str, code: str, reason: str) -> None:
        """End the phase it is in badly; the next one is entered as after any other."""
        with self._lock:
            self._end_phase(status, code, reason)

    def end(self, status: str, exported: dict[str, str]) -> None:
        """End it."""
        self.enter("COMPLETED")
        with self._lock:
            named = [{"name": name, "value": value} for name, value in exported.items()]
            self._record |= {
                "buildStatus": status,
                "buildComplete": True,
                "endTime": _now(),
                "exportedEnvironmentVariables": named,
            }
        self.over.set()

    def describe(self) -> Record:
        """As BatchGetBuilds tells of it."""
        with self._lock:
            return {**self._record, "phases": [dict(phase) for phase in self._record["phases"]]}

    def _end_phase(self, status: str, code: str, reason: str) -> None:
        phase = next(iter(self._record["phases"][-1:]), None)
        if phase is None or "endTime" in phase:
            return
        seconds = round((_now() - phase["startTime"]).total_seconds())
        phase |= {"phaseStatus": status, "endTime": _now(), "durationInSeconds": seconds}
        if reason:
            phase["contexts"] = [{"statusCode": code, "message": reason}]


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
