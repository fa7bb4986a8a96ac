"""The alarms of an endpoint: their definitions (``alarms.toml``) and settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from constructs_optim.recipe.metrics.thresholds import Threshold
from constructs_optim.recipe.settings import Settings

_SHORT_PERIODS = (10, 20, 30)
_DAY_MINUTES, _MOST_WARM_UP_MINUTES = 1_440, 2_880
_DEFINITIONS = tomllib.loads((files("constructs_optim.recipe.hosting") / "alarms.toml").read_text(encoding="utf-8"))


MOST_STALE_DAYS = 7
"""The maximum number of days without an evaluation: CloudWatch evaluates an alarm over at most one week."""


class AlarmSettings(Settings):
    """The settings of one alarm. https://constructs-optim.dev/alarms/ lists the defaults of each alarm.

    Attributes:
        threshold: the threshold, in the alarm's unit (latencies in seconds, shares in percent);
            https://constructs-optim.dev/alarms/ says whether it is an upper or a lower limit.
        period_seconds: the period over which CloudWatch aggregates values: 10, 20, 30 or a multiple of 60.
        evaluation_periods: the number of most recent periods to evaluate.
        datapoints_to_alarm: the number of these periods that must breach the threshold.
        minimum_count: with fewer failed requests in a period, the error rate is zero.
        actions_enabled: whether the alarm runs its actions; otherwise it only shows its state. Default: yes.
    """

    threshold: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    period_seconds: int | None = None
    evaluation_periods: int | None = Field(default=None, ge=1)
    datapoints_to_alarm: int | None = Field(default=None, ge=1)
    minimum_count: int | None = Field(default=None, ge=0)
    actions_enabled: bool = True

    @field_validator("threshold")
    @classmethod
    def _without_decimals(cls, threshold: float | None) -> float | None:
        # Descriptions and dashboards show 20, not 20.0.
        return int(threshold) if threshold is not None and threshold == int(threshold) else threshold

    @field_validator("period_seconds")
    @classmethod
    def _is_a_period(cls, seconds: int | None) -> int | None:
        if seconds is not None and seconds not in _SHORT_PERIODS and (seconds < 60 or seconds % 60):
            raise PydanticCustomError("period", "10, 20, 30, or a multiple of 60")
        return seconds


class Alarms(Settings):
    """The alarms of an endpoint. A truth value enables an alarm with its defaults or disables it; settings tune it.

    Attributes:
        error_rate: percentage of failed requests in the last 5 minutes: 5xx statuses, requests without a response, and
            streams that broke off. Default: above 5.
        hourly_error_rate: the same in the last hour, for endpoints with few requests. Default: above 20.
        latency: p99 latency in seconds. It depends on the length of the responses, which only you know, so the alarm is
            off by default and needs a threshold.
        time_to_first_token: p90 time to first token in seconds, as measured by the engine. It depends on the prompts,
            so the alarm is off by default and needs a threshold.
        queue: number of requests that wait in the engines of all copies, for 10 minutes. Default: off; if on, above 8.
        kv_cache: percentage of the KV cache that running requests use, for 15 minutes. Default: off; if on, above 95.
        acceptance_length: tokens per step of speculative decoding, for half an hour. It depends on the draft and the
            prompts, so the alarm is off by default and needs a threshold, which is a lower limit.
        acceptance_decay: acceptance length of the last half hour, as a percentage of the same containers' acceptance
            length in the last 23 hours, for half an hour. Default: off, or on with a ``speculation_cure``; if on,
            below 90.
        saturation: concurrent requests of each instance or copy, in 10 of 15 minutes. Default: above the number that
            the plan is sized for.
        zero_capacity: no instance or copy is in service. Default: on.
        disk: percentage in use of the fullest disk of the instances, for 15 minutes. Default: off; if on, above 90.
        failed_job: an optimization job failed in this account and Region. Default: on if the stack runs jobs.
        stale_evaluation: days without an evaluation, at most 7. Default: on if the endpoint has an evaluation.
    """

    error_rate: AlarmSettings | bool | None = True
    hourly_error_rate: AlarmSettings | bool | None = True
    latency: AlarmSettings | bool | None = False
    time_to_first_token: AlarmSettings | bool | None = False
    queue: AlarmSettings | bool | None = False
    kv_cache: AlarmSettings | bool | None = False
    acceptance_length: AlarmSettings | bool | None = False
    acceptance_decay: AlarmSettings | bool | None = False
    saturation: AlarmSettings | bool | None = True
    zero_capacity: AlarmSettings | bool | None = True
    disk: AlarmSettings | bool | None = False
    failed_job: AlarmSettings | bool | None = True
    stale_evaluation: AlarmSettings | bool | None = True

    @staticmethod
    def none() -> Alarms:
        """Disable all alarms."""
        return Alarms(**dict.fromkeys(Alarms.model_fields, False))

    def switched_on(self) -> dict[str, AlarmSettings]:
        """Return the settings of the enabled alarms, by name."""
        return {
            name: value if isinstance(value, AlarmSettings) else AlarmSettings()
            for name, value in self
            if value not in (None, False)
        }


class Query(BaseModel, frozen=True, extra="forbid"):
    """A metric by its name in ``constructs_optim.recipe.metrics``, or metric math over earlier queries."""

    id: str
    metric: str | None = None
    statistic: str = "Sum"
    expression: str | None = None


class Alarm(BaseModel, frozen=True, extra="forbid"):
    """One alarm of one endpoint; ``alarms.toml`` documents its fields.

    A critical alarm affects users and pages the engineer on call; a warning can wait for working hours, but does not
    resolve by itself. ``missing`` is ``breaching``, ``notBreaching`` or ``ignore``. A new alarm waits
    ``warm_up_minutes`` for its first data. ``rolls_back``: whether it rolls back an update of the endpoint.
    An alarm on a metric of the engine has the metric's name in ``engine`` instead of ``queries``. ``least`` and
    ``most`` are the ends of the range of its values, in the ``unit`` that users set. Smaller thresholds than
    ``least_meant`` are probably meant as shares; ``too_small`` says why. ``has_own_rule``: whether a rule of its own
    checks the threshold instead.
    """

    name: str
    id: str
    severity: Literal["critical", "warning"]
    meaning: str
    first: str
    queries: tuple[Query, ...] = ()
    engine: str | None = None
    threshold: int | float
    unit: str = ""
    least: float = 0
    most: float | None = None
    least_meant: float = 0
    too_small: str = Threshold.too_small
    has_own_rule: bool = False
    comparison: str = "GreaterThanThreshold"
    period_seconds: int = 60
    evaluation_periods: int = 1
    datapoints_to_alarm: int = 1
    missing: str = "notBreaching"
    warm_up_minutes: int | None = None
    rolls_back: bool = False
    actions_enabled: bool = True

    def description(self, endpoint: str, runbook: str, *, name: str = "", log_group: str = "") -> str:
        """Return the message for the on-call engineer.

        Args:
            endpoint: what the alarm watches, for instance its construct path.
            runbook: the page with a section for each alarm.
            name: the endpoint's name, for commands. Default: none, for an alarm that watches no endpoint.
            log_group: the container's log group. Default: none.
        """
        meaning, first = self.meaning.format(endpoint=endpoint), self.first.format(name=name, log_group=log_group)
        section = self.name.replace("_", "-")
        return f"{self.severity}: {meaning} First: {first} Runbook: {runbook}#{section}"


@dataclass(frozen=True)
class Watched:
    """The monitored endpoint. ``capacity``: concurrent requests that an instance or copy is sized for.

    SageMaker publishes fewer metrics for an asynchronous endpoint (its developer guide, "Alarms and logs for tracking
    metrics from asynchronous endpoints").
    """

    serves_components: bool
    capacity: float
    scales_to_zero: bool = False
    is_evaluated: bool = False
    is_asynchronous: bool = False


@dataclass(frozen=True)
class Evaluated:
    """The alarm on stale evaluations, which goes into ALARM after ``days`` without one, and their ``schedules``."""

    location: str
    days: int
    schedules: Sequence[str]


def endpoint_alarms(alarms: Alarms, watched: Watched) -> list[Alarm]:
    """Return the alarms of one endpoint; ``alarms`` must follow the rules."""
    settings = alarms.switched_on()
    return [
        configured_alarm(name, settings[name], watched)
        for name, row in _DEFINITIONS.items()
        if name in settings
        and name != "failed_job"
        and getattr(watched, row.get("requires", ""), True)
        and not getattr(watched, row.get("excludes", ""), False)
    ]


def thresholds(alarms: Alarms, watched: Watched) -> Iterator[Threshold]:
    """Yield the thresholds that the settings of an endpoint's alarms set."""
    for alarm in endpoint_alarms(alarms, watched):
        value = alarms.switched_on()[alarm.name].threshold
        if value is not None and not alarm.has_own_rule:
            location = f"alarms.{alarm.name}.threshold"
            yield Threshold(
                location,
                value,
                alarm.unit,
                alarm.comparison,
                alarm.least,
                alarm.most,
                least_meant=alarm.least_meant,
                too_small=alarm.too_small,
            )


def configured_alarm(name: str, settings: AlarmSettings, watched: Watched) -> Alarm:
    """Return the definition of an alarm for this endpoint, with your settings."""
    row: dict[str, Any] = {"evaluation_periods": 1, "datapoints_to_alarm": 1, **_DEFINITIONS[name]}
    row = {key: value for key, value in row.items() if key not in ("requires", "excludes")}
    cases = {
        "asynchronous": watched.is_asynchronous,
        "scales_to_zero": watched.serves_components and watched.scales_to_zero,
        "keeps_copies": watched.serves_components and not watched.scales_to_zero,
        "variant": not watched.serves_components,
    }
    changes: dict[str, dict[str, Any]] = {case: row.pop(case) for case in cases if case in row}
    row |= next((change for case, change in changes.items() if cases[case]), dict[str, Any]())
    default_least, default_threshold = row.pop("minimum_count", 0), row.pop("threshold", watched.capacity)
    least = default_least if settings.minimum_count is None else settings.minimum_count
    threshold = default_threshold if settings.threshold is None else settings.threshold
    row["meaning"] = row["meaning"].format(endpoint="{endpoint}", threshold=threshold)
    row["queries"] = [
        {**query, "expression": query["expression"].format(minimum_count=least)} if "expression" in query else query
        for query in row.get("queries", ())
    ]
    if name == "stale_evaluation":
        days, threshold = int(threshold), 1
        row["warm_up_minutes"] = min(days * _DAY_MINUTES, _MOST_WARM_UP_MINUTES)
        row["evaluation_periods"] = row["datapoints_to_alarm"] = days
    row["threshold"] = threshold * row.pop("factor", 1)
    periods = settings.evaluation_periods
    tuned = {
        "period_seconds": settings.period_seconds,
        "evaluation_periods": periods,
        # If only the number of periods is set, all periods must breach.
        "datapoints_to_alarm": settings.datapoints_to_alarm or periods,
        "actions_enabled": settings.actions_enabled,
    }
    row |= {field: value for field, value in tuned.items() if value is not None}
    return Alarm.model_validate({"name": name, **row})
