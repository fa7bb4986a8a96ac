"""A template's endpoints: their variants, models, inference components, and scalable targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .json_values import as_array, as_object, is_array
from .references import referenced_ids
from .resource_types import ENDPOINT, ENDPOINT_CONFIGS, INFERENCE_COMPONENTS, SCALABLE_TARGET, SCALING_POLICY
from .template import Resource, Template
from .text import text_of

LocatedValue = tuple[str, Any]
"""A location and its value. The location is a path in the resource, or text that names another resource."""
NAME_PROPERTIES = {
    ENDPOINT: "EndpointName",
    **dict.fromkeys(ENDPOINT_CONFIGS, "EndpointConfigName"),
    **dict.fromkeys(INFERENCE_COMPONENTS, "InferenceComponentName"),
}
"""The property that names a resource, by its type."""


@dataclass(frozen=True)
class Variant:
    """A variant of an endpoint configuration, and its location in that resource."""

    config: Resource
    location: str
    properties: Mapping[str, Any]

    @property
    def instance_types(self) -> list[LocatedValue]:
        """The instance types that the variant may use; none for a serverless variant."""
        if "ServerlessConfig" in self.properties:
            return []
        pools = self.properties.get("InstancePools")
        if is_array(pools):
            return [
                (f"{self.location}.InstancePools.{index}.InstanceType", as_object(pool).get("InstanceType"))
                for index, pool in enumerate(pools)
            ]
        return [(f"{self.location}.InstanceType", self.properties.get("InstanceType", pools))]

    @property
    def hosts_components(self) -> bool:
        """Whether the variant has no model of its own and hosts inference components."""
        return "ModelName" not in self.properties


def variants(template: Template) -> Iterator[Variant]:
    """Yield all variants of all endpoint configurations, including shadow variants."""
    for config in template.of_type(*ENDPOINT_CONFIGS):
        yield from variants_of(config, "ProductionVariants")
        yield from variants_of(config, "ShadowProductionVariants")


def variants_of(config: Resource, name: str) -> Iterator[Variant]:
    """Yield a configuration's variants from the property ``name``."""
    value = config.properties.get(name)
    if is_array(value):
        for index, variant in enumerate(value):
            yield Variant(config, f"Properties.{name}.{index}", as_object(variant))
    elif value is not None:
        # The list depends on a condition, for example: yield one variant with unknown properties.
        yield Variant(config, f"Properties.{name}", {"InstanceType": value})


def endpoints_of(template: Template, config: Resource) -> list[Resource]:
    """Return the endpoints with this configuration."""
    return [
        endpoint for endpoint in template.of_type(ENDPOINT) if is_name_of(config, endpoint.get("EndpointConfigName"))
    ]


def serving_resources(template: Template) -> list[Resource]:
    """Return endpoints whose variants serve models, and inference components except LoRA adapters."""
    hosts = {
        endpoint.logical_id
        for variant in variants(template)
        if variant.hosts_components
        for endpoint in endpoints_of(template, variant.config)
    }
    endpoints = [endpoint for endpoint in template.of_type(ENDPOINT) if endpoint.logical_id not in hosts]
    return [*endpoints, *components(template)]


def components(template: Template) -> list[Resource]:
    """Return the inference components with models of their own, that is, without LoRA adapters of other components."""
    base = ("Specification", "BaseInferenceComponentName")
    return [component for component in template.of_type(*INFERENCE_COMPONENTS) if component.get(*base) is None]


def targets_of_variant(template: Template, variant: Variant) -> list[Resource]:
    """Return the scalable targets of a variant's endpoints."""
    ending = f"/variant/{text_of(variant.properties.get('VariantName'))}"
    return [
        target
        for endpoint in endpoints_of(template, variant.config)
        for target in _targets(template, endpoint, f"endpoint/{text_of(endpoint.get('EndpointName'))}", ending)
    ]


def targets_of_component(template: Template, component: Resource) -> list[Resource]:
    """Return the scalable targets of an inference component."""
    name = text_of(component.get("InferenceComponentName"))
    return list(_targets(template, component, f"inference-component/{name}"))


def _targets(template: Template, resource: Resource, name: str, ending: str = "") -> Iterator[Resource]:
    """Yield the scalable targets whose resource ID has a literal name or a reference, and a suffix."""
    for target in template.of_type(SCALABLE_TARGET):
        resource_id = target.get("ResourceId")
        text = text_of(resource_id)
        is_referred = resource.logical_id in referenced_ids(resource_id)
        if text == f"{name}{ending}" or (is_referred and text.endswith(ending)):
            yield target


def is_scaled(template: Template, target: Resource) -> bool:
    """Return whether a policy or a schedule changes a scalable target."""
    resource_id = target.properties.get("ResourceId")
    return bool(as_array(target.properties.get("ScheduledActions"))) or any(
        target.logical_id in referenced_ids(policy.properties.get("ScalingTargetId"))
        or (resource_id is not None and policy.properties.get("ResourceId") == resource_id)
        for policy in template.of_type(SCALING_POLICY)
    )


def instance_limits(template: Template, variant: Variant) -> list[LocatedValue]:
    """Return a variant's initial instance count, and the limits of resources that may launch more instances."""
    limits: list[LocatedValue] = [
        (f"{variant.location}.InitialInstanceCount", variant.properties.get("InitialInstanceCount"))
    ]
    managed = as_object(variant.properties.get("ManagedInstanceScaling"))
    if managed.get("Status", "ENABLED") == "ENABLED" and "MaxInstanceCount" in managed:
        location = f"{variant.location}.ManagedInstanceScaling.MaxInstanceCount"
        limits.append((location, managed["MaxInstanceCount"]))
    for target in targets_of_variant(template, variant):
        limits.append((f"MaxCapacity of {target.logical_id}", target.properties.get("MaxCapacity")))
        actions = target.properties.get("ScheduledActions")
        if actions is not None and not is_array(actions):
            limits.append((f"ScheduledActions of {target.logical_id}", actions))
        for action in as_array(actions):
            raised = as_object(as_object(action).get("ScalableTargetAction"))
            if "MaxCapacity" in raised:
                limits.append((f"a schedule of {target.logical_id}", raised["MaxCapacity"]))
    return limits


def is_name_of(resource: Resource, value: Any) -> bool:
    """Return whether a value is a resource's name or contains a reference to it."""
    name = resource.get(NAME_PROPERTIES[resource.type])
    return resource.logical_id in referenced_ids(value) or (name is not None and name == value)
