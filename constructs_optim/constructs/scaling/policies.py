"""Application Auto Scaling's scalable targets, and step scaling policies with their alarms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import CfnResource, IResolvable, Stack
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.stack_context import late_text, late_value
from constructs_optim.recipe.hosting.engine_scaling import EVALUATION_SECONDS, IDLE_SECONDS, PENDING_SECONDS
from constructs_optim.recipe.hosting.scaling import StepRequest, step_adjustments
from constructs_optim.templates.json_values import is_array, is_object

# The statistics of target tracking's customized metrics (Application Auto Scaling API reference, MetricStatistic).
_STATISTICS = {"Average", "Maximum", "Minimum", "SampleCount", "Sum"}


@dataclass(frozen=True)
class ScalingTarget:
    """A production variant, which scales by instances, or an inference component, which scales by copies.

    The metrics are predefined. ``wake`` holds the alarm properties of the metric of requests without capacity; None for
    a variant, which keeps an instance. ``queue_of`` is the asynchronous endpoint whose queue is measured. The target
    depends on ``after``, and ``declared`` collects what the stack declares for it; both are None if nothing else
    registers the target.
    """

    resource_id: str
    dimension: str
    concurrency_metric: str
    invocations_metric: str
    wake: Mapping[str, Any] | None = None
    queue_of: str | None = None
    after: CfnResource | None = None
    declared: DeclaredScaling | None = None

    @staticmethod
    def variant(endpoint_name: str, variant_name: str, *, is_asynchronous: bool = False) -> ScalingTarget:
        """Return a variant as a target. An asynchronous endpoint may scale to zero instances while no request waits.

        Source: Amazon SageMaker developer guide, "Autoscale an asynchronous endpoint".
        """
        wake = {
            "dimensions": [{"name": "EndpointName", "value": endpoint_name}],
            "metric_name": "HasBacklogWithoutCapacity",
            "statistic": "Average",
        }
        return ScalingTarget(
            f"endpoint/{endpoint_name}/variant/{variant_name}",
            "sagemaker:variant:DesiredInstanceCount",
            "SageMakerVariantConcurrentRequestsPerModelHighResolution",
            "SageMakerVariantInvocationsPerInstance",
            wake if is_asynchronous else None,
            endpoint_name if is_asynchronous else None,
        )

    @staticmethod
    def component(name: str) -> ScalingTarget:
        """Return an inference component as a target."""
        return ScalingTarget(
            f"inference-component/{name}",
            "sagemaker:inference-component:DesiredCopyCount",
            "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
            "SageMakerInferenceComponentInvocationsPerCopy",
            {
                "dimensions": [{"name": "InferenceComponentName", "value": name}],
                "metric_name": "NoCapacityInvocationFailures",
                "statistic": "Sum",
            },
        )


class DeclaredScaling:
    """What a stack declares for a target: its range and schedules, its policies, and their alarms, in order."""

    def __init__(self, scope: Construct) -> None:
        self._scope = scope
        self._declared: list[object] = []
        self._target: Callable[[], Mapping[str, Any]] = dict[str, Any]
        self.hash: str = late_text(self._hashed)
        """The SHA-256 of all policies (a token); it changes when CloudFormation changes a policy."""
        self.target: IResolvable = late_value(lambda: self._target())
        """The range and the schedules, with the names of CloudFormation's properties."""

    def register(self, target: Callable[[], Mapping[str, Any]]) -> None:
        """Set the function that returns the range and the schedules at synthesis."""
        self._target = target

    def add(self, *properties: object) -> None:
        """Add a policy, with the properties of its alarm if it has one."""
        self._declared.append(list(properties))

    def _hashed(self) -> str:
        resolved = Stack.of(self._scope).resolve(self._declared)
        return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()


