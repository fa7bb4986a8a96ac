"""What tokens cost: from an instance's price per hour and the tokens it generates.

Source: AWS Machine Learning Blog, "Achieve up to ~2x higher throughput while reducing costs by ~50% for generative
AI inference on Amazon SageMaker with the new inference optimization toolkit - Part 1": total throughput, and the
blended price at three input tokens for each output token. ``metrics/definitions.toml`` has the same formulas as metric
math; a test holds the two together.
"""

from __future__ import annotations

HOURS_A_MONTH = 730
"""365 days of 24 hours in 12 months, as the AWS Pricing Calculator counts."""
INPUT_TO_OUTPUT_RATIO = 3
"""Input tokens for each output token of a blended price."""


def total_throughput(*, concurrency: int, inter_token_latency_p50: float) -> float:
    """Tokens a second over all users, from the median inter-token latency in milliseconds."""
    _check_above_zero("inter_token_latency_p50", inter_token_latency_p50)
    return concurrency * 1000 / inter_token_latency_p50


def price_per_million_tokens(
    *, instance_price_per_hour: float, tokens_per_second: float, discount: float = 0.0
) -> float:
    """What 1,000,000 input or output tokens cost where nothing else is charged for; the price is of all instances."""
    _check_above_zero("tokens_per_second", tokens_per_second)
    check_price(instance_price_per_hour, discount)
    return (1 - discount) * instance_price_per_hour / (tokens_per_second * 3600 / 1_000_000)


def blended_price_per_million_tokens(
    *, instance_price_per_hour: float, total_throughput: float, discount: float = 0.0
) -> float:
    """What 1,000,000 tokens cost where three are input for each that is output."""
    _check_above_zero("total_throughput", total_throughput)
    price = price_per_million_tokens(
        instance_price_per_hour=instance_price_per_hour, tokens_per_second=total_throughput, discount=discount
    )
    return price / (1 + INPUT_TO_OUTPUT_RATIO)


def check_price(instance_price_per_hour: float | None, discount: float) -> None:
    """Raise ValueError for a price that is not above zero, or a discount that is no share."""
    if instance_price_per_hour is not None:
        _check_above_zero("instance_price_per_hour", instance_price_per_hour)
    if not 0 <= discount < 1:
        raise ValueError(f"discount is {discount}, and it is a share: 0.3 for 30 %, at least 0 and below 1")


def _check_above_zero(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} is {value}, and it has to be above zero")
