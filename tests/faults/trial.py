"""Faults at a step of a stack's life, and the outcome of the deployment."""

from __future__ import annotations

import operator
import re
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from constructs_optim_local.cloud import LocalCloud

from ..support.waiting import settled
from .guarantees import Guarantees
from .stacks import KINDS, LONGEST_SECONDS, FaultStack

# A watcher polls for as long as a job runs: on a busy machine now and then less often than in a clean run.
_MOST_REPETITIONS = 2
_SUCCEEDED = ("CREATE_COMPLETE", "UPDATE_COMPLETE")


@dataclass(frozen=True)
class Step:
    """A call that a function makes in one phase of a stack's life: the ``skip``-th after the first of its kind."""

    phase: str
    operation: str
    path: str = ""
    skip: int = 0

    @property
    def reads(self) -> bool:
        """Whether the call leaves everything as it is."""
        return self.operation.startswith(("Describe", "Get", "Head", "List", "Simulate"))

    def __str__(self) -> str:
        place = f" {self.path}" if self.path else ""
        return f"{self.phase}: {self.operation}{place}" + (f" (no. {self.skip + 1})" if self.skip else "")


@dataclass(frozen=True)
class Strike:
    """One fault at one step, as often as ``count`` says (None: until it is cleared)."""

    fault: str
    step: Step
    count: int | None = 1
    reason: str = ""

    def inject(self, cloud: LocalCloud) -> None:
        """Put it in force."""
        cloud.inject(
            self.fault,
            operation=self.step.operation or None,
            path=self.step.path,
            skip=self.step.skip,
            count=self.count,
            reason=self.reason,
        )


@dataclass(frozen=True)
class Trial:
    """Faults that strike in one phase, and what is expected.

    ``says`` is what the stack's events must contain where the deployment is to fail (cause, next step); None where it
    is to succeed all the same.
    """

    phase: str
    strikes: tuple[Strike, ...]
    says: tuple[str, ...] | None = None
    kind: str = ""

    def __str__(self) -> str:
        first = self.strikes[0]
        more = f" and {len(self.strikes) - 1} more" if len(self.strikes) > 1 else ""
        return f"{first.fault} at {first.step}{more}"

    @property
    def faults(self) -> tuple[str, ...]:
        """The fault of each pair of a fault and a step that it tries."""
        return tuple(strike.fault for strike in self.strikes for _ in range(strike.count or 1))

    @property
    def stack_kind(self) -> str:
        """The kind of stack it is tried on."""
        return self.kind or kind_of(self.phase)


@dataclass(frozen=True)
class Outcome:
    """What became of a trial: all that went wrong, which is nothing where it was survived."""

    name: str
    faults: tuple[str, ...] = ("scenario",)
    steps: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    orphaned_jobs: int = 0
    lost_artifacts: int = 0
    seconds: float = 0.0


