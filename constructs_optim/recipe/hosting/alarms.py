"""What an endpoint warns of: each alarm with its defaults, what it means and what to do first.

An alarm is on by default only where waking somebody is right whoever the users are. docs/alarms.md has a section on
each. How alarms are evaluated: Amazon CloudWatch user guide, "Alarm evaluation" and "Alarm evaluation window".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from constructs_optim.recipe.settings import Settings

DEFAULT_PERIOD_SECONDS = {
    "error_rate": 300,
    "latency": 300,
    "saturation": 60,
    "zero_capacity": 60,
    "failed_job": 300,
    "stale_evaluation": 86_400,
}
"""Over how long each alarm puts values together; of a variant's capacity 300, for instances may report as seldom."""
_SHORT_PERIODS = (10, 20, 30)
_MICROSECONDS = 1_000_000
_MOST_WARM_UP_MINUTES = 2_880
# Requests fail for minutes while the first copy loads: AWS's own example takes five, larger models longer.
_WAKING_PERIODS, _WAKING_DATAPOINTS = 20, 15


class Severity(StrEnum):
    """Who has to know."""

    CRITICAL = "critical"
    """Users notice: wake somebody."""
    WARNING = "warning"
    """It will not mend itself: look at it in the working day."""


class AlarmSettings(Settings):
    """How one alarm is tuned. None: its own default, which docs/alarms.md lists.

    Attributes:
        threshold: what is still right, in the alarm's unit.
        period_seconds: over how long values are put together: 10, 20, 30 or a multiple of 60.
        evaluation_periods: how many of the last periods count.
        datapoints_to_alarm: in how many of them the threshold must be broken.
        minimum_count: with fewer failed requests in a period, their share of all requests does not count.
        actions_enabled: whether it acts; without, it only shows its state. Default: it does.
    """

    threshold: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    period_seconds: int | None = None
    evaluation_periods: int | None = Field(default=None, ge=1)
    datapoints_to_alarm: int | None = Field(default=None, ge=1)
    minimum_count: int | None = Field(default=None, ge=0)
    actions_enabled: bool = True

    @field_validator("threshold")
    @classmethod
    def _whole_where_it_is(cls, threshold: float | None) -> float | None:
        # Texts and dashboards show 20 and not 20.0.
        return int(threshold) if threshold is not None and threshold == int(threshold) else threshold

    @field_validator("period_seconds")
    @classmethod
    def _is_a_period(cls, seconds: int | None) -> int | None:
        if seconds is not None and seconds not in _SHORT_PERIODS and (seconds < 60 or seconds % 60):
            raise PydanticCustomError("period", "10, 20, 30, or a multiple of 60")
        return seconds


class Alarms(Settings):
    """Which alarms an endpoint has: True for one with its defaults, False for none, or how it is tuned.

    Attributes:
        error_rate: percent of the requests of the last 5 minutes that ended with a 5xx status. Default: above 5.
        latency: seconds in which 99 of 100 requests have their answer. How long an answer takes is decided by how long
            it is, which only you know: off by default, and it needs a threshold.
        saturation: requests in flight for each instance or copy, for 15 minutes. Default: above what the plan is sized
            for.
        zero_capacity: nothing is there to answer. Default: on.
        failed_job: an optimization job failed, in this account and region. Default: on where the stack runs jobs.
        stale_evaluation: days without an evaluation, at most 7. Default: on where evaluations are declared.
    """

    error_rate: AlarmSettings | bool | None = True
    latency: AlarmSettings | bool | None = False
    saturation: AlarmSettings | bool | None = True
    zero_capacity: AlarmSettings | bool | None = True
    failed_job: AlarmSettings | bool | None = True
    stale_evaluation: AlarmSettings | bool | None = True

    @staticmethod
    def none() -> Alarms:
        """No alarm at all."""
        return Alarms(**dict.fromkeys(Alarms.model_fields, False))


@dataclass(frozen=True)
class AlarmRequest:
    """The alarms of an endpoint as they were asked for; what rules look at."""

    alarms: Alarms

    def switched_on(self) -> dict[str, AlarmSettings]:
        """The settings of those that are on, by name."""
        return {
            name: value if isinstance(value, AlarmSettings) else AlarmSettings()
            for name, value in self.alarms
            if value not in (None, False)
        }


@dataclass(frozen=True)
class Query:
    """A metric of what is watched, by its name in :mod:`.metrics`, or metric math over the queries before it."""

    id: str
    metric: str | None = None
    statistic: str = "Sum"
    expression: str | None = None


