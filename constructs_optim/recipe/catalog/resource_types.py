"""CloudFormation's resource types that not every region has."""

from __future__ import annotations

from .files import load

INFERENCE_COMPONENT = "AWS::SageMaker::InferenceComponent"
WORKLOAD_CONFIG = "AWS::SageMaker::AIWorkloadConfig"


def regions_with(resource_type: str) -> tuple[str, ...]:
    """The regions that have a type, by name."""
    return tuple(load("resource_types")["types"][resource_type])


def is_missing(resource_type: str, region: str) -> bool:
    """Whether a region lacks a type; False for a region that the catalog does not know."""
    known: list[str] = load("resource_types")["regions"]
    return region in known and region not in regions_with(resource_type)
