"""Stacks that need the same artifact concurrently agree on one job, each in a bounded number of attempts."""

from __future__ import annotations

import collections
import json
import random
from collections.abc import Callable
from typing import TypeVar

from constructs_optim.runtime.store.artifact_store import ArtifactStore, Claim
from constructs_optim.runtime.store.owner_records import Owner

from .binding import bound
from .scheduler import Scheduler, Task
from .world import ACCOUNTS, REGION, STORE, World

T = TypeVar("T")
KEY = "a" * 64
STACKS = 100
SECONDS_A_CALL = (0.02, 0.04)
LONGEST_SECONDS = 20.0
"""A function has 180."""


class Timed(Scheduler):
    """Who goes on is who is due: calls and pauses take their time, all at once."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed), deaths=0, trace=False)
        self.began = self.now
        self._due = dict[Task, float]()

    def call(self, what: str, act: Callable[[], T]) -> T:
        self.sleep(self.rng.uniform(*SECONDS_A_CALL))
        return act()

    def sleep(self, seconds: float) -> None:
        self._due[self.current] = self.now + seconds
        self._hub.switch()

    def run_all(self) -> None:
        while self.tasks:
            self.current = min(self.tasks, key=lambda task: self._due.get(task, self.began))
            self.now = max(self.now, self._due.get(self.current, self.began))
            self.current.thread.switch()
            if self.current.is_over:
                self.tasks.remove(self.current)
                assert self.current.error is None, self.current.error


def test_a_hundred_stacks_join_one_claim_concurrently() -> None:
    scheduler = Timed(seed=1)
    world = World(scheduler)
    writes = collections.Counter[str]()
    put = world.s3.put_object

    def counted(**request: str) -> object:
        writes[scheduler.current.name] += 1
        return put(**request)  # pyright: ignore[reportArgumentType]

    world.s3.put_object = counted  # pyright: ignore[reportAttributeAccessIssue]
    owners = [
        Owner(f"arn:aws:cloudformation:{REGION}:{ACCOUNTS[0]}:stack/S{number}/{number}", "Job")
        for number in range(STACKS)
    ]
    with bound() as binding:
        binding.world = world
        store = ArtifactStore(world.s3, STORE)  # pyright: ignore[reportArgumentType]
        for owner in owners:
            scheduler.spawn(owner.stack_id, ACCOUNTS[0], lambda owner=owner: store.join(KEY, owner) and None)
        scheduler.run_all()
        took = scheduler.now - scheduler.began
    claim = Claim.model_validate(json.loads(world.s3.objects[f"artifacts/{KEY}/claim.json"].body))
    assert (claim.attempt, claim.owners) == (1, tuple(sorted(owners)))
    assert max(writes.values()) < 30, "the last of its tries fails the deployment"
    assert took < LONGEST_SECONDS
