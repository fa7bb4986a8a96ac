"""The scaling of an endpoint: defaults from its plan, and policies and schedules for the rules to check.

Sources: Application Auto Scaling user guide, "Target tracking scaling policies" and "Step scaling policies"; Amazon
SageMaker developer guide, "Scale an endpoint to zero instances".
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.memory import DEFAULT_BATCH_SIZE
from constructs_optim.recipe.plan_data import Plan
from constructs_optim.recipe.settings import Settings

HEADROOM = 0.7
"""The target utilization. A new copy takes minutes to start; until then, the existing copies serve all requests."""
SCALE_OUT_COOLDOWN_SECONDS = 60
"""Short, because requests wait. Application Auto Scaling adds no more copies while some are still starting."""
SCALE_IN_COOLDOWN_SECONDS = 600
"""Long, because a copy that is removed too early must load tens of gigabytes when it starts again."""
WAKE_COOLDOWN_SECONDS = 600
"""Requests fail until the first copy is in service. Without a cool-down, the last of them would add another copy."""


@dataclass(frozen=True)
class ScalingDefaults:
    """The concurrent requests that an instance or copy is sized for, and the target, which leaves headroom."""

    capacity: int
    concurrency: float


@dataclass(frozen=True)
class TargetRequest:
    """A target tracking policy; values may be number tokens. None: known only when the stack is deployed."""

    location: str
    target: float | None
    cooldowns: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class ScheduleRequest:
    """A scheduled action."""

    location: str
    expression: str
    min_capacity: int | None = None
    max_capacity: int | None = None
    time_zone: str | None = None
    start: dt.datetime | None = None
    end: dt.datetime | None = None


class ScalingStep(Settings):
    """One step of a step scaling policy: how much to scale while a metric is within bounds.

    Attributes:
        change: number of instances or copies to add, or to remove if negative; a percentage with
            ``PercentChangeInCapacity``, the new number with ``ExactCapacity``.
        lower: the lower bound. A scale-out step needs it, and includes it.
        upper: the upper bound. A scale-in step needs it, and includes it. Default: the start of the next step; the last
            step is unbounded.
    """

    change: int
    lower: float | None = Field(default=None, allow_inf_nan=False)
    upper: float | None = Field(default=None, allow_inf_nan=False)


@dataclass(frozen=True)
class StepRequest:
    """A step scaling policy."""

    location: str
    steps: Sequence[ScalingStep]
    adjustment: str = "ChangeInCapacity"
    cooldown: float = 0
    evaluation_periods: int = 1
    datapoints_to_alarm: int | None = None
    min_adjustment_magnitude: int | None = None

    def rising(self) -> list[ScalingStep]:
        """Return the steps for a metric that is too high, in ascending order."""
        return sorted((step for step in self.steps if self._adds(step)), key=lambda step: step.lower or 0)

    def falling(self) -> list[ScalingStep]:
        """Return the steps for a metric that is too low, in descending order."""
        return sorted((step for step in self.steps if not self._adds(step)), key=lambda step: -(step.upper or 0))

    def _adds(self, step: ScalingStep) -> bool:
        return step.lower is not None if self.adjustment == "ExactCapacity" else step.change > 0


@dataclass(frozen=True)
class EngineTargetRequest:
    """A policy that holds an engine metric near ``target``; None: known only when the stack is deployed."""

    location: str
    metric: str
    target: float | None
    cooldowns: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Scaling:
    """An endpoint's scaling, or a part of it. None: known only at deployment.

    ``may_be_zero``: whether an inference component can scale in to zero copies, or an asynchronous endpoint to zero
    instances. ``ids`` are the IDs of the endpoint's policies and schedules, ``new_id`` is the next ID.
    ``policy_names`` are the names of its policies, ``new_policy_names`` the next ones. ``is_complete``: whether
    ``schedules`` are all of the endpoint's, so that limits can be compared across them.
    """

    may_be_zero: bool
    min_capacity: int | None = None
    max_capacity: int | None = None
    ids: Sequence[str] = ()
    new_id: str | None = None
    policy_names: Sequence[str] = ()
    new_policy_names: Sequence[str] = ()
    targets: Sequence[TargetRequest] = ()
    schedules: Sequence[ScheduleRequest] = ()
    steps: Sequence[StepRequest] = ()
    engine_targets: Sequence[EngineTargetRequest] = ()
    is_complete: bool = False


@dataclass(frozen=True)
class DeclaredScaling:
    """All that a scaling declares, for the rules to check once the app is complete. None: known only at deployment.

    ``policies`` are the methods that declared them. ``wakes``: whether a request that finds no copy starts one.
    ``initial_capacity`` is what the endpoint is created with; None if scaling decides it.
    ``follows_objectives``: whether the maximum is what a choice for objectives needs. ``is_asynchronous``: whether
    requests wait in the endpoint's queue. ``now`` is the time of the synthesis, with a time zone.
    """

    min_capacity: int | None
    max_capacity: int | None
    now: dt.datetime
    policies: Sequence[str] = ()
    schedules: Sequence[ScheduleRequest] = ()
    wakes: bool = False
    follows_objectives: bool = False
    initial_capacity: int | None = None
    is_asynchronous: bool = False


@dataclass(frozen=True)
class ConcurrencyLimit:
    """A number of requests in flight for each instance or copy, and the number that it is sized for."""

    location: str
    value: float
    capacity: float


Range = tuple[int, int]
"""The minimum and the maximum capacity."""


def ranges_of(first: Range, changes: Sequence[tuple[int | None, int | None]]) -> list[Range]:
    """Return the range at first, and after each schedule of two rounds; a schedule may leave a limit as it is."""
    least, most = first
    ranges = [first]
    for minimum, maximum in [*changes, *changes]:
        least = least if minimum is None else minimum
        most = most if maximum is None else maximum
        ranges.append((least, max(least, most)))
    return ranges


def steady_ranges(ranges: Sequence[Range], schedules: int, *, once: bool) -> Sequence[Range]:
    """Return the ranges of the second round; all of them if there is none, because a schedule runs only once."""
    return ranges[schedules + 1 :] if schedules and not once else ranges


def capacities(ranges: Sequence[Range]) -> list[int]:
    """Return the capacity in each range without policies: a range changes it only if it is outside."""
    capacity = ranges[0][0]
    found: list[int] = []
    for least, most in ranges:
        capacity = min(max(capacity, least), most)
        found.append(capacity)
    return found


def changes_capacity(
    first: Range, changes: Sequence[tuple[int | None, int | None]], *, has_policies: bool, once: bool
) -> bool:
    """Return whether policies and schedules can change the capacity more than once.

    Args:
        first: the range of the scalable target.
        changes: the new limits of each schedule; None for one that stays.
        has_policies: whether policies change the capacity within the range.
        once: whether a schedule runs only once, which is a change too.
    """
    ranges = ranges_of(first, changes)
    steady = steady_ranges(ranges, len(changes), once=once)
    if has_policies and any(least < most for least, most in steady):
        return True
    return len(set(capacities(ranges)[-len(steady) :])) > 1


def requests_in_flight(plan: Plan) -> int:
    """Return the concurrent requests of one copy of the model: its batch size, or fewer if the KV cache is smaller."""
    memory = plan.memory
    if memory is None:
        return plan.container.max_concurrent_requests or DEFAULT_BATCH_SIZE
    if not memory.kv_cache_gb:
        return memory.batch_size
    room = math.floor(memory.batch_size * (memory.available_gb - memory.fixed_gb) / memory.kv_cache_gb)
    return max(1, min(memory.batch_size, room))


def scaling_defaults(
    plan: Plan, *, accelerators: int | None = None, concurrency: float | None = None
) -> ScalingDefaults:
    """Return the defaults for an instance, or for a copy of an inference component with ``accelerators``.

    The server loads the model once per ``tensor_parallel_degree`` accelerators. ``concurrency`` is the target of a
    choice for objectives.
    """
    if concurrency is not None:
        return ScalingDefaults(capacity=max(1, round(concurrency / HEADROOM)), concurrency=concurrency)
    component, row = plan.container.component, instances.find(plan.instance_type)
    units_of_instance = row.parallel_units if row is not None else plan.accelerator_count
    units = accelerators or (component.accelerators if component is not None else units_of_instance)
    capacity = requests_in_flight(plan) * max(1, units // plan.tensor_parallel_degree)
    return ScalingDefaults(capacity=capacity, concurrency=max(1.0, round(capacity * HEADROOM, 1)))


def invocations_target(concurrency: float, request_seconds: float) -> float:
    """Return the invocations per minute of ``concurrency`` requests of ``request_seconds`` each, by Little's law."""
    return round(concurrency * 60 / request_seconds, 1)


def step_adjustments(steps: Sequence[ScalingStep], *, rising: bool) -> tuple[float, list[dict[str, Any]]]:
    """Return a policy's alarm threshold and ``StepAdjustments``, whose bounds are relative to the threshold.

    ``steps`` are the contiguous steps of ``StepRequest.rising`` or ``StepRequest.falling``.
    """
    near = [(step.lower if rising else step.upper) or 0 for step in steps]
    threshold = near[0]
    edges = ("metricIntervalLowerBound", "metricIntervalUpperBound")
    begins, ends = edges if rising else edges[::-1]
    adjustments: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        bounds = {begins: near[index] - threshold}
        if index + 1 < len(steps):
            bounds[ends] = near[index + 1] - threshold
        adjustments.append({**dict(sorted(bounds.items())), "scalingAdjustment": step.change})
    return threshold, adjustments