class Trials:
    """Runs trials on one local cloud, one after the other."""

    def __init__(self, cloud: LocalCloud, place: str = "") -> None:
        self.cloud, self.guarantees = cloud, Guarantees(cloud)
        self._place, self._number = place, 0
        self._idle: list[dict[str, Any]] = []
        self._outcome = Outcome("")
        self._known = set[str]()
        self._stacks: list[FaultStack] = []

    def run(self, trial: Trial) -> Outcome:
        """Try one, and clean up after it; again where some fault did not strike and nothing else went wrong."""

        def carry_out() -> None:
            PHASES[trial.phase](self, trial, self.prepared(trial.stack_kind))

        steps = frozenset(str(strike.step) for strike in trial.strikes)
        outcome = self.judge(str(trial), carry_out, trial.faults, steps)
        for _ in range(_MOST_REPETITIONS):
            if not self._idle or len(outcome.problems) > len(self._idle):
                break
            outcome = self.judge(str(trial), carry_out, trial.faults, steps)
        return outcome

    def judge(
        self,
        name: str,
        carry_out: Callable[[], None],
        faults: tuple[str, ...] = ("scenario",),
        steps: frozenset[str] | None = None,
    ) -> Outcome:
        """Carry something out, clean up after it, and say what went wrong."""
        started = time.monotonic()
        self._number += 1
        self._stacks, self._idle = [], []
        self._outcome = Outcome(name, faults, frozenset({name}) if steps is None else steps)
        try:
            carry_out()
        except Exception as error:
            self.problem(f"{type(error).__name__}: {error} {traceback.format_exc()[-600:]}")
        finally:
            self.cloud.clear_faults()
        for stack in self._stacks:
            try:
                if stack.exists and (status := stack.destroy()) != "DELETE_COMPLETE":
                    self.problem(f"{stack.name} cannot be deleted: {status}: {stack.reasons[:4]}")
            except Exception as error:
                self.problem(f"while cleaning up: {type(error).__name__}: {error}")
        self.check()
        if not self._outcome.problems:
            self.guarantees.forget()
        return replace(self._outcome, seconds=time.monotonic() - started)

    def stack(self, kind: str = "job", *, model: str = "", **settings: Any) -> FaultStack:
        """A stack that is deleted at the end; its artifact is its own unless ``model`` says otherwise."""
        name = f"trial{self._place}-{self._number}-{len(self._stacks)}"
        self._stacks.append(FaultStack(self.cloud, name, kind, model=model or name, **settings))
        return self._stacks[-1]

    def prepared(self, kind: str) -> FaultStack:
        """A stack of a kind, with what has to be there before it."""
        if kind != "reference":
            return self.stack(kind)
        maker = self.stack("job")
        maker.deploy()
        return self.stack(kind, model=maker.model, key=maker.artifact_key)

    def problem(self, problem: str) -> None:
        """Something is not as it must be."""
        self._outcome = replace(self._outcome, problems=(*self._outcome.problems, problem))

    def expect(self, found: object, wanted: object, what: str) -> None:
        """``found`` must be ``wanted``."""
        if found != wanted:
            self.problem(f"{what}: {found} instead of {wanted}")

    def says(self, stack: FaultStack, wanted: Iterable[str]) -> None:
        """The stack's events must name a cause and a next step."""
        told = " ".join(stack.reasons)
        for pattern in wanted:
            if not re.search(pattern, told):
                self.problem(f"no event says {pattern!r}: {stack.reasons[:4]}")

    def check(self) -> None:
        """Wait for pending work, then check the guarantees."""
        broken = self.guarantees.broken_for_good(self._known)
        for problem in broken:
            self.problem(problem)
        # What one trial broke is not the next one's fault.
        self._known.update(broken)
        self._outcome = replace(
            self._outcome,
            orphaned_jobs=self._outcome.orphaned_jobs + sum(problem.startswith("job ") for problem in broken),
            lost_artifacts=self._outcome.lost_artifacts + sum(problem.startswith("artifact ") for problem in broken),
        )

    def end_faults(self) -> None:
        """Clear the faults once each has struck (watchers go on after the stack); one that never did shows nothing."""
        self._idle = settled(self._idle_faults, operator.not_, LONGEST_SECONDS)
        self.cloud.clear_faults()
        for fault in self._idle:
            self.problem(f"a fault did not strike (often enough): {fault}")

    def _idle_faults(self) -> list[dict[str, Any]]:
        return [fault for fault in self.cloud.faults() if not fault["struck"] or fault["count"]]

    def again(self, stack: FaultStack) -> None:
        """The same deployment must succeed once the fault is gone."""
        status = stack.deploy()
        if status not in _SUCCEEDED:
            self.problem(f"deploying again ended as {status}: {stack.reasons[:4]}")
        self.check()

    def _inject(self, trial: Trial) -> None:
        for strike in trial.strikes:
            strike.inject(self.cloud)

    def _deployed(self, trial: Trial, stack: FaultStack, rolled_back: str) -> None:
        self._inject(trial)
        status = stack.deploy()
        self.end_faults()
        self.check()
        if trial.says is None:
            if status not in _SUCCEEDED:
                self.problem(f"ended as {status}: {stack.reasons[:4]}")
        else:
            self.expect(status, rolled_back, "the stack's status")
            self.says(stack, trial.says)
        if status not in _SUCCEEDED:
            self.again(stack)

    def create(self, trial: Trial, stack: FaultStack) -> None:
        """The faults strike while the stack is created."""
        self._deployed(trial, stack, "ROLLBACK_COMPLETE")

    def update(self, trial: Trial, stack: FaultStack) -> None:
        """The faults strike while the recipe of a stack is changed."""
        stack.deploy()
        before = stack.artifact_key
        stack.group_size = 64
        self._deployed(trial, stack, "UPDATE_ROLLBACK_COMPLETE")
        if self.guarantees.store.manifest(before) is None:
            self.problem("the artifact from before the update is gone")

    def roll_back(self, trial: Trial, stack: FaultStack) -> None:
        """The faults strike while a changed recipe is taken back, as its endpoint has not started."""
        stack.deploy()
        stack.group_size = 64
        self.cloud.inject("update_fails", count=1)
        self._inject(trial)
        status = stack.deploy()
        self.end_faults()
        self.check()
        self.expect(status, "UPDATE_ROLLBACK_COMPLETE", "the stack's status")
        self.again(stack)

    def delete(self, trial: Trial, stack: FaultStack) -> None:
        """The faults strike while a stack is deleted whose artifact is there."""
        stack.deploy()
        self._deleted(trial, stack)

    def abandon(self, trial: Trial, stack: FaultStack) -> None:
        """The faults strike while a stack is deleted whose job runs: it was created, or waits for the job."""
        stack.deploy_without_end()
        self._deleted(trial, stack)

    def _deleted(self, trial: Trial, stack: FaultStack) -> None:
        self._inject(trial)
        status = stack.destroy()
        self.end_faults()
        if trial.says is None:
            self.expect(status, "DELETE_COMPLETE", "the stack's status")
        else:
            self.expect(status, "DELETE_FAILED", "the stack's status")
            self.says(stack, trial.says)
        if status != "DELETE_COMPLETE":
            self.expect(stack.destroy(), "DELETE_COMPLETE", "the stack's status when deleted again")
        self.check()


def kind_of(phase: str) -> str:
    """The kind of stack that a phase is a phase of."""
    last = phase.split()[-1]
    return "unwaited" if last == "abandon" else last if last in KINDS else "job"


PHASES: dict[str, Callable[[Trials, Trial, FaultStack], None]] = {
    "create": Trials.create,
    "update": Trials.update,
    "delete": Trials.delete,
    "abandon": Trials.abandon,
    "cancel": Trials.abandon,
    "create endpoint": Trials.create,
    "update endpoint": Trials.update,
    "delete endpoint": Trials.delete,
    "create copy": Trials.create,
    "update copy": Trials.update,
    "cancel copy": Trials.abandon,
    "update component": Trials.update,
    "create scaled": Trials.create,
    "update scaled": Trials.update,
    "roll back scaled": Trials.roll_back,
    "create partition": Trials.create,
    "update partition": Trials.update,
    "delete partition": Trials.delete,
    "create shadow": Trials.create,
    "update shadow": Trials.update,
    "delete shadow": Trials.delete,
    "create evaluated": Trials.create,
    "update evaluated": Trials.update,
    "delete evaluated": Trials.delete,
    "cancel evaluated": Trials.abandon,
    "create preflight": Trials.create,
    "update preflight": Trials.update,
    "create reference": Trials.create,
    "delete reference": Trials.delete,
}
