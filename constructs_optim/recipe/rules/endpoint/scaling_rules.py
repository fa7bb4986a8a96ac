"""Rules about scaling: ranges, targets, schedules and steps."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from typing import Any, TypeGuard
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from constructs_optim.recipe.hosting.scaling import (
    Scaling,
    ScheduleRequest,
    StepRequest,
)
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.tokens import is_known, is_token

_TARGET = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html"
_ZERO = "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html"
_TRACKING = (
    "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingScalingPolicyConfiguration.html"
)
_SCHEDULE = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html"
_STEPS = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_StepScalingPolicyConfiguration.html"
_POLICY = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScalingPolicy.html"
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_AT = re.compile(r"at\(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\)")
RATE = re.compile(r"rate\([1-9]\d{0,4} (minutes?|hours?|days?)\)")
CRON = re.compile(r"cron\([A-Za-z0-9*?,/#\-]+( +[A-Za-z0-9*?,/#\-]+){5}\)")
_ZONE = re.compile(r"[A-Za-z0-9_+\-]{1,64}(/[A-Za-z0-9_+\-]{1,64}){0,3}")
_ADJUSTMENTS = ("ChangeInCapacity", "PercentChangeInCapacity", "ExactCapacity")
_MOST_STEPS = 20
_TARGET_LIMIT = 2.0**360


def is_whole(value: Any, least: int) -> TypeGuard[int]:
    """Whether it is a whole number from ``least`` on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@rule(
    "OPT080",
    title="The scaling range is one",
    reason="capacities are whole numbers, the maximum is at least 1, and not below the minimum",
    link=_TARGET,
)
def _range_is_one(scaling: Scaling) -> Iterator[Finding]:
    least, most = scaling.min_capacity, scaling.max_capacity
    if is_known(least) and not is_whole(least, 0):
        yield Finding("min_capacity", least, "a whole number from 0 on")
    if is_known(most) and not is_whole(most, 1):
        yield Finding("max_capacity", most, "a whole number from 1 on")
    if is_whole(least, 0) and is_whole(most, 1) and least > most:
        yield Finding("max_capacity", most, f"{least} or more, as min_capacity is {least}")


@rule(
    "OPT081",
    title="A variant keeps an instance",
    reason="SageMaker keeps at least one instance of a variant that answers requests at once",
    link=_ZERO,
)
def _variants_keep_an_instance(scaling: Scaling) -> Iterator[Finding]:
    if scaling.may_be_zero:
        return
    way_out = (
        "1 or more; copies of an inference component can go to zero, and instances of an asynchronous endpoint: serve "
        "the model through one of these"
    )
    if is_whole(scaling.min_capacity, 0) and scaling.min_capacity == 0:
        yield Finding("min_capacity", 0, way_out)
    for request in scaling.schedules:
        for name, capacity in (("min_capacity", request.min_capacity), ("max_capacity", request.max_capacity)):
            if is_whole(capacity, 0) and capacity == 0:
                yield Finding(f"{request.location}.{name}", 0, way_out)


@rule(
    "OPT082",
    title="A target is above zero",
    reason="scaling divides by it",
    link=_TRACKING,
)
def _targets_are_above_zero(scaling: Scaling) -> Iterator[Finding]:
    for request in scaling.targets:
        target = request.target
        if is_known(target) and not (is_number(target) and 0 < target <= _TARGET_LIMIT):
            yield Finding(f"{request.location}.target", target, "a number above zero, such as 8")


@rule(
    "OPT083",
    title="A cooldown is whole seconds",
    reason="Application Auto Scaling counts pauses in seconds",
    link=_TRACKING,
)
def _cooldowns_are_whole(scaling: Scaling) -> Iterator[Finding]:
    given = [(f"{r.location}.{name}", seconds) for r in scaling.targets for name, seconds in r.cooldowns]
    given += [(f"{request.location}.cooldown", request.cooldown) for request in scaling.steps]
    for location, seconds in given:
        if is_known(seconds) and not (is_number(seconds) and seconds >= 0 and float(seconds).is_integer()):
            yield Finding(location, f"{seconds} s", "a duration of whole seconds, such as Duration.minutes(5)")


@rule(
    "OPT084",
    title="A schedule can be kept",
    reason="Application Auto Scaling would refuse the scheduled action",
    link=_SCHEDULE,
)
def _schedules_can_be_kept(scaling: Scaling) -> Iterator[Finding]:
    for request in scaling.schedules:
        yield from _schedule(request)


def _schedule(request: ScheduleRequest) -> Iterator[Finding]:
    place, expression, zone = request.location, request.expression, request.time_zone
    if not isinstance(expression, str) or not (
        is_token(expression) or any(form.fullmatch(expression) for form in (_AT, RATE, CRON))
    ):
        yield Finding(
            f"{place}.schedule",
            expression,
            "cron(minutes hours day-of-month month day-of-week year) as in cron(0 7 ? * MON-FRI *), rate(2 hours), or "
            "at(2027-01-31T07:00:00)",
        )
    if zone is not None and not _is_zone(zone):
        yield Finding(f"{place}.time_zone", zone, "a name of the IANA time zone database, such as Europe/Berlin")
    least, most = request.min_capacity, request.max_capacity
    if least is None and most is None:
        yield Finding(
            f"{place}.min_capacity", None, "a minimum, a maximum, or both", reason="the action would change nothing"
        )
    for name, capacity in (("min_capacity", least), ("max_capacity", most)):
        if is_known(capacity) and not is_whole(capacity, 0):
            yield Finding(f"{place}.{name}", capacity, "a whole number from 0 on")
    if is_whole(least, 0) and is_whole(most, 0) and least > most:
        yield Finding(f"{place}.max_capacity", most, f"{least} or more, as min_capacity is {least}")
    for name, time in (("start", request.start), ("end", request.end)):
        if time is not None and not isinstance(time, dt.datetime):
            yield Finding(f"{place}.{name}", time, "a datetime.datetime; UTC where it has no time zone")
    if isinstance(request.start, dt.datetime) and isinstance(request.end, dt.datetime):
        start, end = in_utc(request.start), in_utc(request.end)
        if end <= start:
            yield Finding(f"{place}.end", end.isoformat(), f"a time after the start, {start.isoformat()}")


