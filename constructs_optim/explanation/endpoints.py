"""The endpoints of a template, each with all that belongs to it, its capacity, and how it is updated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from constructs_optim.recipe.pricing import HOURS_A_MONTH
from constructs_optim.templates.endpoints import Variant, is_adapter, variants_of
from constructs_optim.templates.json_values import as_array, as_object, literal, number
from constructs_optim.templates.resource_types import (
    ALARM,
    COMPONENT_CAPACITY,
    COMPOSITE_ALARM,
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
from constructs_optim.templates.text import text_of

from .formatting import exact_duration, listed
from .report import Capacity, MonthlyCost, Strategy, UpdatePolicy


@dataclass(frozen=True)
class Component:
    """An inference component of an endpoint; ``target`` scales it, where it is scaled."""

    resource: Resource
    name: str
    models: tuple[Resource, ...]
    jobs: tuple[Resource, ...]
    target: Resource | None


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of a template.

    Attributes:
        template: the template.
        resource: the endpoint's resource.
        configuration: its configuration, where that is in the template.
        models: the models of its variants.
        jobs: the jobs or references that the artifacts of those models come from, in their order.
        components: its inference components.
        target: what scales its variant.
        others: what else belongs to it: scaling, wait conditions and look-ups.
    """

    template: Template
    resource: Resource
    configuration: Resource | None
    models: tuple[Resource, ...]
    jobs: tuple[Resource, ...]
    components: tuple[Component, ...]
    target: Resource | None
    others: tuple[Resource, ...]

    @property
    def logical_id(self) -> str:
        """The endpoint's logical id."""
        return self.resource.logical_id

    @property
    def name(self) -> str | None:
        """The name that requests give; None for one that CloudFormation chooses."""
        return literal(self.resource.properties.get("EndpointName"))

    @property
    def variants(self) -> list[Variant]:
        """The production variants of its configuration."""
        return [*variants_of(self.configuration, "ProductionVariants")] if self.configuration is not None else []

    @property
    def all_jobs(self) -> dict[str, Resource]:
        """The jobs of its own models and of its components, by logical id."""
        jobs = [*self.jobs, *(job for component in self.components for job in component.jobs)]
        return {job.logical_id: job for job in jobs}

    @property
    def all_models(self) -> dict[str, Resource]:
        """Its own models and those of its components, by logical id."""
        models = [*self.models, *(model for component in self.components for model in component.models)]
        return {model.logical_id: model for model in models}

    @property
    def parts(self) -> dict[str, Resource]:
        """Everything that belongs to it, by logical id."""
        resources = [self.resource, *self.others, *(component.resource for component in self.components)]
        if self.configuration is not None:
            resources.append(self.configuration)
        return {**self.all_models, **self.all_jobs, **{resource.logical_id: resource for resource in resources}}


def endpoints_in(template: Template) -> list[Endpoint]:
    """The endpoints, in the template's order."""
    return [_endpoint(template, resource) for resource in template.of_type(ENDPOINT)]


def component_name(endpoint: Resource, component: Resource) -> str:
    """A component's path below its endpoint."""
    name = component.label.removeprefix(endpoint.label).strip("/")
    # The one of the endpoint's own model has no name but this.
    return name.removesuffix("Component").strip("/") or component.label


def _endpoint(template: Template, resource: Resource) -> Endpoint:
    configurations = template.referred(resource.properties.get("EndpointConfigName"), ENDPOINT_CONFIG)
    configuration = configurations[0] if configurations else None
    models = tuple(template.referred(configuration.properties, *MODELS)) if configuration is not None else ()
    components = tuple(
        _component(template, resource, component)
        for component in template.of_type(INFERENCE_COMPONENT)
        if template.referred(component.properties.get("EndpointName"), ENDPOINT) == [resource]
    )
    jobs = _jobs(template, models)
    target = _target(template, resource)
    targets = [
        scalable for scalable in (target, *(component.target for component in components)) if scalable is not None
    ]
    target_ids = {scalable.logical_id for scalable in targets}
    job_ids = {job.logical_id for job in (*jobs, *(job for component in components for job in component.jobs))}
    component_ids = {component.resource.logical_id for component in components}
    others = [
        *targets,
        *(policy for policy in template.of_type(SCALING_POLICY) if policy.references & target_ids),
        *(
            waiting
            for waiting in template.of_type(*WAITING)
            if {*waiting.depends_on} & job_ids
            or any(waiting.logical_id in template.resources[job].references for job in job_ids)
        ),
        *(
            capacity
            for capacity in template.of_type(COMPONENT_CAPACITY)
            if capacity.properties.get("ComponentLogicalId") in component_ids
        ),
    ]
    return Endpoint(template, resource, configuration, models, jobs, components, target, tuple(others))


