"""The rules of policies: instance types and costs, recipes, security, and how endpoints are operated."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.hosting import scaling
from constructs_optim.recipe.pricing import HOURS_A_MONTH
from constructs_optim.templates import endpoints
from constructs_optim.templates.json_values import as_array, as_object, is_array, is_object, number
from constructs_optim.templates.references import referenced_ids
from constructs_optim.templates.resource_types import (
    ALARM,
    COMPOSITE_ALARM,
    ENDPOINT_CONFIGS,
    ENDPOINT_EVALUATION,
    JOBS,
    METADATA_KEY,
    MODELS,
    SCALING_POLICY,
)
from constructs_optim.templates.template import Resource, Template

from .settings import SETTING_BY_RULE, PlatformPolicy, Severity, matches

_PATHS_IN_JOBS = (("Request", "DeploymentInstanceType"), ("Request", "ResourceConfig", "InstanceType"))
# EC2 user guide, "Amazon EC2 instance type naming conventions": d after the generation means instance store volumes.
_NAMED_FOR_DISKS = re.compile(r"ml\.[a-z]+\d+[a-z]*d[a-z]*\..+")
_LIMITS = ("MinCapacity", "MaxCapacity")
_IN_THE_REASON = object()
"""The value of a finding whose reason includes the value."""
_DEPLOY_TIME = "the value is known only at deployment, but synthesis checks the policy"
"""The reason of a finding if the template has no literal value: an unknown value does not pass."""


@dataclass(frozen=True)
class PolicyFinding:
    """One broken rule: the value at a location such as ``Properties.KmsKeyId`` of a resource, and a fix.

    ``reason`` is why the value breaks the rule, with the team's own reason if the policy has one.
    """

    resource: Resource
    location: str
    value: Any
    reason: str
    suggestion: str
    rule: str = ""
    severity: Severity = "error"

    @property
    def description(self) -> str:
        """The mistake in one sentence. A value that is resolved at deployment appears as in the template."""
        if self.value is _IN_THE_REASON:
            return f"{self.location}: {self.reason}"
        text = "not given" if self.value is None else repr(self.value)
        if is_object(self.value) or is_array(self.value):
            text = json.dumps(self.value, separators=(", ", ": "), sort_keys=True)
            text = text if len(text) <= 120 else f"{text[:117]}..."
        return f"{self.location} is {text}: {self.reason}"


_Check = Callable[[PlatformPolicy, Template], Iterator[PolicyFinding]]


@dataclass(frozen=True)
class PolicyRule:
    """A rule of a policy, as ``rules.toml`` describes it, its check, and the setting that switches it on."""

    id: str
    setting: str
    title: str
    looks_at: str
    reason: str
    check: _Check


_DESCRIBED: dict[str, dict[str, str]] = tomllib.loads(
    (files("constructs_optim.policy") / "rules.toml").read_text(encoding="utf-8")
)
RULES: list[PolicyRule] = []
"""All rules, by ID."""


def _rule(rule_id: str) -> Callable[[_Check], _Check]:
    """Register a function of a policy and a template as the check of a rule of ``rules.toml``."""

    def register(check: _Check) -> _Check:
        RULES.append(PolicyRule(rule_id, SETTING_BY_RULE[rule_id], check=check, **_DESCRIBED[rule_id]))
        return check

    return register


def rules_table() -> str:
    """Return the rules as the Markdown table of https://constructs-optim.dev/policy/."""
    heading = ["| ID | setting | rule | checks | why teams use it |", "| --- | --- | --- | --- | --- |"]
    rows = [f"| {r.id} | `{r.setting}` | {r.title} | {r.looks_at} | {r.reason} |" for r in RULES]
    return "\n".join([*heading, *rows])


def check(policy: PlatformPolicy, template: Mapping[str, Any]) -> list[PolicyFinding]:
    """Return all findings of a policy in a synthesized template, by rule, then in the template's order."""
    resources = Template(template)
    findings: list[PolicyFinding] = []
    for rule in RULES:
        own, severity = policy.reasons.get(rule.id), policy.severities.get(rule.id, "error")
        for finding in rule.check(policy, resources) if policy.is_on(rule.setting) else ():
            reason = f"{finding.reason} ({own})" if own is not None else finding.reason
            findings.append(replace(finding, rule=rule.id, severity=severity, reason=reason))
    return findings


