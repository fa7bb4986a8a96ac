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

from constructs_optim.constructs.stack.arguments import DURATION, METRIC, check_options, refuse
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.stack_context import late_value
from constructs_optim.recipe.hosting.engine_scaling import (
    ADDED_PERCENT,
    STARTUP_SECONDS,
    EngineTarget,
    idle,
    surge,
)
from constructs_optim.recipe.hosting.scaling import (
    HEADROOM,
    SCALE_IN_COOLDOWN_SECONDS,
    SCALE_OUT_COOLDOWN_SECONDS,
    WAKE_COOLDOWN_SECONDS,
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
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.rules.scaling_rules import in_utc
from constructs_optim.recipe.tokens import is_known, is_number

from .policies import RegisteredTarget, ScalingTarget, declare_engine_policy, declare_steps, declare_wake_up, tracked

if TYPE_CHECKING:
    from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
    from constructs_optim.constructs.monitoring.served_model import ServedModel


class TrackingOptions(TypedDict, total=False):
    """The options of every target tracking policy.

    Attributes:
        policy_name: the policy's name, which one that is imported keeps. Default: the method's name.
        scale_in_cooldown: the pause after capacity was taken away. Default: 10 minutes; a copy that is missed again has
            to load tens of gigabytes.
        scale_out_cooldown: the pause after capacity was added. Default: 1 minute.
        disable_scale_in: whether the policy only adds. Default: it takes away as well.
    """

    policy_name: str
    scale_in_cooldown: Duration
    scale_out_cooldown: Duration
    disable_scale_in: bool


class ScheduleOptions(TypedDict, total=False):
    """The options of every schedule.

    Attributes:
        time_zone: a name such as ``Europe/Berlin``. Default: UTC.
        start: when the schedule begins, in UTC where it has no time zone. Default: at once.
        end: when it ends, likewise. Default: never.
    """

    time_zone: str
    start: dt.datetime
    end: dt.datetime


class EndpointScaling(Construct):
    """The range an endpoint scales in; each ``on_...`` adds a policy that moves it within the range.

    Policies add up: where they disagree, the one that wants most capacity wins. Where the endpoint may have no copy at
    all, a request that finds none starts one.
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
    ) -> None:
        """Register the variant, or the inference component, as a scalable target.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            target: what scales.
            min_capacity: the minimum number of instances or copies; 0 for copies of an inference component only.
            max_capacity: the maximum.
            defaults: what follows from the plan. Default: every policy needs its target.
            alarms: the alarms that follow the range and the target of concurrency. Default: none.
            set_range: takes a range that a schedule has widened, or refuses it. Default: any range is fine.
            served: what serves the model, whose engine publishes metrics. Default: no policy reads them.
            imported: whether it is imported with an endpoint that keeps its configuration; target and policies are
                retained then. Default: it is not.

        Raises:
            RecipeError: if the range cannot work, for instance ``max_capacity < min_capacity``.
        """
        self._request = Scaling(target.wake is not None, min_capacity, max_capacity, ids=["Target", "WakeUp"])
        refuse(check(self._request))
        super().__init__(scope, id)
        self._target, self._defaults = target, defaults
        self._alarms, self._set_range, self._served = alarms, set_range, served
        self._imported = imported
        self._scheduled: list[dict[str, Any]] = []
        self._least, self._most = min_capacity, max_capacity
        self._concurrency: float | None = None
        self._held: list[EngineTarget] = []
        self._engine_cooldowns: dict[str, float] = {}
        self._wakes = False
        self._resource = scaling.CfnScalableTarget(
            self,
            "Target",
            max_capacity=max_capacity,
            min_capacity=min_capacity,
            resource_id=target.resource_id,
            scalable_dimension=target.dimension,
            service_namespace="sagemaker",
        )
        self._registered = RegisteredTarget(self._resource, target)
        if imported:
            self._resource.apply_removal_policy(RemovalPolicy.RETAIN)
        self._wake_from_zero(min_capacity, max_capacity)

    @property
    def capacity(self) -> float | None:
        """Requests in flight that an instance or copy is taken to be sized for: by a target, or by the plan.

        None where neither is known.
        """
        if self._concurrency is not None:
            return round(self._concurrency / HEADROOM, 1)
        return self._defaults.capacity if self._defaults is not None else None

    @property
    def scales_to_zero(self) -> bool:
        """Whether there may be no copy at all."""
        return self._least == 0

    def on_concurrency(self, *, target: float | None = None, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Hold the requests that each instance or copy works on at once near ``target``.

        Uses the high-resolution metrics ConcurrentRequestsPerModel and ConcurrentRequestsPerCopy (every 10 s), which
        see a burst of long generations before invocations a minute do, and count requests that wait in the container.

        Args:
            target: requests in flight for each instance or copy, above zero. Default: seven tenths of what the plan is
                sized for (its batch size, as far as the KV cache has room): a new copy takes minutes to load, and the
                other copies take what arrives until then.
            options: cooldowns, and whether to scale in: see :class:`TrackingOptions`.

        Raises:
            RecipeError: when the target or a cooldown is invalid, or there is such a policy already.
            ValueError: without a target where there is no plan.
        """
        metric = {"predefinedMetricSpecification": {"predefinedMetricType": self._target.concurrency_metric}}
        target = self._default_concurrency("on_concurrency") if target is None else target
        self._track("OnConcurrency", "on_concurrency", metric, target, options)
        self._concurrency = target if is_known(target) else None
        self._update_alarms()
        return self

    def on_invocations(
        self, *, target: float | None = None, request_seconds: float | None = None, **options: Unpack[TrackingOptions]
    ) -> EndpointScaling:
        """Hold the invocations a minute of each instance or copy near ``target``.

        How many a copy can serve depends on how long the responses are, which no plan knows: set the target, or how
        long a request takes.

        Args:
            target: invocations a minute for each instance or copy, above zero.
            request_seconds: how long a request takes on average, above zero. The target is then what keeps the default
                number of requests in flight (see :meth:`on_concurrency`).
            options: cooldowns, and whether to scale in: see :class:`TrackingOptions`.

        Raises:
            RecipeError: when the target or a cooldown is invalid, or there is such a policy already.
            ValueError: without one of ``target`` and ``request_seconds``, or with both.
        """
        if (target is None) == (request_seconds is None):
            raise ValueError(
                f"on_invocations: target is {target} and request_seconds {request_seconds}; set one of the two: "
                "the invocations a minute, or the seconds a request takes, which depend on your prompts and completions"
            )
        if request_seconds is not None:
            if not is_number(request_seconds) or request_seconds <= 0:
                raise ValueError(f"on_invocations: request_seconds is {request_seconds}, and it is a number above zero")
            target = invocations_target(self._default_concurrency("on_invocations"), request_seconds)
        metric = {"predefinedMetricSpecification": {"predefinedMetricType": self._target.invocations_metric}}
        return self._track("OnInvocations", "on_invocations", metric, target, options)

    def on_backlog(self, *, target: float | None = None, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Hold the requests that wait in an asynchronous endpoint's queue, for each instance, near ``target``.

        Source: Amazon SageMaker developer guide, "Autoscale an asynchronous endpoint".

        Args:
            target: waiting requests for each instance, above zero. Default: as many as :meth:`on_concurrency` holds.
            options: cooldowns, and whether to scale in: see :class:`TrackingOptions`.

        Raises:
            RecipeError: when the target or a cooldown is invalid, or there is such a policy already.
            ValueError: where requests do not wait in a queue, or without a target where there is no plan.
        """
        if self._target.queue_of is None:
            raise ValueError(
                f"{self.node.path}: on_backlog is for asynchronous endpoints, whose requests wait in a queue; use "
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
        """Add capacity while requests wait too long for their first token.

        Read from the engine: waiting and prefill. It counts while requests queue as well; of a prompt that takes long
        by itself, no copy makes the prefill shorter. Capacity goes when what is left would have room for all requests
        and the time is below half of the target.

        Args:
            target: seconds.
            quantile: the share of the requests that is to keep it. Default: 0.9.
            options: see :class:`TrackingOptions`; the pause after capacity was added is 10 minutes by default, in
                which a new copy has to load its model.

        Raises:
            RecipeError: when the target makes no sense, or the engine publishes no such metric.
        """
        metric = "engine_time_to_first_token"
        return self._by_engine("OnTimeToFirstToken", "on_time_to_first_token", metric, target, options, quantile)

    def on_kv_cache(self, *, target: float, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Hold the share of the KV cache that running requests occupy, on average over the copies, below ``target``.

        A full cache makes requests wait and preempts others, whatever their number is: the metric for prompts of very
        different lengths.

        Args:
            target: percent, 95 at most.
            options: as of :meth:`on_time_to_first_token`.

        Raises:
            RecipeError: when the target makes no sense, or the engine publishes no such metric.
        """
        return self._by_engine("OnKvCache", "on_kv_cache", "kv_cache_usage", target, options)

    def on_queue(self, *, target: float, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Add capacity while more than ``target`` requests wait in the engine, for each instance or copy.

        Args:
            target: waiting requests for each instance or copy.
            options: as of :meth:`on_time_to_first_token`.

        Raises:
            RecipeError: when the target makes no sense, or the engine publishes no such metric.
        """
        return self._by_engine("OnQueue", "on_queue", "waiting_requests", target, options)

    def on_tokens_per_second(self, *, target: float, **options: Unpack[TrackingOptions]) -> EndpointScaling:
        """Hold the generated tokens a second, for each instance or copy, below ``target``.

        An evaluation measures how many a copy generates at the latency that is asked for (``output_tokens_per_second``
        at its concurrency): aim below that, at seven tenths for instance.

        Args:
            target: tokens a second for each instance or copy.
            options: as of :meth:`on_time_to_first_token`.

        Raises:
            RecipeError: when the target makes no sense, or the engine publishes no such metric.
        """
        metric = "engine_output_tokens_per_second"
        return self._by_engine("OnTokensPerSecond", "on_tokens_per_second", metric, target, options)

    def on_metric(
        self, id: str, *, metric: cloudwatch.IMetric, target: float, **options: Unpack[TrackingOptions]
    ) -> EndpointScaling:
        """Hold any metric, or metric math, near ``target``.

        The metric has to fall in proportion as capacity is added: a utilization, or a load for each instance or copy.
        Application Auto Scaling reads it every minute, regardless of the metric's period.

        Args:
            id: the policy's name.
            metric: what to track.
            target: the value to hold, above zero.
            options: cooldowns, and whether to scale in: see :class:`TrackingOptions`.

        Raises:
            RecipeError: when the target or a cooldown is invalid, or the id is taken.
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
            steps: what to do at which values, in the metric's own unit, for instance a
                ``change`` of 1 with a ``lower`` of 16, and one of -1 with an ``upper`` of 2.
            adjustment: what a step's ``change`` is: ``ChangeInCapacity`` (the default), ``PercentChangeInCapacity`` or
                ``ExactCapacity``.
            cooldown: pause after a step. Default: 5 minutes.
            min_adjustment_magnitude: with percent, the smallest number to add or remove. Default: 1.
            evaluation_periods: how many of the metric's last periods count. Default: 1.
            datapoints_to_alarm: in how many of them a step must be reached. Default: in all.

        Raises:
            RecipeError: when the steps do not follow each other, or the id is taken.
        """
        location = f"on_steps({id!r})"
        METRIC.check(f"{location}.metric", metric)
        pause = _seconds(f"{location}.cooldown", cooldown, 300)
        request = StepRequest(location, steps, adjustment, pause, evaluation_periods, datapoints_to_alarm)
        self._check(id, f"{id}Out", f"{id}In", steps=[request])
        declare_steps(self, id, self._registered, request, metric, min_adjustment_magnitude)
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
        """Change the range at certain times. Policies go on within the new one.

        Args:
            id: the scheduled action's name.
            schedule: when: ``cron(0 7 ? * MON-FRI *)``.
            min_capacity: the minimum number of instances or copies from then on. Default: as before.
            max_capacity: the maximum from then on. Default: as before.
            options: time zone, start and end: see :class:`ScheduleOptions`.

        Raises:
            RecipeError: when the schedule cannot be kept, or the id is taken.
        """
        expression = str(getattr(schedule, "expression_string", schedule))
        location = f"on_schedule({id!r})"
        check_options(location, options, ScheduleOptions)
        request = ScheduleRequest(location, expression, min_capacity, max_capacity, **options)
        self._check(id, schedules=[request])
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
        """Stop the endpoint at certain times: no copies, and no request that starts one. Artifact and endpoint stay.

        Args:
            schedule: when: ``cron(0 19 ? * MON-FRI *)``.
            id: the scheduled action's name. Default: ``Stop``.
            options: time zone, start and end: see :class:`ScheduleOptions`.

        Raises:
            RecipeError: for a variant, which keeps an instance, or when the schedule cannot be kept.
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
        """Start the endpoint at certain times, after :meth:`stop_on`.

        Args:
            schedule: when: ``cron(0 7 ? * MON-FRI *)``. A model
                takes minutes to load: be early.
            id: the scheduled action's name. Default: ``Start``.
            min_capacity: the minimum number of copies from then on. Default: the range's minimum, and at least 1.
            max_capacity: the maximum from then on. Default: the range's maximum.
            options: time zone, start and end: see :class:`ScheduleOptions`.

        Raises:
            RecipeError: when the schedule cannot be kept.
        """
        least, most = self._request.min_capacity, self._request.max_capacity
        return self.on_schedule(
            id,
            schedule=schedule,
            min_capacity=min_capacity if min_capacity is not None else (max(1, least) if is_known(least) else least),
            max_capacity=max_capacity if max_capacity is not None else most,
            **options,
        )

    def _check(self, id: str, *more_ids: str, **requests: Any) -> None:
        """Refuse a policy or schedule that breaks a rule; its ids are taken from then on."""
        refuse(check(replace(self._request, new_id=id, **requests)))
        self._request = replace(self._request, ids=[*self._request.ids, id, *more_ids])

    def _track(
        self, id: str, location: str, metric: Mapping[str, Any], target: Any, options: TrackingOptions
    ) -> EndpointScaling:
        """Declare a target tracking policy."""
        check_options(location, options, TrackingOptions)
        cooldowns = _cooldowns(location, options, scale_out=SCALE_OUT_COOLDOWN_SECONDS)
        self._check(id, targets=[TargetRequest(location, target, tuple(cooldowns.items()))])
        tracking = {
            **metric,
            "targetValue": target,
            "scaleInCooldown": int(cooldowns["scale_in_cooldown"]),
            "scaleOutCooldown": int(cooldowns["scale_out_cooldown"]),
            **({"disableScaleIn": True} if options.get("disable_scale_in") else {}),
        }
        policy = self._registered.policy(
            self,
            id,
            name=options.get("policy_name", id),
            configuration={"target_tracking_scaling_policy_configuration": tracking},
        )
        if self._imported:
            policy.apply_removal_policy(RemovalPolicy.RETAIN)
        return self

    def _by_engine(
        self, id: str, location: str, metric: str, target: float, options: TrackingOptions, quantile: float = 0.9
    ) -> EndpointScaling:
        """Declare a policy on a metric of the engine, and with the first one what all of them share."""
        check_options(location, options, TrackingOptions)
        cooldowns = _cooldowns(location, options, scale_out=STARTUP_SECONDS)
        held = EngineTarget(metric, target, quantile)
        engine = self._served.engine if self._served is not None else Engine()
        request = EngineTargetRequest(location, metric, target)
        refuse(
            [
                *check(EngineMetricUse(location, held.used_metrics, engine, quantile)),
                *check(replace(self._request, new_id=id, engine_targets=[request])),
            ]
        )
        if self._defaults is None or not is_known(target):
            raise ValueError(
                f"{self.node.path}: {location} needs a target that is known at synthesis, and to know how many "
                "requests an instance takes at once: a plan, or EndpointMonitoring.of(..., max_concurrent_requests=32)"
            )
        self._request = replace(self._request, ids=[*self._request.ids, id])
        self._held.append(held)
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
            "Idle": (Token.as_string(late_value(self._idle)), -1, "scale_in_cooldown", "the other copies would do"),
        }
        for name, (query, change, cooldown, cause) in shared.items():
            if name not in self._request.ids and (change > 0 or not options.get("disable_scale_in")):
                self._request = replace(self._request, ids=[*self._request.ids, name])
                pause = Token.as_number(late_value(lambda name=cooldown: int(self._engine_cooldowns[name])))
                declare_engine_policy(self, name, self._registered, query, change=change, cooldown=pause, cause=cause)
        return self

    def _engine_query(self, name: str, /, *, quantile: float | None = None) -> str:
        if self._served is None:
            raise ValueError(f"{self.node.path}: no engine is known that publishes {name}")
        window = max(60, 4 * self._served.publishing_seconds)
        return self._served.engine_query(engines.find(name), window_seconds=window, quantile=quantile)

    def _idle(self) -> str:
        """The condition on which a copy is taken away, of all targets that are declared."""
        room = self._concurrency or (self._defaults.concurrency if self._defaults is not None else 1)
        to_zero = self._target.wake is not None and self._request.min_capacity == 0
        return idle(self._engine_query, self._held, room=room, to_zero=to_zero)

    def _default_concurrency(self, policy: str) -> float:
        if self._defaults is None:
            raise ValueError(f"{self.node.path}: {policy} needs a target; without a plan there is no default")
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
        """Start a copy for requests where a range allows for none, and for some: 0 to 0 is stopped."""
        if least == 0 and most != 0 and self._target.wake is not None and not self._wakes:
            self._wakes = True
            declare_wake_up(self, self._registered, self._target.wake, WAKE_COOLDOWN_SECONDS)


def _cooldowns(location: str, options: TrackingOptions, *, scale_out: float) -> dict[str, float]:
    """The cooldowns of a policy in seconds, by the names of their options; ``scale_out`` is a default."""
    return {
        "scale_in_cooldown": _seconds(
            f"{location}.scale_in_cooldown", options.get("scale_in_cooldown"), SCALE_IN_COOLDOWN_SECONDS
        ),
        "scale_out_cooldown": _seconds(f"{location}.scale_out_cooldown", options.get("scale_out_cooldown"), scale_out),
    }


def _seconds(location: str, duration: Duration | None, default: float) -> float:
    """A duration in seconds."""
    DURATION.check(location, duration)
    return default if duration is None else duration.to_seconds()
