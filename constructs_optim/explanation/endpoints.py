"""The endpoints of a template: their resources, capacity, cost and updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from constructs_optim.recipe.catalog.lock import RecordedChoice
from constructs_optim.recipe.errors import RecipeError
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.recipe.pricing import HOURS_A_MONTH
from constructs_optim.templates.endpoints import Variant, targets_of_component, targets_of_variant, variants_of
from constructs_optim.templates.json_values import as_array, as_object, literal
from constructs_optim.templates.resource_types import (
    ALARM,
    CHOICE_KEY,
    COMPONENT_CAPACITY,
    COMPOSITE_ALARM,
    ENDPOINT,
    ENDPOINT_CONFIGS,
    INFERENCE_COMPONENTS,
    JOBS,
    MODELS,
    OPTIMIZED_ARTIFACT,
    SCALING_POLICY,
    WAITING,
)
from constructs_optim.templates.template import Resource, Template
from constructs_optim.templates.text import text_of

from .formatting import between, counted, exact_duration, listed
from .report import Capacity, MonthlyCost
from .values import count, depends_on, objects


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of a template."""

    template: Template
    resource: Resource

    @cached_property
    def configs(self) -> list[Resource]:
        """The endpoint's configuration; empty if it is not in the template."""
        return self.template.referred(self.resource.get("EndpointConfigName"), *ENDPOINT_CONFIGS)

    @cached_property
    def variants(self) -> list[Variant]:
        """The production variants of its configuration."""
        return [variant for config in self.configs for variant in variants_of(config, "ProductionVariants")]

    @cached_property
    def components(self) -> dict[str, Resource]:
        """The endpoint's inference components, by their construct paths below the endpoint."""
        return {
            self._component_name(component): component
            for component in self.template.of_type(*INFERENCE_COMPONENTS)
            if self.template.referred(component.get("EndpointName"), ENDPOINT) == [self.resource]
        }

    @cached_property
    def choice(self) -> tuple[RecordedChoice, Objectives] | None:
        """The recorded choice and its objectives; None if there is none, or if another release wrote them."""
        try:
            choice = RecordedChoice.model_validate(self.resource.metadata.get(CHOICE_KEY))
            settings: dict[str, Any] = dict(choice.objectives)
            return choice, Objectives(**settings)
        except (ValidationError, RecipeError):
            return None

    def _component_name(self, component: Resource) -> str:
        name = component.label.removeprefix(self.resource.label).strip("/")
        # The component of the endpoint's own model has no other name.
        return name.removesuffix("Component").strip("/") or component.label

    @property
    def models(self) -> list[Resource]:
        """The models of its configuration and components."""
        serving = (*self.configs, *self.components.values())
        return [model for resource in serving for model in self.template.referred(resource.properties, *MODELS)]

    @cached_property
    def jobs(self) -> dict[str, Resource]:
        """The jobs of its models' artifacts, and references to artifacts, by logical ID in the template's order."""
        types = (*JOBS, OPTIMIZED_ARTIFACT, *WAITING)
        reached: set[str] = set()
        pending = self.models
        while pending:
            resource = pending.pop()
            names = {*resource.references, *(depends_on(resource) if resource.type in WAITING else ())}
            for name in names - reached:
                if name in self.template.resources and self.template.resources[name].type in types:
                    reached.add(name)
                    pending.append(self.template.resources[name])
        return _by_id(job for job in self.template.of_type(*JOBS, OPTIMIZED_ARTIFACT) if job.logical_id in reached)

    @cached_property
    def parts(self) -> dict[str, Resource]:
        """All resources of the endpoint, by logical ID."""
        components = _by_id(self.components.values())
        scalable = [target for variant in self.variants for target in targets_of_variant(self.template, variant)]
        for component in self.components.values():
            scalable += targets_of_component(self.template, component)
        targets = _by_id(scalable)
        waiting = [
            resource
            for resource in self.template.of_type(*WAITING)
            if self.jobs.keys() & {*depends_on(resource)}
            or any(resource.logical_id in job.references for job in self.jobs.values())
        ]
        capacities = [
            resource
            for resource in self.template.of_type(COMPONENT_CAPACITY)
            if literal(resource.get("ComponentLogicalId")) in components
        ]
        policies = [policy for policy in self.template.of_type(SCALING_POLICY) if policy.references & targets.keys()]
        resources = [*self.models, self.resource, *self.configs, *policies, *waiting, *capacities]
        return {**_by_id(resources), **self.jobs, **components, **targets}


def _by_id(resources: Iterable[Resource]) -> dict[str, Resource]:
    return {resource.logical_id: resource for resource in resources}


# Capacity


def capacities(endpoint: Endpoint) -> Iterator[Capacity]:
    """Return the capacity of each production variant."""
    for variant in endpoint.variants:
        managed = as_object(variant.properties.get("ManagedInstanceScaling"))
        reservation = as_object(variant.properties.get("CapacityReservationConfig"))
        if managed.get("Status") == "ENABLED":
            least, most = count(managed.get("MinInstanceCount")), count(managed.get("MaxInstanceCount"))
            reason = "SageMaker launches them for the copies of its components"
        elif targets := targets_of_variant(endpoint.template, variant):
            least, most, reason = _scaled_range(targets[0])
            if not _changes_capacity(endpoint.template, targets[0]):
                initial = count(variant.properties.get("InitialInstanceCount", 1))
                described = between(*(str(bound) if bound is not None else "?" for bound in (least, most)))
                if None not in (initial, least, most):
                    least = most = min(max(initial or 0, least or 0), most or 0)
                    reason = f"range {described}, no policy: stays at {least}"
                else:
                    reason = "no policy"
        else:
            least = most = count(variant.properties.get("InitialInstanceCount"))
            reason = "not scaled"
        yield Capacity(
            instance_types=tuple(name for _, name in variant.instance_types if isinstance(name, str)),
            least=least,
            most=most,
            reason=reason,
            is_reserved=reservation.get("CapacityReservationPreference") == "capacity-reservations-only",
        )


