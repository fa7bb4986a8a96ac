"""What watchers of jobs share: how they start and stop, when to poll again, and when a stack has waited long enough."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..cloudformation import signal
from ..errors import code_of
from ..store.run_records import RunRecords, run_job_name
from ..telemetry import Counted, log
from .sagemaker_jobs import SageMakerJobs

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions.client import SFNClient

DONE: dict[str, object] = {"Done": True}
"""What ends the state machine's execution."""
_STACK_PATIENCE = dt.timedelta(hours=12)
_EARLY_SECONDS = 60
# A function has 180 seconds.
_PATIENCE_SECONDS, _COMING_SECONDS = 120, 10


def again(seconds: int) -> dict[str, object]:
    """The output that has the state machine poll again."""
    return {"Done": False, "WaitSeconds": seconds}


def wait_seconds(age: dt.timedelta, *, is_awaited: bool = False) -> int:
    """How long to wait for the next poll: a tenth of the job's age, 5 s at least and 60 s at most.

    A job that is older than a stack's patience, and that none waits for, is polled less often: after a hundredth of
    its age, 5 minutes at least and an hour at most. So the longest job, which waits 28 days for spot capacity and runs
    for 28 days, stays within the 25,000 events of one execution (AWS Step Functions developer guide, "Quotas").
    """
    if age < _STACK_PATIENCE or is_awaited:
        return int(min(60, max(5, age.total_seconds() / 10)))
    return int(min(3600, max(300, age.total_seconds() / 100)))


def deadline(seconds: int | None) -> int | None:
    """When the watcher fails the wait of the stack, in seconds since 1970.

    CloudFormation gives no reason for a condition that times out; a little earlier the watcher gives one.
    """
    if seconds is None:
        return None
    return int(time.time() + seconds - min(_EARLY_SECONDS, seconds / 10))


def is_out_of_time(event: Mapping[str, object]) -> bool:
    """Whether the stack that an execution's input names has waited as long as it does."""
    until = event.get("Deadline")
    return bool(event.get("WaitHandle")) and isinstance(until, int) and dt.datetime.now().timestamp() >= until


def _is_awaited(event: Mapping[str, object]) -> bool:
    return bool(event.get("WaitHandle")) and isinstance(event.get("Deadline"), int) and not is_out_of_time(event)


def poll_later(event: Mapping[str, object], what: str, *, since: dt.datetime, advice: str) -> dict[str, object]:
    """Poll a job again that goes on; a stack that is out of time gets its failure.

    Args:
        event: the execution's input.
        what: what goes on, for instance ``the benchmark job b-1 is still InProgress``.
        since: when it began.
        advice: what would help, with the punctuation that it begins with.
    """
    age = dt.datetime.now(dt.UTC) - since
    if is_out_of_time(event):
        send_signal(event, failure=f"{what} after {hours(age)}, which is as long as this deployment waits{advice}")
    return again(wait_seconds(age, is_awaited=_is_awaited(event)))


def hours(age: dt.timedelta) -> str:
    """For instance ``1 h 20 min``."""
    minutes = int(age.total_seconds() // 60)
    return f"{minutes // 60} h {minutes % 60} min"


def end(event: Mapping[str, object], *, failure: str | None = None, data: str = "") -> dict[str, object]:
    """Tell whoever waits how it ended, and end the execution."""
    log(Counted.job_failed if failure else Counted.job_completed, failure=failure or "")
    send_signal(event, failure=failure, data=data)
    return DONE


def send_signal(event: Mapping[str, object], *, failure: str | None = None, data: str = "") -> None:
    """Signal the wait condition of the execution's input, where there is one."""
    if handle := event.get("WaitHandle"):
        signal(str(handle), failure=failure, data=data)


def start_watching(stepfunctions: SFNClient, state_machine_arn: str, name: str, document: Mapping[str, object]) -> bool:
    """Start the execution ``name`` with the input ``document``; False where a repeated event finds it started."""
    try:
        stepfunctions.start_execution(stateMachineArn=state_machine_arn, name=name, input=json.dumps(document))
    except ClientError as error:
        if code_of(error) != "ExecutionAlreadyExists":
            raise
        return False
    return True


def stop_runs(jobs: SageMakerJobs, records: RunRecords) -> None:
    """Stop the jobs of all runs, and wait until they have: SageMaker keeps a workload configuration that is in use."""
    began = time.monotonic()
    while time.monotonic() < began + _PATIENCE_SECONDS:
        names = [run_job_name(records.key, run) for run in records.runs()]
        for name in names:
            jobs.stop(name)
        found = [jobs.describe(name) for name in names]
        # A run that has begun and has no job may be about to have one; whoever begins it stops that.
        expected = None in found and time.monotonic() < began + _COMING_SECONDS
        stopping = any(job is not None and jobs.kind.is_stopping(job) for job in found)
        if not expected and not stopping:
            return
        time.sleep(1)
