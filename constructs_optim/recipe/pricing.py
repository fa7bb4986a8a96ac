"""Prices of instances and tokens. ``metrics/definitions.toml`` has the formulas of evaluations' prices."""

from __future__ import annotations

HOURS_A_MONTH = 730
"""365 days of 24 hours in 12 months, as in the AWS Pricing Calculator."""


def price_per_million_tokens(instance_price_per_hour: float, tokens_per_second: float, discount: float = 0.0) -> float:
    """Return the price of 1,000,000 input or output tokens if these alone bear the price of all instances."""
    return (1 - discount) * instance_price_per_hour / (tokens_per_second * 3600 / 1_000_000)


def check_price(instance_price_per_hour: float | None, discount: float) -> None:
    """Raise ValueError for a price that is not above zero, or a discount outside of [0, 1)."""
    if instance_price_per_hour is not None and not instance_price_per_hour > 0:
        raise ValueError(
            f"instance_price_per_hour is {instance_price_per_hour}, and a price is above zero: 7.09, for instance"
        )
    if not 0 <= discount < 1:
        raise ValueError(f"discount is {discount}: a share of at least 0 and less than 1, such as 0.3 for 30%")
