"""Blue/green and rolling deployments: their stages, alarms and rollbacks.

Sources: SageMaker developer guide, "Deployment guardrails" (blue/green: the whole new fleet is launched, then traffic
shifts in steps; rolling: in each batch the new fleet grows and the old one shrinks; alarms are watched while a step
bakes) and "Events that Amazon SageMaker AI sends to Amazon EventBridge" (the variants' statuses and messages, and that
the last bake is TerminationWaitInSeconds). API reference, DeploymentConfig, for sizes and limits.

Assumed, without a source: the wording of a rollback's reason; an alarm already in ALARM when a bake begins trips; a
deployment that exceeds its time limit rolls back.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Counts = Mapping[str, int]

# The maximum of a deployment: API reference, MaximumExecutionTimeoutInSeconds of RollingUpdatePolicy and
# BlueGreenUpdatePolicy. Assumed, without a source: it is also the default.
_LONGEST_SECONDS = 28_800


@dataclass(frozen=True)
class Pace:
    """The launch time of a fleet in seconds, and the real seconds for each second of the API's waits."""

    launch: float
    scale: float = 1.0

    @property
    def turn(self) -> float:
        """The duration of a traffic shift, or of the end of instances, in seconds."""
        return self.launch / 4


@dataclass(frozen=True)
class Stage:
    """A stage of a deployment. Counts and messages are by variant.

    Attributes:
        status: the VariantStatus.
        messages: the StatusMessage.
        seconds: duration of the stage.
        new: instances of the new fleet with traffic.
        old: instances of the old fleet.
        launches: instances that must run at the end of the stage.
        watched: whether alarms are watched.
    """

    status: str
    messages: Mapping[str, str]
    seconds: float
    new: Counts
    old: Counts
    launches: Counts = field(default_factory=dict[str, int])
    watched: bool = False


@dataclass(frozen=True)
class Plan:
    """The stages of a deployment, and the rollback from each."""

    stages: tuple[Stage, ...]
    back: Callable[[Stage], tuple[Stage, ...]]
    limit: float = math.inf
    alarms: tuple[str, ...] = ()


class World(Protocol):
    """The state on which a deployment depends."""

    def launched(self, stage: Stage, waited: float) -> str | None:
        """Return why the instances of a stage do not run; None if they do.

        Raises:
            NotYet: while they may still start.
        """
        ...

    def restored(self) -> str | None:
        """Return why the old fleet could not be restored; None if it was."""
        ...

    def tripped(self, alarms: Sequence[str], start: dt.datetime, end: dt.datetime) -> tuple[dt.datetime, str] | None:
        """Return the first alarm that was in ALARM between two times, and when."""
        ...


class NotYet(Exception):
    """Instances are still being requested."""


class Deployment:
    """A deployment in progress. Each call of ``advance`` catches up on the time since the last one."""

    def __init__(self, plan: Plan, world: World, at: dt.datetime) -> None:
        self.started = self._since = at
        self.reason: str | None = None
        self.outcome: str | None = None
        self.rolling_back = False
        self.history: list[dict[str, Any]] = []
        self._late = False
        self._plan, self._world, self._stages, self._index = plan, world, plan.stages, 0
        self._note()

    @property
    def stage(self) -> Stage:
        """The current stage, or the last one after the end."""
        return self._stages[min(self._index, len(self._stages) - 1)]

    @property
    def since(self) -> dt.datetime:
        """The time when the current stage began, or when the deployment ended."""
        return self._since

    def advance(self, at: dt.datetime) -> None:
        """Advance to a time, and set ``outcome`` to ``done``, ``rolled back`` or ``rollback failed`` at the end."""
        while self.outcome is None and self._step(at):
            pass

    def _step(self, at: dt.datetime) -> bool:
        stage = self.stage
        end = self._since + dt.timedelta(seconds=stage.seconds)
        if not self.rolling_back:
            late = self.started + dt.timedelta(seconds=self._plan.limit) if self._plan.limit < math.inf else None
            if stage.watched and (found := self._world.tripped(self._plan.alarms, self._since, min(at, end))):
                when, name = found
                self._turn_back(
                    max(when, self._since), f"The alarm {name} went into ALARM while the deployment was baking."
                )
                return True
            if late is not None and at >= late and late < end:
                self._turn_back(late, "The deployment exceeded its MaximumExecutionTimeoutInSeconds.")
                return True
        if at < end:
            return False
        if stage.launches and not self.rolling_back:
            try:
                reason = self._world.launched(stage, (at - self._since).total_seconds())
            except NotYet:
                self._late = True
                return False
            # The stage had to wait, so it ends now and not when it was due.
            end, self._late = (at if self._late else end), False
            if reason is not None:
                self._turn_back(end, reason)
                return True
        self._since, self._index = end, self._index + 1
        if self._index >= len(self._stages):
            self._end()
        else:
            self._note()
        return True

    def _turn_back(self, at: dt.datetime, reason: str) -> None:
        self.rolling_back, self.reason = True, reason
        self._stages, self._index, self._since = self._plan.back(self.stage), 0, at
        self._note()

    def _note(self) -> None:
        stage = self.stage
        self.history.append(
            {
                "status": stage.status,
                "rolling_back": self.rolling_back,
                "new": dict(stage.new),
                "old": dict(stage.old),
                "time": self._since.timestamp(),
            }
        )

    def _end(self) -> None:
        if not self.rolling_back:
            self.outcome = "done"
            return
        failed = self._world.restored()
        self.outcome = "rollback failed" if failed else "rolled back"
        self.reason = f"{self.reason} {failed}" if failed else self.reason


