"""Regional availability of resource types, PromQL and the Lambda layer, and the limits of recommendation jobs."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel

from . import load
from .images import registry_accounts

INFERENCE_COMPONENT = "AWS::SageMaker::InferenceComponent"
WORKLOAD_CONFIG = "AWS::SageMaker::AIWorkloadConfig"


class RecommendationJobs(BaseModel, frozen=True):
    """The inputs that recommendation jobs accept, the API's metric by goal, and the Regions with such jobs."""

    instance_types: tuple[str, ...]
    most_instance_types: int
    metrics: dict[str, str]
    frameworks: tuple[str, ...]
    regions: tuple[str, ...]


class Layer(BaseModel, frozen=True):
    """A version of a Lambda layer, the library's release in it, and its account by Region."""

    name: str
    version: int
    release: str
    accounts: dict[str, str]


@cache
def powertools() -> Layer:
    """Return the layer of Powertools for AWS Lambda (Python) for the handlers' runtime and architecture."""
    return Layer.model_validate(load("layers")["powertools"])


@cache
def recommendations() -> RecommendationJobs:
    """Return the catalog's data about recommendation jobs."""
    return RecommendationJobs.model_validate(load("recommendations"))


def regions_with(resource_type: str) -> tuple[str, ...]:
    """Return the Regions that have a CloudFormation resource type, in alphabetical order."""
    return tuple(load("resource_types")["types"][resource_type])


def is_missing(resource_type: str, region: str) -> bool:
    """Return whether a Region lacks a resource type; False for a Region that is not in the catalog."""
    return region in load("resource_types")["regions"] and region not in regions_with(resource_type)


def regions_with_promql() -> tuple[str, ...]:
    """Return the Regions where CloudWatch's metrics can be queried with PromQL, in alphabetical order."""
    return tuple(load("regional_features")["features"]["promql"]["regions"])


def lacks_promql(region: str) -> bool:
    """Return whether a Region has no PromQL; False for a Region that the catalog does not know."""
    known = {*load("resource_types")["regions"], *registry_accounts()}
    return region in known and region not in regions_with_promql()
