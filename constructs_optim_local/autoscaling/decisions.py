"""The decisions of scaling policies: step scaling, target tracking, and when schedules are due.

Sources: Application Auto Scaling user guide, "Step scaling policies" (bounds are relative to the alarm's threshold, and
the side of the breach decides which bound is inclusive), "Target tracking scaling policies" (the capacity is
proportional to the metric; it cannot leave zero), "How target tracking scaling works" (Multiple scaling policies) and
"Scheduled scaling" (at, rate and cron).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from constructs_optim_local.schedules import next_due

from .cooldowns import Cooldowns

# In seconds. Source: API reference, TargetTrackingScalingPolicyConfiguration and StepScalingPolicyConfiguration.
_COOLDOWN = 300
_INSTANCES, _COPIES = "sagemaker:variant:DesiredInstanceCount", "sagemaker:inference-component:DesiredCopyCount"


class Metric(NamedTuple):
    """A predefined metric: for which scalable dimension, its name, statistic, and period in seconds."""

    dimension: str
    name: str
    statistic: str
    period: int


PREDEFINED = {
    "SageMakerVariantInvocationsPerInstance": Metric(_INSTANCES, "InvocationsPerInstance", "Sum", 60),
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": Metric(
        _INSTANCES, "ConcurrentRequestsPerModel", "Average", 10
    ),
    "SageMakerInferenceComponentInvocationsPerCopy": Metric(_COPIES, "InvocationsPerCopy", "Sum", 60),
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": Metric(
        _COPIES, "ConcurrentRequestsPerCopy", "Average", 10
    ),
    "SageMakerVariantProvisionedConcurrencyUtilization": Metric(
        "sagemaker:variant:DesiredProvisionedConcurrency", "ServerlessProvisionedConcurrencyUtilization", "Average", 60
    ),
}
"""SageMaker's predefined metrics. Sources: user guide, "Predefined metrics"; SageMaker developer guide, "SageMaker AI
metrics in Amazon CloudWatch". Assumed: the statistic of the provisioned concurrency.
"""
_SCALE_IN_SHARE = 0.9


class Breach(NamedTuple):
    """A policy, and an alarm in ALARM that calls it. ``value`` is the newest datapoint; None if there is none."""

    policy: Mapping[str, Any]
    alarm: Mapping[str, Any]
    value: float | None


class Request(NamedTuple):
    """The capacity that a policy requests, the seconds of its cool-down for such a change, and the breach."""

    capacity: int
    cooldown: float
    breach: Breach


def requests(
    breaches: Sequence[Breach],
    policies: Sequence[Mapping[str, Any]],
    capacity: int,
    cooldowns: Cooldowns,
    now: float,
    scale: float = 1.0,
) -> Iterator[Request]:
    """Yield what policies request at the same time, of which the highest capacity counts.

    A target tracking policy scales in only if all of them that can scale in are ready to.

    Args:
        breaches: the alarms in ALARM.
        policies: all policies of the target.
        capacity: the current capacity.
        cooldowns: the target's cool-downs.
        now: the time in seconds.
        scale: real seconds for each second of a cool-down.
    """
    ready = {breach.policy["PolicyName"] for breach in breaches if not _is_above(breach.alarm)}
    are_all_ready = all(policy["PolicyName"] in ready for policy in policies if _can_track_in(policy))
    for breach in breaches:
        if (request := _requested(breach, capacity, cooldowns.base(capacity, now), scale)) is None:
            continue
        if request.capacity >= capacity or are_all_ready or not _is_tracking(breach.policy):
            yield request


def _requested(breach: Breach, capacity: int, base: int, scale: float) -> Request | None:
    """Return what a policy requests; None if no step applies to the breach, or a proportion of zero capacity is zero.

    ``base`` is the capacity from which a scale-out counts.
    """
    policy, alarm, value = breach
    is_above, config = _is_above(alarm), policy.get("StepScalingPolicyConfiguration")
    if config is not None:
        distance = 0.0 if value is None else value - alarm["Threshold"]
        wanted = stepped(config, capacity, distance, is_above)
        if wanted is not None and wanted > capacity:
            wanted = stepped(config, base, distance, is_above)
            wanted = max(capacity, wanted or 0)
        pause = config.get("Cooldown", _COOLDOWN)
    else:
        config = policy["TargetTrackingScalingPolicyConfiguration"]
        start = base if is_above else capacity
        # Without a datapoint, change by one instance, the smallest change.
        nearest = start + (1 if is_above else -1) if start else None
        wanted = nearest if value is None else tracked(config["TargetValue"], start, value)
        if wanted is not None and is_above:
            wanted = max(capacity, wanted)
        pause = config.get("ScaleOutCooldown" if is_above else "ScaleInCooldown", _COOLDOWN)
    return Request(wanted, pause * scale, breach) if wanted is not None else None


def _is_above(alarm: Mapping[str, Any]) -> bool:
    return str(alarm.get("ComparisonOperator", "Greater")).startswith("Greater")


def _is_tracking(policy: Mapping[str, Any]) -> bool:
    return "TargetTrackingScalingPolicyConfiguration" in policy


def _can_track_in(policy: Mapping[str, Any]) -> bool:
    return _is_tracking(policy) and not policy["TargetTrackingScalingPolicyConfiguration"].get("DisableScaleIn")


def stepped(config: Mapping[str, Any], capacity: int, breach: float, above: bool) -> int | None:
    """Return the capacity that a step scaling policy requests.

    Args:
        config: the StepScalingPolicyConfiguration.
        capacity: the current capacity.
        breach: the metric minus the alarm's threshold.
        above: whether the alarm watches for high values.

    Returns:
        The capacity; None if no step applies to the breach.
    """
    step = next((step for step in config.get("StepAdjustments", []) if _within(step, breach, above)), None)
    if step is None:
        return None
    adjustment = step["ScalingAdjustment"]
    match config.get("AdjustmentType"):
        case "ExactCapacity":
            return adjustment
        case "PercentChangeInCapacity":
            change = capacity * adjustment / 100
            # Between -1 and 1, round away from zero; otherwise, towards zero.
            change = math.copysign(1, change) if 0 < abs(change) < 1 else math.trunc(change)
            least = config.get("MinAdjustmentMagnitude", 0)
            return capacity + int(math.copysign(max(abs(change), least), adjustment))
        case _:
            return capacity + adjustment


def tracked(target: float, capacity: int, value: float) -> int | None:
    """Return the capacity that keeps a metric at its target; None at zero, because any proportion of zero is zero."""
    return math.ceil(capacity * value / target) if capacity else None


def tracking_alarms(policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the alarms that Application Auto Scaling creates for a target tracking policy.

    The low alarm is at 90% of the target, with five times the high alarm's period (as seen in accounts).
    """
    config = policy["TargetTrackingScalingPolicyConfiguration"]
    watched, period = _watched(config, policy["ResourceId"])
    target, name = config["TargetValue"], f"TargetTracking-{policy['ResourceId']}"
    kinds: list[tuple[str, str, float, int]] = [("AlarmHigh", "GreaterThanThreshold", target, 3)]
    if not config.get("DisableScaleIn"):
        kinds.append(("AlarmLow", "LessThanThreshold", target * _SCALE_IN_SHARE, 90 if period < 60 else 15))
    return [
        {
            "AlarmName": f"{name}-{kind}-{policy['PolicyName']}",
            "AlarmDescription": f"DO NOT EDIT OR DELETE. For TargetTrackingScaling policy {policy['PolicyARN']}.",
            "ComparisonOperator": comparison,
            "Threshold": threshold,
            "EvaluationPeriods": periods,
            "AlarmActions": [policy["PolicyARN"]],
            **watched,
        }
        for kind, comparison, threshold, periods in kinds
    ]


