"""Prices of tokens, from an instance's price per hour and its throughput.

Source: AWS Machine Learning Blog, "Achieve up to ~2x higher throughput while reducing costs by ~50% for generative
AI inference on Amazon SageMaker with the new inference optimization toolkit - Part 1": total throughput, and the
blended price at three input tokens for each output token. ``metrics/definitions.toml`` has the same formulas as metric
math; a test compares the two.
"""

from __future__ import annotations

HOURS_A_MONTH = 730
"""365 days of 24 hours in 12 months, as in the AWS Pricing Calculator."""
INPUT_TO_OUTPUT_RATIO = 3
"""Input tokens per output token in a blended price."""


def total_throughput(concurrency: int, inter_token_latency_p50: float) -> float:
    """Return the tokens per second of all users, from the median inter-token latency in milliseconds."""
    return concurrency * 1000 / inter_token_latency_p50


def price_per_million_tokens(instance_price_per_hour: float, tokens_per_second: float, discount: float = 0.0) -> float:
    """Return the price of 1,000,000 input or output tokens if these alone bear the price of all instances."""
    return (1 - discount) * instance_price_per_hour / (tokens_per_second * 3600 / 1_000_000)


def blended_price_per_million_tokens(
    instance_price_per_hour: float, total_throughput: float, discount: float = 0.0
) -> float:
    """Return the price of 1,000,000 tokens at three input tokens per output token."""
    price = price_per_million_tokens(instance_price_per_hour, total_throughput, discount)
    return price / (1 + INPUT_TO_OUTPUT_RATIO)


def price_per_thousand(instance_price_per_hour: float, per_second: float, discount: float) -> float:
    """Return the price of 1,000 requests, from the price of all instances and the requests per second."""
    return (1 - discount) * instance_price_per_hour / (per_second * 3600 / 1000)


def check_price(instance_price_per_hour: float | None, discount: float) -> None:
    """Raise ValueError for a price that is not above zero, or a discount outside of [0, 1)."""
    if instance_price_per_hour is not None and not instance_price_per_hour > 0:
        raise ValueError(
            f"instance_price_per_hour is {instance_price_per_hour}, and a price is above zero: 7.09, for instance"
        )
    if not 0 <= discount < 1:
        raise ValueError(f"discount is {discount}: a share of at least 0 and less than 1, such as 0.3 for 30%")
