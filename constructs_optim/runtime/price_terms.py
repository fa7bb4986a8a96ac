"""A product of the AWS Price List: what it costs in an hour.

Source: AWS Price List API reference, GetProducts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def hourly_prices(product: Mapping[str, Any]) -> Iterator[float]:
    """What a product costs on demand, in US dollars an hour."""
    for term in (product.get("terms", {}).get("OnDemand") or {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            price = float((dimension.get("pricePerUnit") or {}).get("USD") or 0)
            if dimension.get("unit", "").lower() in ("hrs", "hours", "hour") and price > 0:
                yield price
