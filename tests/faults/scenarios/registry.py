"""The registry of scenarios, and a wait for the state of a deployment."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from constructs_optim.operations.artifacts import ArtifactInventory
from constructs_optim.operations.pruning import Pruner, Pruning
from constructs_optim.operations.stacks import Stacks
from constructs_optim.runtime.jobs.sagemaker_jobs import job_name
from constructs_optim_local.ministack.application import ACCOUNT

from ...support.waiting import settled
from ..stacks import LONGEST_SECONDS, STORE, FaultStack
from ..trial import Trials

SCENARIOS: dict[str, Callable[[Trials], None]] = {}


def scenario(function: Callable[[Trials], None]) -> Callable[[Trials], None]:
    """Enter a function under its name."""
    SCENARIOS[function.__name__] = function
    return function


def until(poll: Callable[[], Any], what: str) -> Any:
    """The first truthy value that ``poll`` returns."""
    value = settled(poll, bool, LONGEST_SECONDS)
    assert value, f"no {what}"
    return value


def running_job(t: Trials) -> str:
    """The name of the job with the fault ``job_never_finishes``, once the fault has struck."""

    def has_struck() -> bool:
        t.cloud.jobs()
        return any(fault["struck"] for fault in t.cloud.faults() if fault["name"] == "job_never_finishes")

    until(has_struck, "job")
    return jobs_that_are(t, "INPROGRESS")[-1]


def jobs_that_are(t: Trials, status: str) -> list[str]:
    return [job["name"] for job in t.cloud.jobs() if job["status"] == status]


def jobs_of(t: Trials, stack: FaultStack) -> list[str]:
    """The jobs for the stack's artifact, whatever became of them."""
    prefix = job_name(STORE, stack.artifact_key, 0)[:-1]
    return [job["name"] for job in t.cloud.jobs() if job["name"].startswith(prefix)]


def fails(t: Trials, stack: FaultStack, *says: str) -> None:
    """The deployment fails, says why and what to do, and succeeds once the fault is gone."""
    t.expect(stack.deploy(), "ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, says)
    t.check()
    t.again(stack)


def survives(t: Trials, stack: FaultStack) -> None:
    """The deployment succeeds all the same."""
    t.expect(stack.deploy(), "CREATE_COMPLETE", "the stack's status")
    t.end_faults()
    t.check()


def prune(t: Trials) -> Pruning:
    """Remove all that nothing has referred to for a month, a month from now."""
    s3, account = t.cloud.client("s3"), ACCOUNT
    inventory = ArtifactInventory(s3, t.cloud.client("sagemaker"), STORE, account=account)
    pruner = Pruner(
        s3,
        inventory,
        Stacks(account, lambda region: t.cloud.client("cloudformation")),
        older_than=dt.timedelta(days=30),
        now=dt.datetime.now(dt.UTC) + dt.timedelta(days=31),
    )
    return pruner.remove(pruner.survey())


def files_of(t: Trials, stack: FaultStack) -> list[str]:
    """The keys of the objects of the stack's artifact."""
    found = t.cloud.client("s3").list_objects_v2(Bucket=STORE, Prefix=f"artifacts/{stack.artifact_key}/model/")
    return [item["Key"] for item in found.get("Contents", [])]
