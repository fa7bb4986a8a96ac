"""On-demand prices of SageMaker instances: the AWS Price List.

Source: AWS Price List Query API, ``GetProducts``; attributes of ``AmazonSageMaker`` products as the service lists them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..documents import nested, object_in

if TYPE_CHECKING:
    from mypy_boto3_pricing.client import PricingClient


def lowest_prices(pricing: PricingClient, **attributes: str) -> dict[str, float]:
    """The prices of an hour of the products with these attributes, in US dollars, by instance type.

    Where an instance type has several, the lowest: the others are of more than the instance.
    """
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode="AmazonSageMaker",
        Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in attributes.items()],
    )
    prices: dict[str, float] = {}
    for product in (json.loads(text) for page in pages for text in page["PriceList"]):
        name = str(nested(product, "product", "attributes", "instanceName") or "")
        for term in object_in(nested(product, "terms", "OnDemand")).values():
            for dimension in object_in(nested(term, "priceDimensions")).values():
                price = float(str(nested(dimension, "pricePerUnit", "USD") or 0))
                is_hourly = str(nested(dimension, "unit")).lower() in ("hrs", "hours", "hour")
                if name and is_hourly and price > 0:
                    prices[name] = min(price, prices.get(name, price))
    return prices
