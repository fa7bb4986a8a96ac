"""Rules for options that are valid and have no effect."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.hosting.alarms import MOST_STALE_DAYS, Alarms, Evaluated
from constructs_optim.recipe.hosting.options import DependentOption
from constructs_optim.recipe.hosting.scaling import (
    DeclaredScaling,
    ScheduleRequest,
    capacities,
    changes_capacity,
    ranges_of,
    steady_ranges,
)
from constructs_optim.recipe.hosting.schedules import longest_interval_days
from constructs_optim.recipe.tokens import is_known, is_whole

from .registry import API, GUIDE, Finding, rule
from .scaling_rules import in_utc, known_limits

_AUTO_SCALING = "https://docs.aws.amazon.com/autoscaling/application/"
_ONCE = re.compile(r"at\((?P<time>[^)]+)\)")
# The years of a cron expression; a list such as 2026,2028 or a range ends with the last one.
_LAST_YEAR = re.compile(r"cron\(.*[ ,\-](?P<year>\d{4})\)")


@rule(
    "OPT237",
    f"{_AUTO_SCALING}userguide/what-is-application-auto-scaling.html",
    advisory=True,
)
def _scaling_changes_the_capacity(scaling: DeclaredScaling) -> Iterator[Finding]:
    """Scaling changes the capacity: Application Auto Scaling changes the capacity only by a policy or a schedule, and
    only within the range.
    """
    over = [*filter(None, (_end(schedule, scaling.now) for schedule in scaling.schedules))]
    for location, value in over:
        fix = f"Use a time after {scaling.now.date()}, or leave the schedule out"
        yield Finding(location, value, fix, "this time is in the past, so the schedule changes nothing")
    schedules = [schedule for schedule in scaling.schedules if _end(schedule, scaling.now) is None]
    limits = [(scaling.min_capacity, scaling.max_capacity)]
    limits += [(schedule.min_capacity, schedule.max_capacity) for schedule in schedules]
    if all(is_known(limit) or limit is None for pair in limits for limit in pair) and None not in limits[0]:
        yield from _without_effect(scaling, schedules)


@rule(
    "OPT259",
    f"{_AUTO_SCALING}APIReference/API_RegisterScalableTarget.html",
    advisory=True,
)
def _first_instances_are_in_the_range(scaling: DeclaredScaling) -> Iterator[Finding]:
    """The first instances are in the scaling range: Application Auto Scaling removes those above the maximum as soon as
    the endpoint is registered.
    """
    first = scaling.initial_capacity
    limits = [scaling.max_capacity, *(each.max_capacity for each in scaling.schedules if each.max_capacity is not None)]
    known = known_limits(limits)
    if known and is_whole(first, max(known) + 1):
        yield Finding("variant.initial_instance_count", first, f"Use {max(known)} or less, or a greater max_capacity")


@rule("OPT286", f"{_AUTO_SCALING}APIReference/API_PutScheduledAction.html", advisory=True)
def _schedules_have_times_of_their_own(scaling: DeclaredScaling) -> Iterator[Finding]:
    """Two schedules with the same times set the same capacity: no source says which of them runs last."""
    known: dict[tuple[object, ...], ScheduleRequest] = {}
    for schedule in scaling.schedules:
        times = (" ".join(schedule.expression.upper().split()), schedule.time_zone, schedule.start, schedule.end)
        first = known.setdefault(times, schedule)
        if _differ(first.min_capacity, schedule.min_capacity) or _differ(first.max_capacity, schedule.max_capacity):
            reason = f"{first.location} has the same times and another capacity, and no source says which one runs last"
            fix = "Use other times, or leave one of the two out"
            yield Finding(f"{schedule.location}.schedule", schedule.expression, fix, reason)


def _differ(one: int | None, other: int | None) -> bool:
    return None not in (one, other) and is_known(one) and is_known(other) and one != other


@rule("OPT282", f"{GUIDE}async-inference-monitor.html", advisory=True)
def _policies_have_a_metric(scaling: DeclaredScaling) -> Iterator[Finding]:
    """A policy's metric is published: SageMaker publishes neither concurrent requests nor invocations per instance of
    an asynchronous endpoint, so the policy never scales.
    """
    for policy in scaling.policies if scaling.is_asynchronous else ():
        if policy in ("on_concurrency", "on_invocations"):
            fix = "Use on_backlog(target=4), with the requests that may wait for each instance"
            yield Finding(policy, "with async_inference", fix)


@rule(
    "OPT283",
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html",
    advisory=True,
)
def _evaluations_run_within_the_alarms_days(evaluated: Evaluated) -> Iterator[Finding]:
    """Evaluations run as often as their alarm expects: between two evaluations, the alarm on stale evaluations is in
    ALARM.
    """
    known = [(longest_interval_days(each), each) for each in evaluated.schedules]
    longest = [days for days, _ in known if days is not None]
    if len(longest) < len(known) or not known or min(longest) <= evaluated.days:
        return
    interval = math.ceil(min(longest))
    fix = f"Use AlarmSettings(threshold={interval})"
    if interval > MOST_STALE_DAYS:
        fix = f"Schedule one at least every {MOST_STALE_DAYS} days, or switch the alarm off with stale_evaluation=False"
    schedule = next(each for days, each in known if days == min(longest))
    days = "1 day" if evaluated.days == 1 else f"{evaluated.days} days"
    reason = f"evaluations run at {schedule}, and the alarm goes into ALARM after {days} without one"
    yield Finding(evaluated.location, evaluated.days, fix, reason)


@rule("OPT284", page("alarms"), advisory=True)
def _settings_of_alarms_have_an_effect(alarms: Alarms) -> Iterator[Finding]:
    """Only the error rates have a minimum count: no other alarm counts failed requests."""
    for name, settings in alarms.switched_on().items():
        if settings.minimum_count is not None and name not in ("error_rate", "hourly_error_rate"):
            yield Finding(f"alarms.{name}.minimum_count", settings.minimum_count, "Leave it out")


def _without_effect(scaling: DeclaredScaling, schedules: Sequence[ScheduleRequest]) -> Iterator[Finding]:
    """Find policies and schedules without effect; all limits are known."""
    assert scaling.min_capacity is not None and scaling.max_capacity is not None  # noqa: S101, PT018 - checked before
    least, most = start = scaling.min_capacity, scaling.max_capacity
    changes = [(schedule.min_capacity, schedule.max_capacity) for schedule in schedules]
    once = any(_ONCE.match(schedule.expression) for schedule in schedules)
    ranges = ranges_of(start, changes)
    steady = steady_ranges(ranges, len(schedules), once=once)
    pinned = {least for least, most in steady if least == most}
    is_pinned = all(least == most for least, most in steady)
    if schedules and is_pinned and pinned == {0}:
        fix = "Start it again with start_on(schedule=...), or stop it by deleting the stack"
        reason = "this schedule stops it, and nothing starts it again"
        yield Finding(f"{schedules[-1].location}.max_capacity", 0, fix, reason)
    elif schedules and set(ranges) == {start}:
        fix = "Set another minimum or maximum, or leave the schedule out"
        reason = f"the range is already {least} to {most}, so the schedule changes nothing"
        name = "min_capacity" if schedules[0].min_capacity is not None else "max_capacity"
        yield Finding(f"{schedules[0].location}.{name}", getattr(schedules[0], name), fix, reason)
    elif scaling.policies and is_pinned and not scaling.follows_objectives:
        fix = f"Increase max_capacity, or leave {' and '.join(scaling.policies)} out"
        reason = "the minimum is the same, so no policy can change the capacity"
        yield Finding("max_capacity", most, fix, reason)
    elif not (
        scaling.policies
        or (is_pinned and not schedules)
        or changes_capacity(start, changes, has_policies=False, once=once)
    ):
        also = ", or leave auto_scale(...) out"
        reason = "no scaling policy changes the capacity"
        always = {*capacities(ranges)}
        if schedules and len(always) == 1:
            also = ", or set another capacity in a schedule"
            reason = f"no scaling policy changes the capacity, and the schedules keep it at {always.pop()}"
        elif schedules:
            also = ", or set max_capacity in each schedule"
            reason = "no scaling policy changes the capacity, and the schedules change it at most once"
        if least == 0 and scaling.wakes:
            reason = "a request starts the first copy, and nothing removes it or adds another"
        fix = f"For a policy, add on_concurrency(target=8){also}"
        yield Finding("max_capacity", most, fix, reason)


def _end(schedule: ScheduleRequest, now: dt.datetime) -> tuple[str, str] | None:
    """Return the location and value of a schedule's last time if it is before ``now``."""
    expression = schedule.expression
    if isinstance(schedule.end, dt.datetime) and in_utc(schedule.end) < now:
        return f"{schedule.location}.end", schedule.end.isoformat()
    once, yearly = _ONCE.fullmatch(expression), _LAST_YEAR.fullmatch(expression)
    local = now.astimezone(_zone(schedule.time_zone))
    try:
        is_over = once is not None and dt.datetime.fromisoformat(once["time"]) < local.replace(tzinfo=None)
    except ValueError:
        return None
    if is_over or (yearly is not None and int(yearly["year"]) < local.year):
        return f"{schedule.location}.schedule", expression
    return None