def in_utc(time: dt.datetime) -> dt.datetime:
    """The same moment in UTC, which a time without a time zone is taken to be in."""
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)


def _is_zone(name: Any) -> bool:
    if not isinstance(name, str):
        return False
    if is_token(name):
        return True
    return _ZONE.fullmatch(name) is not None and (_zone_is_there(name) or not _zone_is_there("Etc/UTC"))


def _zone_is_there(name: str) -> bool:
    """Whether this machine's time zone database has it; some machines have none."""
    try:
        return bool(ZoneInfo(name).key)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return False


@rule(
    "OPT085",
    title="Steps follow each other",
    reason="each value of the metric has to lead to one step, and the way out must not meet the way in",
    link=_STEPS,
)
def _steps_follow_each_other(scaling: Scaling) -> Iterator[Finding]:
    for request in scaling.steps:
        malformed = [*_malformed(request)]
        yield from malformed or _out_of_order(request)


def _malformed(request: StepRequest) -> Iterator[Finding]:
    if request.adjustment not in _ADJUSTMENTS:
        yield Finding(f"{request.location}.adjustment", request.adjustment, f"one of {', '.join(_ADJUSTMENTS)}")
        return
    exact = request.adjustment == "ExactCapacity"
    if not 0 < len(request.steps) <= _MOST_STEPS:
        yield Finding(f"{request.location}.steps", f"{len(request.steps)} steps", f"1 to {_MOST_STEPS} steps")
    for place, step in enumerate(request.steps):
        where = f"{request.location}.steps[{place}]"
        if step.change < 0 if exact else not step.change:
            wanted = "a whole number from 0 on" if exact else "a whole number: above zero to add, below it to take away"
            yield Finding(f"{where}.change", step.change, wanted)
        elif exact and step.lower is None and step.upper is None:
            yield Finding(f"{where}.lower", None, "lower=... for a metric that rises, upper=... for one that falls")
        elif not exact and step.change > 0 and step.lower is None:
            yield Finding(f"{where}.lower", None, "where the step begins: a step that adds needs it")
        elif not exact and step.change < 0 and step.upper is None:
            yield Finding(f"{where}.upper", None, "where the step begins: a step that takes away needs it")
        elif step.lower is not None and step.upper is not None and step.lower >= step.upper:
            yield Finding(f"{where}.upper", step.upper, f"more than the step's lower bound, {step.lower:g}")
    periods, datapoints = request.evaluation_periods, request.datapoints_to_alarm
    if not is_whole(periods, 1):
        yield Finding(f"{request.location}.evaluation_periods", periods, "a whole number from 1 on")
    elif datapoints is not None and not (is_whole(datapoints, 1) and datapoints <= periods):
        yield Finding(f"{request.location}.datapoints_to_alarm", datapoints, f"a whole number from 1 to {periods}")


def _out_of_order(request: StepRequest) -> Iterator[Finding]:
    rising, falling = request.rising(), request.falling()
    for steps, near, far, last in ((rising, "lower", "upper", "upper"), (falling, "upper", "lower", "lower")):
        for place, step in enumerate(steps):
            following = steps[place + 1] if place + 1 < len(steps) else None
            end, begin = getattr(step, far), getattr(following, near, None)
            where = f"{request.location}.steps[{list(request.steps).index(step)}]"
            if following is not None and begin == getattr(step, near):
                yield Finding(f"{where}.{near}", begin, "one step for each value of the metric; two begin here")
            elif end is not None and end != begin:
                wanted = (
                    f"{begin:g}, where the next step begins"
                    if following is not None
                    else (f"no {last} bound: beyond it nothing would scale")
                )
                yield Finding(f"{where}.{far}", end, wanted)
    up, down = (rising[0].lower if rising else None), (falling[0].upper if falling else None)
    if up is not None and down is not None and up <= down:
        yield Finding(
            f"{request.location}.steps",
            f"up from {up:g}, down from {down:g}",
            "room between the two: capacity would be added and taken away in turns",
        )


@rule(
    "OPT086",
    title="Every policy and schedule has an id of its own",
    reason="policies and scheduled actions of an endpoint are told apart by their names",
    link=_POLICY,
)
def _ids_are_unique(scaling: Scaling) -> Iterator[Finding]:
    new = scaling.new_id
    if new is None:
        return
    if not isinstance(new, str) or not _ID.fullmatch(new):
        yield Finding("id", new, "1 to 100 letters, digits, hyphens and underscores, of which the first is a letter")
    elif new in scaling.ids:
        yield Finding("id", new, f"one of each; these are there already: {', '.join(sorted(scaling.ids))}")
