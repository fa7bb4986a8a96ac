"""The state of a metric alarm, evaluated from its datapoints.

Sources: CloudWatch user guide, "Using Amazon CloudWatch alarms" (periods, evaluation periods, M out of N), "Alarm
evaluation window" (a sliding window, which advances with each evaluation: 13:07 to 14:07, then 13:08 to 14:08),
"Configuring how CloudWatch alarms treat missing data", and "Percentile-based alarms and low data samples". Here, the
window includes the current minute once it has a datapoint, so that a test need not wait for the minute's end.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .metric_math import MathError, Series, evaluate, names

Points = Callable[[Mapping[str, Any], int, str, int, int], Series]
"""The datapoints of a metric (Namespace, MetricName, Dimensions), by period in seconds, statistic, and the end and
number of the periods. The end is in seconds since 1970."""

# An alarm is evaluated each minute, or more often if its period is shorter.
_STEP_SECONDS = 60
# An alarm also reads datapoints from before its evaluation periods, in case some in them are missing. The guide's
# examples read 5 for 3 evaluation periods, and it gives no formula for other numbers.
_EARLIER_PERIODS = 2
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")
BREACHES: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
"""Whether a value breaches a threshold, by ComparisonOperator."""


@dataclass(frozen=True)
class Evaluation:
    """An alarm's state, and why.

    ``value`` is the newest datapoint that led to it, None without any; ``seen`` the last period followed by the
    datapoints of the evaluation range, ``breaching`` the number of breaching datapoints.
    """

    state: str
    value: float | None
    seen: tuple[float, ...]
    breaching: int
    alarm: Mapping[str, Any]

    @property
    def reason(self) -> str:
        """The reason for the state, in CloudWatch's words."""
        _, *values = self.seen
        missing = self.alarm.get("EvaluationPeriods", 1)
        points = f"{missing} datapoint{'s were' if missing > 1 else ' was'}"
        if self.state == "INSUFFICIENT_DATA":
            return f"Insufficient Data: {points} unknown."
        if not values:
            treated = "Breaching" if self.alarm.get("TreatMissingData") == "breaching" else "NonBreaching"
            return (
                f"Threshold Crossed: no datapoints were received for {missing} period{'s' if missing > 1 else ''} and "
                f"{missing} missing datapoint{'s were' if missing > 1 else ' was'} treated as [{treated}]."
            )
        least = self.alarm.get("DatapointsToAlarm") or self.alarm.get("EvaluationPeriods", 1)
        return (
            f"Threshold Crossed: {self.breaching} out of the last {len(values)} datapoints "
            f"[{', '.join(f'{value:g}' for value in values)}] for {self.alarm['ComparisonOperator']} of "
            f"{self.alarm['Threshold']:g} (minimum {least} datapoint(s) for the ALARM state)."
        )


