"""Rules on how endpoints are operated: scaling, alarms and evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from constructs_optim.templates.endpoints import (
    components,
    is_scaled,
    serving_resources,
    targets_of_component,
    targets_of_variant,
    variants,
)
from constructs_optim.templates.json_values import as_array, as_object, is_object
from constructs_optim.templates.references import referenced_ids
from constructs_optim.templates.resource_types import ALARM, COMPOSITE_ALARM, ENDPOINT_EVALUATION, SCALING_POLICY
from constructs_optim.templates.template import Resource, Template

from .registry import IN_THE_REASON, PolicyFinding, policy_rule
from .settings import PlatformPolicy


@policy_rule(
    "POL040",
    title="Endpoints and inference components scale",
    looks_at="each variant and each inference component: a scalable target with a policy or a schedule",
    reason="a fixed number of instances is too many or too few",
)
def _serving_resources_scale(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for variant in variants(template):
        if not variant.instance_types:
            continue
        managed = as_object(variant.properties.get("ManagedInstanceScaling")).get("Status") == "ENABLED"
        scaled = any(is_scaled(template, target) for target in targets_of_variant(template, variant))
        if not (scaled or (managed and variant.hosts_components)):
            yield _fixed(variant.config, variant.location)
    for component in components(template):
        if not any(is_scaled(template, target) for target in targets_of_component(template, component)):
            yield _fixed(component, "Properties.RuntimeConfig.CopyCount")


def _fixed(resource: Resource, location: str) -> PolicyFinding:
    fix = "auto_scale(max_capacity=...) with on_concurrency(...) or another policy"
    return PolicyFinding(resource, location, IN_THE_REASON, "nothing in this template scales it", fix)


@policy_rule(
    "POL041",
    title="Endpoints and inference components have an alarm with an action",
    looks_at="alarms on metrics of each, and composite alarms of those; scaling's own alarms do not count",
    reason="an alarm without an action is a colour on a page",
)
def _an_alarm_has_an_action(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    alarms = template.of_type(ALARM)
    for serving in serving_resources(template):
        watching = [alarm for alarm in alarms if any(serving.is_named_by(value) for value in _dimensions(alarm))]
        ids = {alarm.logical_id for alarm in watching}
        names = [str(alarm.properties["AlarmName"]) for alarm in watching if "AlarmName" in alarm.properties]
        composed = [
            alarm
            for alarm in template.of_type(COMPOSITE_ALARM)
            if ids & referenced_ids(alarm.properties.get("AlarmRule"))
            or any(name in str(alarm.properties.get("AlarmRule")) for name in names)
        ]
        if not any(_has_action(template, alarm) for alarm in (*watching, *composed)):
            location = f"Properties.{serving.name_property}"
            reason = f"{_without_action(len(watching))}, so nobody is notified when it fails"
            fix = "monitoring=MonitoringOptions(alarm_actions=[SnsAction(topic)]), or alarms of your own with actions"
            yield PolicyFinding(serving.resource, location, IN_THE_REASON, reason, fix)


@policy_rule(
    "POL042",
    title="Endpoints and inference components are evaluated when they are deployed",
    looks_at="an evaluation of each, with requirements",
    reason="an optimized model may be slower or answer worse than what it replaces",
)
def _deployments_are_gated(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for serving in serving_resources(template):
        evaluations = [
            evaluation
            for evaluation in template.of_type(ENDPOINT_EVALUATION)
            if any(map(serving.is_named_by, as_object(evaluation.get("Request", "Dimensions")).values()))
        ]
        if not any(evaluation.get("Request", "Gate") for evaluation in evaluations):
            reason = "its evaluation requires nothing" if evaluations else "nothing evaluates it"
            yield PolicyFinding(
                serving.resource,
                f"Properties.{serving.name_property}",
                IN_THE_REASON,
                f"{reason}, so a deployment that makes it worse stays",
                "endpoint.evaluate(...).require(...)",
            )


def _without_action(alarms: int) -> str:
    few = {0: "it has no alarm", 1: "its alarm has no action"}
    return few.get(alarms, f"none of its {alarms} alarms has an action")


def _dimensions(alarm: Resource) -> Iterator[Any]:
    """The values of all dimensions of an alarm's metrics."""
    queries = as_array(alarm.properties.get("Metrics"))
    metrics = (as_object(as_object(as_object(query).get("MetricStat")).get("Metric")) for query in queries)
    for metric in (alarm.properties, *metrics):
        for dimension in as_array(metric.get("Dimensions")):
            if is_object(dimension):
                yield dimension.get("Value")


def _has_action(template: Template, alarm: Resource) -> bool:
    policies = {policy.logical_id for policy in template.of_type(SCALING_POLICY)}
    return alarm.properties.get("ActionsEnabled", True) is not False and any(
        not referenced_ids(action) & policies for action in as_array(alarm.properties.get("AlarmActions"))
    )
