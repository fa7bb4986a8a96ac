"""The history of an execution, which Step Functions limits and ministack does not."""

from __future__ import annotations

from typing import Any

from .patches import replace

HISTORY_EVENTS = 25_000
"""How many events the history of an execution has at most: Step Functions developer guide, "Service quotas"."""


def limit_history(most: int) -> None:
    """Fail executions whose history is full, once, before the first request.

    The event that says so is the last there is room for; no Retry and no Catch sees the error. Source: Step Functions
    developer guide, "Starting new executions to avoid reaching the history quota" and "Handling errors in Step
    Functions workflows" (States.Runtime).

    A task has an event more than with ministack, for AWS says that it started.
    """
    from ministack.services import stepfunctions

    add = stepfunctions._add_event

    def add_event(execution: dict[str, Any], event_type: str, details: dict[str, Any] | None = None) -> Any:
        if not event_type.startswith("Execution") and len(execution["events"]) >= most - 1:
            # No _ExecutionError, which a state would catch: ministack makes States.Runtime of any other.
            raise RuntimeError(f"The execution reached the maximum number of history events ({most}).")
        event = add(execution, event_type, details)
        if event_type == "TaskScheduled":
            started = (details or {}).get("taskScheduledEventDetails", {})
            add_event(execution, "TaskStarted", {"taskStartedEventDetails": started})
        return event

    replace("services.stepfunctions._add_event", add_event)