def evaluated(alarm: Mapping[str, Any], points: Points, now: float) -> Evaluation | None:
    """Return an alarm's new state; None if it stays as it is.

    It does if it cannot be evaluated, ignores missing data and all is missing, or ignores percentiles of few samples.
    """
    compare = BREACHES.get(alarm.get("ComparisonOperator", ""))
    period = max(periods(alarm), default=None)
    if compare is None or period is None:
        return None
    count = alarm.get("EvaluationPeriods", 1)
    step = min(period, _STEP_SECONDS)
    end = int(now // step + 1) * step
    if not any(end - step in points(metric, step, statistic, end, 1) for metric, statistic in _operands(alarm)):
        # The current minute has no datapoint yet.
        end -= step
    if _has_few_samples(alarm, points, period, end, count):
        return None
    try:
        series = _series(alarm, points, period, end, count + _EARLIER_PERIODS)
    except (MathError, ArithmeticError, TypeError):
        # As in AWS, an expression that cannot be evaluated gives no datapoint.
        return None
    within = [end - period * (back + 1) for back in range(count + _EARLIER_PERIODS)]
    # Newest first. An earlier datapoint stands in for a missing one.
    values = [series[at] for at in within if at in series][:count]
    threshold, least = alarm["Threshold"], alarm.get("DatapointsToAlarm") or count
    breaches = [compare(value, threshold) for value in values]
    breaching, missing = sum(breaches), count - len(values)
    treatment = alarm.get("TreatMissingData", "missing")
    if not values and treatment == "ignore":
        return None
    if not values and treatment == "missing":
        return Evaluation("INSUFFICIENT_DATA", None, (within[0],), 0, alarm)
    state = "ALARM" if breaching + (missing if treatment == "breaching" else 0) >= least else "OK"
    if treatment in ("missing", "ignore") and state == "OK" and all(breaches):
        # "alarms are designed to always go into ALARM state when the oldest available breaching datapoint [...] is at
        # least as old as the value of Datapoints to Alarm, and all other more recent data points are breaching or
        # missing". Until then, later datapoints may still be within the threshold.
        is_old = treatment == "missing" and within.index(min(at for at in within if at in series)) + 1 >= least
        state = "ALARM" if is_old else alarm.get("StateValue", "INSUFFICIENT_DATA")
    newest = values[0] if values else None
    return Evaluation(state, newest, (within[0], *values), breaching, alarm)


def is_watched(metric: Mapping[str, Any]) -> bool:
    """Return whether an alarm compares the result of an element of its Metrics."""
    return str(metric.get("ReturnData", True)).lower() == "true"


def periods(alarm: Mapping[str, Any]) -> set[int]:
    """Return the periods of an alarm's metrics; of its expressions, if it has no metric."""
    metrics: list[dict[str, Any]] = alarm.get("Metrics") or []
    if not metrics:
        return {int(alarm["Period"])} if alarm.get("Period") else set()
    stats = {int(metric["MetricStat"]["Period"]) for metric in metrics if "MetricStat" in metric}
    return stats or {int(metric["Period"]) for metric in metrics if metric.get("Period")}


def _operands(alarm: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Return the metrics of an alarm, each with its statistic."""
    stats = [metric["MetricStat"] for metric in alarm.get("Metrics") or () if "MetricStat" in metric]
    own = alarm.get("ExtendedStatistic") or alarm.get("Statistic") or "Average"
    return [(stat["Metric"], stat["Stat"]) for stat in stats] if alarm.get("Metrics") else [(alarm, own)]


def _has_few_samples(alarm: Mapping[str, Any], points: Points, period: int, end: int, count: int) -> bool:
    """Return whether an alarm ignores its percentile because too few samples make it insignificant."""
    statistic = _PERCENTILE.fullmatch(alarm.get("ExtendedStatistic") or "")
    if statistic is None or alarm.get("EvaluateLowSampleCountPercentile") != "ignore":
        return False
    percentile = float(statistic[1])
    samples = sum(points(alarm, period, "SampleCount", end, count).values())
    distance = min(percentile, 100 - percentile)
    return 0 < distance * samples < 1_000 or not samples


def _series(alarm: Mapping[str, Any], points: Points, period: int, end: int, count: int) -> Series:
    if not alarm.get("Metrics"):
        ((metric, statistic),) = _operands(alarm)
        return points(metric, period, statistic, end, count)
    values = dict[str, Series]()
    watched, waiting = "", list(alarm["Metrics"])
    for metric in list(waiting):
        if "MetricStat" in metric:
            stat = metric["MetricStat"]
            values[metric["Id"]] = points(stat["Metric"], period, stat["Stat"], end, count)
            waiting.remove(metric)
        watched = metric["Id"] if is_watched(metric) else watched
    times = [end - period * back for back in range(count, 0, -1)]
    while waiting:
        # Expressions may refer to each other in any order.
        ready = next((m for m in waiting if names(m["Expression"]) <= set(values)), None)
        if ready is None:
            return {}
        values[ready["Id"]] = evaluate(ready["Expression"], values, times, period)
        waiting.remove(ready)
    return values.get(watched, {})
