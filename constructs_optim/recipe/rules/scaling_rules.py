"""Rules for scaling (ranges, targets, schedules, steps) and for alarm settings."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product, zip_longest
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.hosting import schedules
from constructs_optim.recipe.hosting.alarms import MOST_STALE_DAYS, Alarms, Watched, configured_alarm
from constructs_optim.recipe.hosting.engine_scaling import LIMITS
from constructs_optim.recipe.hosting.scaling import ConcurrencyLimit, Scaling, ScheduleRequest, StepRequest
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.metrics.engines import EngineMetricUse
from constructs_optim.recipe.metrics.thresholds import Threshold
from constructs_optim.recipe.tokens import is_known, is_number, is_token, is_whole, matches

from .registry import GUIDE, Finding, rule

_SCALING = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_"
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_ZONE = re.compile(r"[A-Za-z0-9_+\-]{1,64}(/[A-Za-z0-9_+\-]{1,64}){0,3}")
_ADJUSTMENTS = ("ChangeInCapacity", "PercentChangeInCapacity", "ExactCapacity")
_MOST_STEPS = 20
# The numbers of CloudWatch metrics (CloudWatch API reference, MetricDatum): other targets are none of Auto Scaling.
_LEAST_TARGET, _MOST_TARGET = 2.0**-360, 2.0**360
# Application Auto Scaling API reference, PolicyName: up to 256 characters, all printable.
_LONGEST_POLICY_NAME = 256
# Capacities and cool-downs are 32-bit integers in its service model.
_MOST_WHOLE = 2**31 - 1
# Every variant of an alarm's definition.
_WATCHED = [Watched(shared, 1, zero, is_asynchronous=queue) for shared, zero, queue in product((True, False), repeat=3)]
# A queue of a few times the capacity may be intended, because short requests wait briefly.
_MOST_WAITING = 10
_HOUR, _DAY, _WEEK = 3_600, 86_400, 604_800


@rule("OPT080", f"{_SCALING}RegisterScalableTarget.html")
def _range_is_valid(scaling: Scaling) -> Iterator[Finding]:
    """The scaling range is valid: capacities are whole numbers, and the maximum is at least 1 and at least the
    minimum.
    """
    return _range("", scaling.min_capacity, scaling.max_capacity, least_maximum=1)


def _range(location: str, minimum: float | None, maximum: float | None, *, least_maximum: int) -> Iterator[Finding]:
    for name, capacity, least in (("min_capacity", minimum, 0), ("max_capacity", maximum, least_maximum)):
        if is_whole(capacity, _MOST_WHOLE + 1):
            reason = "a capacity is a 32-bit integer, and quotas allow far fewer instances and copies"
            yield Finding(f"{location}{name}", capacity, f"a whole number from {least} to your quota", reason)
        elif is_known(capacity) and not is_whole(capacity, least):
            yield Finding(f"{location}{name}", capacity, f"a whole number, {least} or greater")
    if is_whole(minimum, 0) and is_whole(maximum, least_maximum) and minimum > maximum:
        yield Finding(f"{location}max_capacity", maximum, f"{minimum} or more, because min_capacity is {minimum}")


@rule("OPT081", f"{GUIDE}endpoint-auto-scaling-zero-instances.html")
def _variants_keep_an_instance(scaling: Scaling) -> Iterator[Finding]:
    """A synchronous variant keeps one instance: SageMaker cannot scale a synchronous endpoint's variant in to zero."""
    if scaling.may_be_zero:
        return
    fix = "1 or more; to scale in to zero, serve the model from an inference component or an asynchronous endpoint"
    capacities = [("min_capacity", scaling.min_capacity)]
    for request in scaling.schedules:
        capacities.append((f"{request.location}.min_capacity", request.min_capacity))
        capacities.append((f"{request.location}.max_capacity", request.max_capacity))
    for location, capacity in capacities:
        if is_whole(capacity, 0, 0):
            yield Finding(location, 0, fix)


