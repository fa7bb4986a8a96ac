"""What endpoints may cost, at prices that the policy brings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .endpoints import CONFIGURATION, DEPLOY_TIME, Variant, is_count, most_instances, variants
from .registry import IN_THE_REASON, Breach, policy_rule
from .template import Template

if TYPE_CHECKING:
    from .settings import PlatformPolicy

_HOURS_OF_A_MONTH = 730
"""365 days of 24 hours in 12 months, as AWS Pricing Calculator counts."""
_NO_PRICE = "the policy has no price for it, so nobody can say that it is within the ceiling"


@policy_rule(
    "POL003",
    setting="max_price_per_hour",
    title="An instance is within the price ceiling",
    looks_at="the price of each instance type of an endpoint configuration",
    reason="one expensive type costs more than many endpoints",
)
def _an_instance_is_within_the_ceiling(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    ceiling = policy.max_price_per_hour or 0
    for variant in variants(template):
        for location, given in variant.instance_types:
            problem = _no_price(policy, given)
            if problem is not None:
                yield Breach(variant.config, location, given, *problem)
            elif policy.instance_prices[given] > ceiling:
                cheaper = sorted(name for name, price in policy.instance_prices.items() if price <= ceiling)
                yield Breach(
                    variant.config,
                    location,
                    given,
                    f"an instance costs ${policy.instance_prices[given]:,.2f} an hour, and the policy allows "
                    f"${ceiling:,.2f}",
                    f"one of {', '.join(cheaper)}" if cheaper else "no type that the policy has a price for",
                )


@policy_rule(
    "POL004",
    setting="max_monthly_cost",
    title="An endpoint at its largest is within the monthly ceiling",
    looks_at="the most instances that scaling, schedules and SageMaker itself may launch for all variants",
    reason="what may be launched is what the bill may be",
)
def _an_endpoint_is_within_the_monthly_ceiling(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    ceiling = policy.max_monthly_cost or 0
    for config in template.of_type(CONFIGURATION):
        own = [one for one in variants(template) if one.config is config and one.instance_types]
        cost, counted = 0.0, list[str]()
        problems = list[Breach]()
        for variant in own:
            problems += _unknown_costs(policy, template, variant)
            if problems:
                continue
            most_of, most = most_instances(template, variant)
            dearest = max((given for _, given in variant.instance_types), key=policy.instance_prices.__getitem__)
            cost += policy.instance_prices[dearest] * most * _HOURS_OF_A_MONTH
            counted.append(f"{most} x {dearest} ({most_of})")
        if problems:
            yield from problems
        elif cost > ceiling:
            yield Breach(
                config,
                "Properties.ProductionVariants",
                IN_THE_REASON,
                f"{' + '.join(counted)} cost ${cost:,.0f} a month, and the policy allows ${ceiling:,.0f}",
                "a lower max_capacity in auto_scale(...) or max_instance_count, or a cheaper instance type",
            )


def _unknown_costs(policy: PlatformPolicy, template: Template, variant: Variant) -> Iterator[Breach]:
    for location, given in variant.instance_types:
        problem = _no_price(policy, given)
        if problem is not None:
            yield Breach(variant.config, location, given, *problem)
    place, most = most_instances(template, variant)
    if not is_count(most):
        yield Breach(variant.config, place, most, DEPLOY_TIME, "literal capacities")


def _no_price(policy: PlatformPolicy, given: Any) -> tuple[str, str] | None:
    """Reason and suggestion where an instance type has no price."""
    if not isinstance(given, str):
        return DEPLOY_TIME, "a literal instance type"
    if given not in policy.instance_prices:
        return _NO_PRICE, f"instance_prices={{{given!r}: ...}} in the policy, or a type that has a price there"
    return None
