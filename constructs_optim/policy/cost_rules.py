"""Rules on what endpoints may cost, at the prices that the policy gives."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from constructs_optim.recipe.pricing import HOURS_A_MONTH
from constructs_optim.templates.endpoints import LocatedValue, Variant, instance_limits, variants
from constructs_optim.templates.json_values import number
from constructs_optim.templates.resource_types import ENDPOINT_CONFIG
from constructs_optim.templates.template import Template

from .registry import DEPLOY_TIME, IN_THE_REASON, Breach, policy_rule
from .settings import PlatformPolicy

_NO_PRICE = "the policy has no price for it, so nobody can say that it is within the ceiling"


@policy_rule(
    "POL003",
    title="An instance is within the price ceiling",
    looks_at="the price of each instance type of an endpoint configuration",
    reason="one expensive type costs more than many endpoints",
)
def _an_instance_is_within_the_ceiling(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    ceiling = policy.max_price_per_hour or 0
    for variant in variants(template):
        yield from _unpriced_types(policy, variant)
        for location, instance_type in _priced_types(policy, variant):
            price = policy.instance_prices[instance_type]
            if price > ceiling:
                cheaper = sorted(name for name, other in policy.instance_prices.items() if other <= ceiling)
                yield Breach(
                    variant.config,
                    location,
                    instance_type,
                    f"an instance costs ${price:,.2f} an hour, and the policy allows ${ceiling:,.2f}",
                    f"one of {', '.join(cheaper)}" if cheaper else "no type that the policy has a price for",
                )


@policy_rule(
    "POL004",
    title="An endpoint at its largest is within the monthly ceiling",
    looks_at="the most instances that scaling, schedules and SageMaker itself may launch for all variants",
    reason="what may be launched is what the bill may be",
)
def _an_endpoint_is_within_the_monthly_ceiling(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    ceiling = policy.max_monthly_cost or 0
    for config in template.of_type(ENDPOINT_CONFIG):
        cost, terms, breaches = 0.0, list[str](), list[Breach]()
        for variant in variants(template):
            if variant.config is not config or not variant.instance_types:
                continue
            limits = instance_limits(template, variant)
            breaches += _unpriced_types(policy, variant)
            breaches += _unknown_limits(variant, limits)
            if breaches:
                continue
            location, most = max(((limit.location, number(limit.value) or 0) for limit in limits), key=itemgetter(1))
            prices = {name: policy.instance_prices[name] for _, name in _priced_types(policy, variant)}
            dearest = max(prices, key=prices.__getitem__)
            cost += prices[dearest] * most * HOURS_A_MONTH
            terms.append(f"{most} x {dearest} ({location})")
        if breaches:
            yield from breaches
        elif cost > ceiling:
            yield Breach(
                config,
                "Properties.ProductionVariants",
                IN_THE_REASON,
                f"{' + '.join(terms)} cost ${cost:,.0f} a month, and the policy allows ${ceiling:,.0f}",
                "a lower max_capacity in auto_scale(...) or variant.max_instance_count, or a cheaper instance type",
            )


def _priced_types(policy: PlatformPolicy, variant: Variant) -> Iterator[tuple[str, str]]:
    """The instance types of a variant that have a price, with their locations."""
    for location, instance_type in variant.instance_types:
        if isinstance(instance_type, str) and instance_type in policy.instance_prices:
            yield location, instance_type


def _unpriced_types(policy: PlatformPolicy, variant: Variant) -> Iterator[Breach]:
    for location, instance_type in variant.instance_types:
        if not isinstance(instance_type, str):
            yield Breach(variant.config, location, instance_type, DEPLOY_TIME, "a literal instance type")
        elif instance_type not in policy.instance_prices:
            suggestion = f"instance_prices={{{instance_type!r}: ...}} in the policy, or a type that has a price there"
            yield Breach(variant.config, location, instance_type, _NO_PRICE, suggestion)


def _unknown_limits(variant: Variant, limits: list[LocatedValue]) -> Iterator[Breach]:
    """The first limit that is no number: one is enough to know nothing of the cost."""
    unknown = next((limit for limit in limits if number(limit.value) is None), None)
    if unknown is not None:
        yield Breach(variant.config, unknown.location, unknown.value, DEPLOY_TIME, "literal capacities")