@rule("OPT082", f"{_SCALING}TargetTrackingScalingPolicyConfiguration.html")
def _targets_are_above_zero(scaling: Scaling) -> Iterator[Finding]:
    """A target is above zero: Application Auto Scaling divides the metric by the target."""
    for request in scaling.targets:
        target = request.target
        if not is_known(target) or (is_number(target) and _LEAST_TARGET <= target <= _MOST_TARGET):
            continue
        fix, reason = "a number above zero, such as 8", None
        if is_number(target) and target > 0:
            fix = f"a number from {_LEAST_TARGET:.1e} to {_MOST_TARGET:.1e}, near the metric's values, such as 8"
            reason = f"no metric has a value that is so {'great' if target > 1 else 'small'}"
        yield Finding(f"{request.location}.target", target, fix, reason)


@rule("OPT261", f"{_SCALING}StepScalingPolicyConfiguration.html")
def _cooldowns_are_short_enough(scaling: Scaling) -> Iterator[Finding]:
    """A cool-down is short enough: Application Auto Scaling has cool-downs in seconds, as 32-bit integers."""
    engines = [each for request in scaling.engine_targets for each in _located(request.location, request.cooldowns)]
    tracked = [each for request in scaling.targets for each in _located(request.location, request.cooldowns)]
    stepped = [(f"{request.location}.cooldown", request.cooldown) for request in scaling.steps]
    for location, seconds in (*tracked, *stepped, *engines):
        if is_number(seconds) and is_known(seconds) and seconds > _MOST_WHOLE:
            yield Finding(location, f"{seconds:,.0f} seconds", "a time such as Duration.minutes(10)")


def _located(location: str, cooldowns: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    return ((f"{location}.{name}", seconds) for name, seconds in cooldowns)


@rule("OPT084", f"{_SCALING}PutScheduledAction.html")
def _schedules_can_be_kept(scaling: Scaling) -> Iterator[Finding]:
    """A schedule is valid: Application Auto Scaling rejects this scheduled action."""
    for request in scaling.schedules:
        location, zone = request.location, request.time_zone
        if not is_token(request.expression) and (fault := schedules.fault(request.expression)) is not None:
            yield Finding(f"{location}.schedule", request.expression, fault.fix, fault.reason)
        if zone is not None and not _is_zone(zone):
            yield Finding(f"{location}.time_zone", zone, "a name in the IANA time zone database, such as Europe/Berlin")
        if request.min_capacity is None and request.max_capacity is None:
            reason = "this schedule has no capacity, and changes nothing"
            yield Finding(location, request.expression, "also min_capacity=..., max_capacity=..., or both", reason)
        yield from _range(f"{location}.", request.min_capacity, request.max_capacity, least_maximum=0)
        if scaling.is_complete:
            yield from _outside(scaling, request)
        for name, time in (("start", request.start), ("end", request.end)):
            if time is not None and not isinstance(time, dt.datetime):
                yield Finding(f"{location}.{name}", time, "a datetime.datetime, in UTC if it has no time zone")
        if isinstance(request.start, dt.datetime) and isinstance(request.end, dt.datetime):
            start, end = in_utc(request.start), in_utc(request.end)
            if end <= start:
                yield Finding(f"{location}.end", end.isoformat(), f"a time after the start, {start.isoformat()}")


def _outside(scaling: Scaling, request: ScheduleRequest) -> Iterator[Finding]:
    """Find a limit beyond the other one, which the schedule leaves as it is.

    Source: Application Auto Scaling user guide, "How scheduled scaling works", considerations. Any schedule
    may have changed the other limit before, whatever the order in which they are declared.
    """
    least, most, location = request.min_capacity, request.max_capacity, request.location
    maxima = known_limits(
        [scaling.max_capacity, *(each.max_capacity for each in scaling.schedules if each.max_capacity is not None)]
    )
    minima = known_limits(
        [scaling.min_capacity, *(each.min_capacity for each in scaling.schedules if each.min_capacity is not None)]
    )
    also = "Application Auto Scaling refuses such a range at the schedule's time"
    if most is None and maxima and is_whole(least, max(maxima) + 1):
        reason = f"the maximum stays at {max(maxima)}, and {also}"
        yield Finding(f"{location}.min_capacity", least, f"also max_capacity={least}, or more", reason)
    elif least is None and minima and is_whole(most, 0, min(minima) - 1):
        reason = f"the minimum stays at {min(minima)}, and {also}"
        yield Finding(f"{location}.max_capacity", most, f"also min_capacity={most}, or less", reason)


def known_limits(limits: Sequence[object]) -> list[int]:
    """Return the limits if all of them are known at synthesis; otherwise none."""
    known = [limit for limit in limits if is_whole(limit, 0)]
    return known if len(known) == len(limits) else []


def in_utc(time: dt.datetime) -> dt.datetime:
    """Return the same moment in UTC; a time without a time zone is in UTC already."""
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)


