"""Declared scaling, with the local cloud's logic: alarms on metrics, policies, cool-downs and schedules."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constructs_optim_local.autoscaling.cooldowns import Change, Cooldowns
from constructs_optim_local.autoscaling.decisions import Breach, due_after, requests, started, tracking_alarms
from constructs_optim_local.cloudwatch.evaluation import evaluated
from constructs_optim_local.cloudwatch.metric_math import Series

# CloudWatch invokes an Auto Scaling action once per minute while its alarm is in its state (CloudWatch user guide).
_AGAIN_SECONDS = 60.0
_KEPT_POINTS = 200
METRICS: Mapping[str, int] = {
    "ConcurrentRequestsPerModel": 10,
    "ConcurrentRequestsPerCopy": 10,
    "InvocationsPerInstance": 60,
    "InvocationsPerCopy": 60,
    "Invocations": 60,
    "NoCapacityInvocationFailures": 60,
}
"""The simulated metrics, with their periods in seconds."""


@dataclass(frozen=True)
class Policy:
    """A scaling policy and its alarms, as Application Auto Scaling and CloudWatch describe them."""

    policy: Mapping[str, Any]
    alarms: Sequence[Mapping[str, Any]]

    @classmethod
    def tracking(cls, policy: Mapping[str, Any]) -> Policy:
        """Return a target tracking policy, whose alarms Application Auto Scaling creates."""
        return cls(policy, tracking_alarms(policy))


@dataclass
class _AlarmState:
    state: str = "INSUFFICIENT_DATA"
    acted_at: float = -_AGAIN_SECONDS


@dataclass
class Scaling:
    """The scaling of one variant or component. ``start`` is the time of its first second, in UTC."""

    least: int
    most: int
    start: dt.datetime
    policies: Sequence[Policy] = ()
    schedules: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        """Create the state, in which nothing has happened yet."""
        self._cooldowns = Cooldowns()
        self._states: dict[str, _AlarmState] = {}
        self._series: dict[tuple[str, int], dict[int, float]] = {}
        self._due: dict[int, dt.datetime | None] = {}

    def published(self, metric: str, period: int, at: float, value: float) -> None:
        """Keep a metric's value for the period that begins at ``at``, in seconds."""
        series = self._series.setdefault((metric, period), {})
        series[int(at)] = value
        if len(series) > 2 * _KEPT_POINTS:
            for old in list(series)[:-_KEPT_POINTS]:
                del series[old]

    def wanted(self, capacity: int, now: float) -> int:
        """Return the capacity that policies and schedules require now, or the current one.

        Call it only while no change of the capacity is in progress, as SageMaker refuses others until then. The first
        call after a change marks its completion, with which its cool-down begins.

        Of several policies, the highest capacity counts. Capacity decreases only if all target tracking policies scale
        in (Application Auto Scaling user guide, "How target tracking scaling works").
        """
        self._cooldowns.complete(capacity, now)
        self._run_schedules(now)
        limited = min(max(capacity, self.least), self.most)
        if limited != capacity:
            return limited
        breaches = self._breaches(now)
        policies = [policy.policy for policy in self.policies]
        highest = max(
            requests(breaches, policies, capacity, self._cooldowns, now),
            key=lambda request: request.capacity,
            default=None,
        )
        if highest is None:
            return capacity
        wanted = min(max(highest.capacity, self.least), self.most)
        if wanted == capacity or not self._cooldowns.allow(capacity, wanted, now):
            return capacity
        self._cooldowns.begin(Change(capacity, wanted, highest.cooldown), now)
        return wanted

    def _breaches(self, now: float) -> list[Breach]:
        """Return the alarms in ALARM with their policies; none if no alarm invokes its policy now."""
        breaches: list[Breach] = []
        are_due = False
        for policy in self.policies:
            for alarm in policy.alarms:
                state = self._state(alarm)
                found = evaluated({**alarm, "StateValue": state.state}, self._points, now)
                if found is None or found.value is None:
                    continue
                is_new, state.state = state.state != found.state, found.state
                if found.state == "ALARM":
                    breaches.append(Breach(policy.policy, alarm, found.value))
                    since = now - state.acted_at
                    if is_new or since >= _AGAIN_SECONDS:
                        # An action that had to wait for a change does not delay the next one.
                        state.acted_at = now if is_new else now - since % _AGAIN_SECONDS
                        are_due = True
        return breaches if are_due else []

    def _state(self, alarm: Mapping[str, Any]) -> _AlarmState:
        return self._states.setdefault(alarm["AlarmName"], _AlarmState())

    def _points(self, metric: Mapping[str, Any], period: int, statistic: str, end: int, count: int) -> Series:
        del statistic, end, count
        return self._series.get((metric["MetricName"], period), {})

    def _run_schedules(self, now: float) -> None:
        moment = self.start + dt.timedelta(seconds=now)
        for index, action in enumerate(self.schedules):
            if index not in self._due:
                self._due[index] = due_after(action, self.start - dt.timedelta(seconds=1), 1.0)
            while (due := self._due[index]) is not None and due <= moment:
                if started(action, due):
                    limits = action.get("ScalableTargetAction", {})
                    self.least = int(limits.get("MinCapacity", self.least))
                    self.most = int(limits.get("MaxCapacity", self.most))
                self._due[index] = due_after(action, due, 1.0)
