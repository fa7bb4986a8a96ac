"""The alarms of an endpoint: their definitions (``alarms.toml``) and the settings that users tune them with."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from constructs_optim.recipe.settings import Settings

_SHORT_PERIODS = (10, 20, 30)
_DAY_MINUTES, _MOST_WARM_UP_MINUTES = 1_440, 2_880
_DEFINITIONS = tomllib.loads((files("constructs_optim.recipe.hosting") / "alarms.toml").read_text(encoding="utf-8"))


class AlarmSettings(Settings):
    """The settings of one alarm. What is not set is the alarm's default, which docs/alarms.md lists.

    Attributes:
        threshold: the limit, in the alarm's unit; docs/alarms.md says on which side of it an alarm goes off.
        period_seconds: the period that values are aggregated over: 10, 20, 30 or a multiple of 60.
        evaluation_periods: how many of the latest periods are evaluated.
        datapoints_to_alarm: in how many of them the limit must be violated.
        minimum_count: with fewer failed requests in a period, the error rate counts as zero.
        actions_enabled: whether its actions are run; without, it only shows its state. Default: they are.
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
        # Texts and dashboards show 20 and not 20.0.
        return int(threshold) if threshold is not None and threshold == int(threshold) else threshold

    @field_validator("period_seconds")
    @classmethod
    def _is_a_period(cls, seconds: int | None) -> int | None:
        if seconds is not None and seconds not in _SHORT_PERIODS and (seconds < 60 or seconds % 60):
            raise PydanticCustomError("period", "10, 20, 30, or a multiple of 60")
        return seconds


class Alarms(Settings):
    """Which alarms an endpoint has. A truth value has an alarm with its defaults or none; settings tune it.

    Attributes:
        error_rate: percent of the requests of the last 5 minutes that ended with a 5xx status. Default: above 5.
        latency: seconds within which 99 of 100 requests have their response. The latency depends on the length of the
            responses, which only you know: off by default, and it needs a threshold.
        time_to_first_token: seconds within which nine of ten requests have their first token, by the engine. It depends
            on the prompts: off by default, and it needs a threshold.
        queue: requests that wait in the engines of all copies, for 10 minutes. Default: off; where it is on, above 8.
        kv_cache: percent of the KV cache that running requests occupy, for 15 minutes. Default: off; where it is
            on, above 95.
        acceptance_length: tokens that a step of speculative decoding brings, for half an hour. It depends on the draft
            and the prompts: off by default, and it needs a threshold, below which it goes off.
        acceptance_decay: acceptance length of the last half hour, in percent of that of the last 23 hours of the same
            containers, for half an hour. Default: off, and on with a ``speculation_cure``; where it is on,
            below 90.
        saturation: requests in flight for each instance or copy, for 15 minutes. Default: above what the plan is sized
            for.
        zero_capacity: no instance or copy serves requests. Default: on.
        disk: percent in use of the fullest disk of the instances, for 15 minutes. Default: off; where it is on, above
            90.
        failed_job: an optimization job failed, in this account and Region. Default: on where the stack runs jobs.
        stale_evaluation: days without an evaluation, at most 7. Default: on where evaluations are declared.
    """

    error_rate: AlarmSettings | bool | None = True
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
        """No alarm at all."""
        return Alarms(**dict.fromkeys(Alarms.model_fields, False))

    def switched_on(self) -> dict[str, AlarmSettings]:
        """The settings of the alarms that are on, by name."""
        return {
            name: value if isinstance(value, AlarmSettings) else AlarmSettings()
            for name, value in self
            if value not in (None, False)
        }


class Query(BaseModel, frozen=True, extra="forbid"):
    """A metric by its name in :mod:`constructs_optim.recipe.metrics`, or metric math over the queries before it."""

    id: str
    metric: str | None = None
    statistic: str = "Sum"
    expression: str | None = None


class Alarm(BaseModel, frozen=True, extra="forbid"):
    """One alarm of one endpoint; ``alarms.toml`` documents its fields.

    A critical alarm affects users and pages the engineer on call; a warning can wait for working hours, but does not
    resolve by itself. ``missing`` is ``breaching``, ``notBreaching`` or ``ignore``. A new alarm waits
    ``warm_up_minutes`` for its first data. ``rolls_back``: whether it rolls back an update of the endpoint.
    An alarm on a metric of the engine has the metric's name in ``engine`` instead of ``queries``.
    """

    name: str
    id: str
    severity: Literal["critical", "warning"]
    meaning: str
    first: str
    queries: tuple[Query, ...] = ()
    engine: str | None = None
    threshold: int | float
    comparison: str = "GreaterThanThreshold"
    period_seconds: int = 60
    evaluation_periods: int = 1
    datapoints_to_alarm: int = 1
    missing: str = "notBreaching"
    warm_up_minutes: int | None = None
    rolls_back: bool = False
    actions_enabled: bool = True

    def description(self, endpoint: str, runbook: str) -> str:
        """The message for the engineer on call; ``runbook`` is the page that has a section on each alarm."""
        meaning = self.meaning.format(endpoint=endpoint)
        section = self.name.replace("_", "-")
        return f"{self.severity}: {meaning} First: {self.first} Runbook: {runbook}#{section}"


@dataclass(frozen=True)
class Watched:
    """The endpoint that alarms watch. ``capacity``: concurrent requests that an instance or copy is sized for.

    SageMaker publishes fewer metrics of an asynchronous endpoint (its developer guide, "Alarms and logs for tracking
    metrics from asynchronous endpoints").
    """

    serves_components: bool
    capacity: float
    scales_to_zero: bool = False
    is_evaluated: bool = False
    is_asynchronous: bool = False


def endpoint_alarms(alarms: Alarms, watched: Watched) -> list[Alarm]:
    """The alarms of one endpoint; ``alarms`` must comply with the rules."""
    settings = alarms.switched_on()
    return [
        configured_alarm(name, settings[name], watched)
        for name, row in _DEFINITIONS.items()
        if name in settings
        and name != "failed_job"
        and getattr(watched, row.get("requires", ""), True)
        and not getattr(watched, row.get("excludes", ""), False)
    ]


def configured_alarm(name: str, settings: AlarmSettings, watched: Watched) -> Alarm:
    """The definition of an alarm for such an endpoint, with the user's settings."""
    row: dict[str, Any] = {"evaluation_periods": 1, "datapoints_to_alarm": 1, **_DEFINITIONS[name]}
    row = {key: value for key, value in row.items() if key not in ("requires", "excludes")}
    cases = {
        "asynchronous": watched.is_asynchronous,
        "scales_to_zero": watched.serves_components and watched.scales_to_zero,
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
        # Other periods without other datapoints: all of the periods.
        "datapoints_to_alarm": settings.datapoints_to_alarm or periods,
        "actions_enabled": settings.actions_enabled,
    }
    row |= {field: value for field, value in tuned.items() if value is not None}
    return Alarm.model_validate({"name": name, **row})
