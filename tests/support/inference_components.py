"""Endpoints with inference components, as a test requests and observes them."""

from __future__ import annotations

from typing import Any

from .endpoint_updates import watching
from .hosting import IMAGE, settled
from .local_cloud import ROLE
from .waiting import until

FOUR_GPUS, ONE_GPU = "ml.g5.12xlarge", "ml.g5.2xlarge"
SETTLED = ("InService", "Failed")
PARTITIONED = ("sliced", "other-sliced")


def endpoint(sagemaker: Any, name: str, *types: str, count: int = 1, managed: tuple[int, int] | None = None) -> None:
    """An endpoint for components, in service."""
    pools = [{"InstanceType": type_name, "Priority": place} for place, type_name in enumerate(types, 1)]
    variant: dict[str, Any] = {"VariantName": "AllTraffic", "InitialInstanceCount": count}
    variant |= {"InstancePools": pools} if len(types) > 1 else {"InstanceType": (*types, FOUR_GPUS)[0]}
    if managed is not None:
        low, high = managed
        scaling = {"Status": "ENABLED", "MinInstanceCount": low, "MaxInstanceCount": high}
        variant["ManagedInstanceScaling"] = scaling
    sagemaker.create_endpoint_config(EndpointConfigName=name, ExecutionRoleArn=ROLE, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(sagemaker, name)["EndpointStatus"] == "InService"


def needing(accelerators: float, memory: int = 1024, image: str = IMAGE, **more: Any) -> dict[str, Any]:
    requirements = {"NumberOfAcceleratorDevicesRequired": accelerators, "MinMemoryRequiredInMb": memory}
    return {"Container": {"Image": image}, "ComputeResourceRequirements": requirements, **more}


def adapter(base: str) -> dict[str, Any]:
    return {"BaseInferenceComponentName": base, "Container": {"ArtifactUrl": "s3://adapters/one.tar.gz"}}


def create(sagemaker: Any, name: str, on: str, specification: Any, copies: int | None = 1) -> dict[str, Any]:
    kind = "Specifications" if isinstance(specification, list) else "Specification"
    sagemaker.create_inference_component(
        InferenceComponentName=name,
        EndpointName=on,
        VariantName="AllTraffic",
        **{kind: specification},
        **({"RuntimeConfig": {"CopyCount": copies}} if copies is not None else {}),
    )
    return component(sagemaker, name)


def component(sagemaker: Any, name: str) -> dict[str, Any]:
    return until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName=name),
        lambda found: found["InferenceComponentStatus"] in SETTLED,
    )


def instance_count(sagemaker: Any, name: str) -> int:
    return sagemaker.describe_endpoint(EndpointName=name)["ProductionVariants"][0]["CurrentInstanceCount"]


def rolling(*, wait: int = 100, alarms: tuple[str, ...] = ()) -> dict[str, Any]:
    size = {"Type": "CAPACITY_PERCENT", "Value": 50}
    return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait}, **watching(alarms)}


def partitioned_endpoints(sagemaker: Any) -> None:
    """Endpoints whose GPUs are partitioned, in service, and a model."""
    sagemaker.create_model(ModelName="sliced", PrimaryContainer={"Image": IMAGE}, ExecutionRoleArn=ROLE)
    layout = {"AcceleratorPartitionTypes": ["mig-3g.40gb", "mig-2g.20gb", "mig-2g.20gb"]}
    for name in PARTITIONED:
        variant = {
            "VariantName": "AllTraffic",
            "InitialInstanceCount": 1,
            "InstanceType": "ml.p5.48xlarge",
            "AcceleratorPartitionLayouts": [layout],
        }
        sagemaker.create_endpoint_config(EndpointConfigName=name, ExecutionRoleArn=ROLE, ProductionVariants=[variant])
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    for name in PARTITIONED:
        assert settled(sagemaker, name)["EndpointStatus"] == "InService"
