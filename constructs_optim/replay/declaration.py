"""The simulated parts of a template's endpoint: its recipe, its capacity and its scaling."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from constructs_optim.explanation.endpoints import Endpoint
from constructs_optim.recipe import Model, Recipe, RecipeError
from constructs_optim.recipe.catalog import images, instances
from constructs_optim.recipe.catalog.lock import Lock, RecordedChoice
from constructs_optim.recipe.forecast import Calibration, Forecaster, forecaster
from constructs_optim.recipe.memory import estimate, longest_request
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.recipe.servers import ServerSettings, by_name
from constructs_optim.recipe.settings import UnknownSettingsError
from constructs_optim.recipe.techniques.parsing import parse
from constructs_optim.templates.endpoints import Variant, targets_of_component, targets_of_variant
from constructs_optim.templates.json_values import as_array, as_object, number
from constructs_optim.templates.resource_types import MODELS, SCALING_POLICY
from constructs_optim.templates.template import Resource, Template

from .scaling import METRICS, Policy, Scaling
from .traffic import Traffic

_ALARM = "AWS::CloudWatch::Alarm"
_DEGREE = re.compile(r"tensor parallel degree (\d+)$")
# AWS measured 379 seconds from the first request beyond capacity until another copy of Llama 3.1 70B served (140 GB, on
# ml.p4d.24xlarge), and 166 on instances with the image and the weights: AWS Machine Learning Blog, "Supercharge your
# auto scaling for generative AI inference - Introducing Container Caching in SageMaker Inference".
_START_SECONDS, _SECONDS_A_GB = 300.0, 0.55


class ReplayError(ValueError):
    """A declaration that cannot be simulated."""


@dataclass(frozen=True)
class Pool:
    """The instances of one type.

    ``start_seconds`` is the time until another copy serves. ``price`` is an instance's hourly price in US dollars, None
    if unknown. ``longest`` is the maximum tokens of a request, ``available`` the number of available instances; None
    means no limit.
    """

    instance_type: str
    copies_per_instance: int
    forecasts: Forecaster
    start_seconds: float
    price: float | None
    longest: int | None = None
    available: int | None = None


@dataclass(frozen=True)
class Declared:
    """An endpoint as declared: its instance pools in order, and the initial number of ``copies``.

    ``objectives`` are those that the endpoint was chosen for.
    """

    name: str
    pools: tuple[Pool, ...]
    copies: int
    scaling: Scaling | None
    objectives: Objectives | None
    notes: tuple[str, ...]


def declared(
    stack: str,
    endpoint: Endpoint,
    traffic: Traffic,
    *,
    prices: Mapping[str, float],
    known: Lock,
    available: Mapping[str, int] | None = None,
    start_seconds: float | None = None,
    calibration: Calibration | None = None,
) -> Declared:
    """Return the declaration of an endpoint. ``available`` is the number of instances, for types in short supply.

    Raises:
        ReplayError: if its model or its instances are unknown, or the available instances cannot hold its first copies.
    """
    name = f"{stack}/{endpoint.resource.label}"
    variant = next(iter(endpoint.variants), None)
    served = _served(name, endpoint, variant) if variant is not None else []
    if variant is None or not served:
        raise ReplayError(f"{name}: the template does not contain its instances")
    notes: list[str] = []
    components = list(endpoint.components.values())
    if len(components) > 1:
        raise ReplayError(f"{name}: it serves {len(components)} models, but the traffic names none")
    choice, objectives = endpoint.choice or (None, None)
    pools: list[Pool] = []
    for instance_type, model in served:
        if instances.find(instance_type) is None:
            raise ReplayError(f"{name}: the catalog does not have its instance type {instance_type}")
        recipe = _recipe(name, model, instance_type, choice, known)
        forecasts = forecaster(recipe, traffic.lengths, calibration)
        if forecasts is None:
            raise ReplayError(
                f"{name}: the size of {recipe.model.name} is unknown, so its speed cannot be forecast; "
                "`constructs-optim lock --model` records it"
            )
        pools.append(
            Pool(
                instance_type,
                forecasts.copies_per_instance if components else 1,
                forecasts,
                _start_seconds(recipe) if start_seconds is None else start_seconds,
                prices.get(instance_type),
                longest_request(recipe),
                (available or {}).get(instance_type),
            )
        )
        if pools[-1].available is None:
            break
    if rest := [instance_type for instance_type, _ in served[len(pools) :]]:
        short = pools[-1].instance_type
        notes.append(f"{name} uses {', '.join(rest)} if too few {short} are available: see --available {short}=COUNT.")
    template = endpoint.template
    if components:
        targets, counted = (
            targets_of_component(template, components[0]),
            components[0].get("RuntimeConfig", "CopyCount"),
        )
    else:
        targets, counted = targets_of_variant(template, variant), variant.properties.get("InitialInstanceCount")
    scaling = _scaling(template, targets[0], traffic.start, notes) if targets else None
    initial = number(counted)
    copies = initial if initial is not None else (scaling.least if scaling is not None else 1)
    room = [None if pool.available is None else pool.available * pool.copies_per_instance for pool in pools]
    if None not in room and (most := sum(each or 0 for each in room)) < copies:
        raise ReplayError(f"{name}: it starts with {copies} copies, but the available instances have room for {most}")
    return Declared(name, tuple(pools), copies, scaling, objectives, tuple(notes))


def _served(name: str, endpoint: Endpoint, variant: Variant) -> list[tuple[str, Resource | None]]:
    """Return the instance types in the order of their pools, each with the model that it serves."""
    template, component = endpoint.template, next(iter(endpoint.components.values()), None)
    given = [as_object(each) for each in as_array(variant.properties.get("InstancePools"))] or [variant.properties]
    found: list[tuple[str, Resource | None]] = []
    for pool in sorted(given, key=lambda each: number(each.get("Priority")) or 0):
        instance_type = pool.get("InstanceType")
        serving: object = pool.get("ModelNameOverride") or variant.properties.get("ModelName")
        if component is not None:
            specifications = [as_object(each) for each in as_array(component.get("Specifications"))]
            own = [each for each in specifications if each.get("InstanceType") == instance_type]
            if specifications and not own:
                # The component places no copy on this instance type.
                continue
            serving = own[0] if own else component.properties
        if not isinstance(instance_type, str):
            raise ReplayError(f"{name}: an instance type is known only at deployment")
        found.append((instance_type, next(iter(template.referred(serving, *MODELS)), None)))
    return found


def _start_seconds(recipe: Recipe) -> float:
    """Return the seconds until another copy serves, which depend on the size of its weights."""
    memory = estimate(recipe)
    return _START_SECONDS + _SECONDS_A_GB * (memory.fixed_gb if memory is not None else 0.0)


def _recipe(
    name: str, model: Resource | None, instance_type: str, choice: RecordedChoice | None, known: Lock
) -> Recipe:
    """Return the recipe on an instance type, from the choice or from the metadata of the served model."""
    described = model.recipe if model is not None else {}
    sources = [as_object(each) for each in as_array(described.get("Models"))]
    if choice is not None:
        chosen = {pool.instance_type: pool.techniques for pool in choice.pools}
        source, texts = choice.model, list(chosen.get(instance_type, choice.pools[0].techniques))
    else:
        texts = [str(each) for each in as_array(described.get("Techniques"))]
        source = str(sources[0].get("ModelId") or sources[0].get("Uri")) if sources else None
    if source is None:
        raise ReplayError(f"{name}: its model has no metadata from this library, so its recipe is unknown")
    try:
        techniques = [parse(text) for text in texts]
    except (RecipeError, UnknownSettingsError) as error:
        raise ReplayError(f"{name}: {error}") from None
    degree = _DEGREE.search(str(described.get("Recipe", "")))
    if techniques and degree is not None:
        techniques[0] = techniques[0].model_copy(update={"tensor_parallel_degree": int(degree[1])})
    if source.startswith("s3://"):
        given = Model.s3(source)
    else:
        given = Model.huggingface(source) if "/" in source else Model.jumpstart(source)
    container = _container(model) if model is not None else {}
    variables = {
        name: value for name, value in as_object(container.get("Environment")).items() if isinstance(value, str)
    }
    return Recipe(
        given, techniques, instance_type, environment=variables or None, containers=known, server=_server(container)
    )


def _container(model: Resource) -> Mapping[str, Any]:
    """Return a model's first container, or the properties of a custom resource, which describe it."""
    containers = as_array(model.get("Containers"))
    return as_object(model.get("PrimaryContainer") or (containers[0] if containers else model.properties))


