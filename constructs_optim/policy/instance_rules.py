"""Rules on the instance types of endpoints and jobs, and on what endpoints may cost at the policy's prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from constructs_optim.recipe.pricing import HOURS_A_MONTH
from constructs_optim.templates.endpoints import Variant, instance_limits, variants
from constructs_optim.templates.json_values import number
from constructs_optim.templates.resource_types import ENDPOINT_CONFIG, JOBS
from constructs_optim.templates.template import Resource, Template

from .registry import DEPLOY_TIME, IN_THE_REASON, PolicyFinding, policy_rule
from .settings import PlatformPolicy, matches

_PATHS_IN_JOBS = (("Request", "DeploymentInstanceType"), ("Request", "ResourceConfig", "InstanceType"))


@policy_rule(
    "POL001",
    title="Endpoints run on allowed instance types",
    looks_at="each instance type of an endpoint configuration, those of its pools among them",
    reason="quotas, reservations and price agreements are made for some types",
)
def _endpoints_run_on_allowed_types(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for variant in variants(template):
        for location, instance_type in variant.instance_types:
            yield from _not_allowed(policy.allowed_instance_types or (), variant.config, location, instance_type)


@policy_rule(
    "POL002",
    title="Jobs run on allowed instance types",
    looks_at="the instance type that an optimization job is for, and that a training job runs on",
    reason="jobs have quotas and prices of their own",
)
def _jobs_run_on_allowed_types(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for job in template.of_type(*JOBS):
        for path in _PATHS_IN_JOBS:
            instance_type, location = job.get(*path), ".".join(("Properties", *path))
            if instance_type is not None:
                yield from _not_allowed(policy.allowed_job_instance_types or (), job, location, instance_type)


def _not_allowed(
    allowed: Sequence[str], resource: Resource, location: str, instance_type: Any
) -> Iterator[PolicyFinding]:
    suggestion = f"one of {', '.join(allowed)}" if allowed else "none is allowed here"
    if not isinstance(instance_type, str):
        yield PolicyFinding(resource, location, instance_type, DEPLOY_TIME, f"a literal instance type: {suggestion}")
    elif not matches(instance_type, allowed):
        yield PolicyFinding(
            resource, location, instance_type, "the policy does not allow the instance type", suggestion
        )


@policy_rule(
    "POL003",
    title="An instance is within the price ceiling",
    looks_at="the price of each instance type of an endpoint configuration",
    reason="one expensive type costs more than many endpoints",
)
def _an_instance_is_within_the_ceiling(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    ceiling = policy.max_price_per_hour or 0
    cheaper = sorted(name for name, price in policy.instance_prices.items() if price <= ceiling)
    fix = f"one of {', '.join(cheaper)}" if cheaper else "no type that the policy has a price for"
    for variant in variants(template):
        yield from _unpriced_types(policy, variant)
        for location, instance_type in variant.instance_types:
            price = policy.instance_prices.get(str(instance_type), 0)
            if price > ceiling:
                reason = f"an instance costs ${price:,.2f} an hour, and the policy allows ${ceiling:,.2f}"
                yield PolicyFinding(variant.config, location, instance_type, reason, fix)


@policy_rule(
    "POL004",
    title="An endpoint at its largest is within the monthly ceiling",
    looks_at="the most instances that scaling, schedules and SageMaker itself may launch for all variants",
    reason="what may be launched is what the bill may be",
)
def _an_endpoint_is_within_the_monthly_ceiling(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    ceiling = policy.max_monthly_cost or 0
    fix = "a lower max_capacity in auto_scale(...) or variant.max_instance_count, or a cheaper instance type"
    for config in template.of_type(ENDPOINT_CONFIG):
        cost, terms, unknown = 0.0, list[str](), list[PolicyFinding]()
        for variant in variants(template):
            if variant.config is not config or not variant.instance_types:
                continue
            limits = [(location, value, number(value)) for location, value in instance_limits(template, variant)]
            unknown += _unpriced_types(policy, variant)
            # The first limit that is no number: one is enough to know nothing of the cost.
            unknown += [
                PolicyFinding(config, location, value, DEPLOY_TIME, "literal capacities")
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
            reason = f"{' + '.join(terms)} cost ${cost:,.0f} a month, and the policy allows ${ceiling:,.0f}"
            yield PolicyFinding(config, "Properties.ProductionVariants", IN_THE_REASON, reason, fix)


def _unpriced_types(policy: PlatformPolicy, variant: Variant) -> Iterator[PolicyFinding]:
    for location, name in variant.instance_types:
        if not isinstance(name, str):
            yield PolicyFinding(variant.config, location, name, DEPLOY_TIME, "a literal instance type")
        elif name not in policy.instance_prices:
            reason = "the policy has no price for it, so nobody can say that it is within the ceiling"
            fix = f"instance_prices={{{name!r}: ...}} in the policy, or a type that has a price there"
            yield PolicyFinding(variant.config, location, name, reason, fix)
