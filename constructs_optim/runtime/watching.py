"""What watchers of jobs share: when to look again, and when a stack has waited long enough."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping

from .cloudformation import signal
from .telemetry import log

DONE: dict[str, object] = {"Done": True}
"""What ends the state machine's execution."""
_STACK_PATIENCE = dt.timedelta(hours=12)
_EARLY_SECONDS = 60


def again(seconds: int) -> dict[str, object]:
    """What has the state machine look again."""
    return {"Done": False, "WaitSeconds": seconds}


def wait_seconds(age: dt.timedelta) -> int:
    """How long to wait for the next look: a tenth of the job's age, 5 s at least and 60 s at most.

    A job that a stack no longer waits for is looked at every 5 minutes, which keeps the longest job (5 days) within
    the 25,000 events of one execution.
    """
    if age >= _STACK_PATIENCE:
        return 300
    return int(min(60, max(5, age.total_seconds() / 10)))


def deadline(seconds: int | None) -> int | None:
    """When the watcher tells the stack that it has waited long enough, in seconds since 1970.

    CloudFormation says of a condition that times out only that it did; a little earlier the stack is told more.
    """
    if seconds is None:
        return None
    return int(time.time() + seconds - min(_EARLY_SECONDS, seconds / 10))


def is_out_of_time(event: Mapping[str, object]) -> bool:
    """Whether the stack that an execution's input names has waited as long as it does."""
    until = event.get("Deadline")
    return bool(event.get("WaitHandle")) and isinstance(until, int) and dt.datetime.now().timestamp() >= until


def look_later(event: Mapping[str, object], what: str, *, since: dt.datetime, advice: str) -> dict[str, object]:
    """Have a job that goes on looked at again; a stack that is out of time is told so.

    Args:
        event: the execution's input.
        what: what goes on, for instance ``the benchmark job b-1 is still InProgress``.
        since: when it began.
        advice: what would help, with the punctuation that it begins with.
    """
    age = dt.datetime.now(dt.UTC) - since
    if is_out_of_time(event):
        tell(event, failure=f"{what} after {hours(age)}, which is as long as this deployment waits{advice}")
    return again(wait_seconds(age))


def hours(age: dt.timedelta) -> str:
    """For instance ``1 h 20 min``."""
    minutes = int(age.total_seconds() // 60)
    return f"{minutes // 60} h {minutes % 60} min"


def end(event: Mapping[str, object], *, failure: str | None = None, data: str = "") -> dict[str, object]:
    """Tell whoever waits how it ended, and end the execution."""
    log("ended", failure=failure or "")
    tell(event, failure=failure, data=data)
    return DONE


def tell(event: Mapping[str, object], *, failure: str | None = None, data: str = "") -> None:
    """Signal the wait condition of the execution's input, where there is one."""
    if handle := event.get("WaitHandle"):
        signal(str(handle), failure=failure, data=data)
