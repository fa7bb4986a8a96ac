"""Rules about how an endpoint moves from one configuration to the next.

Sources: the API's ranges (DeploymentConfig) and the SageMaker developer guide, "Deployment guardrails".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from constructs_optim.recipe.hosting import Hosting, UpdateSettings
from constructs_optim.recipe.rules.registry import Finding, rule

from .hosting_rules import in_range

_API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeploymentConfig.html"
_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html"
MOST_ROLLBACK_ALARMS = 10
"""How many alarms SageMaker watches during an update."""
_LONGEST_UPDATE_SECONDS = 28_800
_SHARES = {"CANARY": (1, 50), "LINEAR": (10, 50), "ROLLING": (5, 50)}


@rule(
    "OPT120",
    title="An update's steps are shares that SageMaker takes",
    reason="a canary is at most half of the fleet, a linear step 10 to 50 % of it, a rolling batch 5 to 50 %",
    link=_API,
)
def _steps_are_shares(hosting: Hosting) -> Iterator[Finding]:
    update = hosting.update
    if not isinstance(update, UpdateSettings):
        return
    least, most = _SHARES.get(update.strategy, (None, None))
    sizes = [("size", update.size)] if least is not None else []
    if update.rollback_size is not None:
        sizes.append(("rollback_size", update.rollback_size))
    for name, size in sizes:
        if update.size_unit == "CAPACITY_PERCENT":
            most_here = 100 if name == "rollback_size" else most
            if not in_range(size, least or 1, most_here):
                yield Finding(f"update_policy.{name}", f"{size} %", f"{least or 1} to {most_here} %")
        elif not in_range(size, 1):
            yield Finding(f"update_policy.{name}", size, "a whole number from 1 on")


@rule(
    "OPT121",
    title="An update's times are within the service's limits",
    reason="each wait lasts at most an hour, and a whole update 10 minutes to 8 hours, more than its waits",
    link=_API,
)
def _times_are_in_range(hosting: Hosting) -> Iterator[Finding]:
    update = hosting.update
    if not isinstance(update, UpdateSettings):
        return
    waits = (("bake_time", update.bake_seconds), ("termination_wait", update.termination_wait_seconds))
    for name, seconds in waits:
        if not in_range(seconds, 0, 3600):
            yield Finding(f"update_policy.{name}", f"{seconds} s", "0 to 3600 seconds")
    timeout = update.timeout_seconds
    if timeout is None:
        return
    if not in_range(timeout, 600, _LONGEST_UPDATE_SECONDS):
        yield Finding("update_policy.timeout", f"{timeout} s", "600 to 28800 seconds")
    elif all(in_range(seconds, 0) for _, seconds in waits) and timeout <= sum(seconds for _, seconds in waits):
        yield Finding(
            "update_policy.timeout",
            f"{timeout} s",
            f"more than {sum(seconds for _, seconds in waits)} seconds, the waits of a single step",
        )


@rule(
    "OPT122",
    title="At most ten alarms roll an update back",
    reason="SageMaker watches at most ten alarms during an update",
    link="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html",
)
def _alarms_are_few(hosting: Hosting) -> Iterator[Finding]:
    if hosting.rollback_alarms > MOST_ROLLBACK_ALARMS:
        yield Finding(
            "update_policy.rollback_alarms", f"{hosting.rollback_alarms} alarms", f"at most {MOST_ROLLBACK_ALARMS}"
        )


@rule(
    "OPT123",
    title="There are instances enough for an update in steps",
    reason="a step is at most half of the fleet, and half of one instance is none",
    link=_GUIDE,
    advisory=True,
)
def _fleet_has_steps(hosting: Hosting) -> Iterator[Finding]:
    update = hosting.update
    if isinstance(update, UpdateSettings) and update.strategy in _SHARES and hosting.initial_instance_count == 1:
        yield Finding(
            "update_policy",
            update.strategy,
            "Start with two instances, auto_scale(min_capacity=2, ...), or use UpdatePolicy.all_at_once()",
        )


@rule(
    "OPT124",
    title="An update's steps fit its time",
    reason="SageMaker ends an update that takes longer than its timeout, 8 hours at most, and goes back",
    link=_API,
)
def _steps_fit_the_time(hosting: Hosting) -> Iterator[Finding]:
    update = hosting.update
    if not isinstance(update, UpdateSettings):
        return
    steps, limit = _steps(update, hosting.initial_instance_count), update.timeout_seconds or _LONGEST_UPDATE_SECONDS
    waits = (update.bake_seconds, update.termination_wait_seconds)
    if steps is None or not all(in_range(seconds, 0, 3600) for seconds in waits) or not in_range(limit, 600):
        return
    waiting = steps * update.bake_seconds + update.termination_wait_seconds
    if waiting >= limit:
        longest = (limit - update.termination_wait_seconds - 1) // steps
        yield Finding(
            "update_policy",
            f"{steps} steps of {update.bake_seconds} s",
            f"fewer steps, or a bake_time of {longest} s at most: launching instances takes time as well"
            if longest > 0
            else "fewer steps",
            reason=f"the waits alone take {waiting} s, and the update {limit} s at most",
        )


def _steps(update: UpdateSettings, instances: Any) -> int | None:
    """How often alarms are watched in one update; None where that cannot be told."""
    if update.strategy in ("ALL_AT_ONCE", "CANARY"):
        return 1
    whole = 100 if update.size_unit == "CAPACITY_PERCENT" else instances
    size = update.size or 0
    return math.ceil(whole / size) if in_range(size, 1) and in_range(whole, 1) else None
