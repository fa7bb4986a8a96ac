"""Scaling on the engine's own metrics: the PromQL conditions that change capacity.

Application Auto Scaling cannot track these metrics: a target tracking policy reads a metric by namespace and name (its
API reference, CustomizedMetricSpecification), but these metrics need PromQL. So PromQL alarms run step scaling
policies: each target has a policy that adds capacity, and all targets share a policy that doubles it and one that
removes it.

Design of the conditions:

- A latency or a queue does not fall in proportion to added copies, so the metric is not divided by the target. Capacity
  grows in steps, and doubles if a full batch per copy is waiting.
- An average does not show whether the load fits on fewer copies. So a copy is removed only if the load of all copies
  fits on the others with headroom.
- Without requests, a latency has no value. A missing value neither adds nor keeps capacity.
- A copy that is still loading its model publishes nothing. So only publishing copies count. The cool-down after adding
  capacity begins when they are in service, and covers the time until rates and latencies are those of all copies.
- Long prompts increase time to first token, and more copies do not help. So time to first token adds capacity only if
  requests also wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from constructs_optim.recipe.metrics.thresholds import STREAM_SECONDS

SETTLING_SECONDS = 600
"""The default cool-down after added capacity is in service, until rates over minutes and the latencies of requests that
waited for it no longer ask for more.
"""
EVALUATION_SECONDS = 60
"""The evaluation interval of the alarms."""
PENDING_SECONDS = 60
"""How long a target must be missed before capacity is added."""
IDLE_SECONDS = 900
"""How long capacity must be idle before it is removed, as in target tracking."""
ADDED_PERCENT = 25
"""The capacity added per step, at least one instance or copy."""
LIMITS: Mapping[str, tuple[float, float, float]] = {
    "engine_time_to_first_token": (0.01, STREAM_SECONDS, 2),
    "kv_cache_usage": (5, 95, 70),
    "waiting_requests": (0.1, 10_000, 4),
    "engine_output_tokens_per_second": (1, 1_000_000, 1_500),
}
"""The minimum, maximum and an example of each metric's target: seconds, percent, requests and tokens per instance or
copy."""
# After a copy is removed, the others must stay this far below the target.
_HYSTERESIS = 0.8
_OF_EVERY_POLICY = ("running_requests", "waiting_requests", "publishing_copies", "engine_output_tokens_per_second")
# The share of an excessive time to first token that must be queue time.
_QUEUEING = 0.1


class MetricQuery(Protocol):
    """A function that returns the PromQL of a metric by its name."""

    def __call__(self, name: str, /, *, quantile: float | None = None) -> str:
        """Return the PromQL, for a quantile if the metric is a latency."""
        ...


@dataclass(frozen=True)
class EngineTarget:
    """An engine metric and its ``target``, in the unit of ``LIMITS``; ``quantile`` applies to a latency.

    A query returns a result while its condition is true.
    """

    metric: str
    target: float
    quantile: float = 0.9

    @property
    def used_metrics(self) -> tuple[str, ...]:
        """The metrics in the conditions of its policy."""
        queueing = ("queue_time",) if self.metric == "engine_time_to_first_token" else ()
        return tuple(dict.fromkeys((self.metric, *_OF_EVERY_POLICY, *queueing)))

    def missed(self, query: MetricQuery) -> str:
        """Return the condition for adding capacity."""
        match self.metric:
            case "engine_time_to_first_token":
                queueing = f"{query('queue_time', quantile=self.quantile)} > {_QUEUEING * 1000 * self.target:g}"
                return f"{self._later_than(query, self.target)} and {queueing}"
            case "kv_cache_usage":
                return f"{query(self.metric)} > {self.target:g}"
            case _:
                return f"{query(self.metric)} / {query('publishing_copies')} > {self.target:g}"

    def kept_by_fewer(self, query: MetricQuery) -> str:
        """Return the end of the condition that removes a copy: the remaining copies would meet the target."""
        copies, others = query("publishing_copies"), f"({query('publishing_copies')} - 1)"
        match self.metric:
            case "engine_time_to_first_token":
                return f"unless {self._later_than(query, self.target / 2)}"
            case "waiting_requests":
                return f"and {query(self.metric)} == 0"
            case "kv_cache_usage":
                return f"and {query(self.metric)} * {copies} / {others} < {_HYSTERESIS * self.target:g}"
            case _:
                return f"and {query(self.metric)} / {others} < {_HYSTERESIS * self.target:g}"

    def _later_than(self, query: MetricQuery, seconds: float) -> str:
        return f"{query(self.metric, quantile=self.quantile)} > {1000 * seconds:g}"


def surge(query: MetricQuery, *, capacity: float) -> str:
    """Return the condition that doubles capacity: as many requests wait as all copies are sized for."""
    return f"{query('waiting_requests')} > {capacity:g} * {query('publishing_copies')}"


def idle(query: MetricQuery, targets: Sequence[EngineTarget], *, room: float, to_zero: bool) -> str:
    """Return the condition that removes a copy: one for all targets, so that no policy removes what another needs.

    Args:
        query: the query of the scaled endpoint or component.
        targets: the targets of all policies.
        room: maximum concurrent requests per remaining instance or copy.
        to_zero: whether the last copy can be removed.
    """
    copies = query("publishing_copies")
    in_flight = f"({query('running_requests')} + {query('waiting_requests')})"
    kept = [target.kept_by_fewer(query) for target in targets]
    condition = " ".join([f"{in_flight} / ({copies} - 1) < {room:g}", *dict.fromkeys(kept)])
    if to_zero:
        no_tokens = f"{query('engine_output_tokens_per_second')} == 0"
        condition = f"({condition}) or ({copies} == 1 and {in_flight} == 0 and {no_tokens})"
    return condition
