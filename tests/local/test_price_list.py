"""The AWS Price List, with the local cloud's sample prices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker.hosting.fleets import hardware

SERVICE = "AmazonSageMaker"


@pytest.fixture(scope="module")
def pricing(cloud: LocalCloud) -> Any:
    return cloud.client("pricing")


def products(pricing: Any, *filters: tuple[str, str, str]) -> list[dict[str, Any]]:
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=SERVICE, Filters=[{"Type": kind, "Field": field, "Value": value} for kind, field, value in filters]
    )
    return [json.loads(text) for page in pages for text in page["PriceList"]]


def test_a_hosting_instance_type_has_one_hourly_price(pricing: Any) -> None:
    (found,) = products(
        pricing,
        ("TERM_MATCH", "instanceName", "ml.g5.12xlarge"),
        ("TERM_MATCH", "regionCode", "us-west-2"),
        ("TERM_MATCH", "component", "Hosting"),
    )
    assert found["product"]["attributes"]["usagetype"] == "USW2-Host:ml.g5.12xlarge"
    (term,) = found["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert dimension["unit"] == "Hrs"
    assert float(dimension["pricePerUnit"]["USD"]) > 0
    assert term["sku"] == found["product"]["sku"]


def test_filters_narrow_the_listed_products(pricing: Any) -> None:
    hosting = ("TERM_MATCH", "component", "Hosting")
    there = products(pricing, hosting, ("EQUALS", "regionCode", "us-west-2"))
    assert {item["product"]["attributes"]["instanceName"] for item in there} == set(hardware())
    g5 = products(pricing, hosting, ("EQUALS", "regionCode", "us-west-2"), ("CONTAINS", "instanceName", "ml.g5."))
    assert 0 < len(g5) < len(there)
    two = products(pricing, hosting, ("ANY_OF", "regionCode", "us-west-2,us-east-1"))
    assert len(two) == 2 * len(there)
    elsewhere = products(pricing, hosting, ("NONE_OF", "regionCode", "us-west-2, us-east-1"))
    assert {item["product"]["attributes"]["regionCode"] for item in elsewhere}.isdisjoint({"us-west-2", "us-east-1"})
    assert products(pricing, hosting, ("TERM_MATCH", "color", "red")) == []


def test_products_are_returned_in_pages(pricing: Any) -> None:
    first = pricing.get_products(ServiceCode=SERVICE, MaxResults=3)
    second = pricing.get_products(ServiceCode=SERVICE, MaxResults=3, NextToken=first["NextToken"])
    assert len(first["PriceList"]) == len(second["PriceList"]) == 3
    assert not set(first["PriceList"]) & set(second["PriceList"])


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"ServiceCode": "AmazonNothing"}, "NotFoundException"),
        ({"ServiceCode": SERVICE, "NextToken": "x"}, "InvalidNextTokenException"),
    ],
)
def test_an_invalid_price_list_query_is_refused(pricing: Any, given: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        pricing.get_products(**given)
    assert caught.value.response["Error"]["Code"] == code
