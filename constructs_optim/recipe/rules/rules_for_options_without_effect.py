"""Rules for options that are valid and have no effect."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.hosting.alarms import Watched, endpoint_alarms
from constructs_optim.recipe.hosting.options import DependentOption
from constructs_optim.recipe.hosting.scaling import (
    DeclaredScaling,
    ScheduleRequest,
    capacities,
    changes_capacity,
    ranges_of,
    steady_ranges,
)
from constructs_optim.recipe.tokens import is_known, is_whole

from .registry import API, Finding, rule
from .scaling_rules import in_utc, known_limits

_ONCE = re.compile(r"at\((?P<time>[^)]+)\)")
# The years of a cron expression; a list such as 2026,2028 or a range ends with the last one.
_LAST_YEAR = re.compile(r"cron\(.*[ ,\-](?P<year>\d{4})\)")


@rule(
    "OPT237",
    "https://docs.aws.amazon.com/autoscaling/application/userguide/what-is-application-auto-scaling.html",
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
    "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html",
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
    watched = Watched(hosting.serves_components, 1, is_asynchronous=hosting.asynchronous)
    is_watched = hosting.rollback_alarms or any(each.rolls_back for each in endpoint_alarms(hosting.alarms, watched))
    if hosting.update.bake_seconds and not is_watched:
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


_CALLS = {
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
}


@rule("OPT239", f"{API}CreateInferenceComponent.html", advisory=True)
def _the_needed_call_is_made(option: DependentOption) -> Iterator[Finding]:
    """The call that an option needs is made: the option only has an effect with another call."""
    reason, fix = _CALLS[option.needs]
    yield Finding(option.location, option.value, fix, reason)
