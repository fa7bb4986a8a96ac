"""What an instance costs, as AWS publishes it: the library itself knows no prices.

Source: AWS Price List Query API, ``GetProducts`` of the service ``AmazonSageMaker``. Needs ``pricing:GetProducts``.
"""

from __future__ import annotations

import json
from typing import Any

# The Query API has endpoints in few regions; each knows the prices of all.
API_REGION = "us-east-1"
_HOSTING = "Hosting"
_MOST_PAGES = 20


def hosting_price_per_hour(pricing: Any, instance_type: str, region: str) -> float | None:
    """The on-demand price of one instance for real-time inference, in US dollars an hour.

    Args:
        pricing: a ``pricing`` client of boto3.
        instance_type: for instance ``ml.g5.12xlarge``.
        region: where it runs, for instance ``us-west-2``.

    Returns:
        None where the price list has none.

    Raises:
        botocore.exceptions.ClientError: where the account may not ask.
    """
    asked: dict[str, Any] = {
        "ServiceCode": "AmazonSageMaker",
        "Filters": [
            {"Type": "TERM_MATCH", "Field": "regionCode", "Value": region},
            {"Type": "TERM_MATCH", "Field": "instanceName", "Value": instance_type},
        ],
    }
    found: set[float] = set()
    for _ in range(_MOST_PAGES):
        page = pricing.get_products(**asked)
        for entry in page["PriceList"]:
            found |= _hosting_prices(json.loads(entry) if isinstance(entry, str) else entry, instance_type)
        if not page.get("NextToken"):
            break
        asked["NextToken"] = page["NextToken"]
    # Where products differ in what this library does not know of, the dearest is the one not to be surprised by.
    return max(found, default=None)


def _hosting_prices(product: dict[str, Any], instance_type: str) -> set[float]:
    attributes = product.get("product", {}).get("attributes", {})
    if attributes.get("instanceName") != instance_type or _HOSTING not in (
        attributes.get("component"),
        attributes.get("platoinstancetype"),
    ):
        return set()
    return {
        price
        for term in product.get("terms", {}).get("OnDemand", {}).values()
        for dimension in term.get("priceDimensions", {}).values()
        if dimension.get("unit", "").lower() == "hrs"
        and (price := float(dimension.get("pricePerUnit", {}).get("USD") or 0)) > 0
    }