@dataclass(frozen=True)
class Alarm:
    """One alarm, decided.

    Attributes:
        name: what it is called in :class:`Alarms`.
        id: of its construct.
        severity: who has to know.
        meaning: what it says is wrong, of ``{endpoint}``.
        first: what to do first.
        queries: what it watches; the last one is compared.
        comparison: CloudWatch's operator.
        missing: what no data means: ``breaching``, ``notBreaching`` or ``ignore``.
        warm_up_minutes: how long a new alarm waits for its first data.
        rolls_back: whether an update of the endpoint should be rolled back by it.
    """

    name: str
    id: str
    severity: Severity
    meaning: str
    first: str
    queries: tuple[Query, ...]
    threshold: float
    comparison: str = "GreaterThanThreshold"
    period_seconds: int = 60
    evaluation_periods: int = 1
    datapoints_to_alarm: int = 1
    missing: str = "notBreaching"
    warm_up_minutes: int | None = None
    rolls_back: bool = False
    actions_enabled: bool = True

    def description(self, endpoint: str, runbook: str) -> str:
        """What the person on call reads.

        Args:
            endpoint: what the endpoint is called in the stack.
            runbook: the page that has a section on each alarm.
        """
        meaning = self.meaning.format(endpoint=endpoint)
        section = self.name.replace("_", "-")
        return f"{self.severity}: {meaning} First: {self.first} Runbook: {runbook}#{section}"

    def tuned(self, settings: AlarmSettings) -> Alarm:
        """The alarm as a user tuned it; the threshold is not among this."""
        periods = settings.evaluation_periods or self.evaluation_periods
        datapoints = settings.datapoints_to_alarm
        if datapoints is None:
            # Whoever asks for other periods, and says no more, means all of them.
            datapoints = self.datapoints_to_alarm if settings.evaluation_periods is None else periods
        return replace(
            self,
            period_seconds=settings.period_seconds or self.period_seconds,
            evaluation_periods=periods,
            datapoints_to_alarm=datapoints,
            actions_enabled=settings.actions_enabled,
        )


@dataclass(frozen=True)
class Watched:
    """What alarms need to know of the endpoint they watch.

    Attributes:
        serves_components: whether an inference component serves the model.
        capacity: requests in flight that each instance or copy is sized for.
        scales_to_zero: whether there may be no copy at all.
        is_evaluated: whether evaluations of it are published.
        is_asynchronous: whether requests wait in a queue. SageMaker publishes fewer metrics of such an endpoint (its
            developer guide, "Alarms and logs for tracking metrics from asynchronous endpoints").
    """

    serves_components: bool
    capacity: float
    scales_to_zero: bool = False
    is_evaluated: bool = False
    is_asynchronous: bool = False


def default_period(name: str) -> int:
    """Over how many seconds an alarm puts values together by default."""
    return DEFAULT_PERIOD_SECONDS[name]


def endpoint_alarms(request: AlarmRequest, watched: Watched) -> list[Alarm]:
    """The alarms of one endpoint, which rules have found nothing against."""
    makers = {
        "error_rate": _error_rate,
        "latency": _latency,
        "saturation": _saturation,
        "zero_capacity": _zero_capacity,
        "stale_evaluation": _stale_evaluation,
    }
    on: Mapping[str, AlarmSettings] = request.switched_on()
    made = {name: maker(on[name], watched) for name, maker in makers.items() if name in on}
    return [alarm.tuned(on[name]) for name, alarm in made.items() if alarm is not None]


def failed_job_alarm(settings: AlarmSettings) -> Alarm:
    """The alarm of failed jobs. The metric knows no stacks (docs/observability.md): one for each stack is enough."""
    return Alarm(
        name="failed_job",
        id="FailedJob",
        severity=Severity.WARNING,
        meaning="an optimization job of this account and region failed, was stopped or is gone; the deployment that "
        "waited for it fails as well.",
        first="read the job's own reason with `constructs-optim jobs list --status FAILED`, or in the stack's events.",
        # The watcher's, beside all that is known of endpoints.
        queries=(Query("failed", "JobFailed"),),
        threshold=settings.threshold if settings.threshold is not None else 0,
        period_seconds=DEFAULT_PERIOD_SECONDS["failed_job"],
    ).tuned(settings)


def _error_rate(settings: AlarmSettings, watched: Watched) -> Alarm:
    percent = settings.threshold if settings.threshold is not None else 5
    # One request that fails at night is no reason to wake anybody, even where it is the only one.
    least = settings.minimum_count if settings.minimum_count is not None else 3
    return Alarm(
        name="error_rate",
        id="ErrorRate",
        severity=Severity.CRITICAL,
        meaning=f"{{endpoint}} answered more than {percent:g} % of its requests with a 5xx status.",
        first="look into the container's log group (/aws/sagemaker/...) for the first error, and undo the last "
        "deployment if it began with that.",
        queries=(
            Query("failed", "invocation_5xx_errors"),
            # Of requests that did not fail a zero is sent.
            Query("requests", "invocation_5xx_errors", "SampleCount")
            if watched.is_asynchronous
            else Query("requests", "invocations"),
            Query("rate", expression=f"IF(failed >= {least}, 100 * failed / requests, 0)"),
        ),
        threshold=percent,
        # A sliding window: looked at every minute, so that an outage is seen long before the window is over.
        period_seconds=DEFAULT_PERIOD_SECONDS["error_rate"],
        rolls_back=True,
    )