class RegisteredTarget:
    """A scalable target with its policies."""

    def __init__(
        self, resource: scaling.CfnScalableTarget, target: ScalingTarget, schedules: Sequence[Mapping[str, Any]]
    ) -> None:
        """Wrap a resource; ``schedules`` are its scheduled actions, which may be added later."""
        self.id: str = resource.ref
        self._declared = target.declared
        if target.declared is not None:
            target.declared.register(
                lambda: {
                    "MinCapacity": resource.min_capacity,
                    "MaxCapacity": resource.max_capacity,
                    **({"ScheduledActions": _as_properties(schedules)} if schedules else {}),
                }
            )
        # A changed suffix replaces the policies.
        self._ending = target.after.get_att("PolicyEnding").to_string() if target.after is not None else ""
        if target.after is not None:
            resource.add_resource_dependency(target.after)

    def policy(
        self, scope: Construct, id: str, *, name: str, configuration: Mapping[str, Any], **alarm: Any
    ) -> scaling.CfnScalingPolicy:
        """Declare a policy; ``configuration`` holds the property of its type, and ``alarm`` its alarm's properties."""
        if self._declared is not None:
            self._declared.add(name, configuration, alarm)
        is_tracking = "target_tracking_scaling_policy_configuration" in configuration
        return scaling.CfnScalingPolicy(
            scope,
            id,
            policy_name=f"{name}{self._ending}",
            policy_type="TargetTrackingScaling" if is_tracking else "StepScaling",
            scaling_target_id=self.id,
            **configuration,
        )


def _as_properties(value: Any) -> Any:
    """Return a value with the names of CloudFormation's properties instead of the CDK's."""
    if is_object(value):
        return {f"{name[:1].upper()}{name[1:]}": _as_properties(member) for name, member in value.items()}
    return [_as_properties(item) for item in value] if is_array(value) else value


def declare_wake_up(scope: Construct, target: RegisteredTarget, metric: Mapping[str, Any], cooldown: int) -> None:
    """Start capacity for the first request, because target tracking cannot scale out from zero.

    Source: Amazon SageMaker developer guide, "Scale an endpoint to zero instances". The alarm there needs two failed
    requests in a minute; here one is enough.
    """
    _declare(
        Construct(scope, "WakeUp"),
        "WakeUp",
        target,
        {
            "adjustmentType": "ChangeInCapacity",
            "cooldown": cooldown,
            "metricAggregationType": "Maximum",
            "stepAdjustments": [{"metricIntervalLowerBound": 0, "scalingAdjustment": 1}],
        },
        alarm_description="A request found no copy or instance. Auto Scaling starts one; no action is needed.",
        comparison_operator="GreaterThanOrEqualToThreshold",
        evaluation_periods=1,
        namespace="AWS/SageMaker",
        period=60,
        threshold=1,
        **metric,
    )


def declare_steps(
    scope: Construct,
    id: str,
    target: RegisteredTarget,
    request: StepRequest,
    metric: cloudwatch.IMetric,
) -> None:
    """Declare the policies of valid steps: one for scaling out, one for scaling in."""
    parent, watched = Construct(scope, id), _alarmed(metric)
    statistic = watched.get("statistic")
    for direction, steps in (("Out", request.rising()), ("In", request.falling())):
        if not steps:
            continue
        rising = direction == "Out"
        threshold, adjustments = step_adjustments(steps, rising=rising)
        _declare(
            Construct(parent, direction),
            f"{id}{direction}",
            target,
            drop_none(
                adjustmentType=request.adjustment,
                cooldown=int(request.cooldown),
                metricAggregationType=statistic if statistic in ("Maximum", "Minimum") else "Average",
                minAdjustmentMagnitude=request.min_adjustment_magnitude,
                stepAdjustments=adjustments,
            ),
            alarm_description=f"Scales by {id}: its metric is at or {'above' if rising else 'below'} {threshold:g}. "
            "No action is needed.",
            comparison_operator=f"{'Greater' if rising else 'Less'}ThanOrEqualToThreshold",
            datapoints_to_alarm=request.datapoints_to_alarm,
            evaluation_periods=request.evaluation_periods,
            threshold=threshold,
            **watched,
        )


def _declare(
    scope: Construct, name: str, target: RegisteredTarget, configuration: Mapping[str, Any], **alarm: Any
) -> None:
    """Declare a step scaling policy, and the alarm that runs it."""
    # Missing data must not cause scaling.
    settings: dict[str, Any] = {"treat_missing_data": "notBreaching", **alarm}
    policy = target.policy(
        scope,
        "Policy",
        name=name,
        configuration={"step_scaling_policy_configuration": dict(configuration)},
        **settings,
    )
    cloudwatch.CfnAlarm(scope, "Alarm", alarm_actions=[policy.ref], **settings)


