"""What Application Auto Scaling scales, and its step scaling policies: each is called by an alarm of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_cdk import aws_applicationautoscaling as scaling
from constructs import Construct

from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.recipe.hosting.scaling import StepRequest, step_adjustments

from .metric_properties import alarmed

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch

WAKE_UP = "WakeUp"
"""The id of the policy of :func:`declare_wake_up`."""


@dataclass(frozen=True)
class WakeMetric:
    """The metric of requests that found no capacity; not zero where some should be started."""

    name: str
    statistic: str
    dimension: str
    value: str


@dataclass(frozen=True)
class ScalingTarget:
    """A production variant, which scales by instances, or an inference component, which scales by copies.

    Attributes:
        resource_id: its id in Application Auto Scaling.
        dimension: the dimension that scales.
        concurrency_metric: the predefined metric of requests in flight.
        invocations_metric: the predefined metric of invocations.
        wake: the metric that starts capacity where there is none. None: a variant keeps an instance.
        queue_of: the asynchronous endpoint whose requests wait in a queue. Default: they do not.
    """

    resource_id: str
    dimension: str
    concurrency_metric: str
    invocations_metric: str
    wake: WakeMetric | None = None
    queue_of: str | None = None

    @staticmethod
    def variant(endpoint_name: str, variant_name: str, *, is_asynchronous: bool = False) -> ScalingTarget:
        """A production variant. That of an asynchronous endpoint may have no instance while no request waits.

        Source: Amazon SageMaker developer guide, "Autoscale an asynchronous endpoint".
        """
        wake = WakeMetric("HasBacklogWithoutCapacity", "Average", "EndpointName", endpoint_name)
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
        """An inference component."""
        return ScalingTarget(
            f"inference-component/{name}",
            "sagemaker:inference-component:DesiredCopyCount",
            "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
            "SageMakerInferenceComponentInvocationsPerCopy",
            WakeMetric("NoCapacityInvocationFailures", "Sum", "InferenceComponentName", name),
        )


def declare_wake_up(scope: Construct, scaling_target_id: str, metric: WakeMetric, cooldown_seconds: int) -> None:
    """Start capacity for the first request that finds none: target tracking cannot scale what is not there.

    Source: Amazon SageMaker developer guide, "Scale an endpoint to zero instances". The alarm there needs two failed
    requests in a minute; here the first one wakes.
    """
    _declare(
        Construct(scope, WAKE_UP),
        WAKE_UP,
        scaling_target_id,
        {
            "adjustmentType": "ChangeInCapacity",
            "cooldown": cooldown_seconds,
            "metricAggregationType": "Maximum",
            "stepAdjustments": [{"metricIntervalLowerBound": 0, "scalingAdjustment": 1}],
        },
        alarm_description="A request found nothing to answer it, which is started now. Nothing to do.",
        comparison_operator="GreaterThanOrEqualToThreshold",
        dimensions=[{"name": metric.dimension, "value": metric.value}],
        evaluation_periods=1,
        metric_name=metric.name,
        namespace="AWS/SageMaker",
        period=60,
        statistic=metric.statistic,
        threshold=1,
    )


def declare_steps(
    scope: Construct,
    id: str,
    scaling_target_id: str,
    request: StepRequest,
    metric: cloudwatch.IMetric,
    min_adjustment_magnitude: int | None,
) -> None:
    """Declare the policies of a valid request: one for a metric that is too high, one for one that is too low."""
    parent, watched = Construct(scope, id), alarmed(metric)
    statistic = watched.get("statistic")
    for direction, steps in (("Out", request.rising()), ("In", request.falling())):
        if not steps:
            continue
        rising = direction == "Out"
        threshold, adjustments = step_adjustments(steps, rising=rising)
        _declare(
            Construct(parent, direction),
            f"{id}{direction}",
            scaling_target_id,
            drop_none(
                adjustmentType=request.adjustment,
                cooldown=int(request.cooldown),
                metricAggregationType=statistic if statistic in ("Maximum", "Minimum") else "Average",
                minAdjustmentMagnitude=min_adjustment_magnitude,
                stepAdjustments=adjustments,
            ),
            alarm_description=f"Scales by {id}: its metric is at or {'above' if rising else 'below'} {threshold:g}. "
            "Nothing to do.",
            comparison_operator=f"{'Greater' if rising else 'Less'}ThanOrEqualToThreshold",
            datapoints_to_alarm=request.datapoints_to_alarm,
            evaluation_periods=request.evaluation_periods,
            threshold=threshold,
            **watched,
        )


def _declare(
    scope: Construct, name: str, scaling_target_id: str, configuration: Mapping[str, Any], **alarm: Any
) -> None:
    """Declare a step scaling policy, and the alarm that calls it."""
    from aws_cdk import aws_cloudwatch as cloudwatch

    policy = scaling.CfnScalingPolicy(
        scope,
        "Policy",
        policy_name=name,
        policy_type="StepScaling",
        scaling_target_id=scaling_target_id,
        step_scaling_policy_configuration=dict(configuration),
    )
    # No data is no reason to scale.
    cloudwatch.CfnAlarm(scope, "Alarm", **alarm, alarm_actions=[policy.ref], treat_missing_data="notBreaching")
