"""The members of SageMaker's descriptions that an adoption declares, refuses for a reason of its own, or can ignore.

An endpoint with another member that has a value cannot be adopted: its declaration would lose the setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

# Names as in the API reference of DescribeEndpointConfig, DescribeModel and DescribeInferenceComponent. What is in a
# member with `_ALL` counts as known, and a text is the only value of a member that does.
_ALL: Final = None
_Members = Mapping[str, Any]


def _leaves(names: str) -> dict[str, None]:
    return dict.fromkeys(names.split(), _ALL)


_S3_DATA = {
    # SageMaker writes ETag: the hash of the files that it found.
    **_leaves("S3Uri S3DataType CompressionType ETag"),
    "ModelAccessConfig": _leaves("AcceptEula"),
}
CONFIGURATION: Final[_Members] = {
    **_leaves("EndpointConfigName EndpointConfigArn CreationTime KmsKeyId ExecutionRoleArn VpcConfig"),
    **_leaves("EnableNetworkIsolation ShadowProductionVariants ExplainerConfig AsyncInferenceConfig ResponseMetadata"),
    "MetricsConfig": _leaves("EnableEnhancedMetrics EnableDetailedObservability MetricPublishFrequencyInSeconds"),
    "DataCaptureConfig": {
        **_leaves("EnableCapture InitialSamplingPercentage DestinationS3Uri KmsKeyId CaptureOptions"),
        "CaptureContentTypeHeader": _leaves("CsvContentTypes JsonContentTypes"),
    },
    "ProductionVariants": {
        # The weight counts only beside other variants.
        **_leaves("VariantName ModelName InitialInstanceCount InstanceType InitialVariantWeight EnableSSMAccess"),
        **_leaves("InstancePools ServerlessConfig AcceleratorType CapacityReservationConfig CoreDumpConfig"),
        **_leaves("AcceleratorPartitionLayouts InferenceAmiVersion VolumeSizeInGB RoutingConfig"),
        **_leaves("VariantInstanceProvisionTimeoutInSeconds ModelDataDownloadTimeoutInSeconds"),
        **_leaves("ContainerStartupHealthCheckTimeoutInSeconds"),
        "ManagedInstanceScaling": {
            **_leaves("Status MinInstanceCount MaxInstanceCount"),
            "ScaleInPolicy": _leaves("Strategy MaximumStepSize CooldownInMinutes"),
        },
    },
}
MODEL: Final[_Members] = {
    # InferenceExecutionConfig counts only for a pipeline of containers, which is refused.
    **_leaves("ModelName ModelArn CreationTime ExecutionRoleArn VpcConfig EnableNetworkIsolation Containers"),
    **_leaves("InferenceExecutionConfig DeploymentRecommendation ResponseMetadata"),
    "PrimaryContainer": {
        # The host name counts only in a pipeline.
        **_leaves("ContainerHostname Image Mode ModelDataUrl Environment ModelPackageName MultiModelConfig"),
        **_leaves("AdditionalModelDataSources"),
        "ImageConfig": {"RepositoryAccessMode": "Platform"},
        "ModelDataSource": {"S3DataSource": _S3_DATA},
    },
}
COMPONENT: Final[_Members] = {
    **_leaves("InferenceComponentName InferenceComponentArn EndpointName EndpointArn VariantName FailureReason"),
    **_leaves("InferenceComponentStatus RuntimeConfig CreationTime LastModifiedTime LastDeploymentConfig"),
    **_leaves("Specifications ResponseMetadata"),
    "Specification": {
        **_leaves("InstanceType ModelName Container BaseInferenceComponentName SchedulingConfig"),
        "ComputeResourceRequirements": _leaves(
            "NumberOfCpuCoresRequired NumberOfAcceleratorDevicesRequired MinMemoryRequiredInMb MaxMemoryRequiredInMb"
        ),
        "DataCacheConfig": _leaves("EnableCaching"),
        "StartupParameters": _leaves("ModelDataDownloadTimeoutInSeconds ContainerStartupHealthCheckTimeoutInSeconds"),
    },
}


def others(described: Mapping[str, Any], known: _Members) -> Iterator[str]:
    """Yield the paths of a description's members that have a value and are not known."""
    for name, value in described.items():
        if not value:
            continue
        inner = known.get(name)
        if name not in known or (isinstance(inner, str) and value != inner):
            yield name
        elif isinstance(inner, Mapping):
            parts = value if isinstance(value, list) else [value]
            found = {f"{name}.{path}" for part in parts for path in others(part, inner)}
            yield from sorted(found)