def _is_zone(name: str) -> bool:
    """Return whether a time zone has this name; true on machines without a time zone database."""
    try:
        return is_token(name) or (matches(_ZONE, name) and bool(ZoneInfo(name).key))
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return not available_timezones()


@rule("OPT085", f"{_SCALING}StepScalingPolicyConfiguration.html")
def _steps_follow_each_other(scaling: Scaling) -> Iterator[Finding]:
    """Steps do not overlap: each metric value selects one step, and scale-out steps start above scale-in steps."""
    for request in scaling.steps:
        yield from [*_malformed(request)] or _out_of_order(request)


def _malformed(request: StepRequest) -> Iterator[Finding]:
    if request.adjustment not in _ADJUSTMENTS:
        reason = "Application Auto Scaling has no such adjustment type"
        yield Finding(f"{request.location}.adjustment", request.adjustment, f"one of {', '.join(_ADJUSTMENTS)}", reason)
        return
    exact = request.adjustment == "ExactCapacity"
    steps = request.steps or ()
    if not 0 < len(steps) <= _MOST_STEPS:
        yield Finding(f"{request.location}.steps", f"{len(steps)} steps", f"1 to {_MOST_STEPS} steps")
    for index, step in enumerate(steps):
        location = f"{request.location}.steps[{index}]"
        bound = next((name for name in ("lower", "upper") if abs(getattr(step, name) or 0) > _MOST_TARGET), None)
        if abs(step.change) > _MOST_WHOLE:
            fix = "a change of a few instances or copies, or a percentage"
            yield Finding(f"{location}.change", step.change, fix, "a change is a 32-bit integer")
        elif bound is not None:
            fix = f"a number from {-_MOST_TARGET:.1e} to {_MOST_TARGET:.1e}"
            yield Finding(f"{location}.{bound}", getattr(step, bound), fix, "no metric has a value that is so great")
        elif step.change < 0 if exact else not step.change:
            fix = (
                "a whole number, 0 or greater"
                if exact
                else "a whole number: positive to scale out, negative to scale in"
            )
            reason = "a step sets a capacity" if exact else "a step adds or removes capacity"
            yield Finding(f"{location}.change", step.change, fix, reason)
        elif exact and step.lower is None and step.upper is None:
            fix = "lower=... for a metric that rises, upper=... for one that falls"
            yield Finding(f"{location}.lower", None, fix)
        elif not exact and step.change > 0 and step.lower is None:
            yield Finding(
                f"{location}.lower", None, "the value where the step starts, because a scale-out step needs it"
            )
        elif not exact and step.change < 0 and step.upper is None:
            yield Finding(
                f"{location}.upper", None, "the value where the step starts, because a scale-in step needs it"
            )
        elif step.lower is not None and step.upper is not None and step.lower >= step.upper:
            yield Finding(f"{location}.upper", step.upper, f"more than the step's lower bound, {step.lower:g}")
    periods, datapoints = request.evaluation_periods, request.datapoints_to_alarm
    magnitude = request.min_adjustment_magnitude
    if is_known(magnitude) and not is_whole(magnitude, 1, _MOST_WHOLE):
        reason = "this is the least number of instances or copies that a percentage adds or removes"
        location = f"{request.location}.min_adjustment_magnitude"
        yield Finding(location, magnitude, "a whole number, 1 or greater", reason)
    refused = "CloudWatch rejects the policy's alarm"
    if not is_whole(periods, 1):
        yield Finding(f"{request.location}.evaluation_periods", periods, "a whole number, 1 or greater", refused)
    elif datapoints is not None and not is_whole(datapoints, 1, periods):
        yield Finding(
            f"{request.location}.datapoints_to_alarm", datapoints, f"a whole number from 1 to {periods}", refused
        )


