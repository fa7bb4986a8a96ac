"""What SageMaker tells of an endpoint: instances, the model's files and the artifact that is served."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from .errors import EvaluationError

_ARTIFACT = re.compile(r"/artifacts/([0-9a-f]{64})/")


@dataclass(frozen=True)
class DescribedEndpoint:
    """An endpoint, seen from one of its variants or inference components.

    Attributes:
        variant_name: the production variant that serves, where there is one only or one was chosen.
        instance_type: None where instances of several types serve.
        instance_count: of them all.
        model_data: the ``s3://`` prefix of the model's files.
        artifact_key: of the artifact, where it is one of a store's.
    """

    variant_name: str | None = None
    instance_type: str | None = None
    instance_count: int | None = None
    model_data: str | None = None
    artifact_key: str | None = None


def described_endpoint(
    sagemaker: Any, endpoint_name: str, *, variant_name: str | None = None, inference_component_name: str | None = None
) -> DescribedEndpoint:
    """Ask SageMaker.

    Args:
        sagemaker: a ``sagemaker`` client of boto3.
        endpoint_name: of the endpoint.
        variant_name: of the variant that is evaluated. Default: the only one.
        inference_component_name: of the component that is evaluated. Default: the endpoint has none.

    Raises:
        EvaluationError: where the endpoint, or what was named of it, is not there or not in service.
        botocore.exceptions.ClientError: where the account may not ask.
    """
    try:
        endpoint = sagemaker.describe_endpoint(EndpointName=endpoint_name)
        component = (
            sagemaker.describe_inference_component(InferenceComponentName=inference_component_name)
            if inference_component_name
            else None
        )
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ValidationException":
            raise EvaluationError(error.response.get("Error", {}).get("Message", str(error))) from None
        raise
    if endpoint["EndpointStatus"] not in ("InService", "Updating", "SystemUpdating"):
        reason = f": {endpoint['FailureReason']}" if endpoint.get("FailureReason") else ""
        raise EvaluationError(f"{endpoint_name} is {endpoint['EndpointStatus']}{reason}; it has to be InService")
    if component is not None and component["EndpointName"] != endpoint_name:
        raise EvaluationError(f"{inference_component_name} is a component of {component['EndpointName']}")
    configuration = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    running = {variant["VariantName"]: variant for variant in endpoint.get("ProductionVariants", [])}
    variants = {variant["VariantName"]: variant for variant in configuration["ProductionVariants"]}
    chosen = (
        variant_name or (component or {}).get("VariantName") or (next(iter(variants)) if len(variants) == 1 else None)
    )
    if chosen is None:
        raise EvaluationError(f"{endpoint_name} has the variants {', '.join(variants)}: choose one with --variant")
    if chosen not in variants:
        raise EvaluationError(f"{endpoint_name} has no variant {chosen}; it has {', '.join(variants)}")
    variant = variants[chosen]
    if component is None and "ModelName" not in variant:
        raise EvaluationError(f"{endpoint_name} serves inference components: choose one with --inference-component")
    model_data = _model_data(sagemaker, variant, component)
    artifact = _ARTIFACT.search(model_data or "")
    return DescribedEndpoint(
        chosen,
        variant.get("InstanceType"),
        running.get(chosen, {}).get("CurrentInstanceCount") or variant.get("InitialInstanceCount"),
        model_data,
        artifact[1] if artifact else None,
    )


def _model_data(sagemaker: Any, variant: dict[str, Any], component: dict[str, Any] | None) -> str | None:
    specification = (component or {}).get("Specification", {})
    container = specification.get("Container", {})
    if "ArtifactUrl" in container:
        return container["ArtifactUrl"]
    name = specification.get("ModelName") or variant.get("ModelName")
    if name is None:
        return None
    model = sagemaker.describe_model(ModelName=name)
    primary = model.get("PrimaryContainer") or next(iter(model.get("Containers", [])), {})
    source = primary.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
    return source or primary.get("ModelDataUrl")