class History:
    """The deployments of an account and Region, in the order of their start."""

    def __init__(self) -> None:
        self._deployments: list[tuple[str, str, Deployment]] = []

    def add(self, resource: str, kind: str, deployment: Deployment) -> None:
        """Add a deployment."""
        self._deployments.append((resource, kind, deployment))

    def to_json(self) -> list[dict[str, Any]]:
        """Return each deployment with the stages it went through."""
        return [
            {
                "resource": resource,
                "kind": kind,
                "outcome": deployment.outcome,
                "reason": deployment.reason,
                "history": list(deployment.history),
            }
            for resource, kind, deployment in self._deployments
        ]


def plan(config: Mapping[str, Any], old: Counts, new: Counts, pace: Pace, unit: str = "instance(s)") -> Plan:
    """Return the plan for a DeploymentConfig. Without a policy, it is blue/green, all at once.

    Args:
        config: a DeploymentConfig of an endpoint or an inference component.
        old: the current number of units, by variant.
        new: the requested number of units, by variant.
        pace: durations of the stages.
        unit: name of the units, in messages.
    """
    alarms = tuple(alarm["AlarmName"] for alarm in config.get("AutoRollbackConfiguration", {}).get("Alarms", []))
    rolling = config.get("RollingUpdatePolicy")
    policy = rolling or config.get("BlueGreenUpdatePolicy", {})
    limit = policy.get("MaximumExecutionTimeoutInSeconds", _LONGEST_SECONDS) * pace.scale
    stages = _rolling(policy, old, new, pace, unit) if rolling else _blue_green(policy, old, new, pace, unit)
    back = _rolled_back(policy, old, pace, unit) if rolling else _flipped_back(old, pace, unit)
    return Plan(tuple(stages), back, limit, alarms)


def single(status: str, messages: Mapping[str, str], seconds: float, launches: Counts, now: Counts) -> Plan:
    """Return a plan of one stage: a creation, or a change of capacity."""
    stage = Stage(status, messages, seconds, {}, now, launches or dict.fromkeys(messages, 0))
    return Plan((stage,), lambda _: (Stage("Deleting", {}, seconds, {}, now),))


def problems(config: Mapping[str, Any], counts: Counts) -> Iterator[str]:
    """Yield what the API forbids in a DeploymentConfig, for variants with these numbers of instances or copies."""
    green, rolling = config.get("BlueGreenUpdatePolicy"), config.get("RollingUpdatePolicy")
    if green and rolling:
        yield "Only one update policy can be specified: BlueGreenUpdatePolicy or RollingUpdatePolicy"
    if green:
        routing = green["TrafficRoutingConfiguration"]
        limits = {"CANARY": ("CanarySize", 0, 50), "LINEAR": ("LinearStepSize", 10, 50)}.get(routing["Type"])
        if limits is not None:
            name, low, high = limits
            if name not in routing:
                yield f"{name} is required for a traffic routing of type {routing['Type']}"
            else:
                yield from _size_problems(name, routing[name], low, high, counts)
    if rolling:
        yield from _size_problems("MaximumBatchSize", rolling["MaximumBatchSize"], 5, 50, counts)


def _size_problems(name: str, size: Mapping[str, Any], low: int, high: int, counts: Counts) -> Iterator[str]:
    value = size["Value"]
    if size["Type"] == "CAPACITY_PERCENT":
        shares = [("", float(value))]
    else:
        shares = [(f" of variant {variant}", 100 * value / count) for variant, count in counts.items() if count]
    for whose, share in shares:
        if not low <= share <= high:
            allowed = f"between {low}% and {high}%" if low else f"less than or equal to {high}%"
            yield f"{name} must be {allowed} of the total capacity{whose}, and {value} {size['Type']} is {share:g}%"


def _units(size: Mapping[str, Any], total: int) -> int:
    if size["Type"] == "CAPACITY_PERCENT":
        return min(total, max(1, math.ceil(total * size["Value"] / 100)))
    return min(total, size["Value"])


def _each(counts: Counts, message: Callable[[int], str]) -> dict[str, str]:
    return {name: message(count) for name, count in counts.items()}


