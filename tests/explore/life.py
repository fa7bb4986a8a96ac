"""One life: stacks that are deployed beside one another, from a seed to the point where nothing happens any more."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import actors, invariants
from .actors import Chances, Stack, Violation
from .binding import Bound
from .scheduler import Scheduler
from .world import ACCOUNTS, World


@dataclass(frozen=True)
class Life:
    """The outcome of a seed. ``exempted``: violations that the protocol cannot detect."""

    seed: int
    calls: int
    violations: tuple[str, ...]
    exempted: tuple[str, ...]
    happened: Mapping[str, int]
    lines: Sequence[str]


def live(seed: int, binding: Bound, *, chances: Chances | None = None, trace: bool = False) -> Life:
    """Live one.

    Args:
        seed: what all of it follows from.
        binding: of the handlers.
        chances: of what may happen. Default: drawn for each life. A quarter of the lives has all of it, the others have
            some, which finds more than all of it always does (Groce et al., "Swarm testing").
        trace: whether to write down each call.
    """
    rng = random.Random(seed)
    chances = chances or _drawn(rng)
    scheduler = Scheduler(rng, deaths=chances.deaths, trace=trace)
    world = World(scheduler, losing=chances.lost, encrypted=chances.encrypted, conflicts=chances.conflicts)
    binding.world = world
    world.sagemaker.quota_is_used_up = rng.random() < chances.quota
    for number in range(rng.choice((2, 2, 3))):
        account = rng.choice(ACCOUNTS) if chances.accounts else ACCOUNTS[0]
        kind = "reference" if chances.references and rng.random() < 0.3 else "job"
        copies = chances.copies and rng.random() < 0.5
        stack = Stack(world, chances, number, account, kind, copies=copies)
        scheduler.spawn(stack.name, account, stack.live, mortal=False)
    if chances.prune:
        scheduler.spawn("prune", ACCOUNTS[0], lambda: actors.prune(world))
    hurry = rng.choice((0.02, 0.05, 0.15))

    def environment(busy: bool) -> bool:
        for execution in world.started:
            if not execution.lost:
                scheduler.spawn(f"watcher of {execution.name}", execution.account, actors.watch(world, execution))
        world.started.clear()
        if busy and rng.random() >= hurry:
            return False
        jobs = world.sagemaker.unended()
        # When all stacks rest, nobody is left whom the end of a job would tell anything.
        if not jobs or not any(task.name in names for task in scheduler.tasks):
            return False
        world.sagemaker.end(rng.choice(jobs), world.s3, fails=rng.random() < chances.job_fails)
        return True

    names = {stack.name for stack in world.stacks.values()}
    may_lose = bool(chances.lost or chances.deaths)

    def stuck() -> bool:
        waiting = [stack for stack in world.stacks.values() if stack.waiting]
        for stack in waiting:
            if not may_lose:
                stack.violate("waits for a signal that nobody will send")
            stack.timed_out = True
        return bool(waiting)

    rests = scheduler.run(environment, stuck)
    found = list(invariants.violations(world))
    if not rests:
        found.append(Violation("there is no end to it"))
    violated, exempted = (
        tuple(each.sentence for each in found if each.exempted is exempted) for exempted in (False, True)
    )
    return Life(seed, scheduler.calls, violated, exempted, scheduler.happened, scheduler.lines or ())


def _drawn(rng: random.Random) -> Chances:
    everything = rng.random() < 0.25

    def happens() -> bool:
        return rng.random() < 0.6 or everything

    return Chances(
        source=0.4 if happens() else 0.0,
        duplicate=0.25 if happens() else 0.0,
        cancel=0.3 if happens() else 0.0,
        lost=0.05 if happens() else 0.0,
        quota=0.5 if happens() else 0.0,
        job_fails=rng.choice((0.0, 0.15, 0.3)),
        same_second=rng.choice((0.02, 0.2)) if happens() else 0.0,
        conflicts=0.05 if happens() else 0.0,
        encrypted=happens(),
        deaths=rng.choice((1, 2)) if happens() else 0,
        prune=happens(),
        accounts=happens(),
        references=happens(),
        copies=happens(),
    )
