"""What hosting costs, as AWS publishes it: the library itself knows no prices.

Source: AWS Price List Query API, ``GetProducts`` of the service ``AmazonSageMaker``. Needs ``pricing:GetProducts``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from constructs_optim.runtime.evaluation.price_list import hourly_prices

API_REGION = "us-east-1"
"""The Query API has endpoints in few regions; each knows the prices of all."""

_HOSTING, _TRAINING = "Hosting", "Training"
# By the endpoint that was asked, the region and what runs: what was found, once a process.
_known: dict[tuple[str, str, str], Mapping[str, float]] = {}


def hosting_prices_per_hour(pricing: Any, region: str) -> Mapping[str, float]:
    """The on-demand prices of one instance for real-time inference, in US dollars an hour, by instance type.

    Args:
        pricing: a ``pricing`` client of boto3, of :data:`API_REGION`.
        region: where the instance runs, for instance ``us-west-2``.

    Returns:
        What there is; nothing for a region that the price list does not have. Remembered for the process.

    Raises:
        botocore.exceptions.ClientError: where the account may not ask.
    """
    return _remembered(pricing, region, _HOSTING)


def training_prices_per_hour(pricing: Any, region: str) -> Mapping[str, float]:
    """The same for training jobs."""
    return _remembered(pricing, region, _TRAINING)


def hosting_price_per_hour(pricing: Any, instance_type: str, region: str) -> float | None:
    """The price of one instance type, for instance ``ml.g5.12xlarge``; None where the price list has none.

    Raises:
        botocore.exceptions.ClientError: where the account may not ask.
    """
    return hosting_prices_per_hour(pricing, region).get(instance_type)


def _remembered(pricing: Any, region: str, component: str) -> Mapping[str, float]:
    place = (str(pricing.meta.endpoint_url), region, component)
    if place not in _known:
        _known[place] = _asked(pricing, region, component)
    return _known[place]


def _asked(pricing: Any, region: str, component: str) -> dict[str, float]:
    fields = {"regionCode": region, "component": component}
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode="AmazonSageMaker",
        Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()],
    )
    found: dict[str, float] = {}
    for page in pages:
        for text in page["PriceList"]:
            product = json.loads(text)
            name = product["product"]["attributes"].get("instanceName")
            # Where there are several, the lowest: the others are of more than the instance.
            cheapest = min(hourly_prices(product), default=None)
            if name and cheapest is not None:
                found[name] = min(cheapest, found.get(name, cheapest))
    return found
