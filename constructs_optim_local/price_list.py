"""The AWS Price List with fictitious prices: GetProducts of SageMaker's instances.

A product has the service's format: ``PriceList`` holds JSON texts with ``product``, ``serviceCode``, ``terms`` and
``version``; an on-demand term has one price dimension, in ``Hrs``. An instance for hosting has the attributes
``instanceName`` (``ml.g5.12xlarge``), ``instanceType`` (``ml.g5.12xlarge-Hosting``), ``component`` (``Hosting``),
``regionCode``, ``location``, ``usagetype`` (``USW2-Host:ml.g5.12xlarge``) and ``operation`` (``RunInstance``), and the
product family ``ML Instance``.

Sources: botocore's model of ``pricing``; AWS Billing user guide, "Using the AWS Price List Query API"; usage types and
attributes from public tools that read the real list (2026). Not verified against the service: the Region prefixes of
usage types other than USE1 and USW2, and the error for an unknown service.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .api.call_log import CallLog
from .api.error import ApiError
from .api.model import ApiModel
from .faults import Faults
from .sagemaker.hosting.fleets import hardware

_SERVICE = "AmazonSageMaker"
_ON_DEMAND, _RATE = "JRTCKXETXF", "6YS6EN2CT7"
_PUBLISHED = "2026-11-01T00:00:00Z"
_USAGE = {"Hosting": "Host", "Training": "Train"}
_MOST = 100


class PriceList:
    """The Price List Query API, with the same products in every Region."""

    name = "pricing"

    def __init__(self, faults: Faults, calls: CallLog) -> None:
        self.model = ApiModel(self.name)
        self._faults, self._calls = faults, calls

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Run an operation.

        Raises:
            ApiError: the error that AWS would return.
        """
        with self._calls.recorded(self.name, operation, request):
            self._faults.before(operation)
            self.model.check(operation, request)
            if operation != "GetProducts":
                raise ApiError("UnknownOperationException", f"{operation} is not an operation of the local cloud")
            return _page(request)


def hourly_price(instance_type: str) -> float | None:
    """Return the price of hosting in dollars an hour, in the cheapest Region; None for a type without a price."""
    room, table = hardware().get(instance_type), _table()
    if room is None:
        return None
    per_accelerator = table["dollars_per_accelerator"][instance_type.split(".")[1]]
    return round(per_accelerator * room.accelerators + table["dollars_per_vcpu"] * room.cores, 2)


@functools.cache
def products() -> tuple[dict[str, Any], ...]:
    """Return every product in the format of ``PriceList``."""
    table = _table()
    return tuple(
        _product(name, (hourly_price(name) or 0.0) * factor, component, region, prefix, location)
        for region, (prefix, location, factor) in table["regions"].items()
        for name in hardware()
        for component in _USAGE
    )


@functools.cache
def _table() -> dict[str, Any]:
    return json.loads((Path(__file__).parent / "data" / "prices.json").read_text(encoding="utf-8"))


def _page(request: Mapping[str, Any]) -> dict[str, Any]:
    if request["ServiceCode"] != _SERVICE:
        raise ApiError("NotFoundException", f"The service {request['ServiceCode']} was not found")
    filters = request.get("Filters", [])
    matching = [item for item in products() if all(_matches(item, filter_) for filter_ in filters)]
    token = request.get("NextToken") or "0"
    if not token.isdecimal() or int(token) > len(matching):
        raise ApiError("InvalidNextTokenException", "The NextToken is invalid")
    start, most = int(token), request.get("MaxResults") or _MOST
    more = {"NextToken": str(start + most)} if start + most < len(matching) else {}
    page = [json.dumps(item) for item in matching[start : start + most]]
    return {"FormatVersion": "aws_v1", "PriceList": page, **more}


def _matches(item: Mapping[str, Any], filter_: Mapping[str, str]) -> bool:
    product = item["product"]
    fields = {
        **product["attributes"],
        "productFamily": product["productFamily"],
        "sku": product["sku"],
        "ServiceCode": item["serviceCode"],
    }
    value = fields.get(filter_["Field"])
    listed = [part.strip() for part in filter_["Value"].split(",")]
    match filter_["Type"]:
        case "CONTAINS":
            return value is not None and filter_["Value"] in value
        case "ANY_OF":
            return value in listed
        case "NONE_OF":
            return value not in listed
        case _:
            return value == filter_["Value"]


def _product(name: str, price: float, component: str, region: str, prefix: str, location: str) -> dict[str, Any]:
    sku = hashlib.sha256(f"{region}/{component}/{name}".encode()).hexdigest()[:16].upper()
    term, rate = f"{sku}.{_ON_DEMAND}", f"{sku}.{_ON_DEMAND}.{_RATE}"
    dimension = {
        "unit": "Hrs",
        "endRange": "Inf",
        "description": f"${price:.4f} per {component} {name} hour in {location} (made up)",
        "appliesTo": [],
        "rateCode": rate,
        "beginRange": "0",
        "pricePerUnit": {"USD": f"{price:.10f}"},
    }
    return {
        "product": {
            "productFamily": "ML Instance",
            "attributes": {
                "component": component,
                "instanceName": name,
                "instanceType": f"{name}-{component}",
                "location": location,
                "locationType": "AWS Region",
                "operation": "RunInstance",
                "regionCode": region,
                "servicecode": _SERVICE,
                "servicename": "Amazon SageMaker",
                "usagetype": f"{prefix}-{_USAGE[component]}:{name}",
            },
            "sku": sku,
        },
        "serviceCode": _SERVICE,
        "terms": {
            "OnDemand": {
                term: {
                    "priceDimensions": {rate: dimension},
                    "sku": sku,
                    "effectiveDate": _PUBLISHED,
                    "offerTermCode": _ON_DEMAND,
                    "termAttributes": {},
                }
            }
        },
        "version": _PUBLISHED.replace("-", "").replace(":", "").rstrip("Z"),
        "publicationDate": _PUBLISHED,
    }
