"""Alarms on PromQL: each series that a query returns is a breach, and the breach's duration decides the state.

Source: CloudWatch user guide, "PromQL alarms"; API reference, PutMetricAlarm (such an alarm begins as OK, and is
evaluated each ``EvaluationInterval``) and AlarmPromQLCriteria.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .promql import Labels

LONGEST_QUERY = 10_000
LONGEST_PERIOD_SECONDS = 86_400
_OF_OTHERS = (
    "Namespace",
    "MetricName",
    "Dimensions",
    "Period",
    "Unit",
    "Statistic",
    "ExtendedStatistic",
    "Metrics",
    "Threshold",
    "ComparisonOperator",
    "ThresholdMetricId",
    "EvaluationPeriods",
    "DatapointsToAlarm",
)


def problems(alarm: Mapping[str, Any]) -> list[str]:
    """Return why PutMetricAlarm refuses an alarm with EvaluationCriteria, without checking its query."""
    criteria = alarm["EvaluationCriteria"].get("PromQLCriteria") or {}
    interval = int(alarm.get("EvaluationInterval") or 0)
    found = [f"{name} cannot be specified with EvaluationCriteria" for name in _OF_OTHERS if alarm.get(name)]
    if not interval:
        found.append("EvaluationInterval is required for alarms that use EvaluationCriteria")
    elif interval not in (10, 20, 30) and interval % 60:
        found.append("EvaluationInterval must be 10, 20, 30, or a multiple of 60")
    if not 0 < len(criteria.get("Query", "")) <= LONGEST_QUERY:
        found.append(f"Query must have 1 to {LONGEST_QUERY} characters")
    found += [
        f"{name} must be 0 to {LONGEST_PERIOD_SECONDS}"
        for name in ("PendingPeriod", "RecoveryPeriod")
        if not 0 <= int(criteria.get(name) or 0) <= LONGEST_PERIOD_SECONDS
    ]
    return found


@dataclass
class _Contributor:
    since: float
    """When the series began to breach."""
    last: float
    """When the series last breached."""
    alarmed: bool = False


@dataclass
class Contributors:
    """The series that breach an alarm on PromQL, or breached recently."""

    pending_seconds: float
    recovery_seconds: float
    _known: dict[Labels, _Contributor] = field(default_factory=dict[Labels, _Contributor])

    def evaluated(self, breaching: Mapping[Labels, float], now: float) -> str:
        """Return the alarm's state after a query returned ``breaching``: ALARM or OK."""
        for labels in breaching:
            known = self._known.get(labels)
            if known is None:
                known = self._known[labels] = _Contributor(now, now)
            known.last = now
            known.alarmed = known.alarmed or now - known.since >= self.pending_seconds
        for labels, known in list(self._known.items()):
            if labels not in breaching and (not known.alarmed or now - known.last >= self.recovery_seconds):
                del self._known[labels]
        return "ALARM" if any(known.alarmed for known in self._known.values()) else "OK"
