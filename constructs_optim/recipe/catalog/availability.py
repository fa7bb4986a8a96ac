"""What not every region has, the layer of Lambda functions, and what SageMaker's recommendation jobs take."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel

from . import load

INFERENCE_COMPONENT = "AWS::SageMaker::InferenceComponent"
WORKLOAD_CONFIG = "AWS::SageMaker::AIWorkloadConfig"


class RecommendationJobs(BaseModel, frozen=True):
    """What a recommendation job takes, with the API's metric for each goal, and the regions that have them."""

    instance_types: tuple[str, ...]
    most_instance_types: int
    metrics: dict[str, str]
    frameworks: tuple[str, ...]
    regions: tuple[str, ...]


class Layer(BaseModel, frozen=True):
    """One version of a Lambda layer, the release of the library in it, and the account that has it by region."""

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
    """What recommendation jobs take."""
    return RecommendationJobs.model_validate(load("recommendations"))


def regions_with(resource_type: str) -> tuple[str, ...]:
    """The regions that have a resource type of CloudFormation, by name."""
    return tuple(load("resource_types")["types"][resource_type])


def is_missing(resource_type: str, region: str) -> bool:
    """Whether a region lacks a resource type; False for a region that the catalog does not know."""
    return region in load("resource_types")["regions"] and region not in regions_with(resource_type)
