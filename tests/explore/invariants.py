"""Invariants that hold once no work is pending; docs/reliability.md describes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from constructs_optim.runtime.jobs.sagemaker_jobs import job_name
from constructs_optim.runtime.store.artifact_store import Claim
from constructs_optim.runtime.store.owner_records import OwnerRecord

from .actors import Stack, Violation
from .world import STORE, World


def violations(world: World) -> Iterator[Violation]:
    """All that does not hold.

    Two things cannot be known (docs/reliability.md, "What cannot be known"): which of two requests of a resource was
    sent first, when both were sent within the same second and the second one was delivered first; and, of a stack that
    is deleted after its rollback has failed, whether it still serves what the update has made. What does not hold of
    such a stack is exempted, and jobs that it began or still owns; nothing of the others is.
    """
    claims = {claim.artifact_key: claim for claim in _claims(world)}
    yield from _jobs_without_owner(world, claims)
    for sentence in _of_manifests(world, claims):
        yield Violation(sentence)
    for stack in world.stacks.values():
        yield from stack.violations
        if stack.is_deployed:
            # What it serves it says itself.
            told = len(stack.violations)
            stack.check_served("at rest")
            yield from stack.violations[told:]
        found = list(_of_deployed(world, stack, claims)) if stack.is_deployed else []
        found += _of_gone(world, stack, claims) if stack.is_gone else ()
        for sentence in found:
            yield Violation(sentence, _is_unknowable(stack))


def _is_unknowable(stack: Stack) -> bool:
    return stack.is_out_of_order or (stack.is_gone and stack.rollback_failed)


def _jobs_without_owner(world: World, claims: dict[str, Claim]) -> Iterator[Violation]:
    alive = {stack.id for stack in world.stacks.values() if not stack.is_gone}
    wanted = {
        job_name(STORE, key, claim.attempt)
        for key, claim in claims.items()
        if any(owner.stack_id in alive for owner in claim.owners)
    }
    for (account, _, name), job in world.sagemaker.jobs.items():
        if job.status == "INPROGRESS" and name not in wanted:
            owners = claims[job.artifact_key].owners if job.artifact_key in claims else ()
            exempted = any(
                _is_unknowable(stack) and (stack.owner in owners or stack.name == job.creator)
                for stack in world.stacks.values()
            )
            yield Violation(f"the job {name} of account {account} runs without an owner", exempted)


def _of_manifests(world: World, claims: dict[str, Claim]) -> Iterator[str]:
    """A referenced artifact matches its manifest, or the next deployment would build it again."""
    alive = {stack.owner for stack in world.stacks.values() if stack.is_deployed}
    for key, claim in claims.items():
        name = f"artifacts/{key}/manifest.json"
        if claim.released or alive.isdisjoint(claim.owners) or name not in world.s3.objects:
            continue
        manifest = _read(world, name)
        stated = sorted((file["name"], file["etag"]) for file in manifest["files"])
        uri = manifest["model_data_uri"]
        prefix = uri.removeprefix(f"s3://{STORE}/")
        there = [(name.removeprefix(prefix), etag.strip('"')) for name, etag in world.s3.below(uri)]
        if manifest["attempt"] == claim.attempt and stated != there:
            yield f"the manifest of {key[:8]} does not state the artifact's files"


def _of_deployed(world: World, stack: Stack, claims: dict[str, Claim]) -> Iterator[str]:
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
            yield Claim.model_validate(_read(world, name))


def _record(world: World, stack: Stack) -> OwnerRecord | None:
    name = stack.owner.record_name
    return OwnerRecord.model_validate(_read(world, name)) if name in world.s3.objects else None


def _read(world: World, name: str) -> dict[str, Any]:
    return json.loads(world.s3.objects[name].body)
