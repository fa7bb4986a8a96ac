"""Shell completions from the catalog and the AWS configuration, without calls to AWS."""

from __future__ import annotations

from collections.abc import Iterable

from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.servers import by_name
from constructs_optim.recipe.techniques import REGISTRY


def model_ids(incomplete: str) -> list[str]:
    """Complete models from JumpStart and Hugging Face."""
    return _beginning(incomplete, [*models.by_id(), *models.of_hugging_face()])


def instance_types(incomplete: str) -> list[str]:
    """Complete instance types that host endpoints."""
    return _beginning(incomplete, (name for name, row in instances.by_name().items() if row.hosts_endpoints))


def techniques(incomplete: str) -> list[str]:
    """Complete techniques as ``kind=variant``, without settings."""
    return _beginning(incomplete, (f"{kind}={name}" for kind, named in REGISTRY.items() for name in named))


def servers(incomplete: str) -> list[str]:
    """Model servers."""
    return _beginning(incomplete, by_name())


def features(incomplete: str) -> list[str]:
    """Complete features that models support."""
    rows = (*models.by_id().values(), *models.of_hugging_face().values())
    return _beginning(incomplete, {feature.replace("_", "-") for row in rows for feature in row.supports})


def regions(incomplete: str) -> list[str]:
    """Complete Regions with SageMaker, from botocore."""
    import boto3

    return _beginning(incomplete, boto3.Session().get_available_regions("sagemaker"))


def profiles(incomplete: str) -> list[str]:
    """Complete profiles from the AWS configuration."""
    import boto3

    return _beginning(incomplete, boto3.Session().available_profiles)


def _beginning(incomplete: str, values: Iterable[str]) -> list[str]:
    return sorted(value for value in values if value.startswith(incomplete))
