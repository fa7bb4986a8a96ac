"""What PutMetricAlarm refuses.

Sources: CloudWatch API reference, PutMetricAlarm and MetricDataQuery; user guide, "Create an alarm based on a metric
math expression" (10 metrics, of the same period).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .evaluation import BREACHES, is_watched, periods
from .metric_math import MathError, names

_HOUR, _DAY, _WEEK = 3_600, 86_400, 604_800
_MOST_METRICS = 10
_ID = re.compile(r"[a-z][a-zA-Z0-9_]{0,254}")


def alarm_problems(alarm: Mapping[str, Any]) -> list[str]:
    """Return why PutMetricAlarm refuses an alarm with a threshold."""
    if alarm.get("ThresholdMetricId"):
        return ["the local cloud does not support anomaly detection"]
    metrics: list[dict[str, Any]] = alarm.get("Metrics") or []
    found = _problems_of_metrics(metrics) if metrics else _problems_of_statistic(alarm)
    if alarm.get("Threshold") is None:
        found.append("Threshold is required for alarms based on static thresholds")
    if alarm.get("ComparisonOperator") not in BREACHES:
        found.append(f"ComparisonOperator must be one of {', '.join(BREACHES)}")
    if alarm.get("TreatMissingData", "missing") not in ("breaching", "notBreaching", "ignore", "missing"):
        found.append("TreatMissingData must be breaching, notBreaching, ignore or missing")
    count = int(alarm.get("EvaluationPeriods") or 0)
    if count < 1:
        found.append("EvaluationPeriods must be at least 1")
    if int(alarm.get("DatapointsToAlarm") or 1) > count:
        found.append("DatapointsToAlarm must be less than or equal to EvaluationPeriods")
    for period in periods(alarm):
        longest, name = (_WEEK, "seven days") if period >= _HOUR else (_DAY, "one day")
        if period not in (10, 20, 30) and (period < 60 or period % 60):
            found.append("Period must be 10, 20, 30, or a multiple of 60")
        if period * count > longest:
            found.append(f"Metrics cannot be checked across more than {name} (EvaluationPeriods * Period)")
    return found


def _problems_of_statistic(alarm: Mapping[str, Any]) -> list[str]:
    found = [f"{name} is required" for name in ("MetricName", "Namespace", "Period") if not alarm.get(name)]
    if bool(alarm.get("Statistic")) == bool(alarm.get("ExtendedStatistic")):
        found.append("Exactly one of Statistic and ExtendedStatistic must be specified")
    return found


def _problems_of_metrics(metrics: list[dict[str, Any]]) -> list[str]:
    found, ids = list[str](), [str(metric.get("Id")) for metric in metrics]
    if len([metric for metric in metrics if is_watched(metric)]) != 1:
        found.append("Exactly one element of the metrics list should return data")
    if len([metric for metric in metrics if "MetricStat" in metric]) > _MOST_METRICS:
        found.append(f"An alarm can have at most {_MOST_METRICS} metrics")
    if len({metric["MetricStat"]["Period"] for metric in metrics if "MetricStat" in metric}) > 1:
        found.append("Period must be the same for all metrics")
    found += [f"Id {each} is not unique" for each in dict.fromkeys(ids) if ids.count(each) > 1]
    found += [
        f"Id {each} must start with a lowercase letter and have only letters, numbers and underscores"
        for each in ids
        if not _ID.fullmatch(each)
    ]
    for metric in metrics:
        if ("Expression" in metric) == ("MetricStat" in metric):
            found.append(f"Metric {metric.get('Id')} must have exactly one of Expression and MetricStat")
        try:
            unknown = names(metric.get("Expression", "0")) - {*ids}
        except MathError as error:
            found.append(str(error))
        else:
            found += [
                f"Expression of {metric.get('Id')} refers to {name}, which is not an ID" for name in sorted(unknown)
            ]
    return found
