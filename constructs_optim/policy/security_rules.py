"""Rules on encryption keys, networks and isolation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from constructs_optim.recipe.catalog import instances
from constructs_optim.templates.endpoints import variants
from constructs_optim.templates.json_values import is_object
from constructs_optim.templates.resource_types import ENDPOINT_CONFIG, JOBS, MODELS
from constructs_optim.templates.template import Resource, Template

from .registry import Breach, policy_rule
from .settings import PlatformPolicy

# EC2 user guide, "Amazon EC2 instance type naming conventions": d after the generation is for instance store volumes.
_NAMED_FOR_DISKS = re.compile(r"ml\.[a-z]+\d+[a-z]*d[a-z]*\..+")
_NO_KEY = "encrypted with a key of AWS, and the policy wants one of yours"


@policy_rule(
    "POL030",
    title="What is stored is encrypted with your own KMS keys",
    looks_at="volumes of instances without NVMe disks, captured data, asynchronous responses, artifact stores",
    reason="who may read is then decided, and logged, by the key's policy",
)
def _own_keys_encrypt(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for config in template.of_type(ENDPOINT_CONFIG):
        types = [name for one in variants(template) if one.config is config for _, name in one.instance_types]
        if config.get("KmsKeyId") is None and types and not all(_has_disks(name) for name in types):
            yield Breach(config, "Properties.KmsKeyId", None, f"volumes are {_NO_KEY}", "encryption_key=...")
        capture = config.get("DataCaptureConfig")
        if capture is not None and config.get("DataCaptureConfig", "KmsKeyId") is None:
            location = "Properties.DataCaptureConfig.KmsKeyId"
            yield Breach(config, location, None, f"captured data is {_NO_KEY}", "DataCapture(..., encryption_key=...)")
        queue = config.get("AsyncInferenceConfig")
        if queue is not None and config.get("AsyncInferenceConfig", "OutputConfig", "KmsKeyId") is None:
            location = "Properties.AsyncInferenceConfig.OutputConfig.KmsKeyId"
            yield Breach(config, location, None, f"responses are {_NO_KEY}", "AsyncInference(..., encryption_key=...)")
    for job in template.of_type(*JOBS):
        if job.get("KmsKeyArn") is None:
            location = "Properties.KmsKeyArn"
            suggestion = "artifact_store=ArtifactStore(..., encryption_key=...)"
            yield Breach(job, location, None, f"the artifact store is {_NO_KEY}", suggestion)


@policy_rule(
    "POL031",
    title="Models and jobs reach the network through a VPC",
    looks_at="each model, each job, and configurations of endpoints that share instances",
    reason="endpoints, flow logs and firewalls are where traffic passes",
)
def _traffic_passes_a_vpc(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for resource, path in _networked(template):
        if not _has_network(resource.get(*path)):
            yield Breach(
                resource,
                ".".join(("Properties", *path)),
                resource.get(*path),
                "it reaches the network outside of any VPC of yours",
                "network=NetworkOptions(vpc=...), with vpc_subnets and security_groups where need be",
            )


@policy_rule(
    "POL032",
    title="Models are cut off from the network",
    looks_at="each model, and configurations of endpoints that share instances",
    reason="a container that reaches nothing sends nothing away",
)
def _models_are_isolated(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for resource in (*template.of_type(*MODELS), *_shared_instances(template)):
        isolated = resource.get("EnableNetworkIsolation")
        # A configuration without the property leaves it to the models that the components bring.
        if isolated is not True and not (resource.type == ENDPOINT_CONFIG and isolated is None):
            yield Breach(
                resource,
                "Properties.EnableNetworkIsolation",
                isolated,
                "the container may reach the network",
                "network=NetworkOptions(isolation=True), and techniques whose containers need no network",
            )


def _has_disks(instance_type: Any) -> bool:
    """Whether an instance keeps models on NVMe disks of its own.

    The hardware encrypts them, with keys that never leave the instance, and SageMaker refuses a KMS key there
    (CreateEndpointConfig, ``KmsKeyId``).
    """
    row = instances.find(instance_type)
    if row is not None:
        return row.nvme_gb > 0
    return isinstance(instance_type, str) and _NAMED_FOR_DISKS.fullmatch(instance_type) is not None


def _shared_instances(template: Template) -> Iterator[Resource]:
    """Configurations whose instances inference components share."""
    shared = {one.config.logical_id for one in variants(template) if one.hosts_components and one.instance_types}
    return (config for config in template.of_type(ENDPOINT_CONFIG) if config.logical_id in shared)


def _networked(template: Template) -> Iterator[tuple[Resource, tuple[str, ...]]]:
    for model in template.of_type(*MODELS):
        yield model, ("VpcConfig",)
    for job in template.of_type(*JOBS):
        yield job, ("Request", "VpcConfig")
    for config in _shared_instances(template):
        yield config, ("VpcConfig",)


def _has_network(vpc_config: object) -> bool:
    return is_object(vpc_config) and all(bool(vpc_config.get(name)) for name in ("SecurityGroupIds", "Subnets"))
