"""Scaling of an endpoint's production variant, or of an inference component, with Application Auto Scaling."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from aws_cdk import Duration, RemovalPolicy, Token
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from constructs_optim.constructs.artifacts.preflight import EngineMetricUses, Preflight
from constructs_optim.constructs.stack.arguments import DURATION, METRIC, refuse
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.findings import advise, advise_when_complete, refuse_when_complete
from constructs_optim.constructs.stack.stack_context import late_value
from constructs_optim.recipe.errors import Violation
from constructs_optim.recipe.hosting.engine_scaling import (
    ADDED_PERCENT,
    SETTLING_SECONDS,
    EngineTarget,
    idle,
    surge,
)
from constructs_optim.recipe.hosting.scaling import (
    HEADROOM,
    SCALE_IN_COOLDOWN_SECONDS,
    SCALE_OUT_COOLDOWN_SECONDS,
    WAKE_COOLDOWN_SECONDS,
    ConcurrencyLimit,
    DeclaredScaling,
    EngineTargetRequest,
    Scaling,
    ScalingDefaults,
    ScalingStep,
    ScheduleRequest,
    StepRequest,
    TargetRequest,
    invocations_target,
)
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.metrics.engines import Engine, EngineMetricUse
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.rules.scaling_rules import in_utc
from constructs_optim.recipe.settings import methods_suggest_keywords
from constructs_optim.recipe.tokens import is_known, is_number

from .policies import RegisteredTarget, ScalingTarget, declare_engine_policy, declare_steps, declare_wake_up, tracked

if TYPE_CHECKING:
    from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
    from constructs_optim.constructs.monitoring.served_model import ServedModel


_CAPACITY = (
    "the number of requests that an instance processes at once: from a plan, or EndpointMonitoring.of(..., "
    "max_concurrent_requests=32)"
)


class TrackingOptions(TypedDict, total=False):
    """The options of every target tracking policy.

    Attributes:
        policy_name: the policy's name; keep the name of an imported policy. Default: the method's name.
        scale_in_cooldown: the cool-down after scaling in. Default: 10 minutes, because a copy that is needed again must
            load tens of gigabytes.
        scale_out_cooldown: the cool-down after scaling out. Default: 1 minute.
        disable_scale_in: whether the policy only scales out. Default: it also scales in.
    """

    policy_name: str
    scale_in_cooldown: Duration
    scale_out_cooldown: Duration
    disable_scale_in: bool


class ScheduleOptions(TypedDict, total=False):
    """The options of every schedule.

    Attributes:
        time_zone: a name such as ``Europe/Berlin``. Default: UTC.
        start: when the schedule begins, in UTC if it has no time zone. Default: immediately.
        end: when the schedule ends, in UTC if it has no time zone. Default: never.
    """

    time_zone: str
    start: dt.datetime
    end: dt.datetime


@methods_suggest_keywords
class EndpointScaling(Construct):
    """The capacity range of an endpoint or component; each ``on_...`` method adds a scaling policy.

    If policies disagree, the one with the highest capacity wins. If the minimum is 0, a request that finds no copy
    starts one.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        target: ScalingTarget,
        min_capacity: int,
        max_capacity: int,
        defaults: ScalingDefaults | None = None,
        alarms: EndpointAlarms | None = None,
        set_range: Callable[[int, int], None] | None = None,
        served: ServedModel | None = None,
        imported: bool = False,
        initial_capacity: int | None = None,
    ) -> None:
        """Register the variant, or the inference component, as a scalable target.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            target: the variant or component to scale.
            min_capacity: the minimum number of instances or copies; 0 for copies of an inference component only.
            max_capacity: the maximum number.
            defaults: the default targets from the plan. Default: every policy needs a target.
            alarms: the alarms that depend on the range and the concurrency target. Default: none.
            set_range: a function that receives a range widened by a schedule, and refuses it if it does not fit.
                Default: any range is accepted.
            served: the variant or component, for policies on its engine's metrics. Default: no such policies.
            imported: whether the target is imported with an endpoint that keeps its configuration; target and policies
                are then retained. Default: no.
            initial_capacity: the number of instances that the endpoint is created with. Default: it is not compared
                with the range.

        Raises:
            RecipeError: if the range is invalid, for instance ``max_capacity < min_capacity``.
        """
        self._request = Scaling(
            target.wake is not None,
            min_capacity,
            max_capacity,
            ids=["Target", "WakeUp"],
            policy_names=["WakeUp"] if target.wake is not None else [],
        )
        refuse(check(self._request))
        super().__init__(scope, id)
        self._target, self._defaults = target, defaults
        self._alarms, self._set_range = alarms, set_range
        self._served = served.in_stack_of(scope) if served is not None else None
        self._imported = imported
        self.follows_objectives = False
        """Whether the maximum is what the choice for the objectives needs, which may also be the minimum."""
        self._policies: list[str] = []
        self._schedules: list[ScheduleRequest] = []
        self._scheduled: list[dict[str, Any]] = []
        self._least, self._most = min_capacity, max_capacity
        self._concurrency: float | None = None
        self._held: list[EngineTarget] = []
        self._engine_cooldowns: dict[str, float] = {}
        self._wakes = False
        self._initial_capacity = initial_capacity
        self._resource = scaling.CfnScalableTarget(
            self,
            "Target",
            max_capacity=max_capacity,
            min_capacity=min_capacity,
            resource_id=target.resource_id,
            scalable_dimension=target.dimension,
            service_namespace="sagemaker",
        )
        self._registered = RegisteredTarget(self._resource, target, self._scheduled)
        if imported:
            self._resource.apply_removal_policy(RemovalPolicy.RETAIN)
        self._wake_from_zero(min_capacity, max_capacity)
        if not imported:
            advise_when_complete(self, lambda: warnings(self._declared))

    @property
    def capacity(self) -> float | None:
        """The requests in flight that an instance or copy is sized for, from a target or the plan.

        None if neither is known.
        """
        if self._concurrency is not None:
            return round(self._concurrency / HEADROOM, 1)
        return self._defaults.capacity if self._defaults is not None else None

    @property
    def scales_to_zero(self) -> bool:
        """Whether the minimum capacity is 0."""
        return self._least == 0

    @property
    def capacity_range(self) -> tuple[int, int]:
        """The minimum and the maximum capacity, including those of schedules."""
        return self._least, self._most

    def on_concurrency(self, *, target: float | None = None, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Keep the concurrent requests of each instance or copy near ``target``.

        Uses the high-resolution metrics ConcurrentRequestsPerModel and ConcurrentRequestsPerCopy (every 10 s), which
        react to a burst of long generations sooner than invocations a minute, and include requests that wait in the
        container.

        Args:
            target: requests in flight for each instance or copy, above zero. Default: 70% of the plan's capacity (its
                batch size, as far as the KV cache allows), because a new copy takes minutes to load, and the other
                copies serve the requests until then.
            options: cool-downs, and whether to scale in: see ``TrackingOptions``.

        Raises:
            RecipeError: if the target or a cool-down is invalid, or the policy exists already.
            ValueError: if there is neither a target nor a plan.
        """
        metric = {"predefinedMetricSpecification": {"predefinedMetricType": self._target.concurrency_metric}}
        target = self._default_concurrency("on_concurrency") if target is None else target
        self._track("OnConcurrency", "on_concurrency", metric, target, options)
        if self._defaults is not None and is_known(target):
            limit = ConcurrencyLimit("on_concurrency.target", target, self._defaults.capacity)
            advise(self, *warnings(limit))
        self._concurrency = target if is_known(target) else None
        self._update_alarms()
        return self

    def on_invocations(
        self, *, target: float | None = None, request_seconds: float | None = None, **options: Unpack[TrackingOptions]
    ) -> EndpointScaling:
        """Keep the invocations a minute of each instance or copy near ``target``.

        A copy's capacity depends on the length of the responses, which the plan does not know. Set the target, or the
        duration of a request.

        Args:
            target: invocations a minute for each instance or copy, above zero.
            request_seconds: the average duration of a request, above zero. The target is then the rate that keeps the
                default number of requests in flight (see ``on_concurrency``).
            options: cool-downs, and whether to scale in: see ``TrackingOptions``.

        Raises:
            RecipeError: if the target or a cool-down is invalid, or the policy exists already.
            ValueError: if neither or both of ``target`` and ``request_seconds`` are set.
        """
        if (target is None) == (request_seconds is None):
            raise ValueError(
                f"on_invocations: target is {target} and request_seconds {request_seconds}; set one of them: the "
                "invocations a minute, or the duration of a request in seconds, which depend on your prompts and "
                "completions"
            )
        if request_seconds is not None:
            if not is_number(request_seconds) or request_seconds <= 0:
                raise ValueError(f"on_invocations: request_seconds is {request_seconds}, and must be above zero")
            target = invocations_target(self._default_concurrency("on_invocations"), request_seconds)
        metric = {"predefinedMetricSpecification": {"predefinedMetricType": self._target.invocations_metric}}
        return self._track("OnInvocations", "on_invocations", metric, target, options)

    def on_backlog(self, *, target: float | None = None, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Keep an asynchronous endpoint's waiting requests for each instance near ``target``.

        Source: Amazon SageMaker developer guide, "Autoscale an asynchronous endpoint".

        Args:
            target: waiting requests for each instance, above zero. Default: the default target of
                ``on_concurrency``.
            options: cool-downs, and whether to scale in: see ``TrackingOptions``.

        Raises:
            RecipeError: if the target or a cool-down is invalid, or the policy exists already.
            ValueError: if the endpoint is not asynchronous, or there is neither a target nor a plan.
        """
        if self._target.queue_of is None:
            raise ValueError(
                f"{self.node.path}: on_backlog is only for asynchronous endpoints, whose requests wait in a queue; use "
                "on_concurrency"
            )
        metric = {
            "dimensions": [{"name": "EndpointName", "value": self._target.queue_of}],
            "metricName": "ApproximateBacklogSizePerInstance",
            "namespace": "AWS/SageMaker",
            "statistic": "Average",
        }
        target = self._default_concurrency("on_backlog") if target is None else target
        return self._track("OnBacklog", "on_backlog", {"customizedMetricSpecification": metric}, target, options)

    def on_time_to_first_token(
        self, *, target: float, quantile: float = 0.9, **options: Unpack[TrackingOptions]
    ) -> EndpointScaling:
        """Scale on the time to first token.

        The engine publishes this time: waiting plus prefill. The policy only scales out while requests also queue,
        because another copy does not shorten the prefill of a long prompt. It scales in if the remaining capacity has
        room for all requests and the time is below half of the target.

        Args:
            target: the time to first token in seconds.
            quantile: the share of requests that must meet the target. Default: 0.9.
            options: see ``TrackingOptions``; the cool-down after scaling out is 10 minutes by default, because the
                metrics cover the last minutes.

        Raises:
            RecipeError: if the target is invalid, or the engine does not publish this metric.
        """
        metric = "engine_time_to_first_token"
        return self._by_engine("OnTimeToFirstToken", "on_time_to_first_token", metric, target, options, quantile)

    def on_kv_cache(self, *, target: float, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Keep the KV cache utilization, averaged over the copies, below ``target``.

        A full cache makes requests wait and preempts others, regardless of their number. Use this metric for prompts of
        very different lengths.

        Args:
            target: percent, at most 95.
            options: see ``on_time_to_first_token``.

        Raises:
            RecipeError: if the target is invalid, or the engine does not publish this metric.
        """
        return self._by_engine("OnKvCache", "on_kv_cache", "kv_cache_usage", target, options)

    def on_queue(self, *, target: float, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Scale out while more than ``target`` requests for each instance or copy wait in the engine.

        Args:
            target: waiting requests for each instance or copy.
            options: see ``on_time_to_first_token``.

        Raises:
            RecipeError: if the target is invalid, or the engine does not publish this metric.
        """
        return self._by_engine("OnQueue", "on_queue", "waiting_requests", target, options)

    def on_tokens_per_second(self, *, target: float, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Keep the generated tokens a second of each instance or copy below ``target``.

        An evaluation measures how many tokens a copy generates at the required latency (``output_tokens_per_second`` at
        its concurrency). Set a target below that, for instance 70%.

        Args:
            target: tokens a second for each instance or copy.
            options: see ``on_time_to_first_token``.

        Raises:
            RecipeError: if the target is invalid, or the engine does not publish this metric.
        """
        metric = "engine_output_tokens_per_second"
        return self._by_engine("OnTokensPerSecond", "on_tokens_per_second", metric, target, options)

    def on_metric(
        self, id: str, *, metric: cloudwatch.IMetric, target: float, **options: Unpack[TrackingOptions]
    ) -> EndpointScaling:
        """Keep any metric, or metric math, near ``target``.

        The metric must fall in proportion to added capacity: a utilization, or a load for each instance or copy.
        Application Auto Scaling reads it every minute, regardless of the metric's period.

        Args:
            id: the policy's name.
            metric: the metric to track.
            target: the value to keep, above zero.
            options: cool-downs, and whether to scale in: see ``TrackingOptions``.

        Raises:
            RecipeError: if the target or a cool-down is invalid, or the ID is taken.
        """
        METRIC.check(f"on_metric({id!r}).metric", metric)
        specification = {"customizedMetricSpecification": tracked(metric)}
        return self._track(id, f"on_metric({id!r})", specification, target, options)

    def on_steps(
        self,
        id: str,
        *,
        metric: cloudwatch.IMetric,
        steps: Sequence[ScalingStep],
        adjustment: str = "ChangeInCapacity",
        cooldown: Duration | None = None,
        min_adjustment_magnitude: int | None = None,
        evaluation_periods: int = 1,
        datapoints_to_alarm: int | None = None,
    ) -> EndpointScaling:
        """Add or remove capacity in steps by the value of a metric, each direction with its own alarm and policy.

        Args:
            id: the name of the policies.
            metric: the metric.
            steps: the changes and the values, in the metric's own unit, that trigger them; for instance a ``change`` of
                1 with a ``lower`` of 16, and a ``change`` of -1 with an ``upper`` of 2.
            adjustment: the meaning of a step's ``change``: ``ChangeInCapacity`` (the default),
                ``PercentChangeInCapacity`` or ``ExactCapacity``.
            cooldown: the cool-down after a step. Default: 5 minutes.
            min_adjustment_magnitude: with ``PercentChangeInCapacity``, the smallest number to add or remove. Default:
                1.
            evaluation_periods: the number of the metric's last periods to evaluate. Default: 1.
            datapoints_to_alarm: the number of these periods in which a step must be reached. Default: all.

        Raises:
            RecipeError: if the steps have gaps or overlap, or the ID is taken.
        """
        location = f"on_steps({id!r})"
        METRIC.check(f"{location}.metric", metric)
        pause = _seconds(f"{location}.cooldown", cooldown, 300)
        request = StepRequest(
            location, steps, adjustment, pause, evaluation_periods, datapoints_to_alarm, min_adjustment_magnitude
        )
        self._check(id, f"{id}Out", f"{id}In", new_policy_names=[f"{id}Out", f"{id}In"], steps=[request])
        self._policies.append(location)
        declare_steps(self, id, self._registered, request, metric)
        return self

    def on_schedule(
        self,
        id: str,
        *,
        schedule: scaling.Schedule | str,
        min_capacity: int | None = None,
        max_capacity: int | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> EndpointScaling:
        """Change the range on a schedule. Policies continue within the new range.

        Args:
            id: the scheduled action's name.
            schedule: the schedule, for instance ``cron(0 7 ? * MON-FRI *)``.
            min_capacity: the new minimum number of instances or copies. Default: unchanged.
            max_capacity: the new maximum number. Default: unchanged.
            options: time zone, start and end: see ``ScheduleOptions``.

        Raises:
            RecipeError: if the schedule is invalid, or the ID is taken. A limit beyond the other one, which no schedule
                changes, fails synthesis, when all schedules are known.
        """
        expression = str(getattr(schedule, "expression_string", schedule))
        location = f"on_schedule({id!r})"
        request = ScheduleRequest(location, expression, min_capacity, max_capacity, **options)
        self._check(id, schedules=[request])
        if not self._schedules:
            refuse_when_complete(self, self._violations)
        self._schedules.append(request)
        times = {"endTime": request.end, "startTime": request.start}
        self._scheduled.append(
            {
                **{name: in_utc(time) for name, time in times.items() if time is not None},
                "scalableTargetAction": drop_none(maxCapacity=max_capacity, minCapacity=min_capacity),
                "schedule": expression,
                "scheduledActionName": id,
                **drop_none(timezone=request.time_zone),
            }
        )
        # The property's type lists the classes with the same fields as these dictionaries.
        self._resource.scheduled_actions = self._scheduled  # pyright: ignore[reportAttributeAccessIssue]
        self._widen(min_capacity, max_capacity)
        return self

    def stop_on(
        self, *, schedule: scaling.Schedule | str, id: str = "Stop", **options: Unpack[ScheduleOptions]
    ) -> EndpointScaling:
        """Stop the endpoint on a schedule: it has no copies, and requests start none. Endpoint and artifact remain.

        Args:
            schedule: the schedule, for instance ``cron(0 19 ? * MON-FRI *)``.
            id: the scheduled action's name. Default: ``Stop``.
            options: time zone, start and end: see ``ScheduleOptions``.

        Raises:
            RecipeError: if the target is a variant, which always keeps an instance, or the schedule is invalid.
        """
        return self.on_schedule(id, schedule=schedule, min_capacity=0, max_capacity=0, **options)

    def start_on(
        self,
        *,
        schedule: scaling.Schedule | str,
        id: str = "Start",
        min_capacity: int | None = None,
        max_capacity: int | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> EndpointScaling:
        """Start the endpoint on a schedule, after ``stop_on``.

        Args:
            schedule: the schedule, for instance ``cron(0 7 ? * MON-FRI *)``. Schedule it early, because a model takes
                minutes to load.
            id: the scheduled action's name. Default: ``Start``.
            min_capacity: the new minimum number of copies. Default: the range's minimum, at least 1.
            max_capacity: the new maximum number of copies. Default: the range's maximum.
            options: time zone, start and end: see ``ScheduleOptions``.

        Raises:
            RecipeError: if the schedule is invalid.
        """
        least, most = self._request.min_capacity, self._request.max_capacity
        return self.on_schedule(
            id,
            schedule=schedule,
            min_capacity=min_capacity if min_capacity is not None else (max(1, least) if is_known(least) else least),
            max_capacity=max_capacity if max_capacity is not None else most,
            **options,
        )

    @property
    def _declared(self) -> DeclaredScaling:
        return DeclaredScaling(
            self._request.min_capacity,
            self._request.max_capacity,
            dt.datetime.now(dt.UTC),
            tuple(self._policies),
            tuple(self._schedules),
            wakes=self._wakes,
            follows_objectives=self.follows_objectives,
            initial_capacity=self._initial_capacity,
            is_asynchronous=self._target.queue_of is not None,
        )

    def _violations(self) -> list[Violation]:
        """Return the violations of the schedules together, whose order does not matter."""
        return check(replace(self._request, schedules=self._schedules, is_complete=True))

    def _check(self, id: str, *more_ids: str, **requests: Any) -> None:
        """Refuse a policy or schedule that breaks a rule, and reserve its IDs."""
        refuse(check(replace(self._request, new_id=id, **requests)))
        self._reserve(id, *more_ids, names=requests.get("new_policy_names", ()))

    def _reserve(self, *ids: str, names: Sequence[str] = ()) -> None:
        known = self._request
        self._request = replace(known, ids=[*known.ids, *ids], policy_names=[*known.policy_names, *names])

    def _track(
        self, id: str, location: str, metric: Mapping[str, Any], target: Any, options: TrackingOptions
    ) -> EndpointScaling:
        """Declare a target tracking policy."""
        cooldowns = _cooldowns(location, options, scale_out=SCALE_OUT_COOLDOWN_SECONDS)
        name = options.get("policy_name", id)
        request = TargetRequest(location, target, tuple(cooldowns.items()))
        self._check(id, new_policy_names=[name], targets=[request])
        tracking = {
            **metric,
            "targetValue": target,
            "scaleInCooldown": int(cooldowns["scale_in_cooldown"]),
            "scaleOutCooldown": int(cooldowns["scale_out_cooldown"]),
            **({"disableScaleIn": True} if options.get("disable_scale_in") else {}),
        }
        self._policies.append(location)
        policy = self._registered.policy(
            self,
            id,
            name=name,
            configuration={"target_tracking_scaling_policy_configuration": tracking},
        )
        if self._imported:
            policy.apply_removal_policy(RemovalPolicy.RETAIN)
        return self

    def _by_engine(
        self, id: str, location: str, metric: str, target: float, options: TrackingOptions, quantile: float = 0.9
    ) -> EndpointScaling:
        """Declare a policy on an engine metric, and with the first one the policies that all of them share."""
        cooldowns = _cooldowns(location, options, scale_out=SETTLING_SECONDS)
        held = EngineTarget(metric, target, quantile)
        engine = self._served.engine if self._served is not None else Engine()
        request = EngineTargetRequest(location, metric, target, tuple(cooldowns.items()))
        names = [id, *(name for name in ("Surge", "Idle") if name not in self._request.ids)]
        refuse(
            [
                *check(EngineMetricUse(location, held.used_metrics, engine, quantile)),
                *check(replace(self._request, new_id=id, new_policy_names=names, engine_targets=[request])),
            ]
        )
        if self._defaults is None or not is_known(target):
            raise ValueError(f"{self.node.path}: {location} needs a target that is known at synthesis, and {_CAPACITY}")
        self._reserve(id, names=[id])
        EngineMetricUses.of(self).add(self, required=True)
        if not self._imported:
            # An import allows no further resources. Otherwise, a stack without jobs and endpoints gets its preflight.
            Preflight.of(self)
        self._held.append(held)
        self._policies.append(location)
        self._engine_cooldowns = {
            name: max(value, self._engine_cooldowns.get(name, 0)) for name, value in cooldowns.items()
        }
        declare_engine_policy(
            self,
            id,
            self._registered,
            held.missed(self._engine_query),
            change=ADDED_PERCENT,
            cooldown=int(cooldowns["scale_out_cooldown"]),
            cause="its target is missed",
        )
        shared: dict[str, tuple[str, int, str, str]] = {
            "Surge": (
                surge(self._engine_query, capacity=self._defaults.capacity),
                100,
                "scale_out_cooldown",
                "as many requests wait as all copies are sized for",
            ),
            "Idle": (Token.as_string(late_value(self._idle)), -1, "scale_in_cooldown", "the other copies suffice"),
        }
        for name, (query, change, cooldown, cause) in shared.items():
            if name not in self._request.ids and (change > 0 or not options.get("disable_scale_in")):
                self._reserve(name, names=[name])
                pause = Token.as_number(late_value(lambda name=cooldown: int(self._engine_cooldowns[name])))
                declare_engine_policy(self, name, self._registered, query, change=change, cooldown=pause, cause=cause)
        return self

    def _engine_query(self, name: str, /, *, quantile: float | None = None) -> str:
        if self._served is None:
            raise ValueError(f"{self.node.path}: no engine is known that publishes {name}")
        window = max(60, 4 * self._served.publishing_seconds)
        return self._served.engine_query(engines.find(name), window_seconds=window, quantile=quantile)

    def _idle(self) -> str:
        """Return the scale-in condition, which combines all declared targets."""
        room = self._concurrency or (self._defaults.concurrency if self._defaults is not None else 1)
        to_zero = self._target.wake is not None and self._request.min_capacity == 0
        return idle(self._engine_query, self._held, room=room, to_zero=to_zero)

    def _default_concurrency(self, policy: str) -> float:
        if self._defaults is None:
            raise ValueError(f"{self.node.path}: {policy} needs a target, such as {policy}(target=8), or {_CAPACITY}")
        return self._defaults.concurrency

    def _widen(self, least: int | None, most: int | None) -> None:
        """Add a schedule's range."""
        before = self._least, self._most
        if is_known(least) and is_known(self._least):
            self._least = min(self._least, least)
        if is_known(most) and is_known(self._most):
            self._most = max(self._most, most)
        self._wake_from_zero(least, most)
        if before != (self._least, self._most):
            if self._set_range is not None:
                self._set_range(self._least, self._most)
            self._update_alarms()

    def _update_alarms(self) -> None:
        if self._alarms is not None:
            self._alarms.watch(capacity=self.capacity, scales_to_zero=self.scales_to_zero)

    def _wake_from_zero(self, least: int | None, most: int | None) -> None:
        """Let requests start a copy if a range begins at 0; a range of 0 to 0 means stopped."""
        if least == 0 and most != 0 and self._target.wake is not None and not self._wakes:
            self._wakes = True
            declare_wake_up(self, self._registered, self._target.wake, WAKE_COOLDOWN_SECONDS)


def _cooldowns(location: str, options: TrackingOptions, *, scale_out: float) -> dict[str, float]:
    """Return a policy's cool-downs in seconds by option name; ``scale_out`` is the default for scaling out."""
    return {
        "scale_in_cooldown": _seconds(
            f"{location}.scale_in_cooldown", options.get("scale_in_cooldown"), SCALE_IN_COOLDOWN_SECONDS
        ),
        "scale_out_cooldown": _seconds(f"{location}.scale_out_cooldown", options.get("scale_out_cooldown"), scale_out),
    }


def _seconds(location: str, duration: Duration | None, default: float) -> float:
    """Return a duration in seconds."""
    DURATION.check(location, duration)
    return default if duration is None else duration.to_seconds()