def due_after(action: Mapping[str, Any], after: dt.datetime, scale: float) -> dt.datetime | None:
    """Return when a scheduled action is due next; None if never.

    Args:
        action: the request of PutScheduledAction.
        after: a time in UTC.
        scale: real seconds for each second of a rate.

    Raises:
        ValueError: if the schedule is invalid.
    """
    due = next_due(action["Schedule"], action.get("Timezone"), after, scale)
    end = action.get("EndTime")
    return None if due is None or (end is not None and due.timestamp() > _seconds(end)) else due


def started(action: Mapping[str, Any], at: dt.datetime) -> bool:
    """Return whether a scheduled action's StartTime has passed."""
    start = action.get("StartTime")
    return start is None or at.timestamp() >= _seconds(start)


def _seconds(moment: Any) -> float:
    if isinstance(moment, dt.datetime):
        return moment.timestamp()
    return float(moment) if not isinstance(moment, str) else dt.datetime.fromisoformat(moment).timestamp()


def _within(step: Mapping[str, Any], breach: float, above: bool) -> bool:
    low = step.get("MetricIntervalLowerBound", -math.inf)
    high = step.get("MetricIntervalUpperBound", math.inf)
    return low <= breach < high if above else low < breach <= high


def _watched(config: Mapping[str, Any], resource_id: str) -> tuple[dict[str, Any], int]:
    """Return the members of PutMetricAlarm that select the metric, and the period."""
    custom = config.get("CustomizedMetricSpecification")
    if custom is not None and custom.get("Metrics"):
        metrics = [
            {**metric, "MetricStat": {"Period": 60, **metric["MetricStat"]}} if "MetricStat" in metric else dict(metric)
            for metric in custom["Metrics"]
        ]
        return {"Metrics": metrics}, min((m["MetricStat"]["Period"] for m in metrics if "MetricStat" in m), default=60)
    if custom is not None:
        members = {key: custom[key] for key in ("MetricName", "Namespace", "Dimensions", "Statistic") if key in custom}
        return {**members, "Period": 60}, 60
    kind = config["PredefinedMetricSpecification"]["PredefinedMetricType"]
    # The policy of a template that is only read may have any metric.
    _, metric, statistic, period = PREDEFINED.get(kind, Metric("", kind, "Average", 60))
    kinds = ("EndpointName", "VariantName") if resource_id.startswith("endpoint/") else ("InferenceComponentName",)
    dimensions = [
        {"Name": name, "Value": value} for name, value in zip(kinds, resource_id.split("/")[1::2], strict=False)
    ]
    members = {"Namespace": "AWS/SageMaker", "MetricName": metric, "Statistic": statistic, "Dimensions": dimensions}
    return {**members, "Period": period}, period