@_rule("POL001")
def _endpoints_run_on_allowed_types(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for variant in endpoints.variants(template):
        for location, instance_type in variant.instance_types:
            yield from _not_allowed(policy.allowed_instance_types or (), variant.config, location, instance_type)


@_rule("POL002")
def _jobs_run_on_allowed_types(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for job in template.of_type(*JOBS):
        for path in _PATHS_IN_JOBS:
            instance_type, location = job.get(*path), ".".join(("Properties", *path))
            if instance_type is not None:
                yield from _not_allowed(policy.allowed_job_instance_types or (), job, location, instance_type)


def _not_allowed(
    allowed: Sequence[str], resource: Resource, location: str, instance_type: Any
) -> Iterator[PolicyFinding]:
    fix = f"one of {', '.join(allowed)}" if allowed else "the policy allows no instance type"
    if not isinstance(instance_type, str):
        yield PolicyFinding(resource, location, instance_type, _DEPLOY_TIME, f"a literal instance type: {fix}")
    elif not matches(instance_type, allowed):
        yield PolicyFinding(resource, location, instance_type, "the policy does not allow this instance type", fix)


@_rule("POL003")
def _an_instance_is_within_the_ceiling(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    ceiling = policy.max_price_per_hour or 0
    cheaper = sorted(name for name, price in policy.instance_prices.items() if price <= ceiling)
    fix = f"one of {', '.join(cheaper)}" if cheaper else "a higher ceiling: no type in instance_prices is this cheap"
    for variant in endpoints.variants(template):
        yield from _unpriced_types(policy, variant)
        for location, instance_type in variant.instance_types:
            price = policy.instance_prices.get(str(instance_type), 0)
            if price > ceiling:
                reason = f"an instance costs ${price:,.2f} per hour, but the policy allows ${ceiling:,.2f}"
                yield PolicyFinding(variant.config, location, instance_type, reason, fix)


@_rule("POL004")
def _an_endpoint_is_within_the_monthly_ceiling(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    ceiling = policy.max_monthly_cost or 0
    fix = "a lower max_capacity in auto_scale(...) or variant.max_instance_count, or a cheaper instance type"
    for config in template.of_type(*ENDPOINT_CONFIGS):
        cost, terms, unknown = 0.0, list[str](), list[PolicyFinding]()
        for variant in endpoints.variants(template):
            if variant.config is not config or not variant.instance_types:
                continue
            limits = [
                (location, value, number(value)) for location, value in endpoints.instance_limits(template, variant)
            ]
            unknown += _unpriced_types(policy, variant)
            # Only the first limit without a number, because one makes the cost unknown.
            unknown += [
                PolicyFinding(config, location, value, _DEPLOY_TIME, "literal capacities")
                for location, value, count in limits
                if count is None
            ][:1]
            if not unknown:
                location, _, most = max(limits, key=lambda limit: limit[2] or 0)
                dearest = max((name for _, name in variant.instance_types), key=policy.instance_prices.__getitem__)
                cost += policy.instance_prices[dearest] * (most or 0) * HOURS_A_MONTH
                terms.append(f"{most} x {dearest} ({location})")
        yield from unknown
        if not unknown and cost > ceiling:
            reason = f"{' + '.join(terms)} cost ${cost:,.0f} per month, but the policy allows ${ceiling:,.0f}"
            yield PolicyFinding(config, "Properties.ProductionVariants", _IN_THE_REASON, reason, fix)


def _unpriced_types(policy: PlatformPolicy, variant: endpoints.Variant) -> Iterator[PolicyFinding]:
    for location, name in variant.instance_types:
        if not isinstance(name, str):
            yield PolicyFinding(variant.config, location, name, _DEPLOY_TIME, "a literal instance type")
        elif name not in policy.instance_prices:
            reason = "the policy has no price for this type, so the cost cannot be checked"
            fix = f"instance_prices={{{name!r}: ...}} in the policy, or a type with a price"
            yield PolicyFinding(variant.config, location, name, reason, fix)


_Broken = tuple[str, Any, str, str]
_RecipeCheck = Callable[[PlatformPolicy, Sequence[Any]], Iterator[_Broken]]


def _recipe_rule(rule_id: str, member: str) -> Callable[[_RecipeCheck], _Check]:
    """Register a check of the list ``member`` in the recipe of each model and of each chain of jobs without a model.

    It yields the location in the list, the value, the reason and the suggestion of each finding.
    """
    location = f"Metadata.{METADATA_KEY}.{member}"

    def register(check_recipe: _RecipeCheck) -> _Check:
        def check_template(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
            seen = list[object]()
            for resource in (*template.of_type(*MODELS), *template.of_type(*JOBS)):
                recipe, items = resource.recipe.get("Recipe"), resource.recipe.get(member)
                is_repeated = resource.type in JOBS and recipe is not None and recipe in seen
                seen.append(recipe)
                if is_repeated:
                    continue
                if is_array(items) and (items or member == "Techniques"):
                    for index, value, reason, fix in check_recipe(policy, items):
                        yield PolicyFinding(resource, f"{location}{index}", value, reason, fix)
                else:
                    # A model from another library: an unknown value does not pass.
                    reason = f"the resource has no {METADATA_KEY} metadata, which this library's constructs write"
                    fix = "an OptimizedEndpoint, which writes this metadata"
                    yield PolicyFinding(resource, location, None, reason, fix)

        return _rule(rule_id)(check_template)

    return register


@_recipe_rule("POL010", "Techniques")
def _models_have_required_techniques(policy: PlatformPolicy, applied: Sequence[Any]) -> Iterator[_Broken]:
    missing = " and ".join(name for name in policy.required_techniques or () if not _is_among(name, *applied))
    if missing:
        value, fix = ", ".join(map(str, applied)) or None, f"techniques=[...] with {missing}"
        yield "", value, f"the policy requires {missing}", fix


@_recipe_rule("POL011", "Techniques")
def _models_have_no_forbidden_technique(policy: PlatformPolicy, applied: Sequence[Any]) -> Iterator[_Broken]:
    for technique in applied:
        if any(_is_among(name, technique) for name in policy.forbidden_techniques or ()):
            yield "", technique, "the policy forbids this technique", f"techniques=[...] without {technique}"


@_recipe_rule("POL020", "Models")
def _licenses_are_accepted(policy: PlatformPolicy, sources: Sequence[Any]) -> Iterator[_Broken]:
    for index, source in enumerate(sources):
        names, reason = _license_of(as_object(source))
        if names and not any(matches(name, policy.accepted_licenses or ()) for name in names):
            yield f".{index}", names[0], reason, f"accepted_licenses=[{names[-1]!r}] in the policy"


@_recipe_rule("POL021", "Models")
def _versions_are_pinned(_: PlatformPolicy, sources: Sequence[Any]) -> Iterator[_Broken]:
    for index, source in enumerate(map(as_object, sources)):
        # A Hugging Face model always has a commit.
        if "ModelId" in source and "Revision" not in source and source.get("Version") is None:
            reason = "the model has no version, so the first deployment uses the newest one"
            yield f".{index}", source["ModelId"], reason, f'Model.jumpstart("{source["ModelId"]}", version="...")'


def _is_among(name: str, *applied: object) -> bool:
    """Return whether a kind, or one technique of a kind, is among the applied ``kind=method`` techniques."""
    return any(name in (technique, str(technique).partition("=")[0]) for technique in applied)


def _license_of(source: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the names that accept a source, the best one last, and the reason; no names if none is needed."""
    if "ModelId" not in source:
        return [str(source.get("Uri"))], (
            "only you know the license of weights in S3, and the policy does not list this URI"
        )
    model_id = str(source["ModelId"])
    row = models.find(model_id)
    if row is not None and row.gated is False:
        return [], ""
    if row is None or row.license is None:
        return [model_id], "the catalog has no license for this model, and the policy does not list the model"
    return [model_id, row.license.name], (
        f"the model's license is the {row.license.name} ({row.license.url}), which the policy does not list"
    )


@_rule("POL030")
def _own_keys_encrypt(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    capture, output = ("DataCaptureConfig", "KmsKeyId"), ("AsyncInferenceConfig", "OutputConfig", "KmsKeyId")
    for config in template.of_type(*ENDPOINT_CONFIGS):
        own = (variant for variant in endpoints.variants(template) if variant.config is config)
        types = [name for variant in own for _, name in variant.instance_types]
        if types and not all(_has_disks(name) for name in types):
            yield from _without_key(config, ("KmsKeyId",), "volumes are", "encryption_key=...")
        if config.get(capture[0]) is not None:
            yield from _without_key(config, capture, "captured data is", "DataCapture(..., encryption_key=...)")
        if config.get(output[0]) is not None:
            yield from _without_key(config, output, "responses are", "AsyncInference(..., encryption_key=...)")
    for job in template.of_type(*JOBS):
        fix = "artifact_store=ArtifactStore(..., encryption_key=...)"
        yield from _without_key(job, ("KmsKeyArn",), "the artifact store is", fix)


def _without_key(resource: Resource, path: tuple[str, ...], subject: str, fix: str) -> Iterator[PolicyFinding]:
    if resource.get(*path) is None:
        reason = f"{subject} encrypted with an AWS key, but the policy requires your own KMS key"
        yield PolicyFinding(resource, ".".join(("Properties", *path)), None, reason, fix)


@_rule("POL031")
def _traffic_passes_a_vpc(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    fix = "network=NetworkOptions(vpc=...), with vpc_subnets and security_groups if necessary"
    for resource in (*template.of_type(*MODELS), *template.of_type(*JOBS), *_shared_instances(template)):
        path = ("Request", "VpcConfig") if resource.type in JOBS else ("VpcConfig",)
        network, location = resource.get(*path), ".".join(("Properties", *path))
        if not all(as_object(network).get(name) for name in ("SecurityGroupIds", "Subnets")):
            reason = "network traffic does not go through your VPC"
            yield PolicyFinding(resource, location, network, reason, fix)


@_rule("POL032")
def _models_are_isolated(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for resource in (*template.of_type(*MODELS), *_shared_instances(template)):
        isolated = resource.get("EnableNetworkIsolation")
        # A configuration without the property leaves it to the components' models.
        if isolated is not True and not (resource.type in ENDPOINT_CONFIGS and isolated is None):
            location, reason = "Properties.EnableNetworkIsolation", "the container can reach the network"
            fix = "network=NetworkOptions(isolation=True), and techniques whose containers do not need the network"
            yield PolicyFinding(resource, location, isolated, reason, fix)


def _has_disks(instance_type: Any) -> bool:
    """Return whether an instance has NVMe disks, for which SageMaker rejects a KMS key (CreateEndpointConfig,
    ``KmsKeyId``).
    """
    row = instances.find(instance_type)
    return row.nvme_gb > 0 if row is not None else bool(_NAMED_FOR_DISKS.fullmatch(str(instance_type)))


def _shared_instances(template: Template) -> Iterator[Resource]:
    """Find configurations of inference component endpoints."""
    hosts = (variant for variant in endpoints.variants(template) if variant.hosts_components and variant.instance_types)
    return iter(dict.fromkeys(variant.config for variant in hosts))


@_rule("POL040")
def _serving_resources_scale(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    serving: list[tuple[Resource, str, list[Resource]]] = []
    for variant in endpoints.variants(template):
        managed = as_object(variant.properties.get("ManagedInstanceScaling")).get("Status") == "ENABLED"
        if variant.instance_types and not (managed and variant.hosts_components):
            serving.append((variant.config, variant.location, endpoints.targets_of_variant(template, variant)))
    for component in endpoints.components(template):
        location = "Properties.RuntimeConfig.CopyCount"
        serving.append((component, location, endpoints.targets_of_component(template, component)))
    fix = "auto_scale(max_capacity=...) with on_concurrency(...) or another policy"
    for resource, location, targets in serving:
        scaled = [target for target in targets if endpoints.is_scaled(template, target)]
        if not scaled:
            yield PolicyFinding(resource, location, _IN_THE_REASON, "this template does not scale it", fix)
        elif not any(_changes_capacity(template, target) for target in scaled):
            reason = f"its scaling, {scaled[0].logical_id}, cannot change the capacity"
            wider = "a max_capacity above min_capacity, and a policy or schedules with other capacities"
            yield PolicyFinding(resource, location, _IN_THE_REASON, reason, wider)


def _changes_capacity(template: Template, target: Resource) -> bool:
    """Return whether a target's policies and schedules can change the capacity; true if a limit is not literal."""
    actions = target.properties.get("ScheduledActions", ())
    scheduled = [as_object(action) for action in as_array(actions)]
    changes = [as_object(action.get("ScalableTargetAction")) for action in scheduled]
    limits = [target.properties.get(name) for name in _LIMITS]
    limits += [change[name] for change in changes for name in _LIMITS if name in change]
    known = [number(limit) for limit in limits]
    if None in known or not is_array(actions) or not all(change.keys() & {*_LIMITS} for change in changes):
        return True
    unscheduled = {name: value for name, value in target.properties.items() if name != "ScheduledActions"}
    policed = replace(target, declaration={**target.declaration, "Properties": unscheduled})
    return scaling.changes_capacity(
        (known[0] or 0, known[1] or 0),
        [(number(change.get("MinCapacity")), number(change.get("MaxCapacity"))) for change in changes],
        has_policies=endpoints.is_scaled(template, policed),
        once=any(str(action.get("Schedule")).startswith("at(") for action in scheduled),
    )


@_rule("POL041")
def _an_alarm_has_an_action(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    alarms = template.of_type(ALARM)
    for serving in endpoints.serving_resources(template):
        watching = [
            alarm for alarm in alarms if any(endpoints.is_name_of(serving, value) for value in _dimensions(alarm))
        ]
        ids = {alarm.logical_id for alarm in watching}
        names = [str(alarm.properties["AlarmName"]) for alarm in watching if "AlarmName" in alarm.properties]
        composed = [
            alarm
            for alarm in template.of_type(COMPOSITE_ALARM)
            if ids & referenced_ids(alarm.properties.get("AlarmRule"))
            or any(_is_named(name, str(alarm.properties.get("AlarmRule"))) for name in names)
        ]
        if not any(_has_action(template, alarm) for alarm in (*watching, *composed)):
            lack = "none of its alarms has an action" if watching else "it has no alarm"
            fix = "monitoring=MonitoringOptions(alarm_actions=[SnsAction(topic)]), or your own alarms with actions"
            yield _lacking(serving, f"{lack}, so nobody is notified when it fails", fix)


@_rule("POL042")
def _deployments_are_gated(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for serving in endpoints.serving_resources(template):
        evaluations: list[Resource] = []
        for evaluation in template.of_type(ENDPOINT_EVALUATION):
            dimensions = as_object(evaluation.get("Request", "Dimensions")).values()
            if any(endpoints.is_name_of(serving, value) for value in dimensions):
                evaluations.append(evaluation)
        if not any(evaluation.get("Request", "Gate") for evaluation in evaluations):
            lack = "its evaluation has no requirements" if evaluations else "it has no evaluation"
            reason = f"{lack}, so a deployment that makes it worse does not roll back"
            yield _lacking(serving, reason, "endpoint.evaluate(...).require(...)")


def _lacking(serving: Resource, reason: str, fix: str) -> PolicyFinding:
    return PolicyFinding(serving, f"Properties.{endpoints.NAME_PROPERTIES[serving.type]}", _IN_THE_REASON, reason, fix)


def _dimensions(alarm: Resource) -> Iterator[Any]:
    """Find the endpoints and components in an alarm's metrics."""
    queries = as_array(alarm.properties.get("Metrics"))
    metrics = (as_object(as_object(as_object(query).get("MetricStat")).get("Metric")) for query in queries)
    for metric in (alarm.properties, *metrics):
        for dimension in map(as_object, as_array(metric.get("Dimensions"))):
            if dimension.get("Name") in ("EndpointName", "InferenceComponentName"):
                yield dimension.get("Value")


def _is_named(name: str, rule: str) -> bool:
    """Return whether a composite alarm's rule contains an alarm's whole name, not as a part of another name."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", rule) is not None


def _has_action(template: Template, alarm: Resource) -> bool:
    policies = {policy.logical_id for policy in template.of_type(SCALING_POLICY)}
    return alarm.properties.get("ActionsEnabled", True) is not False and any(
        not referenced_ids(action) & policies for action in as_array(alarm.properties.get("AlarmActions"))
    )
