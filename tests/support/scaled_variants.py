"""Scalable targets of a variant, their policies and alarms, and what Application Auto Scaling did."""

from __future__ import annotations

from typing import Any

from .waiting import until

INSTANCES = "sagemaker:variant:DesiredInstanceCount"


def variant(name: str) -> dict[str, str]:
    return target(f"endpoint/{name}/variant/AllTraffic", INSTANCES)


def target(resource: str, dimension: str) -> dict[str, str]:
    return {"ServiceNamespace": "sagemaker", "ResourceId": resource, "ScalableDimension": dimension}


def instances(sagemaker: Any, name: str, wanted: int) -> None:
    until(
        lambda: sagemaker.describe_endpoint(EndpointName=name)["ProductionVariants"][0]["CurrentInstanceCount"],
        lambda count: count == wanted,
    )


def step_policy(scaling: Any, of: dict[str, str], adjustment: int, *, kind: str = "ChangeInCapacity") -> str:
    bound = "MetricIntervalLowerBound" if adjustment >= 0 else "MetricIntervalUpperBound"
    steps = [{bound: 0.0, "ScalingAdjustment": adjustment}]
    made = scaling.put_scaling_policy(
        **of,
        PolicyName=f"step-{adjustment}",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={"AdjustmentType": kind, "StepAdjustments": steps, "Cooldown": 0},
    )
    return made["PolicyARN"]


def alarm(cloudwatch: Any, name: str, policy: str, *, above: bool = True, dimensions: Any = ()) -> None:
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        Namespace="AWS/SageMaker",
        MetricName=f"Metric-{name}",
        Statistic="Maximum",
        Period=10,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanOrEqualToThreshold" if above else "LessThanThreshold",
        AlarmActions=[policy],
        Dimensions=list(dimensions),
    )


def causes(scaling: Any, of: dict[str, str]) -> list[str]:
    return [activity["Cause"] for activity in scaling.describe_scaling_activities(**of)["ScalingActivities"]]
