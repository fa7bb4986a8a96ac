"""The limit of an execution's history, which Step Functions has and ministack lacks."""

from __future__ import annotations

from typing import Any

from .patches import replace

HISTORY_EVENTS = 25_000
"""The maximum number of events in an execution's history: Step Functions developer guide, "Service quotas"."""


def limit_history(most: int) -> None:
    """Make executions fail when their history is full. Called once, before the first request.

    The failure is the last event that fits; no Retry or Catch handles the error. Source: Step Functions developer
    guide, "Starting new executions to avoid reaching the history quota" and "Handling errors in Step Functions
    workflows" (States.Runtime).

    Each task counts one event more than in ministack, because AWS also records its start.
    """
    from ministack.services import stepfunctions

    add = stepfunctions._add_event

    def add_event(execution: dict[str, Any], event_type: str, details: dict[str, Any] | None = None) -> Any:
        if not event_type.startswith("Execution") and len(execution["events"]) >= most - 1:
            # Not an _ExecutionError, which a state would catch: ministack turns any other error into States.Runtime.
            raise RuntimeError(f"The execution reached the maximum number of history events ({most}).")
        event = add(execution, event_type, details)
        if event_type == "TaskScheduled":
            started = (details or {}).get("taskScheduledEventDetails", {})
            add_event(execution, "TaskStarted", {"taskStartedEventDetails": started})
        return event

    replace("services.stepfunctions._add_event", add_event)
