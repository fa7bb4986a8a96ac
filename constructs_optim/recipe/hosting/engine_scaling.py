"""Scaling by what the serving engine measures of itself: the conditions, as PromQL, on which capacity changes.

Application Auto Scaling cannot track these metrics: a target tracking policy reads a metric by namespace and name (its
API reference, CustomizedMetricSpecification), and only PromQL reads those. So alarms on PromQL run step scaling
policies: one for each target adds capacity, and of all targets together one doubles it and one takes away.

What the conditions take care of:

- A latency or a queue does not fall in proportion as copies are added, so nothing is divided by the target: capacity
  is added a part at a time, and doubled where a whole batch for each copy waits.
- Averages hide that a fleet would not fit on fewer copies: a copy is taken away only where what all of them work on
  fits the others with room to spare.
- Without requests a latency has no value. A missing value never adds capacity, and never keeps it.
- Copies that still load their model publish nothing: what is counted are the copies that do, and the pause after
  capacity was added covers the time until the new copies count.
- Long prompts make the first token late, and no copy mends that: time to first token counts where requests wait as
  well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

STARTUP_SECONDS = 600
"""The default pause after capacity was added: until a new copy has loaded its model and publishes metrics."""
EVALUATION_SECONDS = 60
"""How often the alarms look."""
PENDING_SECONDS = 60
"""For how long capacity must be missing before it is added."""
IDLE_SECONDS = 900
"""For how long capacity must be idle before it is taken away: that of target tracking."""
ADDED_PERCENT = 25
"""What is added at once, and at least one instance or copy."""
LIMITS: Mapping[str, tuple[float, float, float]] = {
    "engine_time_to_first_token": (0.01, 600, 2),
    "kv_cache_usage": (5, 95, 70),
    "waiting_requests": (0.1, 10_000, 4),
    "engine_output_tokens_per_second": (1, 1_000_000, 1_500),
}
"""The least and the largest target of each metric that scales, and an example: seconds, percent, requests and tokens
for each instance or copy."""
# After a copy is taken away, the others are to stay this far below the target.
_HYSTERESIS = 0.8
_OF_EVERY_POLICY = ("running_requests", "waiting_requests", "publishing_copies", "engine_output_tokens_per_second")
# Of a time to first token that is too long, what at least is waiting.
_QUEUEING = 0.1


class MetricQuery(Protocol):
    """Writes the PromQL of a metric by its name."""

    def __call__(self, name: str, /, *, quantile: float | None = None) -> str:
        """The PromQL, of a quantile where the metric is a latency."""
        ...


@dataclass(frozen=True)
class EngineTarget:
    """A metric of the engine that is to be held near ``target``, in the unit of ``LIMITS``; ``quantile`` of a latency.

    A query has a result while its condition holds.
    """

    metric: str
    target: float
    quantile: float = 0.9

    @property
    def used_metrics(self) -> tuple[str, ...]:
        """The metrics that the conditions of its policy read."""
        queueing = ("queue_time",) if self.metric == "engine_time_to_first_token" else ()
        return tuple(dict.fromkeys((self.metric, *_OF_EVERY_POLICY, *queueing)))

    def missed(self, query: MetricQuery) -> str:
        """The condition on which capacity is added."""
        match self.metric:
            case "engine_time_to_first_token":
                queueing = f"{query('queue_time', quantile=self.quantile)} > {_QUEUEING * 1000 * self.target:g}"
                return f"{self._later_than(query, self.target)} and {queueing}"
            case "kv_cache_usage":
                return f"{query(self.metric)} > {self.target:g}"
            case _:
                return f"{query(self.metric)} / {query('publishing_copies')} > {self.target:g}"

    def kept_by_fewer(self, query: MetricQuery) -> str:
        """What a condition to take one copy away ends in: without it, the others would keep the target."""
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
    """The condition on which capacity is doubled: as many requests wait as all copies are sized for."""
    return f"{query('waiting_requests')} > {capacity:g} * {query('publishing_copies')}"


def idle(query: MetricQuery, targets: Sequence[EngineTarget], *, room: float, to_zero: bool) -> str:
    """The condition on which a copy is taken away: one for all targets, so that no policy takes what another needs.

    Args:
        query: of what is scaled.
        targets: of all policies.
        room: requests in flight for each instance or copy that must not be exceeded without it.
        to_zero: whether the last copy may go.
    """
    copies = query("publishing_copies")
    in_flight = f"({query('running_requests')} + {query('waiting_requests')})"
    kept = [target.kept_by_fewer(query) for target in targets]
    condition = " ".join([f"{in_flight} / ({copies} - 1) < {room:g}", *dict.fromkeys(kept)])
    if to_zero:
        no_tokens = f"{query('engine_output_tokens_per_second')} == 0"
        condition = f"({condition}) or ({copies} == 1 and {in_flight} == 0 and {no_tokens})"
    return condition
