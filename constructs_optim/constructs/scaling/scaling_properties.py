"""What was asked of scaling, as the plain properties of policies and scheduled actions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, TypedDict

from aws_cdk import Duration

from constructs_optim.constructs.validation.argument_kinds import refuse_wrong_kinds
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.hosting.scaling import (
    SCALE_IN_COOLDOWN_SECONDS,
    SCALE_OUT_COOLDOWN_SECONDS,
    ScheduleRequest,
    TargetRequest,
)
from constructs_optim.recipe.rules.scaling_rules import in_utc


class TrackingOptions(TypedDict, total=False):
    """What may be chosen of every policy that holds a metric near a target.

    ``scale_in_cooldown`` is the pause after capacity was taken away (default: 10 minutes; a copy that is missed again
    has to load tens of gigabytes), ``scale_out_cooldown`` the one after capacity was added (default: 1 minute). With
    ``disable_scale_in`` the policy only adds (default: it takes away as well).
    """

    scale_in_cooldown: Duration
    scale_out_cooldown: Duration
    disable_scale_in: bool


class ScheduleOptions(TypedDict, total=False):
    """What may be chosen of every schedule.

    ``time_zone`` is a name such as ``Europe/Berlin`` (default: UTC). The schedule begins at ``start`` (default: at
    once) and is over at ``end`` (default: never); both are in UTC where they have no time zone.
    """

    time_zone: str
    start: dt.datetime
    end: dt.datetime


def seconds(duration: Duration | None, default: int) -> Any:
    """In whole seconds, or in parts of one, for a rule to refuse."""
    return default if duration is None else duration.to_milliseconds() / 1000


def target_request(place: str, target: Any, options: TrackingOptions) -> TargetRequest:
    """A target tracking policy for rules to look at."""
    for name in set(options) - set(TrackingOptions.__annotations__):
        near = " or ".join(close_matches(name, TrackingOptions.__annotations__)[:2])
        raise TypeError(f"{place}() has no argument {name!r}" + (f" (did you mean {near}?)" if near else ""))
    refuse_wrong_kinds(place=f"{place}.", **options)
    given = (
        ("scale_in_cooldown", seconds(options.get("scale_in_cooldown"), SCALE_IN_COOLDOWN_SECONDS)),
        ("scale_out_cooldown", seconds(options.get("scale_out_cooldown"), SCALE_OUT_COOLDOWN_SECONDS)),
    )
    return TargetRequest(place, target, given)


def tracking_configuration(
    metric: Mapping[str, Any], request: TargetRequest, options: TrackingOptions
) -> dict[str, Any]:
    """The ``targetTrackingScalingPolicyConfiguration`` of a policy."""
    cooldowns = dict(request.cooldowns)
    return {
        **metric,
        "targetValue": request.target,
        "scaleInCooldown": int(cooldowns["scale_in_cooldown"]),
        "scaleOutCooldown": int(cooldowns["scale_out_cooldown"]),
        **({"disableScaleIn": True} if options.get("disable_scale_in") else {}),
    }


def scheduled_action(name: str, request: ScheduleRequest) -> dict[str, Any]:
    """One of the ``scheduledActions`` of a scalable target."""
    limits = {"maxCapacity": request.max_capacity, "minCapacity": request.min_capacity}
    times = {"endTime": request.end, "startTime": request.start}
    return {
        **{key: in_utc(time) for key, time in times.items() if time is not None},
        "scalableTargetAction": {key: value for key, value in limits.items() if value is not None},
        "schedule": request.expression,
        "scheduledActionName": name,
        **({"timezone": request.time_zone} if request.time_zone is not None else {}),
    }
