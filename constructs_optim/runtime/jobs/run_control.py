"""What handlers share that have runs watched: each is started once, and all of them are stopped together."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..errors import code_of
from ..store.run_records import RunRecords, run_job_name
from .sagemaker_jobs import SageMakerJobs

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions.client import SFNClient

# A function has 180 seconds.
_PATIENCE_SECONDS, _COMING_SECONDS = 120, 10


def start_watching(stepfunctions: SFNClient, state_machine_arn: str, name: str, given: Mapping[str, object]) -> bool:
    """Start the execution ``name`` with the input ``given``; False where a repeated event finds it started."""
    try:
        stepfunctions.start_execution(stateMachineArn=state_machine_arn, name=name, input=json.dumps(given))
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
