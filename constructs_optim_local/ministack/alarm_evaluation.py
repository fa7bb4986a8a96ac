"""When CloudWatch's metric alarms are evaluated, and what follows: by the clock, and when a datapoint arrives.

- An alarm is evaluated in each minute, so that missing data counts (CloudWatch user guide, "Alarm evaluation").
- A new or changed alarm with a warm-up period stays in INSUFFICIENT_DATA until its evaluation window is full of data or
  the period ends ("Alarm warm-up periods").
- The effect of SetAlarmState lasts until the next evaluation (API reference, SetAlarmState). Here, that is a minute
  later, or when a datapoint arrives.
- An alarm runs its actions when its state changes, and scaling policies again with each datapoint while it stays in
  ALARM ("Alarm actions").
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from constructs_optim_local.clock import Clock
from constructs_optim_local.cloudwatch.evaluation import Evaluation, evaluated

from .metrics import MinistackMetrics
from .patches import replace

_MINUTE = 60.0
_LATE_SECONDS = 300.0


class AlarmEvaluations:
    """The evaluations of the metric alarms of every account and Region."""

    def __init__(self, clock: Clock, scale: float, metrics: MinistackMetrics) -> None:
        """``scale`` is the real seconds for each second between two actions of an alarm that stays in ALARM."""
        self._clock, self._scale, self._metrics, self._lock = clock, scale, metrics, threading.RLock()
        # By the alarm's ARN: its last evaluation; the times of its last action and of its warm-up period's end; and the
        # time of SetAlarmState, with the number of datapoints at that time.
        self._seen: dict[str, Evaluation] = {}
        self._acted: dict[str, float] = {}
        self._set: dict[str, tuple[float, int]] = {}
        self._warm: dict[str, float] = {}

    def install(self) -> None:
        """Evaluate alarms as CloudWatch does. Called once, before the first request."""
        from ministack.services import cloudwatch

        set_state = cloudwatch._set_alarm_state

        def set_alarm_state(params: Any, request: dict[str, Any], is_cbor: bool, is_json: bool = False) -> Any:
            name = request.get("AlarmName") or cloudwatch._p(params, "AlarmName")
            if (alarm := cloudwatch._alarms.get(name)) is not None:
                self._set[alarm["AlarmArn"]] = self._clock.now().timestamp(), _count(alarm)
            return set_state(params, request, is_cbor, is_json)

        replace("services.cloudwatch._evaluate_alarm", self._evaluate)
        replace("services.cloudwatch._set_alarm_state", set_alarm_state)

    def value_behind(self, alarm: Mapping[str, Any], reason: str) -> float | None:
        """Return the datapoint of the evaluation that gave a reason; None after SetAlarmState."""
        seen = self._seen.get(alarm["AlarmArn"])
        return seen.value if seen is not None and seen.reason == reason else None

    def begin(self, arn: str, warm_up: Mapping[str, Any] | None) -> None:
        """Record a new alarm, with its WarmUpConfiguration."""
        for kept in (self._seen, self._acted, self._set, self._warm):
            kept.pop(arn, None)
        if warm_up:
            minutes = float(warm_up["WarmUpPeriodDurationInMinutes"])
            self._warm[arn] = self._clock.now().timestamp() + _MINUTE * minutes

    def evaluate(self) -> None:
        """Evaluate all alarms at the clock's time."""
        from ministack.core.responses import request_scope
        from ministack.services import cloudwatch

        for (account, region, name), alarm in list(cloudwatch._alarms._data.items()):
            try:
                with request_scope(account, region):
                    self._evaluate(alarm)
            except Exception:
                # A failure of one alarm must not stop the evaluation of the others.
                logging.getLogger(__name__).exception("the alarm %s was not evaluated", name)

    def now(self, alarm: Mapping[str, Any]) -> Evaluation | None:
        """Return what an evaluation of an alarm would find now, without an effect."""
        return evaluated(alarm, _points, self._moment(alarm))

    def _evaluate(self, alarm: dict[str, Any]) -> None:
        from ministack.services import cloudwatch

        with self._lock:
            now, arn, old = self._moment(alarm), alarm["AlarmArn"], alarm["StateValue"]
            found = evaluated(alarm, _points, now)
            if found is None or not self._is_due(alarm, found):
                return
            before, self._seen[arn] = self._seen.get(arn), found
            if old != found.state:
                enter(alarm, found.state, found.reason, self._clock)
            has_new_data = before is None or before.seen != found.seen
            is_due = now - self._acted.get(arn, 0.0) >= _MINUTE * self._scale
            if old != found.state or (has_new_data and found.value is not None and (before is None or is_due)):
                self._acted[arn] = now
                cloudwatch._dispatch_alarm_actions(alarm, old, found.state, found.reason)
            if old != found.state:
                cloudwatch._evaluate_parent_alarms(alarm)

    def _is_due(self, alarm: Mapping[str, Any], found: Evaluation) -> bool:
        """Return whether an evaluation may change the alarm's state."""
        arn, now = alarm["AlarmArn"], self._clock.now().timestamp()
        if len(found.seen) - 1 >= alarm.get("EvaluationPeriods", 1):
            self._warm.pop(arn, None)
        if now < self._warm.get(arn, 0.0):
            return False
        set_at, datapoints = self._set.get(arn, (-_MINUTE, 0))
        return now - set_at >= _MINUTE or _count(alarm) > datapoints

    def _moment(self, alarm: Mapping[str, Any]) -> float:
        """Return the time at which to evaluate an alarm.

        It is the clock's. If a client stamps all datapoints, it is the newest one's, so that a busy machine does not
        delay what the client's data say; unless that is old, or the client's clock, the machine's, was not advanced.
        """
        machine, now = time.time(), self._clock.now().timestamp()
        watched = [(metric, points) for metric in _metrics(alarm) if (points := _datapoints(metric))]
        if not watched or any(self._metrics.follows_clock(metric) for metric, _ in watched):
            return now
        newest = max(points[-1]["Timestamp"] for _, points in watched)
        if newest <= machine:
            return machine
        return newest if now - newest < _LATE_SECONDS else now