def declare_engine_policy(
    scope: Construct,
    id: str,
    target: RegisteredTarget,
    query: str,
    *,
    change: int,
    cooldown: float,
    cause: str,
) -> None:
    """Declare a policy on an engine's metrics, with the alarm on its condition.

    A PromQL alarm can run scaling policies (CloudWatch user guide, "Alarm actions": for an alarm with contributors,
    Auto Scaling actions run at alarm level). The metric value that it passes to the policy is not documented, so the
    steps are the same on both sides of the threshold.

    Args:
        scope: the construct to create it in.
        id: its ID in that scope, and the policy's name.
        target: the scalable target.
        query: a PromQL query that returns a result while the condition holds; may be a token.
        change: the percentage to add or, if negative, the number of instances or copies to remove.
        cooldown: the cool-down in seconds; may be a number token.
        cause: the reason for the change, for the alarm's description.
    """
    adds = change > 0
    bounds = ({"metricIntervalUpperBound": 0}, {"metricIntervalLowerBound": 0})
    _declare(
        Construct(scope, id),
        id,
        target,
        drop_none(
            adjustmentType="PercentChangeInCapacity" if adds else "ChangeInCapacity",
            cooldown=cooldown,
            minAdjustmentMagnitude=1 if adds else None,
            stepAdjustments=[{**bound, "scalingAdjustment": change} for bound in bounds],
        ),
        alarm_description=f"Scales by {id}: {cause}. No action is needed.",
        evaluation_criteria={
            "promQlCriteria": {
                "pendingPeriod": PENDING_SECONDS if adds else IDLE_SECONDS,
                "query": query,
                "recoveryPeriod": 0,
            }
        },
        evaluation_interval=EVALUATION_SECONDS,
        treat_missing_data=None,
    )


def tracked(metric: cloudwatch.IMetric) -> dict[str, Any]:
    """Return the ``customizedMetricSpecification`` of a target tracking policy."""
    config = metric.to_metric_config()
    single = config.metric_stat
    if single is not None and single.statistic in _STATISTICS:
        return drop_none(**_metric(single), statistic=single.statistic, unit=_unit(single))
    return {"metrics": _queries(config, with_period=False)}


def _alarmed(metric: cloudwatch.IMetric) -> dict[str, Any]:
    """Return an alarm's metric: the properties of a single metric, or ``metrics``."""
    config = metric.to_metric_config()
    single = config.metric_stat
    if single is None:
        return {"metrics": _queries(config, with_period=True)}
    return drop_none(
        dimensions=_metric(single).get("dimensions"),
        metric_name=single.metric_name,
        namespace=single.namespace,
        period=int(single.period.to_seconds()),
        **{"statistic" if single.statistic in _STATISTICS else "extended_statistic": single.statistic},
        unit=_unit(single),
    )


def _metric(single: cloudwatch.MetricStatConfig) -> dict[str, Any]:
    dimensions = [{"name": dimension.name, "value": dimension.value} for dimension in single.dimensions or []]
    return drop_none(dimensions=dimensions or None, metricName=single.metric_name, namespace=single.namespace)


def _unit(single: cloudwatch.MetricStatConfig) -> str | None:
    # The enumeration's names are the API's in upper case: COUNT_PER_SECOND for Count/Second.
    unit = single.unit_filter
    return "/".join(map(str.capitalize, unit.value.split("_PER_"))) if unit is not None else None


def _queries(config: cloudwatch.MetricConfig, *, with_period: bool) -> list[dict[str, Any]]:
    """Return a metric math expression with its operands; the last query is the result."""
    queries: dict[str, dict[str, Any]] = {}

    def add(part: cloudwatch.MetricConfig, id: str) -> None:
        single, expression = part.metric_stat, part.math_expression
        if single is not None:
            stat = drop_none(
                metric=_metric(single),
                period=int(single.period.to_seconds()) if with_period else None,
                stat=single.statistic,
                unit=_unit(single),
            )
            query: dict[str, Any] = {"metricStat": stat}
        elif expression is not None:
            for name, used in (expression.using_metrics or {}).items():
                add(used.to_metric_config(), name)
            query = drop_none(expression=expression.expression, period=int(expression.period) if with_period else None)
        else:
            raise ValueError("alarms and scaling policies cannot use search expressions: name the metrics")
        if queries.setdefault(id, query) != query:
            raise ValueError(f"two metrics of an expression have the ID {id}: change one of them")

    add(config, "result")
    return [
        dict(sorted({**query, "id": name, "returnData": name == "result"}.items())) for name, query in queries.items()
    ]
