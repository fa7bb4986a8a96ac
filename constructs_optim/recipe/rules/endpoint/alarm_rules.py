"""Rules about alarms: how each may be tuned."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.hosting.alarms import DEFAULT_PERIOD_SECONDS, AlarmRequest
from constructs_optim.recipe.rules.registry import Finding, rule

_ALARM = "https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"
_METRICS = "https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html"
_HOUR, _DAY, _WEEK = 3_600, 86_400, 604_800
_MOST_DAYS = 7


@rule(
    "OPT087",
    title="An alarm can be evaluated",
    reason="CloudWatch would refuse the alarm",
    link=_ALARM,
)
def _alarms_can_be_evaluated(request: AlarmRequest) -> Iterator[Finding]:
    for name, settings in request.switched_on().items():
        periods = settings.evaluation_periods
        if periods is None:
            continue
        period = settings.period_seconds or DEFAULT_PERIOD_SECONDS[name]
        most = _DAY if period < _HOUR else _WEEK
        if period * periods > most:
            yield Finding(
                f"alarms.{name}.evaluation_periods",
                periods,
                f"at most {most // period} periods of {period} s",
                reason="CloudWatch looks back a day at most, and a week in periods of an hour and more",
            )
        if (settings.datapoints_to_alarm or 0) > periods:
            fix = f"1 to {periods}, the number of periods that count"
            yield Finding(f"alarms.{name}.datapoints_to_alarm", settings.datapoints_to_alarm, fix)


@rule(
    "OPT088",
    title="An alarm on latency has a threshold",
    reason="how long an answer takes follows from how long it is, which no default can know",
    link=_METRICS,
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
)
def _evaluations_get_stale(request: AlarmRequest) -> Iterator[Finding]:
    settings = request.switched_on().get("stale_evaluation")
    days = settings.threshold if settings is not None else None
    if days is not None and days not in range(1, _MOST_DAYS + 1):
        yield Finding("alarms.stale_evaluation.threshold", days, f"1 to {_MOST_DAYS} days, as a whole number")
