"""The endpoints of a template, each with all that belongs to it: configuration, models, jobs, components, scaling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from constructs_optim.templates.endpoints import Variant, is_adapter, variants_of
from constructs_optim.templates.json_values import literal
from constructs_optim.templates.resource_types import (
    COMPONENT_CAPACITY,
    ENDPOINT,
    ENDPOINT_CONFIG,
    INFERENCE_COMPONENT,
    JOBS,
    MODELS,
    OPTIMIZED_ARTIFACT,
    SCALABLE_TARGET,
    SCALING_POLICY,
    WAITING,
)
from constructs_optim.templates.template import Resource, Template


@dataclass(frozen=True)
class HostedComponent:
    """An inference component; ``target`` scales it, where it is scaled."""

    resource: Resource
    models: tuple[Resource, ...]
    jobs: tuple[Resource, ...]
    target: Resource | None

    @property
    def is_adapter(self) -> bool:
        """Whether it is a LoRA adapter of another component."""
        return is_adapter(self.resource)


@dataclass(frozen=True)
class HostedEndpoint:
    """An endpoint of a template. ``jobs`` make, or refer to, the artifacts of its own models, in their order."""

    template: Template
    resource: Resource
    configuration: Resource | None
    models: tuple[Resource, ...]
    jobs: tuple[Resource, ...]
    components: tuple[HostedComponent, ...]
    target: Resource | None
    beside: tuple[Resource, ...]

    @property
    def logical_id(self) -> str:
        """The endpoint's."""
        return self.resource.logical_id

    @property
    def name(self) -> str | None:
        """The name that requests give; None for one that CloudFormation chooses."""
        return literal(self.resource.properties.get("EndpointName"))

    @property
    def variants(self) -> list[Variant]:
        """The production variants of its configuration."""
        return list(variants_of(self.configuration, "ProductionVariants")) if self.configuration is not None else []

    @property
    def all_jobs(self) -> tuple[Resource, ...]:
        """Those of its own models and of its components, each once."""
        listed = [*self.jobs, *(job for component in self.components for job in component.jobs)]
        return tuple({job.logical_id: job for job in listed}.values())

    @property
    def parts(self) -> dict[str, Resource]:
        """Everything that belongs to it, by logical id."""
        found = [self.resource, *self.models, *self.all_jobs, *self.beside]
        if self.configuration is not None:
            found.append(self.configuration)
        for component in self.components:
            found += [component.resource, *component.models]
        return {resource.logical_id: resource for resource in found}


def hosted_endpoints(template: Template) -> list[HostedEndpoint]:
    """The endpoints, in the template's order."""
    return [_endpoint(template, resource) for resource in template.of_type(ENDPOINT)]


def jobs_of_no_endpoint(template: Template, endpoints: Iterable[HostedEndpoint]) -> list[Resource]:
    """The jobs, and references to artifacts, that no endpoint of the template serves."""
    served = {job.logical_id for endpoint in endpoints for job in endpoint.all_jobs}
    return [job for job in template.of_type(*JOBS, OPTIMIZED_ARTIFACT) if job.logical_id not in served]


def recipes_of(resource: Resource | None) -> list[str]:
    """The recipes that a resource's metadata has, one line each: several where it has instance pools."""
    if resource is None:
        return []
    recipes = resource.recipe.get("Pools") or [resource.recipe]
    return [str(recipe["Recipe"]) for recipe in recipes if "Recipe" in recipe]


def _endpoint(template: Template, resource: Resource) -> HostedEndpoint:
    configurations = template.referred(resource.properties.get("EndpointConfigName"), ENDPOINT_CONFIG)
    configuration = configurations[0] if configurations else None
    models = tuple(template.referred(configuration.properties, *MODELS)) if configuration is not None else ()
    components = tuple(
        _component(template, each)
        for each in template.of_type(INFERENCE_COMPONENT)
        if template.referred(each.properties.get("EndpointName"), ENDPOINT) == [resource]
    )
    jobs = _jobs(template, models)
    targets = [
        target
        for target in template.of_type(SCALABLE_TARGET)
        if resource in template.referred(target.properties.get("ResourceId"), ENDPOINT)
    ]
    scaled = [*targets, *(component.target for component in components if component.target is not None)]
    ids = {target.logical_id for target in scaled}
    policies = [policy for policy in template.of_type(SCALING_POLICY) if policy.references & ids]
    every_job = {job.logical_id for job in (*jobs, *(job for component in components for job in component.jobs))}
    waiting = [each for each in template.of_type(*WAITING) if _waits_for(template, each, every_job)]
    named = {component.resource.logical_id for component in components}
    capacities = [
        each for each in template.of_type(COMPONENT_CAPACITY) if each.properties.get("ComponentLogicalId") in named
    ]
    return HostedEndpoint(
        template,
        resource,
        configuration,
        models,
        jobs,
        components,
        targets[0] if targets else None,
        (*scaled, *policies, *waiting, *capacities),
    )


def _component(template: Template, resource: Resource) -> HostedComponent:
    models = tuple(template.referred(resource.properties, *MODELS))
    target = next(
        (
            each
            for each in template.of_type(SCALABLE_TARGET)
            if resource in template.referred(each.properties.get("ResourceId"), INFERENCE_COMPONENT)
        ),
        None,
    )
    return HostedComponent(resource, models, _jobs(template, models), target)


def _jobs(template: Template, models: Iterable[Resource]) -> tuple[Resource, ...]:
    """What makes the models' artifacts, in the template's order, which is the order of a chain."""
    found: set[str] = set()
    left = list(models)
    while left:
        for following in _leading_to_jobs(template, left.pop()):
            if following.logical_id not in found:
                found.add(following.logical_id)
                left.append(following)
    return tuple(job for job in template.of_type(*JOBS, OPTIMIZED_ARTIFACT) if job.logical_id in found)


def _leading_to_jobs(template: Template, resource: Resource) -> Iterator[Resource]:
    names = dict.fromkeys(sorted(resource.references))
    if resource.type in WAITING:
        names |= dict.fromkeys(resource.depends_on)
    for name in names:
        other = template.resources.get(name)
        if other is not None and other.type in (*JOBS, OPTIMIZED_ARTIFACT, *WAITING):
            yield other


def _waits_for(template: Template, resource: Resource, jobs: set[str]) -> bool:
    """Whether a wait condition is met by one of the jobs, or a handle is given to one."""
    if set(resource.depends_on) & jobs:
        return True
    return any(resource.logical_id in template.resources[job].references for job in jobs)
