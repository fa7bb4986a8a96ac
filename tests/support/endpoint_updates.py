"""Updates of an endpoint: deployment configurations, the alarms they watch, and the stages they go through."""

from __future__ import annotations

from typing import Any

from .hosting import make_config, make_model, settled
from .waiting import until

AT_ONCE = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}


def blue_green(routing: dict[str, Any], *, termination: int = 300, alarms: tuple[str, ...] = ()) -> dict[str, Any]:
    policy = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": termination}
    return {"BlueGreenUpdatePolicy": policy, **watching(alarms)}


def watching(alarms: tuple[str, ...]) -> dict[str, Any]:
    return {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": name} for name in alarms]}} if alarms else {}


def serving(sagemaker: Any, name: str, count: int = 3, **more: Any) -> None:
    """An endpoint in service, and a second configuration of the same size to move to."""
    make_model(sagemaker, name)
    make_config(sagemaker, name, name, count=count)
    make_config(sagemaker, f"{name}-2", name, count=count)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name, **more)
    assert settled(sagemaker, name)["EndpointStatus"] == "InService"


def make_alarm(cloudwatch: Any, name: str, **more: Any) -> str:
    given = {
        "Namespace": "AWS/SageMaker",
        "MetricName": "Invocation5XXErrors",
        "Statistic": "Sum",
        "Period": 60,
        **more,
    }
    if "Metrics" in more:
        given = more
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        **given,
    )
    return name


def trip(cloudwatch: Any, name: str, state: str = "ALARM") -> None:
    cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="a test")


def stage(endpoint: dict[str, Any]) -> tuple[str, str, int, int]:
    """Endpoint status, stage status, and the instances of the new and of the old fleet."""
    pending = endpoint.get("PendingDeploymentSummary", {}).get("ProductionVariants", [{}])[0]
    done = pending.get("VariantStatus", [{}])[0].get("Status", "")
    old = endpoint["ProductionVariants"][0]["CurrentInstanceCount"]
    return endpoint["EndpointStatus"], done, pending.get("CurrentInstanceCount", 0), old


def update(sagemaker: Any, name: str, config: dict[str, Any], **more: Any) -> None:
    sagemaker.update_endpoint(
        EndpointName=name, EndpointConfigName=f"{name}-2", **({"DeploymentConfig": config} if config else {}), **more
    )


def baking(sagemaker: Any, name: str) -> dict[str, Any]:
    return until(lambda: sagemaker.describe_endpoint(EndpointName=name), lambda e: stage(e)[1] == "Baking")