def _component(template: Template, endpoint: Resource, resource: Resource) -> Component:
    models = tuple(template.referred(resource.properties, *MODELS))
    name = component_name(endpoint, resource)
    return Component(resource, name, models, _jobs(template, models), _target(template, resource))


def _target(template: Template, resource: Resource) -> Resource | None:
    """The scalable target of an endpoint or component."""
    targets = template.of_type(SCALABLE_TARGET)
    return next(
        (
            target
            for target in targets
            if resource in template.referred(target.properties.get("ResourceId"), resource.type)
        ),
        None,
    )


def _jobs(template: Template, models: Iterable[Resource]) -> tuple[Resource, ...]:
    """The jobs of the models' artifacts, in the template's order, which is the order of a chain."""
    types = (*JOBS, OPTIMIZED_ARTIFACT, *WAITING)
    reached: set[str] = set()
    pending = list(models)
    while pending:
        resource = pending.pop()
        names = {*resource.references, *(resource.depends_on if resource.type in WAITING else ())}
        for name in names - reached:
            if name in template.resources and template.resources[name].type in types:
                reached.add(name)
                pending.append(template.resources[name])
    return tuple(job for job in template.of_type(*JOBS, OPTIMIZED_ARTIFACT) if job.logical_id in reached)


def own_components(endpoint: Endpoint) -> list[Component]:
    """The components that serve models of their own, without LoRA adapters."""
    return [component for component in endpoint.components if not is_adapter(component.resource)]


# Capacity


def capacities(endpoint: Endpoint) -> tuple[Capacity, ...]:
    """The capacity of each production variant."""
    return tuple(_capacity(endpoint, variant) for variant in endpoint.variants)


def _capacity(endpoint: Endpoint, variant: Variant) -> Capacity:
    managed = as_object(variant.properties.get("ManagedInstanceScaling"))
    if managed.get("Status") == "ENABLED":
        least, most = number(managed.get("MinInstanceCount")), number(managed.get("MaxInstanceCount"))
        reason = "SageMaker launches them for the copies of its components"
    elif endpoint.target is not None:
        least, most, reason = scaled_range(endpoint.target)
    else:
        least = most = number(variant.properties.get("InitialInstanceCount"))
        reason = "not scaled"
    reservation = as_object(variant.properties.get("CapacityReservationConfig"))
    return Capacity(
        instance_types=tuple(name for _, name in variant.instance_types if isinstance(name, str)),
        least=least,
        most=most,
        reason=reason,
        is_reserved=reservation.get("CapacityReservationPreference") == "capacity-reservations-only",
    )


def scaled_range(target: Resource) -> tuple[int | None, int | None, str]:
    """The range of a scalable target with its schedules, and what sets it."""
    schedules = [as_object(action) for action in as_array(target.properties.get("ScheduledActions"))]
    ranges = [target.properties, *(as_object(schedule.get("ScalableTargetAction")) for schedule in schedules)]

    def bounds(member: str) -> list[int] | None:
        values = [number(limits[member]) for limits in ranges if member in limits]
        known = [value for value in values if value is not None]
        return known if known and len(known) == len(values) else None

    least, most = bounds("MinCapacity"), bounds("MaxCapacity")
    names = ", ".join(str(schedule.get("ScheduledActionName", "")) for schedule in schedules)
    reason = f"scaling, with the schedules {names}" if names else "scaling"
    return min(least) if least else None, max(most) if most else None, reason


def describe_capacity(capacity: Capacity) -> str:
    """For instance ``1 to 4 instances of ml.g5.12xlarge (scaling)``."""
    unknown = "a number known at deployment"
    least, most = (str(bound) if bound is not None else unknown for bound in (capacity.least, capacity.most))
    count = least if least == most else f"{least} to {most}"
    types = " or ".join(capacity.instance_types) or "a type known at deployment"
    return f"{count} {'instance' if count == '1' else 'instances'} of {types} ({capacity.reason})"


