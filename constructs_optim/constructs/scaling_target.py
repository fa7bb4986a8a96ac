"""What Application Auto Scaling scales of an endpoint."""

from __future__ import annotations

from dataclasses import dataclass

NAMESPACE = "sagemaker"
"""What Application Auto Scaling calls the service."""


@dataclass(frozen=True)
class VariantTarget:
    """A production variant, which scales by instances."""

    endpoint_name: str
    variant_name: str

    dimension = "sagemaker:variant:DesiredInstanceCount"
    concurrency_metric = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    invocations_metric = "SageMakerVariantInvocationsPerInstance"
    serves_components = False

    @property
    def resource_id(self) -> str:
        """What Application Auto Scaling calls it."""
        return f"endpoint/{self.endpoint_name}/variant/{self.variant_name}"


@dataclass(frozen=True)
class ComponentTarget:
    """An inference component, which scales by copies of its model."""

    name: str

    dimension = "sagemaker:inference-component:DesiredCopyCount"
    concurrency_metric = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
    invocations_metric = "SageMakerInferenceComponentInvocationsPerCopy"
    serves_components = True

    @property
    def resource_id(self) -> str:
        """What Application Auto Scaling calls it."""
        return f"inference-component/{self.name}"
