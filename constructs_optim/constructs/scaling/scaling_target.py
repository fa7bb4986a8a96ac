"""What Application Auto Scaling scales of an endpoint."""

from __future__ import annotations

from dataclasses import dataclass

NAMESPACE = "sagemaker"
"""What Application Auto Scaling calls the service."""


@dataclass(frozen=True)
class WakeMetric:
    """The metric of requests that found no capacity; not zero where one should be started."""

    name: str
    statistic: str
    dimension: str
    value: str


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

    @property
    def wake_metric(self) -> WakeMetric | None:
        """None: a variant that answers at once keeps an instance."""
        return None


@dataclass(frozen=True)
class AsyncVariantTarget(VariantTarget):
    """The variant of an asynchronous endpoint: requests wait in its queue, and there may be no instance meanwhile.

    Source: Amazon SageMaker developer guide, "Autoscale an asynchronous endpoint".
    """

    @property
    def wake_metric(self) -> WakeMetric:
        """Requests wait, and no instance is there."""
        return WakeMetric("HasBacklogWithoutCapacity", "Average", "EndpointName", self.endpoint_name)


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

    @property
    def wake_metric(self) -> WakeMetric:
        """Requests failed because no copy was there."""
        return WakeMetric("NoCapacityInvocationFailures", "Sum", "InferenceComponentName", self.name)
