"""On-demand prices of SageMaker instances, as AWS publishes them.

Source: AWS Price List Query API, ``GetProducts`` of the service ``AmazonSageMaker``. Needs ``pricing:GetProducts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from constructs_optim.runtime.evaluation.price_list import lowest_prices

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
        _cache[key] = lowest_prices(pricing, regionCode=region, component=component)
    return _cache[key]