def enter(alarm: dict[str, Any], state: str, reason: str, clock: Clock) -> None:
    """Change an alarm's state."""
    from ministack.services import cloudwatch

    old, alarm["StateValue"], alarm["StateReason"] = alarm["StateValue"], state, reason
    alarm["StateUpdatedTimestamp"] = int(clock.now().timestamp())
    cloudwatch._record_history(alarm["AlarmName"], old, state, reason)


def _points(metric: Mapping[str, Any], period: int, statistic: str, end: int, count: int) -> dict[int, float]:
    from ministack.services import cloudwatch

    start = end - period * count
    buckets: dict[int, list[Any]] = {}
    for point in _datapoints(metric):
        if start <= point["Timestamp"] < end:
            buckets.setdefault(int((point["Timestamp"] - end) // period) * period + end, []).append(point)
    values = {
        at: cloudwatch._stat_value(cloudwatch._calc_stats(points), statistic, points) for at, points in buckets.items()
    }
    return {at: value for at, value in values.items() if value is not None}


def _metrics(alarm: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the metrics of an alarm."""
    stats = [metric["MetricStat"]["Metric"] for metric in alarm.get("Metrics") or () if "MetricStat" in metric]
    return stats or [alarm]


def _count(alarm: Mapping[str, Any]) -> int:
    """Return the number of datapoints of an alarm's metrics."""
    return sum(len(_datapoints(metric)) for metric in _metrics(alarm))


def _datapoints(metric: Mapping[str, Any]) -> list[dict[str, Any]]:
    from ministack.services import cloudwatch

    dimensions = cloudwatch._dims_from_list(metric.get("Dimensions") or [])
    key = (metric.get("Namespace"), metric.get("MetricName"), cloudwatch._dims_key(dimensions))
    return list(cloudwatch._metrics.get(key) or ())
