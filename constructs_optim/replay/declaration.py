"""What is simulated of a template's endpoint: its recipe, its capacity, and how that scales."""

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
from constructs_optim.templates.endpoints import targets_of_component, targets_of_variant
from constructs_optim.templates.json_values import as_array, as_object, number
from constructs_optim.templates.resource_types import MODELS, SCALING_POLICY
from constructs_optim.templates.template import Resource, Template

from .scaling import METRICS, Policy, Scaling
from .traffic import Traffic

_ALARM = "AWS::CloudWatch::Alarm"
_DEGREE = re.compile(r"tensor parallel degree (\d+)$")
# AWS measured 379 seconds from the first request too many to another copy of Llama 3.1 70B that serves (140 GB, on
# ml.p4d.24xlarge), and 166 where instances had image and weights: AWS Machine Learning Blog, "Supercharge your auto
# scaling for generative AI inference - Introducing Container Caching in SageMaker Inference".
_START_SECONDS, _SECONDS_A_GB = 300.0, 0.55


class ReplayError(ValueError):
    """A declaration that cannot be simulated."""


@dataclass(frozen=True)
class Declared:
    """One endpoint as declared. ``start_seconds`` pass until another copy serves; ``price`` is that of an instance in
    an hour, None where it is not known. ``objectives`` are those that it was chosen for. ``longest`` are the tokens of
    the longest request that it takes; None: any.
    """

    name: str
    instance_type: str
    copies: int
    copies_per_instance: int
    forecasts: Forecaster
    scaling: Scaling | None
    start_seconds: float
    price: float | None
    objectives: Objectives | None
    notes: tuple[str, ...]
    longest: int | None = None


def declared(
    stack: str,
    endpoint: Endpoint,
    traffic: Traffic,
    *,
    prices: Mapping[str, float],
    known: Lock,
    start_seconds: float | None = None,
    calibration: Calibration | None = None,
) -> Declared:
    """What is declared of an endpoint. Raises ReplayError where its model or its instances are not known."""
    name = f"{stack}/{endpoint.resource.label}"
    variant = next(iter(endpoint.variants), None)
    types = [value for _, value in variant.instance_types if isinstance(value, str)] if variant is not None else []
    if variant is None or not types or instances.find(types[0]) is None:
        raise ReplayError(f"{name}: its instance type is not known to the catalog: {', '.join(types) or 'none'}")
    notes = (
        [f"{name} has {', '.join(types[1:])} for when {types[0]} is short; {types[0]} is taken."] if types[1:] else []
    )
    components = list(endpoint.components.values())
    if len(components) > 1:
        raise ReplayError(f"{name}: it serves {len(components)} models, and traffic does not say for which it is")
    choice, objectives = endpoint.choice or (None, None)
    recipe = _recipe(name, endpoint, components[0] if components else None, types[0], choice, known)
    forecasts = forecaster(recipe, traffic.lengths, calibration)
    if forecasts is None:
        raise ReplayError(
            f"{name}: the size of {recipe.model.name} is not known, and so not how fast it is; "
            "`constructs-optim lock --model` looks it up"
        )
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
    memory = estimate(recipe)
    slowest = _START_SECONDS + _SECONDS_A_GB * (memory.fixed_gb if memory is not None else 0.0)
    return Declared(
        name=name,
        instance_type=types[0],
        copies=initial if initial is not None else (scaling.least if scaling is not None else 1),
        copies_per_instance=forecasts.copies_per_instance if components else 1,
        forecasts=forecasts,
        scaling=scaling,
        start_seconds=slowest if start_seconds is None else start_seconds,
        price=prices.get(types[0]),
        objectives=objectives,
        notes=tuple(notes),
        longest=longest_request(recipe),
    )


def _recipe(
    name: str,
    endpoint: Endpoint,
    component: Resource | None,
    instance_type: str,
    choice: RecordedChoice | None,
    known: Lock,
) -> Recipe:
    """The recipe, of the choice or of the metadata of the model that is served."""
    serving = component or next(iter(endpoint.configs), endpoint.resource)
    model = next(iter(endpoint.template.referred(serving.properties, *MODELS)), None)
    described = model.recipe if model is not None else {}
    sources = [as_object(each) for each in as_array(described.get("Models"))]
    if choice is not None:
        source, texts = choice.model, list(choice.pools[0].techniques)
    else:
        texts = [str(each) for each in as_array(described.get("Techniques"))]
        source = str(sources[0].get("ModelId") or sources[0].get("Uri")) if sources else None
    if source is None:
        raise ReplayError(f"{name}: what it serves is not described by this library")
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
    """The first container of a model: of a custom resource, its own properties."""
    containers = as_array(model.get("Containers"))
    return as_object(model.get("PrimaryContainer") or (containers[0] if containers else model.properties))


def _server(container: Mapping[str, Any]) -> ServerSettings | None:
    """The server of a container's image; None where the catalog does not know it."""
    image = container.get("Image")
    name = images.uncatalogued(image.rpartition("/")[2]).server if isinstance(image, str) else None
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
        unknown = {f"{metric} by {period} s" for metric, period in read if METRICS.get(metric) != period}
        if not policy.alarms or unknown:
            watched = f"reads {', '.join(sorted(unknown))}" if unknown else "has no alarm in the template"
            notes.append(f"{resource.label} {watched}, which is not simulated: it does nothing here.")
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
    """The metrics of an alarm, with their periods in seconds."""
    if "MetricName" in alarm:
        yield str(alarm["MetricName"]), number(alarm.get("Period"))
    for metric in as_array(alarm.get("Metrics")):
        stat = as_object(as_object(metric).get("MetricStat"))
        if stat:
            yield str(as_object(stat.get("Metric")).get("MetricName")), number(stat.get("Period"))


def _schedule(action: Mapping[str, Any]) -> dict[str, Any]:
    """A scheduled action, as PutScheduledAction takes it."""
    limits = {name: number(value) for name, value in as_object(action.get("ScalableTargetAction")).items()}
    return {**action, "ScalableTargetAction": {name: value for name, value in limits.items() if value is not None}}
