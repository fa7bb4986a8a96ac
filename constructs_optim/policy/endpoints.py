"""The endpoints of a template: variants, their instances and range, and what serves models on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe.given import is_list

from .template import DeclaredResource, Template, listed, mapping, names, references

CONFIGURATION = "AWS::SageMaker::EndpointConfig"
ENDPOINT = "AWS::SageMaker::Endpoint"
COMPONENT = "AWS::SageMaker::InferenceComponent"
SCALABLE_TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
SCALING_POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"

DEPLOY_TIME = "it is known only when the stack is deployed, and a policy is kept at synth"
"""The reason for a finding where the template has no literal value: what cannot be seen does not pass."""


@dataclass(frozen=True)
class Variant:
    """A variant of an endpoint configuration, and its place in the resource."""

    config: DeclaredResource
    location: str
    properties: dict[str, Any]

    @property
    def instance_types(self) -> list[tuple[str, Any]]:
        """What it may run on, each with its place; none for a serverless variant."""
        if "ServerlessConfig" in self.properties:
            return []
        pools = self.properties.get("InstancePools")
        if is_list(pools):
            return [
                (f"{self.location}.InstancePools.{place}.InstanceType", mapping(pool).get("InstanceType"))
                for place, pool in enumerate(pools)
            ]
        return [(f"{self.location}.InstanceType", self.properties.get("InstanceType", pools))]

    @property
    def hosts_components(self) -> bool:
        """Whether it has instances only, and inference components bring the models."""
        return "ModelName" not in self.properties


def variants(template: Template) -> Iterator[Variant]:
    """All variants of all endpoint configurations, shadow variants among them."""
    for config in template.of_type(CONFIGURATION):
        for name in ("ProductionVariants", "ShadowProductionVariants"):
            given = config.properties.get(name)
            if is_list(given):
                for place, variant in enumerate(given):
                    properties = dict(mapping(variant))
                    yield Variant(config, f"Properties.{name}.{place}", properties)
            elif given is not None:
                # Chosen by a condition, for instance: not to be seen, so one variant of which nothing is known.
                yield Variant(config, f"Properties.{name}", {"InstanceType": given})


def endpoints_of(template: Template, config: DeclaredResource) -> list[DeclaredResource]:
    """The endpoints that have this configuration."""
    return [
        endpoint
        for endpoint in template.of_type(ENDPOINT)
        if names(config, "EndpointConfigName", endpoint.properties.get("EndpointConfigName"))
    ]


@dataclass(frozen=True)
class Served:
    """Something that serves a model: an endpoint of variants, or an inference component."""

    resource: DeclaredResource
    name_property: str

    def is_named_by(self, value: Any) -> bool:
        """Whether a value is its name, or made of a reference to it."""
        return names(self.resource, self.name_property, value)


def served(template: Template) -> Iterator[Served]:
    """All that serves a model; LoRA adapters live in their component and are not listed."""
    hosting = {
        endpoint.logical_id
        for variant in variants(template)
        if variant.hosts_components
        for endpoint in endpoints_of(template, variant.config)
    }
    for endpoint in template.of_type(ENDPOINT):
        if endpoint.logical_id not in hosting:
            yield Served(endpoint, "EndpointName")
    for component in components(template):
        yield Served(component, "InferenceComponentName")


def components(template: Template) -> Iterator[DeclaredResource]:
    """The inference components that serve models of their own."""
    for component in template.of_type(COMPONENT):
        if component.get("Specification", "BaseInferenceComponentName") is None:
            yield component


def targets_of_variant(template: Template, variant: Variant) -> list[DeclaredResource]:
    """The scalable targets of a variant's endpoints."""
    ending = f"/variant/{variant.properties.get('VariantName')}"
    found = [
        (target, references(target.properties.get("ResourceId")), _last_text(target.properties.get("ResourceId")))
        for target in template.of_type(SCALABLE_TARGET)
    ]
    return [
        target
        for endpoint in endpoints_of(template, variant.config)
        for target, referred, text in found
        if text.endswith(ending)
        and (endpoint.logical_id in referred or text == f"endpoint/{endpoint.properties.get('EndpointName')}{ending}")
    ]


def targets_of_component(template: Template, component: DeclaredResource) -> list[DeclaredResource]:
    """The scalable targets of an inference component."""
    literal = f"inference-component/{component.properties.get('InferenceComponentName')}"
    return [
        target
        for target in template.of_type(SCALABLE_TARGET)
        if component.logical_id in references(target.properties.get("ResourceId"))
        or target.properties.get("ResourceId") == literal
    ]


def scales(template: Template, target: DeclaredResource) -> bool:
    """Whether something moves the target: a policy, or a schedule."""
    return bool(listed(target.properties.get("ScheduledActions"))) or any(
        target.logical_id in references(policy.properties.get("ScalingTargetId"))
        or (
            policy.properties.get("ResourceId") is not None
            and policy.properties.get("ResourceId") == target.properties.get("ResourceId")
        )
        for policy in template.of_type(SCALING_POLICY)
    )


def most_instances(template: Template, variant: Variant) -> tuple[str, Any]:
    """The most instances that a variant may have, and what says so; not a number where that is known at deployment."""
    started = (f"{variant.location}.InitialInstanceCount", variant.properties.get("InitialInstanceCount"))
    managed = mapping(variant.properties.get("ManagedInstanceScaling"))
    found: list[tuple[str, Any]] = [started]
    if managed.get("Status", "ENABLED") == "ENABLED" and "MaxInstanceCount" in managed:
        found.append((f"{variant.location}.ManagedInstanceScaling.MaxInstanceCount", managed["MaxInstanceCount"]))
    for target in targets_of_variant(template, variant):
        place = f"MaxCapacity of {target.logical_id}"
        found.append((place, target.properties.get("MaxCapacity")))
        actions = target.properties.get("ScheduledActions")
        if actions is not None and not is_list(actions):
            found.append((f"ScheduledActions of {target.logical_id}", actions))
        for action in listed(actions):
            raised = mapping(mapping(action).get("ScalableTargetAction"))
            if "MaxCapacity" in raised:
                found.append((f"a schedule of {target.logical_id}", raised["MaxCapacity"]))
    for place, number in found:
        if not is_count(number):
            return place, number
    return max(found, key=lambda one: one[1])


def is_count(value: Any) -> bool:
    """Whether a value is a number of instances."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _last_text(value: Any) -> str:
    """What a resource id ends in: the text itself, or the last text that is joined."""
    match value:
        case str():
            return value
        case {"Fn::Join": [_, [*_, str() as last]]}:
            return last
        case {"Fn::Sub": str() as text} | {"Fn::Sub": [str() as text, *_]}:
            return text
        case _:
            return ""