def _out_of_order(request: StepRequest) -> Iterator[Finding]:
    rising, falling = request.rising(), request.falling()
    for steps, near, far in ((rising, "lower", "upper"), (falling, "upper", "lower")):
        for step, following in zip_longest(steps, steps[1:]):
            end, begin = getattr(step, far), getattr(following, near, None)
            location = f"{request.location}.steps[{list(request.steps).index(step)}]"
            if following is not None and begin == getattr(step, near):
                fix = "one step for each metric value; two steps start here"
                yield Finding(f"{location}.{near}", begin, fix)
            elif end is not None and end != begin:
                fix = f"no {far} bound: beyond it, nothing would scale"
                if following is not None:
                    fix = f"{begin:g}, where the next step starts"
                yield Finding(f"{location}.{far}", end, fix)
    up, down = (rising[0].lower if rising else None), (falling[0].upper if falling else None)
    if up is not None and down is not None and up <= down:
        fix = "a gap between the two, or capacity would be added and removed repeatedly"
        yield Finding(f"{request.location}.steps", f"up from {up:g}, down from {down:g}", fix)


@rule("OPT086", f"{_SCALING}PutScalingPolicy.html")
def _ids_are_unique(scaling: Scaling) -> Iterator[Finding]:
    """Every policy and schedule has a unique ID: policies and scheduled actions of an endpoint need unique names."""
    yield from _named(scaling)
    new, methods = scaling.new_id, [each.location for each in (*scaling.targets, *scaling.engine_targets)]
    if new is None:
        return
    if new in scaling.ids and methods and "(" not in methods[0]:
        (method,) = methods
        reason = f"the target has a policy of {method} already, and the method names it"
        yield Finding(method, "a second call", f"one call of {method}, with the lower of the targets", reason)
        return
    if not isinstance(new, str) or not _ID.fullmatch(new):
        fix = "1 to 100 letters, digits, hyphens and underscores, starting with a letter"
        yield Finding("id", new, fix)
    elif new in scaling.ids:
        yield Finding("id", new, f"a different ID; these are taken: {', '.join(sorted(scaling.ids))}")


def _named(scaling: Scaling) -> Iterator[Finding]:
    """Find a policy's name that Application Auto Scaling refuses, or that another policy of the target has."""
    location = f"{scaling.targets[0].location}.policy_name" if scaling.targets else "id"
    for name in scaling.new_policy_names:
        if is_token(name):
            continue
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_POLICY_NAME or not name.isprintable():
            fix = f"1 to {_LONGEST_POLICY_NAME} printable characters, or leave it out"
            yield Finding(location, name, fix, "Application Auto Scaling refuses this name of a policy")
        elif name in scaling.policy_names and scaling.new_id not in scaling.ids:
            fix = f"another name; these are taken: {', '.join(sorted(scaling.policy_names))}"
            reason = "another policy of this target has this name, and one would overwrite the other"
            yield Finding(location, name, fix, reason)


