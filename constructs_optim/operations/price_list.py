"""On-demand prices of SageMaker instances, as AWS publishes them.

Source: AWS Price List Query API, ``GetProducts`` of the service ``AmazonSageMaker``. Needs ``pricing:GetProducts``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from constructs_optim.runtime.evaluation.price_list import hourly_prices

if TYPE_CHECKING:
    from mypy_boto3_pricing.client import PricingClient

API_REGION = "us-east-1"
"""The Query API has endpoints in few regions; each has the prices of all."""

# Per process, by endpoint of the API, region and component.
_cache: dict[tuple[str, str, str], Mapping[str, float]] = {}


def prices_per_hour(pricing: PricingClient, region: str, component: str = "Hosting") -> Mapping[str, float]:
    """The prices of one instance by its type, in US dollars an hour; empty for a region without prices.

    ``component`` is ``Hosting`` or ``Training``; ``pricing`` is a client of :data:`API_REGION`.
    """
    key = (str(pricing.meta.endpoint_url), region, component)
    if key not in _cache:
        pages = pricing.get_paginator("get_products").paginate(
            ServiceCode="AmazonSageMaker",
            Filters=[
                {"Type": "TERM_MATCH", "Field": "regionCode", "Value": region},
                {"Type": "TERM_MATCH", "Field": "component", "Value": component},
            ],
        )
        prices: dict[str, float] = {}
        for product in (json.loads(text) for page in pages for text in page["PriceList"]):
            name = product["product"]["attributes"].get("instanceName")
            # Where there are several, the lowest: the others are of more than the instance.
            for price in hourly_prices(product) if name else ():
                prices[name] = min(price, prices.get(name, price))
        _cache[key] = prices
    return _cache[key]