def _server(container: Mapping[str, Any]) -> ServerSettings | None:
    """Return the server of a container's image; None if the catalog does not know it."""
    image = container.get("Image")
    name = images.uncataloged(image.rpartition("/")[2]).server if isinstance(image, str) else None
    server = by_name().get(name or "")
    return server() if server is not None else None


def _scaling(template: Template, target: Resource, start: dt.datetime, notes: list[str]) -> Scaling:
    least, most = (number(target.properties.get(name)) for name in ("MinCapacity", "MaxCapacity"))
    policies: list[Policy] = []
    for resource in template.of_type(SCALING_POLICY):
        if target.logical_id not in resource.references:
            continue
        policy = _policy(template, resource)
        read = {each for alarm in policy.alarms for each in _metrics(alarm)}
        unknown = {f"{metric} every {period} s" for metric, period in read if METRICS.get(metric) != period}
        if not policy.alarms or unknown:
            watched = f"reads {', '.join(sorted(unknown))}" if unknown else "has no alarm in the template"
            notes.append(f"{resource.label} is not simulated, because it {watched}.")
            continue
        policies.append(policy)
    schedules = [_schedule(as_object(each)) for each in as_array(target.properties.get("ScheduledActions"))]
    return Scaling(least or 0, most or 1, start, policies, schedules)


def _policy(template: Template, resource: Resource) -> Policy:
    name = resource.logical_id
    described: dict[str, Any] = {"PolicyName": name, "PolicyARN": name, "ResourceId": "endpoint/-/variant/-"}
    described |= {key: value for key, value in resource.properties.items() if key.endswith("PolicyConfiguration")}
    if "TargetTrackingScalingPolicyConfiguration" in described:
        custom = as_object(described["TargetTrackingScalingPolicyConfiguration"]).get("CustomizedMetricSpecification")
        return Policy.tracking(described) if not as_object(custom).get("Metrics") else Policy(described, [])
    alarms = [
        {**alarm.properties, "AlarmName": alarm.logical_id}
        for alarm in template.of_type(_ALARM)
        if name in alarm.references
    ]
    return Policy(described, alarms)


def _metrics(alarm: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Yield the metrics of an alarm, with their periods in seconds."""
    if "MetricName" in alarm:
        yield str(alarm["MetricName"]), number(alarm.get("Period"))
    for metric in as_array(alarm.get("Metrics")):
        stat = as_object(as_object(metric).get("MetricStat"))
        if stat:
            yield str(as_object(stat.get("Metric")).get("MetricName")), number(stat.get("Period"))


def _schedule(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheduled action in the form of PutScheduledAction."""
    limits = {name: number(value) for name, value in as_object(action.get("ScalableTargetAction")).items()}
    return {**action, "ScalableTargetAction": {name: value for name, value in limits.items() if value is not None}}
