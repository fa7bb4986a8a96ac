"""How endpoints are operated: scaling, alarms and evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .endpoints import (
    SCALING_POLICY,
    Served,
    components,
    scales,
    served,
    targets_of_component,
    targets_of_variant,
    variants,
)
from .registry import IN_THE_REASON, Breach, policy_rule
from .template import DeclaredResource, Template, is_object, listed, mapping, references

if TYPE_CHECKING:
    from .settings import PlatformPolicy

_ALARM = "AWS::CloudWatch::Alarm"
_COMPOSITE_ALARM = "AWS::CloudWatch::CompositeAlarm"
_EVALUATION = "Custom::EndpointEvaluation"


@policy_rule(
    "POL040",
    setting="autoscaling_required",
    title="Endpoints and inference components scale",
    looks_at="each variant and each inference component: a scalable target with a policy or a schedule",
    reason="a fixed number of instances is too many or too few",
)
def _what_serves_scales(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for variant in variants(template):
        if not variant.instance_types:
            continue
        managed = mapping(variant.properties.get("ManagedInstanceScaling")).get("Status") == "ENABLED"
        moved = any(scales(template, target) for target in targets_of_variant(template, variant))
        if not (moved or (managed and variant.hosts_components)):
            yield _fixed(variant.config, variant.location)
    for component in components(template):
        if not any(scales(template, target) for target in targets_of_component(template, component)):
            yield _fixed(component, "Properties.RuntimeConfig.CopyCount")


def _fixed(resource: DeclaredResource, location: str) -> Breach:
    return Breach(
        resource,
        location,
        IN_THE_REASON,
        "nothing in this template scales it",
        "auto_scale(max_capacity=...) with on_concurrency(...) or another policy",
    )


@policy_rule(
    "POL041",
    setting="alarm_actions_required",
    title="Endpoints and inference components have an alarm that tells somebody",
    looks_at="alarms on metrics of each, and composite alarms of those; scaling's own alarms do not count",
    reason="an alarm without an action is a colour on a page",
)
def _somebody_is_told(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    alarms = list(template.of_type(_ALARM))
    for one in served(template):
        watching = [alarm for alarm in alarms if any(one.is_named_by(value) for value in _dimensions(alarm))]
        ids = {alarm.logical_id for alarm in watching}
        names = [str(alarm.properties["AlarmName"]) for alarm in watching if "AlarmName" in alarm.properties]
        composed = [
            alarm
            for alarm in template.of_type(_COMPOSITE_ALARM)
            if ids & references(alarm.properties.get("AlarmRule"))
            or any(name in str(alarm.properties.get("AlarmRule")) for name in names)
        ]
        if not any(_tells(template, alarm) for alarm in (*watching, *composed)):
            yield Breach(
                one.resource,
                f"Properties.{one.name_property}",
                IN_THE_REASON,
                f"{_unheard(len(watching))}, so nobody is told when it fails",
                "alarm_actions=[SnsAction(topic)], or alarms of your own with actions",
            )


@policy_rule(
    "POL042",
    setting="evaluation_gate_required",
    title="Endpoints and inference components are evaluated when they are deployed",
    looks_at="an evaluation of each, with requirements",
    reason="an optimized model may be slower or answer worse than what it replaces",
)
def _deployments_are_gated(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for one in served(template):
        found = [evaluation for evaluation in template.of_type(_EVALUATION) if _evaluates(evaluation, one)]
        if not any(evaluation.get("Request", "Gate") for evaluation in found):
            yield Breach(
                one.resource,
                f"Properties.{one.name_property}",
                IN_THE_REASON,
                f"{'its evaluation requires nothing' if found else 'nothing evaluates it'}, so a deployment that makes "
                "it worse stays",
                "endpoint.evaluate(...).require(...)",
            )


def _evaluates(evaluation: DeclaredResource, one: Served) -> bool:
    dimensions = mapping(evaluation.get("Request", "Dimensions"))
    return any(one.is_named_by(value) for value in dimensions.values())


def _unheard(alarms: int) -> str:
    match alarms:
        case 0:
            return "it has no alarm"
        case 1:
            return "its alarm has no action"
        case _:
            return f"none of its {alarms} alarms has an action"


def _dimensions(alarm: DeclaredResource) -> Iterator[Any]:
    """The values of all dimensions of an alarm's metrics."""
    own = alarm.properties
    of_metrics = (mapping(mapping(mapping(one).get("MetricStat")).get("Metric")) for one in listed(own.get("Metrics")))
    for metric in (own, *of_metrics):
        for dimension in listed(metric.get("Dimensions")):
            if is_object(dimension):
                yield dimension.get("Value")


def _tells(template: Template, alarm: DeclaredResource) -> bool:
    policies = {policy.logical_id for policy in template.of_type(SCALING_POLICY)}
    return alarm.properties.get("ActionsEnabled", True) is not False and any(
        not references(action) & policies for action in listed(alarm.properties.get("AlarmActions"))
    )