def _changes_capacity(template: Template, target: Resource) -> bool:
    """Return whether a policy or schedule can change the capacity of a scalable target."""
    resource_id = text_of(target.get("ResourceId"))
    return bool(as_array(target.properties.get("ScheduledActions"))) or any(
        target.logical_id in policy.references or text_of(policy.get("ResourceId")) == resource_id
        for policy in template.of_type(SCALING_POLICY)
    )


def _scaled_range(target: Resource) -> tuple[int | None, int | None, str]:
    """Return the range of a scalable target with its schedules, and the reason for it."""
    schedules = objects(target.properties.get("ScheduledActions"))
    ranges = [target.properties, *(as_object(schedule.get("ScalableTargetAction")) for schedule in schedules)]

    def bounds(member: str) -> list[int]:
        values = [count(limits[member]) for limits in ranges if member in limits]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else []

    names = ", ".join(str(schedule.get("ScheduledActionName", "")) for schedule in schedules)
    reason = f"scaling, with the schedules {names}" if names else "scaling"
    return min(bounds("MinCapacity"), default=None), max(bounds("MaxCapacity"), default=None), reason


def describe_capacity(capacity: Capacity) -> str:
    """Describe capacity, for example ``1 to 4 instances of ml.g5.12xlarge (scaling)``."""
    unknown = "a number known at deployment"
    size = between(*(str(bound) if bound is not None else unknown for bound in (capacity.least, capacity.most)))
    types = " or ".join(capacity.instance_types) or "a type known at deployment"
    return f"{size} {'instance' if size == '1' else 'instances'} of {types} ({capacity.reason})"


def monthly_cost(capacities: Sequence[Capacity], prices: Mapping[str, float], source: str = "") -> MonthlyCost:
    """Return the monthly cost at hourly prices in US dollars; pools range from their cheapest to their most expensive
    type.
    """
    least = most = 0.0
    least_known = most_known = True
    for capacity in capacities:
        known = [prices[name] for name in capacity.instance_types if name in prices]
        complete = len(known) == len(capacity.instance_types) and bool(known)
        # No instances cost nothing, even without a price.
        least_known &= capacity.least == 0 or (complete and capacity.least is not None)
        most_known &= capacity.most == 0 or (complete and capacity.most is not None)
        least += (capacity.least or 0) * min(known, default=0) * HOURS_A_MONTH
        most += (capacity.most or 0) * max(known, default=0) * HOURS_A_MONTH
    names = {name for capacity in capacities for name in capacity.instance_types}
    return MonthlyCost(
        least=round(least, 2) if least_known else None,
        most=round(most, 2) if most_known else None,
        unpriced=tuple(sorted(names - prices.keys())),
        source=source,
    )


# Updates. Source: Amazon SageMaker developer guide, "Deployment guardrails for updating models in production".


def describe_update(template: Template, resource: Resource) -> str:
    """Describe how SageMaker updates an endpoint or component; all at once by default."""
    config = as_object(resource.get("DeploymentConfig"))
    rolling = as_object(config.get("RollingUpdatePolicy"))
    blue_green = as_object(config.get("BlueGreenUpdatePolicy"))
    routing = as_object(blue_green.get("TrafficRoutingConfiguration"))
    if rolling:
        text = f"rolling, {_size(rolling.get('MaximumBatchSize'))} at a time"
    elif routing.get("Type") == "CANARY":
        text = f"blue/green, a second fleet takes {_size(routing.get('CanarySize'))} first"
    elif routing.get("Type") == "LINEAR":
        text = f"blue/green, a second fleet takes over in steps of {_size(routing.get('LinearStepSize'))}"
    else:
        text = "blue/green, a second fleet takes over at once"
    if bake := count((rolling or routing).get("WaitIntervalInSeconds")):
        text += f", {exact_duration(bake)} between steps"
    if wait := count(blue_green.get("TerminationWaitInSeconds")):
        text += f"; the old fleet stays for {exact_duration(wait)} after that"
    names: list[str] = []
    for alarm in objects(as_object(config.get("AutoRollbackConfiguration")).get("Alarms")):
        name = alarm.get("AlarmName")
        alarms = template.referred(name, ALARM, COMPOSITE_ALARM)
        names.append(text_of(alarms[0].properties.get("AlarmName", name) if alarms else name))
    return f"{text}; " + (f"rolled back by {listed(names, 'or')}" if names else "no alarm rolls it back")


def _size(size: object) -> str:
    value = as_object(size).get("Value")
    match as_object(size).get("Type"):
        case None:
            return "a size known at deployment"
        case "INSTANCE_COUNT":
            return counted(count(value) or 0, "instance")
        case "COPY_COUNT":
            return f"{text_of(value)} {'copy' if count(value) == 1 else 'copies'}"
        case _:
            return f"{text_of(value)}%"
