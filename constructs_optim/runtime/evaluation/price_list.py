"""On-demand prices of SageMaker instances, from the AWS Price List.

Source: AWS Price List Query API, ``GetProducts``; attributes of ``AmazonSageMaker`` products as the service lists them.
Needs ``pricing:GetProducts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..documents import json_value, nested, object_in

if TYPE_CHECKING:
    from mypy_boto3_pricing.client import PricingClient

API_REGION = "us-east-1"
"""The Query API has endpoints in a few Regions; each has the prices of all Regions of its partition."""

# Per process, by API endpoint, Region, and component.
_cache: dict[tuple[str, str, str], Mapping[str, float]] = {}


def prices_per_hour(pricing: PricingClient, region: str, component: str = "Hosting") -> Mapping[str, float]:
    """Return a Region's hourly prices by instance type in US dollars; ``component`` is ``Hosting`` or ``Training``."""
    key = (str(pricing.meta.endpoint_url), region, component)
    if key not in _cache:
        _cache[key] = lowest_prices(pricing, regionCode=region, component=component)
    return _cache[key]


def lowest_prices(pricing: PricingClient, **attributes: str) -> dict[str, float]:
    """Return the hourly prices of the products with these attributes, in US dollars by instance type.

    If an instance type has several prices, the lowest counts: the others include more than the instance.
    """
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode="AmazonSageMaker",
        Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in attributes.items()],
    )
    prices: dict[str, float] = {}
    for product in (json_value(text) for page in pages for text in page["PriceList"]):
        name = str(nested(product, "product", "attributes", "instanceName") or "")
        for term in object_in(nested(product, "terms", "OnDemand")).values():
            for dimension in object_in(nested(term, "priceDimensions")).values():
                price = float(str(nested(dimension, "pricePerUnit", "USD") or 0))
                is_hourly = str(nested(dimension, "unit")).lower() in ("hrs", "hours", "hour")
                if name and is_hourly and price > 0:
                    prices[name] = min(price, prices.get(name, price))
    return prices
