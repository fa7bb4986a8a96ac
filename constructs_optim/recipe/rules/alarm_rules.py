"""Rules about alarms: how each may be tuned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from constructs_optim.recipe.hosting.alarms import DEFAULT_PERIOD_SECONDS, AlarmRequest, AlarmSettings

from .registry import Finding, rule
from .scaling_rules import is_number, is_whole

_ALARM = "https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"
_METRICS = "https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html"
_HOUR, _DAY, _WEEK = 3_600, 86_400, 604_800
_SHORT_PERIODS = (10, 20, 30)
_MOST_DAYS = 7


@rule(
    "OPT087",
    title="An alarm can be evaluated",
    reason="CloudWatch would refuse the alarm",
    link=_ALARM,
    of=AlarmRequest,
)
def _alarms_can_be_evaluated(request: AlarmRequest) -> Iterator[Finding]:
    for field in fields(request.alarms):
        given = getattr(request.alarms, field.name)
        if not (given is None or isinstance(given, bool | AlarmSettings)):
            yield Finding(f"alarms.{field.name}", given, "True, False or AlarmSettings(...)", "that is no setting")
    for name, settings in request.switched_on().items():
        yield from _settings(name, settings)


def _settings(name: str, settings: AlarmSettings) -> Iterator[Finding]:
    place = f"alarms.{name}"
    if settings.threshold is not None and not (is_number(settings.threshold) and settings.threshold >= 0):
        yield Finding(f"{place}.threshold", settings.threshold, "a number from 0 on")
    if settings.minimum_count is not None and not is_whole(settings.minimum_count, 0):
        yield Finding(f"{place}.minimum_count", settings.minimum_count, "a whole number from 0 on")
    period, periods, datapoints = settings.period_seconds, settings.evaluation_periods, settings.datapoints_to_alarm
    for member, value in (("evaluation_periods", periods), ("datapoints_to_alarm", datapoints)):
        if value is not None and not is_whole(value, 1):
            yield Finding(f"{place}.{member}", value, "a whole number from 1 on")
    if period is not None and not (period in _SHORT_PERIODS or (is_whole(period, 60) and period % 60 == 0)):
        yield Finding(f"{place}.period_seconds", period, "10, 20, 30, or a multiple of 60")
    elif is_whole(periods, 1):
        period = period or DEFAULT_PERIOD_SECONDS[name]
        most = _DAY if period < _HOUR else _WEEK
        if period * periods > most:
            yield Finding(
                f"{place}.evaluation_periods",
                periods,
                f"at most {most // period} periods of {period} s",
                reason="CloudWatch looks back a day at most, and a week in periods of an hour and more",
            )
    if is_whole(periods, 1) and is_whole(datapoints, 1) and datapoints > periods:
        yield Finding(f"{place}.datapoints_to_alarm", datapoints, f"1 to {periods}, the number of periods that count")


@rule(
    "OPT088",
    title="An alarm on latency has a threshold",
    reason="how long an answer takes follows from how long it is, which no default can know",
    link=_METRICS,
    of=AlarmRequest,
)
def _latency_has_a_threshold(request: AlarmRequest) -> Iterator[Finding]:
    settings = request.switched_on().get("latency")
    if settings is not None and settings.threshold in (None, 0):
        yield Finding(
            "alarms.latency.threshold",
            settings.threshold,
            "the seconds that are still right: AlarmSettings(threshold=30)",
        )


@rule(
    "OPT089",
    title="An evaluation gets stale within a week",
    reason="CloudWatch looks back a week at most",
    link=_ALARM,
    of=AlarmRequest,
)
def _evaluations_get_stale(request: AlarmRequest) -> Iterator[Finding]:
    settings = request.switched_on().get("stale_evaluation")
    days = settings.threshold if settings is not None else None
    if days is not None and not (is_whole(days, 1) and days <= _MOST_DAYS):
        yield Finding("alarms.stale_evaluation.threshold", days, f"1 to {_MOST_DAYS} days, as a whole number")
