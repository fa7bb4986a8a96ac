"""What must hold when nothing happens any more; docs/reliability.md says it in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from constructs_optim.runtime.artifact_store import Claim
from constructs_optim.runtime.owner_records import OwnerRecord
from constructs_optim.runtime.sagemaker_jobs import job_name

from .actors import Stack
from .world import STORE, World

ORDER_WITHIN_A_SECOND = "order within a second"
"""The one thing that cannot be known: which of two requests of a resource was sent first, when both were sent within
the same second and the second one was delivered first (docs/reliability.md, "What cannot be known")."""


def violations(world: World) -> Iterator[str]:
    """All that does not hold, as sentences."""
    claims = {claim.artifact_key: claim for claim in _claims(world)}
    yield from _jobs_without_owner(world, claims)
    for stack in world.stacks.values():
        yield from stack.violations
        if stack.is_deployed:
            yield from _of_deployed(world, stack, claims)
        if stack.is_gone:
            yield from _of_gone(world, stack, claims)


def exemption(world: World) -> str | None:
    """Why what does not hold is no fault, where that is so."""
    swapped = any(_was_swapped_within_a_second(stack, world.s3.began) for stack in world.stacks.values())
    return ORDER_WITHIN_A_SECOND if swapped else None


def _was_swapped_within_a_second(stack: Stack, began: dict[str, int]) -> bool:
    by_sending = [(request, second) for request, second in stack.sent if request in began]
    return any(
        second == later_second and began[request] > began[later]
        for place, (request, second) in enumerate(by_sending)
        for later, later_second in by_sending[place + 1 :]
    )


def _jobs_without_owner(world: World, claims: dict[str, Claim]) -> Iterator[str]:
    alive = {stack.id for stack in world.stacks.values() if not stack.is_gone}
    wanted = {
        job_name(STORE, key, claim.attempt)
        for key, claim in claims.items()
        if any(owner.stack_id in alive for owner in claim.owners)
    }
    for (account, name), job in world.sagemaker.jobs.items():
        if job["OptimizationJobStatus"] == "INPROGRESS" and name not in wanted:
            yield f"the job {name} of account {account} runs without an owner"


def _of_deployed(world: World, stack: Stack, claims: dict[str, Claim]) -> Iterator[str]:
    stack.check_served("at rest")
    record = _record(world, stack)
    wanted = {key for key in record.keys if record.wants(key)} if record else set[str]()
    if stack.physical_id not in wanted:
        yield f"{stack.name} is {stack.status}, and its record does not refer to its artifact"
    if stack.served is not None and (key := stack.served[0].split("/")[4]) not in wanted:
        yield f"{stack.name} serves {key[:8]}, and its record does not refer to it"
    claim = claims.get(str(stack.physical_id))
    if stack.kind == "job" and (claim is None or stack.owner not in claim.owners):
        yield f"{stack.name} is {stack.status}, and does not own its artifact's claim"


def _of_gone(world: World, stack: Stack, claims: dict[str, Claim]) -> Iterator[str]:
    for claim in claims.values():
        if stack.owner in claim.owners:
            yield f"{stack.name} is gone and owns the claim of {claim.artifact_key[:8]}"
    record = _record(world, stack)
    if record and record.keys:
        yield f"{stack.name} is gone and refers to {[key[:8] for key in record.keys]}"


def _claims(world: World) -> Iterator[Claim]:
    for name in world.s3.objects:
        if name.endswith("/claim.json"):
            yield Claim.from_record(_read(world, name))


def _record(world: World, stack: Stack) -> OwnerRecord | None:
    name = stack.owner.record_name
    return OwnerRecord.from_record(_read(world, name)) if name in world.s3.objects else None


def _read(world: World, name: str) -> dict[str, Any]:
    return json.loads(world.s3.objects[name].body)
