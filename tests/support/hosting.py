"""Models, endpoint configurations and endpoints, made through SageMaker's API."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from .local_cloud import ROLE
from .waiting import until

IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/lmi:1"


def make_model(sagemaker: Any, name: str) -> None:
    sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE}, EnableNetworkIsolation=True
    )


def make_config(sagemaker: Any, name: str, model: str | None, count: int = 1, **more: Any) -> None:
    variant: dict[str, Any] = {
        "VariantName": "AllTraffic",
        "InstanceType": "ml.g5.12xlarge",
        "InitialInstanceCount": count,
    }
    if model is None:
        # The models that components use are isolated, as make_model makes them.
        sagemaker.create_endpoint_config(
            EndpointConfigName=name,
            **{"ExecutionRoleArn": ROLE, **more},
            ProductionVariants=[variant],
            EnableNetworkIsolation=True,
        )
    else:
        sagemaker.create_endpoint_config(
            EndpointConfigName=name,
            ProductionVariants=[{**variant, "ModelName": model, "InitialVariantWeight": 1}],
            **more,
        )


def settled(sagemaker: Any, name: str) -> dict[str, Any]:
    return until(
        lambda: sagemaker.describe_endpoint(EndpointName=name),
        lambda endpoint: endpoint["EndpointStatus"] in ("InService", "Failed"),
    )


def gone(describe: Any) -> None:
    """Wait until a describe call reports that the resource does not exist."""

    def found() -> bool:
        try:
            return bool(describe())
        except ClientError as error:
            if "Could not find" not in str(error):
                raise
            return False

    until(found, lambda there: not there)


def deploy(sagemaker: Any, name: str, *, components: bool = False) -> dict[str, Any]:
    if not components:
        make_model(sagemaker, name)
    make_config(sagemaker, name, None if components else name)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    return settled(sagemaker, name)