@rule("OPT087", "https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html")
def _alarms_can_be_evaluated(alarms: Alarms) -> Iterator[Finding]:
    """An alarm can be evaluated: CloudWatch rejects this alarm."""
    for name, settings in alarms.switched_on().items():
        # OPT089 checks the number of days without an evaluation.
        of_kind = [configured_alarm(name, settings, watched) for watched in _WATCHED if name != "stale_evaluation"]
        forms = {(each.period_seconds, each.evaluation_periods, each.datapoints_to_alarm) for each in of_kind}
        for period, periods, datapoints in forms:
            location, most = f"alarms.{name}", _DAY if period < _HOUR else _WEEK
            if period * periods > most:
                fix = f"at most {most // period} periods of {period} s"
                reason = "CloudWatch evaluates at most one day, or one week if the period is at least one hour"
                yield Finding(f"{location}.evaluation_periods", periods, fix, reason)
            if datapoints > periods:
                fix = f"1 to {periods}, the number of evaluation periods"
                yield Finding(f"{location}.datapoints_to_alarm", datapoints, fix)


@rule("OPT088", f"{GUIDE}monitoring-cloudwatch.html")
def _latency_has_a_threshold(alarms: Alarms) -> Iterator[Finding]:
    """The latency alarm has a threshold: latency depends on the length of completions, so there is no default."""
    yield from _thresholds(
        alarms, {"latency": "the longest acceptable latency in seconds: AlarmSettings(threshold=30)"}
    )


@rule("OPT173", engines.SOURCE)
def _engine_latency_has_a_threshold(alarms: Alarms) -> Iterator[Finding]:
    """An engine alarm has a threshold: the engine's latency and acceptance length depend on prompts, drafts and
    hardware.
    """
    latency = "the longest acceptable latency in seconds: AlarmSettings(threshold=2)"
    accepted = "slightly below the value in your evaluations, such as AlarmSettings(threshold=2.2)"
    yield from _thresholds(alarms, {"time_to_first_token": latency, "acceptance_length": accepted})


def _thresholds(alarms: Alarms, fixes: Mapping[str, str]) -> Iterator[Finding]:
    for name, fix in fixes.items():
        settings = alarms.switched_on().get(name)
        if settings is not None and not settings.threshold:
            yield Finding(f"alarms.{name}.threshold", settings.threshold, fix)


@rule("OPT244", f"{GUIDE}deploy-model-options.html")
def _thresholds_can_be_reached(threshold: Threshold) -> Iterator[Finding]:
    """A threshold is within what SageMaker can measure: no value can breach this one, or every value does."""
    value = threshold.value
    if not is_known(value) or not is_number(value) or threshold.is_reachable(value):
        return
    meant = threshold.meant(value)
    fix = threshold.working + (f", such as {meant}" if meant is not None else "")
    reason = f"the metric is always {threshold.range}, so this threshold has no effect"
    yield Finding(threshold.location, value, fix, reason)


@rule("OPT257", f"{GUIDE}monitoring-cloudwatch.html", advisory=True)
def _percentages_are_not_shares(threshold: Threshold) -> Iterator[Finding]:
    """A threshold in percent is not a share: more than 1% of a disk, and of the KV cache of an endpoint in use, is
    occupied, so that the alarm stays in ALARM; a few failed requests exceed an error rate of less than 0.1%.
    """
    value = _too_small(threshold)
    if threshold.unit == "%" and value is not None:
        reason = f"this is a percentage, {value:g}%, {threshold.too_small}"
        yield Finding(threshold.location, value, f"Did you mean {100 * value:g} for {100 * value:g}%?", reason)


@rule("OPT287", page("evaluation"), advisory=True)
def _milliseconds_are_not_seconds(threshold: Threshold) -> Iterator[Finding]:
    """A limit in milliseconds is not in seconds: no published measurement of a model is so fast, so that every
    evaluation fails.
    """
    value = _too_small(threshold)
    if threshold.unit == "ms" and threshold.must_pass and value is not None:
        reason = f"this is {value:g} ms, and no published measurement is below {threshold.least_meant:g} ms"
        yield Finding(threshold.location, value, f"Did you mean {1000 * value:g} for {value:g} s?", reason)


