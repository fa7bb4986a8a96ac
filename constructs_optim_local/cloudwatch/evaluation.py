"""The state of a metric alarm, evaluated from its datapoints.

Sources: CloudWatch user guide, "Using Amazon CloudWatch alarms" (periods, evaluation periods, M out of N), "Alarm
evaluation window" (a sliding window, which advances with each evaluation: 13:07 to 14:07, then 13:08 to 14:08) and
"Configuring how CloudWatch alarms treat missing data"; AWS re:Post, "Why did my CloudWatch alarm send me a notification
after a single breached data point?". Here, the window includes the current minute once it has a datapoint, so that a
test need not wait for the minute's end.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .metric_math import MathError, Series, evaluate, names

Points = Callable[[Mapping[str, Any], int, str, int, int], Series]
"""The datapoints of a metric (Namespace, MetricName, Dimensions), by period in seconds, statistic, and the end and
number of the periods. The end is in seconds since 1970."""

# An alarm is evaluated each minute, or more often if its period is shorter.
_STEP_SECONDS = 60
_BREACHES: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}


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


def problems(metrics: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong with the Metrics of an alarm."""
    found, ids = list[str](), {metric.get("Id") for metric in metrics}
    if len([metric for metric in metrics if _returned(metric)]) != 1:
        found.append("Exactly one element of the metrics list should return data")
    for metric in metrics:
        if ("Expression" in metric) == ("MetricStat" in metric):
            found.append(f"Metric {metric.get('Id')} must have exactly one of Expression and MetricStat")
        try:
            unknown = names(metric.get("Expression", "0")) - ids
        except MathError as error:
            found.append(str(error))
        else:
            found += [
                f"Expression of {metric.get('Id')} refers to {name}, which is not an ID" for name in sorted(unknown)
            ]
    return found


def evaluated(alarm: Mapping[str, Any], points: Points, now: float) -> Evaluation | None:
    """Return an alarm's new state; None if it cannot be evaluated, or if it ignores missing data and all is missing."""
    compare = _BREACHES.get(alarm.get("ComparisonOperator", ""))
    period = _period(alarm)
    if compare is None or period is None:
        return None
    count = alarm.get("EvaluationPeriods", 1)
    step = min(period, _STEP_SECONDS)
    end = int(now // step + 1) * step
    try:
        if end - step not in _series(alarm, points, step, end, 1):
            # The current minute has no datapoint yet.
            end -= step
        series = _series(alarm, points, period, end, count)
    except (MathError, ArithmeticError, TypeError):
        # As in AWS, an expression that cannot be evaluated gives no datapoint.
        return None
    window = [end - period * (back + 1) for back in range(count)]
    values = [series[at] for at in window if at in series]
    threshold, least = alarm["Threshold"], alarm.get("DatapointsToAlarm") or count
    breaching, missing = sum(compare(value, threshold) for value in values), count - len(values)
    previous = alarm.get("StateValue", "INSUFFICIENT_DATA")
    treatment = alarm.get("TreatMissingData", "missing")
    if not values and treatment == "ignore":
        return None
    match treatment:
        case "breaching":
            alarmed = breaching + missing >= least
        case "ignore":
            undecided = breaching < least <= breaching + missing
            alarmed = previous == "ALARM" if undecided else breaching >= least
        case "notBreaching":
            alarmed = breaching >= least
        case _ if not values:
            return Evaluation("INSUFFICIENT_DATA", None, (window[0],), 0, alarm)
        case _:
            # Fewer are enough if the oldest of them is that old and no later one is within the threshold.
            breaches = [compare(series[at], threshold) if at in series else None for at in window]
            since = breaches[: breaches.index(False)] if False in breaches else breaches
            is_old = True in since[least - 1 :]
            undecided = breaching < least and not is_old and False not in breaches
            alarmed = previous == "ALARM" if undecided else breaching >= least or is_old
    newest = values[0] if values else None
    return Evaluation("ALARM" if alarmed else "OK", newest, (window[0], *values), breaching, alarm)


def _returned(metric: Mapping[str, Any]) -> bool:
    return str(metric.get("ReturnData", True)).lower() == "true"


def _period(alarm: Mapping[str, Any]) -> int | None:
    if not alarm.get("Metrics"):
        return int(alarm["Period"]) if alarm.get("Period") else None
    stats = [metric["MetricStat"]["Period"] for metric in alarm["Metrics"] if "MetricStat" in metric]
    periods = [metric["Period"] for metric in alarm["Metrics"] if metric.get("Period")]
    return int(max(stats or periods)) if stats or periods else None


def _series(alarm: Mapping[str, Any], points: Points, period: int, end: int, count: int) -> Series:
    if not alarm.get("Metrics"):
        return points(alarm, period, alarm.get("ExtendedStatistic") or alarm.get("Statistic") or "Average", end, count)
    values = dict[str, Series]()
    watched, waiting = "", list(alarm["Metrics"])
    for metric in list(waiting):
        if "MetricStat" in metric:
            stat = metric["MetricStat"]
            values[metric["Id"]] = points(stat["Metric"], period, stat["Stat"], end, count)
            waiting.remove(metric)
        watched = metric["Id"] if _returned(metric) else watched
    times = [end - period * back for back in range(count, 0, -1)]
    while waiting:
        # Expressions may refer to each other in any order.
        ready = next((m for m in waiting if names(m["Expression"]) <= set(values)), None)
        if ready is None:
            return {}
        values[ready["Id"]] = evaluate(ready["Expression"], values, times, period)
        waiting.remove(ready)
    return values.get(watched, {})
