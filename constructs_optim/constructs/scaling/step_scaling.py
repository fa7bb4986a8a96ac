"""Step scaling: policies that an alarm of their own calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aws_cdk import aws_applicationautoscaling as scaling
from constructs import Construct

from constructs_optim.recipe.hosting.scaling import StepRequest, step_adjustments

from .scaling_target import WakeMetric

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch

_AGGREGATIONS = {"Maximum": "Maximum", "Minimum": "Minimum"}


class AlarmedPolicy(Construct):
    """A step scaling policy, and the alarm that calls it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        scaling_target_id: str,
        configuration: Mapping[str, Any],
        alarm: Mapping[str, Any],
    ) -> None:
        from aws_cdk import aws_cloudwatch as cloudwatch

        super().__init__(scope, id)
        policy = scaling.CfnScalingPolicy(
            self,
            "Policy",
            policy_name=name,
            policy_type="StepScaling",
            scaling_target_id=scaling_target_id,
            step_scaling_policy_configuration=dict(configuration),
        )
        cloudwatch.CfnAlarm(self, "Alarm", **alarm, alarm_actions=[policy.ref])


class WakeUp(AlarmedPolicy):
    """Starts capacity for the first request that finds none: target tracking cannot scale what is not there.

    Source: Amazon SageMaker developer guide, "Scale an endpoint to zero instances". The alarm there needs two failed
    requests in a minute; here the first one wakes.
    """

    ID = "WakeUp"

    def __init__(self, scope: Construct, *, scaling_target_id: str, metric: WakeMetric, cooldown_seconds: int) -> None:
        super().__init__(
            scope,
            self.ID,
            name=self.ID,
            scaling_target_id=scaling_target_id,
            configuration={
                "adjustmentType": "ChangeInCapacity",
                "cooldown": cooldown_seconds,
                "metricAggregationType": "Maximum",
                "stepAdjustments": [{"metricIntervalLowerBound": 0, "scalingAdjustment": 1}],
            },
            alarm={
                "alarm_description": "A request found nothing to answer it, which is started now. Nothing to do.",
                "comparison_operator": "GreaterThanOrEqualToThreshold",
                "dimensions": [{"name": metric.dimension, "value": metric.value}],
                "evaluation_periods": 1,
                "metric_name": metric.name,
                "namespace": "AWS/SageMaker",
                "period": 60,
                "statistic": metric.statistic,
                "threshold": 1,
                "treat_missing_data": "notBreaching",
            },
        )


class StepScaling(Construct):
    """The policies of one request: one for a metric that is too high, one for a metric that is too low."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        scaling_target_id: str,
        request: StepRequest,
        metric: cloudwatch.IMetric,
        min_adjustment_magnitude: int | None = None,
    ) -> None:
        """Translate a request that rules have found nothing against."""
        from .metric_properties import alarmed

        super().__init__(scope, id)
        watched = alarmed(metric)
        directions = (("Out", request.rising(), True), ("In", request.falling(), False))
        for direction, steps, rising in directions:
            if not steps:
                continue
            threshold, adjustments = step_adjustments(steps, rising=rising)
            over = "at or above" if rising else "at or below"
            AlarmedPolicy(
                self,
                direction,
                name=f"{id}{direction}",
                scaling_target_id=scaling_target_id,
                configuration={
                    "adjustmentType": request.adjustment,
                    "cooldown": int(request.cooldown),
                    "metricAggregationType": _AGGREGATIONS.get(watched.get("statistic", ""), "Average"),
                    **(
                        {"minAdjustmentMagnitude": min_adjustment_magnitude}
                        if min_adjustment_magnitude is not None
                        else {}
                    ),
                    "stepAdjustments": adjustments,
                },
                alarm={
                    "alarm_description": f"Scales by {id}: its metric is {over} {threshold:g}. Nothing to do.",
                    "comparison_operator": f"{'Greater' if rising else 'Less'}ThanOrEqualToThreshold",
                    "evaluation_periods": request.evaluation_periods,
                    "threshold": threshold,
                    # No data is no reason to scale.
                    "treat_missing_data": "notBreaching",
                    **(
                        {"datapoints_to_alarm": request.datapoints_to_alarm}
                        if request.datapoints_to_alarm is not None
                        else {}
                    ),
                    **watched,
                },
            )