def _blue_green(policy: Mapping[str, Any], old: Counts, new: Counts, pace: Pace, unit: str) -> Iterator[Stage]:
    routing = policy.get("TrafficRoutingConfiguration", {})
    none = dict.fromkeys(new, 0)
    yield Stage("Creating", _each(new, lambda n: f"Launching {n} {unit}."), pace.launch, none, old, new)
    steps = _steps(routing, new)
    for active in steps:
        full = active is steps[-1]
        kind = "full" if full else "canary" if routing["Type"] == "CANARY" else "partial"
        name, of = ("TerminationWaitInSeconds", policy) if full else ("WaitIntervalInSeconds", routing)
        yield from _traffic(kind, active, old, of.get(name, 0), name, pace, unit)
    yield Stage("Deleting", _each(old, lambda n: f"Terminating {n} {unit}."), pace.turn, new, old)


def _traffic(
    kind: str, active: Counts, old: Counts, wait: int, wait_name: str, pace: Pace, unit: str
) -> Iterator[Stage]:
    turning = _each(active, lambda n: f"Activating traffic on {kind} capacity of {n} {unit}.")
    baking = _each(
        active,
        lambda n: f"Baking for {wait} seconds ({wait_name}) with traffic enabled on {kind} capacity of {n} {unit}.",
    )
    yield Stage("ActivatingTraffic", turning, pace.turn, active, old)
    yield Stage("Baking", baking, wait * pace.scale, active, old, watched=True)


def _steps(routing: Mapping[str, Any], new: Counts) -> list[Counts]:
    match routing.get("Type"):
        case "CANARY":
            canary = {name: _units(routing["CanarySize"], count) for name, count in new.items()}
            return [canary, dict(new)]
        case "LINEAR":
            return _batches(routing["LinearStepSize"], new)
        case _:
            return [dict(new)]


def _batches(size: Mapping[str, Any], total: Counts) -> list[Counts]:
    """Return the number of replaced units after each batch."""
    units = {name: max(1, _units(size, count)) for name, count in total.items()}
    most = max((math.ceil(count / units[name]) for name, count in total.items()), default=0)
    return [
        {name: min(count, units[name] * done) for name, count in total.items()} for done in range(1, max(most, 1) + 1)
    ]


def _rolling(policy: Mapping[str, Any], old: Counts, new: Counts, pace: Pace, unit: str) -> Iterator[Stage]:
    before, left = dict.fromkeys(new, 0), dict(old)
    wait, batches = policy["WaitIntervalInSeconds"], _batches(policy["MaximumBatchSize"], new)
    for active in batches:
        more = {name: count - before[name] for name, count in active.items()}
        yield Stage("Creating", _each(more, lambda n: f"Launching {n} {unit}."), pace.launch, before, left, more)
        yield from _traffic(
            "partial" if active != new else "full", active, left, wait, "WaitIntervalInSeconds", pace, unit
        )
        last = active is batches[-1]
        gone = {name: count if last else min(count, more.get(name, count)) for name, count in left.items()}
        yield Stage("Deleting", _each(gone, lambda n: f"Terminating {n} {unit}."), pace.turn, active, left)
        before, left = active, {name: count - gone[name] for name, count in left.items()}


def _flipped_back(old: Counts, pace: Pace, unit: str) -> Callable[[Stage], tuple[Stage, ...]]:
    def back(stage: Stage) -> tuple[Stage, ...]:
        ending = _each(stage.new, lambda n: f"Terminating {n} {unit}.")
        return (Stage("Deleting", ending, pace.turn, dict.fromkeys(stage.new, 0), old),)

    return back


def _rolled_back(policy: Mapping[str, Any], old: Counts, pace: Pace, unit: str) -> Callable[[Stage], tuple[Stage, ...]]:
    size = policy.get("RollbackMaximumBatchSize", {"Type": "CAPACITY_PERCENT", "Value": 100})

    def back(stage: Stage) -> tuple[Stage, ...]:
        there, missing = dict(stage.old), {name: count - stage.old.get(name, 0) for name, count in old.items()}
        stages: list[Stage] = []
        serving = dict(stage.new)
        units = {name: max(1, _units(size, count)) for name, count in old.items()}
        while any(missing.values()):
            more = {name: min(units[name], count) for name, count in missing.items()}
            stages.append(
                Stage("Creating", _each(more, lambda n: f"Launching {n} {unit}."), pace.launch, serving, there)
            )
            missing = {name: count - more[name] for name, count in missing.items()}
            there = {name: there[name] + more[name] for name in there}
            serving = {name: max(0, count - more.get(name, count)) for name, count in serving.items()}
        ending = _each(serving, lambda n: f"Terminating {n} {unit}.")
        return (*stages, Stage("Deleting", ending, pace.turn, dict.fromkeys(serving, 0), there))

    return back
