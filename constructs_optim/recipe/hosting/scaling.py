"""How an endpoint scales: the defaults that follow from its plan, and requests, which rules check.

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
"""How full copies are kept: a new one is minutes in coming, and the others take what comes meanwhile."""
SCALE_OUT_COOLDOWN_SECONDS = 60
"""Requests wait now, and no more copies are requested while some are still being added."""
SCALE_IN_COOLDOWN_SECONDS = 600
"""A copy that was taken away too early has to load tens of gigabytes before it is back."""
WAKE_COOLDOWN_SECONDS = 600
"""Requests fail until the first copy has loaded. Without a pause each of these minutes would add another copy."""
_BATCH_SIZE = "OPTION_MAX_ROLLING_BATCH_SIZE"


@dataclass(frozen=True)
class ScalingDefaults:
    """Requests in flight that an instance or copy is sized for, and the target of them, which leaves headroom."""

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
        change: instances or copies to add, or to take away where negative; percent of them with
            ``PercentChangeInCapacity``, and the number that there shall be with ``ExactCapacity``.
        lower: where the step begins; included on the way up. A step that adds needs it.
        upper: where it ends; included on the way down. A step that takes away needs it. Default: where the next step
            begins, and the last has no end.
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
        """The steps for a metric that is too high, from the lowest on."""
        return sorted((step for step in self.steps if self._adds(step)), key=lambda step: step.lower or 0)

    def falling(self) -> list[ScalingStep]:
        """The steps for a metric that is too low, from the highest on."""
        return sorted((step for step in self.steps if not self._adds(step)), key=lambda step: -(step.upper or 0))

    def _adds(self, step: ScalingStep) -> bool:
        return step.lower is not None if self.adjustment == "ExactCapacity" else step.change > 0


@dataclass(frozen=True)
class Scaling:
    """An endpoint's scaling, or a part of it. None: known only when the stack is deployed.

    ``may_be_zero``: whether it may scale to no copy of an inference component, or no instance of an asynchronous
    endpoint. ``ids`` are those of the endpoint's policies and schedules, ``new_id`` is that of what is added.
    """

    may_be_zero: bool
    min_capacity: int | None = None
    max_capacity: int | None = None
    ids: Sequence[str] = ()
    new_id: str | None = None
    targets: Sequence[TargetRequest] = ()
    schedules: Sequence[ScheduleRequest] = ()
    steps: Sequence[StepRequest] = ()


def requests_in_flight(plan: Plan) -> int:
    """Requests that one copy of the model is sized for: its batch size, or what the KV cache has room for if less."""
    memory = plan.memory
    if memory is None:
        size = plan.container.environment.get(_BATCH_SIZE, "")
        return int(size) if size.isdecimal() and int(size) > 0 else DEFAULT_BATCH_SIZE
    if not memory.kv_cache_gb:
        return memory.batch_size
    room = math.floor(memory.batch_size * (memory.available_gb - memory.fixed_gb) / memory.kv_cache_gb)
    return max(1, min(memory.batch_size, room))


def scaling_defaults(plan: Plan, *, accelerators: int | None = None) -> ScalingDefaults:
    """The defaults for what scales: an instance, or a copy of an inference component with so many accelerators.

    The server loads the model once for each ``tensor_parallel_degree`` of them.
    """
    component, row = plan.container.component, instances.find(plan.instance_type)
    of_an_instance = row.parallel_units if row is not None else plan.accelerator_count
    units = accelerators or (component.accelerators if component is not None else of_an_instance)
    capacity = requests_in_flight(plan) * max(1, units // plan.tensor_parallel_degree)
    return ScalingDefaults(capacity=capacity, concurrency=max(1.0, round(capacity * HEADROOM, 1)))


def invocations_target(concurrency: float, request_seconds: float) -> float:
    """Invocations a minute that keep ``concurrency`` requests in flight when each takes ``request_seconds``.

    Little's law: what is in flight is what arrives in a second times the seconds it stays.
    """
    return round(concurrency * 60 / request_seconds, 1)


def step_adjustments(steps: Sequence[ScalingStep], *, rising: bool) -> tuple[float, list[dict[str, Any]]]:
    """A policy's alarm threshold and its ``StepAdjustments``, whose bounds count from the threshold.

    ``steps`` are :meth:`StepRequest.rising` or :meth:`StepRequest.falling`, and follow each other.
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