def _zone(name: str | None) -> dt.tzinfo:
    """Return a time zone; UTC for one that is known only at deployment, or on machines without a database."""
    try:
        return ZoneInfo(name) if name is not None else dt.UTC
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return dt.UTC


@rule("OPT238", f"{API}CreateEndpointConfig.html", advisory=True)
def _options_have_an_effect(hosting: Hosting) -> Iterator[Finding]:
    """An option of an endpoint has an effect: another option makes this one ineffective."""
    if hosting.capture_percentage == 0:
        fix = "Use 1 to 100, or leave data_capture out"
        yield Finding("data_capture.sampling_percentage", 0, fix, "0% captures no request")
    if not hosting.alarms.switched_on():
        for name in ("alarm_actions", "ok_actions"):
            if count := getattr(hosting, name):
                fix = f"Switch an alarm on, such as alarms=Alarms(error_rate=True), or leave {name} out"
                value = f"{count} action{'s' if count > 1 else ''}"
                yield Finding(f"monitoring.{name}", value, fix, "all alarms are off, so nothing runs the actions")
    elif not any(each.actions_enabled for each in hosting.alarms.switched_on().values()):
        for name in ("alarm_actions", "ok_actions"):
            if count := getattr(hosting, name):
                fix = f"Leave actions_enabled=False out of one of them, or leave {name} out"
                value = f"{count} action{'s' if count > 1 else ''}"
                reason = "all alarms have actions_enabled=False, so nothing runs the actions"
                yield Finding(f"monitoring.{name}", value, fix, reason)
    if hosting.update.bake_seconds and not (hosting.rollback_alarms or hosting.rollback_alarms_of_its_own):
        fix = (
            "Switch such an alarm on, alarms=Alarms(error_rate=True), name others in rollback_alarms, or set "
            "bake_time=Duration.seconds(0)"
        )
        reason = "no alarm rolls updates back, so SageMaker waits after each step and continues in any case"
        yield Finding("update_policy", hosting.update.strategy, fix, reason)
    update = hosting.update
    if hosting.rollback_alarms and not update.bake_seconds and not update.termination_wait_seconds:
        # Developer guide, "Auto-Rollback Configuration and Monitoring": SageMaker monitors the alarms in the baking
        # periods.
        fix = "Set bake_time=Duration.minutes(10), or leave rollback_alarms out"
        reason = "without a bake_time, SageMaker watches no alarm after a step"
        alarms = f"{hosting.rollback_alarms} alarm{'s' if hosting.rollback_alarms > 1 else ''}"
        yield Finding("update_policy.rollback_alarms", alarms, fix, reason)
    for topic in hosting.unsent_responses:
        name = f"{topic.partition('_')[0].lower()}_topic"
        fix = f"Set {name}, or leave {topic} out"
        yield Finding("async_inference.include_responses_in", topic, fix, f"there is no {name} to notify")


