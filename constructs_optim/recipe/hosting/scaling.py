"""The scaling of an endpoint: defaults that follow from its plan, and policies and schedules, which rules check.

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
"""The target utilization: a new copy takes minutes to start, in which the existing copies serve all requests."""
SCALE_OUT_COOLDOWN_SECONDS = 60
"""Requests are waiting; Application Auto Scaling requests no more copies while some are still starting."""
SCALE_IN_COOLDOWN_SECONDS = 600
"""A copy that was removed too early loads tens of gigabytes when it starts again."""
WAKE_COOLDOWN_SECONDS = 600
"""Requests fail until the first copy has loaded: without a cooldown, every minute would add a copy."""


@dataclass(frozen=True)
class ScalingDefaults:
    """Concurrent requests that an instance or copy is sized for, and the target, which leaves headroom."""

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
    """By how much to scale while a metric is within bounds.

    Attributes:
        change: instances or copies to add, or to remove where negative; percent of them with
            ``PercentChangeInCapacity``, and their new number with ``ExactCapacity``.
        lower: the lower bound, inclusive for a step that adds, which needs it.
        upper: the upper bound, inclusive for a step that removes, which needs it. Default: where the next step begins;
            the last step is unbounded.
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

    def rising(self) -> list[ScalingStep]:
        """The steps for a metric that is too high, in ascending order."""
        return sorted((step for step in self.steps if self._adds(step)), key=lambda step: step.lower or 0)

    def falling(self) -> list[ScalingStep]:
        """The steps for a metric that is too low, in descending order."""
        return sorted((step for step in self.steps if not self._adds(step)), key=lambda step: -(step.upper or 0))

    def _adds(self, step: ScalingStep) -> bool:
        return step.lower is not None if self.adjustment == "ExactCapacity" else step.change > 0


@dataclass(frozen=True)
class EngineTargetRequest:
    """A policy that holds a metric of the engine near ``target``; None: known only when the stack is deployed."""

    location: str
    metric: str
    target: float | None


@dataclass(frozen=True)
class Scaling:
    """An endpoint's scaling, or a part of it. None: known only at deployment.

    ``may_be_zero``: whether it may scale to no copy of an inference component, or no instance of an asynchronous
    endpoint. ``ids`` are those of the endpoint's policies and schedules, ``new_id`` is the ID of the next one.
    """

    may_be_zero: bool
    min_capacity: int | None = None
    max_capacity: int | None = None
    ids: Sequence[str] = ()
    new_id: str | None = None
    targets: Sequence[TargetRequest] = ()
    schedules: Sequence[ScheduleRequest] = ()
    steps: Sequence[StepRequest] = ()
    engine_targets: Sequence[EngineTargetRequest] = ()


def requests_in_flight(plan: Plan) -> int:
    """Concurrent requests of one copy of the model: its batch size, or fewer where the KV cache is smaller."""
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
    """The defaults for an instance, or for a copy of an inference component with ``accelerators``.

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
    """Invocations per minute of ``concurrency`` concurrent requests that take ``request_seconds``, by Little's law."""
    return round(concurrency * 60 / request_seconds, 1)


def step_adjustments(steps: Sequence[ScalingStep], *, rising: bool) -> tuple[float, list[dict[str, Any]]]:
    """A policy's alarm threshold and its ``StepAdjustments``, whose bounds are relative to the threshold.

    ``steps`` are the contiguous steps of :meth:`StepRequest.rising` or :meth:`StepRequest.falling`.
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
