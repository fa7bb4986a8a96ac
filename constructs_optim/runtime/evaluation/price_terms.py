"""A product of the AWS Price List: what it costs in an hour.

Source: AWS Price List API reference, GetProducts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..documents import nested, object_in


def hourly_prices(product: Mapping[str, object]) -> Iterator[float]:
    """What a product costs on demand, in US dollars an hour."""
    for term in object_in(nested(product, "terms", "OnDemand")).values():
        for dimension in object_in(nested(term, "priceDimensions")).values():
            price = float(str(nested(dimension, "pricePerUnit", "USD") or 0))
            if str(nested(dimension, "unit")).lower() in ("hrs", "hours", "hour") and price > 0:
                yield price