def _latency(settings: AlarmSettings, watched: Watched) -> Alarm:
    seconds = settings.threshold or 0
    return Alarm(
        name="latency",
        id="Latency",
        severity=Severity.WARNING,
        meaning=f"one request of a hundred to {{endpoint}} took longer than {seconds:g} s.",
        first="compare requests in flight with the number of instances or copies: if they wait, raise max_capacity; if "
        "not, look at the lengths of prompts and answers.",
        queries=(Query("latency", "model_latency", "p99"),),
        threshold=seconds * _MICROSECONDS,
        period_seconds=DEFAULT_PERIOD_SECONDS["latency"],
        evaluation_periods=3,
        datapoints_to_alarm=3,
        rolls_back=True,
    )


def _saturation(settings: AlarmSettings, watched: Watched) -> Alarm | None:
    if watched.is_asynchronous:
        # That requests wait is what a queue is for.
        return None
    most = settings.threshold if settings.threshold is not None else watched.capacity
    each = "copy" if watched.serves_components else "instance"
    return Alarm(
        name="saturation",
        id="Saturation",
        severity=Severity.WARNING,
        meaning=f"each {each} of {{endpoint}} has had more than {most:g} requests in flight for a while, and scaling "
        "did not bring relief.",
        first="see in the scaling activities of Application Auto Scaling whether max_capacity is reached, or whether "
        "instances cannot be had (quota, insufficient capacity).",
        queries=(Query("requests", "concurrent_requests", "Maximum"),),
        threshold=most,
        evaluation_periods=15,
        datapoints_to_alarm=15,
    )


def _zero_capacity(settings: AlarmSettings, watched: Watched) -> Alarm:
    if watched.is_asynchronous:
        return _queue_without_capacity(settings)
    if not watched.serves_components:
        return Alarm(
            name="zero_capacity",
            id="ZeroCapacity",
            severity=Severity.CRITICAL,
            meaning="no instance of {endpoint} reports that it is running.",
            first="describe the endpoint (constructs-optim endpoint show): its status and failure reason say what "
            "became of its instances.",
            queries=(Query("reports", "instance_reports", "SampleCount"),),
            threshold=settings.threshold if settings.threshold is not None else 1,
            comparison="LessThanThreshold",
            # Instances may be set to report every five minutes only.
            period_seconds=300,
            evaluation_periods=2,
            datapoints_to_alarm=2,
            # An instance that is gone sends no zero.
            missing="breaching",
            # CloudFormation waits 160 minutes for an endpoint (handlers.create.timeoutInMinutes of its schema).
            warm_up_minutes=180,
            rolls_back=True,
        )
    waking = watched.scales_to_zero
    return Alarm(
        name="zero_capacity",
        id="ZeroCapacity",
        severity=Severity.CRITICAL,
        meaning="requests to {endpoint} fail because no copy of its model is there"
        + (", and none has come up since." if waking else "."),
        first="describe the inference component (constructs-optim endpoint show): its failure reason says why copies "
        "do not start; insufficient capacity or a quota keeps instances from being launched.",
        queries=(Query("failures", "no_capacity_failures"),),
        threshold=settings.threshold if settings.threshold is not None else 1,
        comparison="GreaterThanOrEqualToThreshold",
        evaluation_periods=_WAKING_PERIODS if waking else 5,
        datapoints_to_alarm=_WAKING_DATAPOINTS if waking else 3,
        rolls_back=True,
    )


def _queue_without_capacity(settings: AlarmSettings) -> Alarm:
    """There may be no instance while nothing waits; one that is needed takes minutes to load the model."""
    return Alarm(
        name="zero_capacity",
        id="ZeroCapacity",
        severity=Severity.CRITICAL,
        meaning="requests wait in the queue of {endpoint}, and no instance has come up for them.",
        first="describe the endpoint (constructs-optim endpoint show): insufficient capacity or a quota keeps "
        "instances from being launched.",
        queries=(Query("waiting", "backlog_without_capacity", "Maximum"),),
        threshold=settings.threshold if settings.threshold is not None else 1,
        comparison="GreaterThanOrEqualToThreshold",
        evaluation_periods=_WAKING_PERIODS,
        datapoints_to_alarm=_WAKING_DATAPOINTS,
        rolls_back=True,
    )


def _stale_evaluation(settings: AlarmSettings, watched: Watched) -> Alarm | None:
    if not watched.is_evaluated:
        return None
    days = int(settings.threshold) if settings.threshold is not None else 7
    return Alarm(
        name="stale_evaluation",
        id="StaleEvaluation",
        severity=Severity.WARNING,
        meaning=f"{{endpoint}} has not been evaluated for {days} days.",
        first="look at the last run of the evaluation, and run it again.",
        queries=(Query("evaluations", "client_invocations", "SampleCount"),),
        threshold=1,
        comparison="LessThanThreshold",
        period_seconds=DEFAULT_PERIOD_SECONDS["stale_evaluation"],
        evaluation_periods=days,
        datapoints_to_alarm=days,
        missing="breaching",
        warm_up_minutes=min(days * 1440, _MOST_WARM_UP_MINUTES),
    )
