"""Regional availability of resource types, the Lambda layer, and the limits of SageMaker's recommendation jobs."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel

from . import load

INFERENCE_COMPONENT = "AWS::SageMaker::InferenceComponent"
WORKLOAD_CONFIG = "AWS::SageMaker::AIWorkloadConfig"


class RecommendationJobs(BaseModel, frozen=True):
    """What recommendation jobs accept, the API's metric by goal, and the Regions that have them."""

    instance_types: tuple[str, ...]
    most_instance_types: int
    metrics: dict[str, str]
    frameworks: tuple[str, ...]
    regions: tuple[str, ...]


class Layer(BaseModel, frozen=True):
    """One version of a Lambda layer, the release of the library in it, and its account by Region."""

    name: str
    version: int
    release: str
    accounts: dict[str, str]


@cache
def powertools() -> Layer:
    """Powertools for AWS Lambda (Python), for the handlers' runtime and architecture."""
    return Layer.model_validate(load("layers")["powertools"])


@cache
def recommendations() -> RecommendationJobs:
    """The catalog's data about recommendation jobs."""
    return RecommendationJobs.model_validate(load("recommendations"))


def regions_with(resource_type: str) -> tuple[str, ...]:
    """The Regions that have a resource type of CloudFormation, in alphabetical order."""
    return tuple(load("resource_types")["types"][resource_type])


def is_missing(resource_type: str, region: str) -> bool:
    """Whether a Region lacks a resource type; False for a Region that the catalog does not know."""
    return region in load("resource_types")["regions"] and region not in regions_with(resource_type)