def _too_small(threshold: Threshold) -> float | None:
    """Return an upper limit that is probably meant in a larger unit; None for any other."""
    value = threshold.value
    if not is_known(value) or not is_number(value) or threshold.comparison.startswith("Less"):
        return None
    return value if 0 < value < threshold.least_meant else None


@rule("OPT285", f"{GUIDE}endpoint-auto-scaling-policy.html", advisory=True)
def _requests_in_flight_are_near_the_capacity(limit: ConcurrencyLimit) -> Iterator[Finding]:
    """A number of requests in flight is near the capacity: far above it, most requests wait in the container, so that
    they time out before the alarm or the policy reacts.
    """
    if is_known(limit.value) and is_number(limit.value) and 0 < limit.capacity * _MOST_WAITING < limit.value:
        reason = f"an instance or copy is sized for {limit.capacity:g} requests at once, and the others wait"
        yield Finding(limit.location, limit.value, f"Use a number near {limit.capacity:g}, or leave it out", reason)


@rule("OPT089", "https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html")
def _evaluations_get_stale(alarms: Alarms) -> Iterator[Finding]:
    """The stale evaluation alarm is within a week: CloudWatch evaluates an alarm over at most one week."""
    settings = alarms.switched_on().get("stale_evaluation")
    days = settings.threshold if settings is not None else None
    if days is not None and days not in range(1, MOST_STALE_DAYS + 1):
        fix = f"1 to {MOST_STALE_DAYS} days, as a whole number"
        yield Finding("alarms.stale_evaluation.threshold", days, fix)


@rule("OPT170", engines.SOURCE)
def _engines_publish_the_metric(use: EngineMetricUse) -> Iterator[Finding]:
    """The engine publishes the metric: CloudWatch has no such metric for this endpoint."""
    metrics = [engines.find(name) for name in use.metrics]
    for metric in metrics:
        if (reason := use.engine.lack_of(metric)) is not None:
            having = [each for each in metric.queries if all(each in other.queries for other in metrics)]
            servers = " or ".join(f"server=Server.{each}()" for each in having)
            fix = f"a real-time endpoint with {servers} and detailed observability"
            if use.engine.server in metric.queries and use.engine.unpublished is None:
                fix = "a recipe with speculative decoding"
            yield Finding(use.location, metric.name, fix, reason)
            # A policy reads more metrics than the one that it is named for.
            return


@rule("OPT240", engines.PROMQL_REGIONS)
def _the_region_has_promql(use: EngineMetricUse) -> Iterator[Finding]:
    """The Region has PromQL: engine metrics can only be read with PromQL, which CloudWatch lacks in this Region, so
    this would have no effect.
    """
    if use.engine.lacks_promql:
        fix = f"leave it out in {use.engine.region}, or deploy to a Region with PromQL, such as eu-central-1"
        yield Finding(use.location, use.metrics[0], fix)


@rule("OPT171", engines.SOURCE)
def _quantiles_are_shares(use: EngineMetricUse) -> Iterator[Finding]:
    """A quantile is between 0 and 1: for example, 90% of requests are faster than the 0.9 quantile."""
    if use.quantile is not None and not (is_number(use.quantile) and 0 < use.quantile < 1):
        yield Finding(f"{use.location}.quantile", use.quantile, "a number above 0 and below 1, such as 0.9")


@rule("OPT172", engines.SOURCE)
def _engine_targets_make_sense(scaling: Scaling) -> Iterator[Finding]:
    """A target for an engine metric is achievable: scaling cannot hold the metric near this target."""
    for request in scaling.engine_targets:
        least, most, example = LIMITS[request.metric]
        if is_known(request.target) and not (is_number(request.target) and least <= request.target <= most):
            fix = f"a number from {least:g} to {most:,g}, such as {example:,g}"
            yield Finding(f"{request.location}.target", request.target, fix)