_NEEDS = {
    "add_component": (
        "the endpoint has no model, so its instances serve nothing",
        'Call add_component("Chat", model=...), or set model',
    ),
    "add_adapter": (
        "the server reserves memory for adapters, and the component has none",
        'Call add_adapter("Support", artifact_uri="s3://bucket/support.tar.gz"), or leave adapters out',
    ),
    "evaluate": (
        "no evaluation has a schedule, so this alarm is not created",
        'Call evaluate("Daily", schedule="rate(1 day)"), or leave the alarm out',
    ),
    "job": (
        "no job creates the endpoint's artifacts, so this alarm is not created",
        "Leave it out",
    ),
    "jobs": (
        "no job creates an artifact of this endpoint, so these settings apply to none",
        "Leave jobs out",
    ),
    "real-time endpoint": (
        "on an asynchronous endpoint, requests are expected to wait, so this alarm is not created",
        "Leave it out: zero_capacity watches the queue",
    ),
}


@rule("OPT239", f"{API}CreateInferenceComponent.html", advisory=True)
def _what_is_needed_is_there(option: DependentOption) -> Iterator[Finding]:
    """What an option needs is there: the option only has an effect with another call or feature."""
    reason, fix = _NEEDS[option.needs]
    yield Finding(option.location, option.value, fix, reason)
