"""The search for the most users that an endpoint serves within service-level agreements.

Sources: SageMaker developer guide, "Find the maximum concurrency an endpoint can serve under an SLA"; AIPerf's "Search
history API reference" for ``search_history.json``. AIPerf fits a curve. This search doubles the number of users until a
threshold is missed, then bisects. Assumed: the default range (1 to 1,000) and number of tries (20).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import aiperf_export
from .measurement import Measurement
from .workload_spec import Workload

_PATH = "phases.profiling.concurrency"
_OBJECTIVE = "output_token_throughput"
_LATENCIES = {
    "ttft_sla_ms": "time_to_first_token",
    "tpot_sla_ms": "inter_token_latency",
    "e2e_sla_ms": "request_latency",
}


class ConcurrencySearch:
    """One search. ``measurements`` are its benchmarks by number of users, in the order in which they ran."""

    def __init__(self, workload: Workload, measure: Callable[[int], Measurement]) -> None:
        self._workload, self._measure = workload, measure
        self.measurements: dict[int, Measurement] = {}
        self._breaches: dict[int, dict[str, Any] | None] = {}
        settings = workload.parameters
        self._low, self._high = settings.get("concurrency_min", 1), settings.get("concurrency_max", 1000)
        self._tries = settings.get("search_max_iterations", 20)
        self._reason = "max_iterations"
        self._run()

    def history(self) -> dict[str, Any]:
        """Return ``search_history.json``."""
        order = list(self.measurements)
        iterations = [
            {"iteration_idx": iteration, "variation_values": {_PATH: users}, "objective_value": self._objective(users)}
            for iteration, users in enumerate(order)
        ]
        kept = [users for users in order if self._breaches[users] is None]
        missed = [users for users in order if self._breaches[users] is not None]
        best = max(iterations, key=lambda found: found["objective_value"] or 0.0, default=None)
        return {
            "config": {
                "algorithm": "monotonic",
                "objective_metric": _OBJECTIVE,
                "objective_stat": "avg",
                "objective_direction": "maximize",
                "max_iterations": self._tries,
                "random_seed": self._workload.seed,
                "search_space": [{"path": _PATH, "lo": self._low, "hi": self._high, "kind": "int"}],
            },
            "iterations": iterations,
            "best": best,
            "convergence_reason": self._reason,
            "boundary_summary": {
                "swept_dim_path": _PATH,
                "feasible_max": self._boundary(order, max(kept)) if kept else None,
                "infeasible_min": (
                    {
                        "value": min(missed),
                        "iteration_idx": order.index(min(missed)),
                        "first_breach": self._breaches[min(missed)],
                    }
                    if missed
                    else None
                ),
            },
        }

    def _run(self) -> None:
        kept, users = self._low - 1, self._low
        while self._tried(users):
            kept = users
            if users >= self._high:
                self._reason = "upper_bound"
                return
            users = min(users * 2, self._high)
        missed = users
        while missed - kept > 1 and len(self.measurements) < self._tries:
            users = (kept + missed) // 2
            if self._tried(users):
                kept = users
            else:
                missed = users
        if missed - kept <= 1:
            self._reason = "boundary_found"

    def _tried(self, users: int) -> bool:
        """Return whether every threshold holds for a number of users; also False if no tries are left."""
        if len(self.measurements) >= self._tries:
            return False
        self.measurements[users] = self._measure(users)
        self._breaches[users] = self._breach(self.measurements[users])
        return self._breaches[users] is None

    def _breach(self, measurement: Measurement) -> dict[str, Any] | None:
        statistic = self._workload.parameters.get("search_stat", "avg")
        metrics = aiperf_export.aggregated(self._workload, measurement)
        for name, limit in self._workload.slas.items():
            if name == "error_rate_sla":
                tag, stat, observed = "error_rate", "avg", _error_rate(measurement)
            else:
                tag, stat = _LATENCIES[name], statistic
                observed = metrics.get(tag, {}).get(stat)
            if observed is None or observed > limit:
                return {"metric_tag": tag, "stat": stat, "op": "le", "threshold": limit, "observed": observed}
        return None

    def _objective(self, users: int) -> float | None:
        metrics: Mapping[str, Any] = aiperf_export.aggregated(self._workload, self.measurements[users])
        return metrics.get(_OBJECTIVE, {}).get("avg")

    def _boundary(self, order: list[int], users: int) -> dict[str, Any]:
        return {"value": users, "iteration_idx": order.index(users), "objective_value": self._objective(users)}


def _error_rate(measurement: Measurement) -> float:
    sent = len(measurement.requests)
    return (sent - len(measurement.completed)) / sent if sent else 0.0
