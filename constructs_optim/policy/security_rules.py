"""Rules on encryption keys, networks and isolation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from constructs_optim.recipe.catalog import instances
from constructs_optim.templates.endpoints import variants
from constructs_optim.templates.json_values import as_object
from constructs_optim.templates.resource_types import ENDPOINT_CONFIG, JOBS, MODELS
from constructs_optim.templates.template import Resource, Template

from .registry import PolicyFinding, policy_rule
from .settings import PlatformPolicy

# EC2 user guide, "Amazon EC2 instance type naming conventions": d after the generation is for instance store volumes.
_NAMED_FOR_DISKS = re.compile(r"ml\.[a-z]+\d+[a-z]*d[a-z]*\..+")


@policy_rule(
    "POL030",
    title="What is stored is encrypted with your own KMS keys",
    looks_at="volumes of instances without NVMe disks, captured data, asynchronous responses, artifact stores",
    reason="who may read is then decided, and logged, by the key's policy",
)
def _own_keys_encrypt(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for config in template.of_type(ENDPOINT_CONFIG):
        types = [name for one in variants(template) if one.config is config for _, name in one.instance_types]
        if types and not all(_has_disks(name) for name in types):
            yield from _without_key(config, ("KmsKeyId",), "volumes are", "encryption_key=...")
        if config.get("DataCaptureConfig") is not None:
            path, fix = ("DataCaptureConfig", "KmsKeyId"), "DataCapture(..., encryption_key=...)"
            yield from _without_key(config, path, "captured data is", fix)
        if config.get("AsyncInferenceConfig") is not None:
            path, fix = ("AsyncInferenceConfig", "OutputConfig", "KmsKeyId"), "AsyncInference(..., encryption_key=...)"
            yield from _without_key(config, path, "responses are", fix)
    for job in template.of_type(*JOBS):
        fix = "artifact_store=ArtifactStore(..., encryption_key=...)"
        yield from _without_key(job, ("KmsKeyArn",), "the artifact store is", fix)


def _without_key(resource: Resource, path: tuple[str, ...], subject: str, fix: str) -> Iterator[PolicyFinding]:
    if resource.get(*path) is None:
        reason = f"{subject} encrypted with a key of AWS, and the policy wants one of yours"
        yield PolicyFinding(resource, ".".join(("Properties", *path)), None, reason, fix)


@policy_rule(
    "POL031",
    title="Models and jobs reach the network through a VPC",
    looks_at="each model, each job, and configurations of endpoints that share instances",
    reason="endpoints, flow logs and firewalls are where traffic passes",
)
def _traffic_passes_a_vpc(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    fix = "network=NetworkOptions(vpc=...), with vpc_subnets and security_groups where need be"
    for resource in (*template.of_type(*MODELS), *template.of_type(*JOBS), *_shared_instances(template)):
        path = ("Request", "VpcConfig") if resource.type in JOBS else ("VpcConfig",)
        network, location = resource.get(*path), ".".join(("Properties", *path))
        if not all(as_object(network).get(name) for name in ("SecurityGroupIds", "Subnets")):
            reason = "it reaches the network outside of any VPC of yours"
            yield PolicyFinding(resource, location, network, reason, fix)


@policy_rule(
    "POL032",
    title="Models are cut off from the network",
    looks_at="each model, and configurations of endpoints that share instances",
    reason="a container that reaches nothing sends nothing away",
)
def _models_are_isolated(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for resource in (*template.of_type(*MODELS), *_shared_instances(template)):
        isolated = resource.get("EnableNetworkIsolation")
        # A configuration without the property leaves it to the models that the components bring.
        if isolated is not True and not (resource.type == ENDPOINT_CONFIG and isolated is None):
            yield PolicyFinding(
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
