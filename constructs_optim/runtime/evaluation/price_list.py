"""The price of an instance by the hour: the AWS Price List, read when an evaluation runs.

Source: AWS Price List API reference, GetProducts; attributes of ``AmazonSageMaker`` products as the service lists them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ..aws import client
from ..documents import nested, object_in

# Regions of the API, which has the prices of every region of the partition.
_ENDPOINTS = {"aws": "us-east-1", "aws-cn": "cn-northwest-1"}


def instance_price_per_hour(instance_type: str, *, region: str, partition: str = "aws") -> float | None:
    """The on-demand price of hosting on one instance, in US dollars; None where the list has none."""
    home = _ENDPOINTS.get(partition)
    if home is None:
        return None
    filters = {"regionCode": region, "instanceName": instance_type, "component": "Hosting"}
    listed = (
        client("pricing", region=home)
        .get_paginator("get_products")
        .paginate(
            ServiceCode="AmazonSageMaker",
            Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()],
        )
    )
    prices = {price for page in listed for text in page["PriceList"] for price in hourly_prices(json.loads(text))}
    return min(prices, default=None)


def hourly_prices(product: Mapping[str, object]) -> Iterator[float]:
    """The prices of a product on demand, in US dollars an hour."""
    for term in object_in(nested(product, "terms", "OnDemand")).values():
        for dimension in object_in(nested(term, "priceDimensions")).values():
            price = float(str(nested(dimension, "pricePerUnit", "USD") or 0))
            if str(nested(dimension, "unit")).lower() in ("hrs", "hours", "hour") and price > 0:
                yield price