def monthly_cost(capacities: Sequence[Capacity], prices: Mapping[str, float]) -> MonthlyCost:
    """The cost of instances on demand, by prices in US dollars an hour.

    Of pools, the least is of the cheapest type alone and the most of the dearest.
    """
    least = most = 0.0
    least_known = most_known = True
    for capacity in capacities:
        known = [prices[name] for name in capacity.instance_types if name in prices]
        complete = len(known) == len(capacity.instance_types) and bool(known)
        # No instances cost nothing, whatever one would.
        least_known &= capacity.least == 0 or (complete and capacity.least is not None)
        most_known &= capacity.most == 0 or (complete and capacity.most is not None)
        least += (capacity.least or 0) * min(known, default=0) * HOURS_A_MONTH
        most += (capacity.most or 0) * max(known, default=0) * HOURS_A_MONTH
    names = {name for capacity in capacities for name in capacity.instance_types}
    return MonthlyCost(
        least=round(least, 2) if least_known else None,
        most=round(most, 2) if most_known else None,
        unpriced=tuple(sorted(names - prices.keys())),
    )


# Updates. Source: Amazon SageMaker developer guide, "Deployment guardrails for updating models in production".

_TRAFFIC: dict[str, tuple[Strategy, str]] = {
    "CANARY": ("canary", "CanarySize"),
    "LINEAR": ("linear", "LinearStepSize"),
}


def update_policy(template: Template, resource: Resource) -> UpdatePolicy:
    """The policy of an endpoint or component; all at once and unwatched where it has none, as SageMaker does it."""
    config = as_object(resource.properties.get("DeploymentConfig"))
    rollback = as_object(config.get("AutoRollbackConfiguration"))
    alarms = tuple(
        _alarm_name(template, as_object(alarm).get("AlarmName")) for alarm in as_array(rollback.get("Alarms"))
    )
    if rolling := as_object(config.get("RollingUpdatePolicy")):
        bake_seconds = number(rolling.get("WaitIntervalInSeconds")) or 0
        step = _size(rolling.get("MaximumBatchSize"))
        return UpdatePolicy(strategy="rolling", step=step, bake_seconds=bake_seconds, alarms=alarms)
    blue_green = as_object(config.get("BlueGreenUpdatePolicy"))
    routing = as_object(blue_green.get("TrafficRoutingConfiguration"))
    strategy, size = _TRAFFIC.get(str(routing.get("Type")), ("all_at_once", ""))
    return UpdatePolicy(
        strategy=strategy,
        step=_size(routing.get(size)) if size else "",
        bake_seconds=number(routing.get("WaitIntervalInSeconds")) or 0,
        termination_seconds=number(blue_green.get("TerminationWaitInSeconds")) or 0,
        alarms=alarms,
    )


def describe_policy(policy: UpdatePolicy) -> str:
    """The policy after ``by``: ``a rolling update in batches of 25 % of the instances, ...``."""
    bake = exact_duration(policy.bake_seconds) if policy.bake_seconds else ""
    watched = f", each watched for {bake}" if bake else ""
    kept = (
        f"; the old fleet stays for {exact_duration(policy.termination_seconds)} after that"
        if policy.termination_seconds
        else ""
    )
    match policy.strategy:
        case "rolling":
            return f"a rolling update in batches of {policy.step}{watched}"
        case "canary":
            first = f", is watched for {bake}" if bake else ""
            return f"blue/green, canary: a second fleet takes {policy.step} first{first}, and then the rest{kept}"
        case "linear":
            return f"blue/green, linear: a second fleet takes the traffic in steps of {policy.step}{watched}{kept}"
        case "all_at_once":
            return f"blue/green, all at once: a second fleet of the same size takes all traffic{kept}"


def describe_rollback(policy: UpdatePolicy) -> str:
    """What rolls an update back, as a sentence."""
    if not policy.alarms:
        return "No alarm rolls it back."
    which = "The alarm" if len(policy.alarms) == 1 else "Any of the alarms"
    return f"{which} {listed(policy.alarms, 'or')} rolls it back."


def _size(size: object) -> str:
    value = text_of(as_object(size).get("Value"))
    match as_object(size).get("Type"):
        case None:
            return "a size known at deployment"
        case "INSTANCE_COUNT":
            return f"{value} {'instance' if value == '1' else 'instances'}"
        case "COPY_COUNT":
            return f"{value} {'copy' if value == '1' else 'copies'}"
        case _:
            return f"{value} %"


def _alarm_name(template: Template, value: object) -> str:
    alarms = template.referred(value, ALARM, COMPOSITE_ALARM)
    return text_of(alarms[0].properties.get("AlarmName", value)) if alarms else text_of(value)
