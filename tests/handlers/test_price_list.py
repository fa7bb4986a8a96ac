"""Hosting prices from the AWS Price List."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from constructs_optim.runtime.evaluation.price_list import lowest_prices, prices_per_hour
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.price_list import hourly_price


@pytest.fixture
def pricing(cloud: LocalCloud) -> Any:
    yield cloud.client("pricing")
    cloud.clear_faults()


def test_an_instance_type_has_the_hosting_price_of_its_region(pricing: Any) -> None:
    assert prices_per_hour(pricing, "us-west-2").get("ml.g5.12xlarge") == hourly_price("ml.g5.12xlarge")
    dearer = prices_per_hour(pricing, "eu-west-1").get("ml.g5.12xlarge")
    assert dearer is not None
    assert dearer > (hourly_price("ml.g5.12xlarge") or 0)


def test_an_instance_type_missing_from_the_price_list_has_no_price(pricing: Any) -> None:
    assert prices_per_hour(pricing, "us-west-2").get("ml.m5.large") is None
    assert prices_per_hour(pricing, "moon-1") == {}


def test_the_price_list_is_queried_once_per_region(cloud: LocalCloud, pricing: Any) -> None:
    prices_per_hour(pricing, "us-east-2")
    asked = len(cloud.calls("GetProducts"))
    prices_per_hour(pricing, "us-east-2")
    assert prices_per_hour(cloud.client("pricing"), "us-east-2").get("ml.g5.12xlarge")
    assert len(cloud.calls("GetProducts")) == asked


def test_access_denied_by_the_price_list_is_raised_and_not_cached(cloud: LocalCloud, pricing: Any) -> None:
    cloud.inject("access_denied", operation="GetProducts", count=1)
    with pytest.raises(ClientError, match="AccessDenied"):
        prices_per_hour(pricing, "ap-northeast-1")
    assert prices_per_hour(pricing, "ap-northeast-1")


def test_the_lowest_price_per_hour_in_us_dollars_counts() -> None:
    offers = [
        ("ml.a", "Hrs", {"USD": "3.5"}),
        ("ml.a", "hours", {"USD": "2.5"}),
        ("ml.a", "GB-Mo", {"USD": "0.1"}),
        ("ml.b", "Hrs", {"USD": "0"}),
        ("ml.c", "Hrs", {"CNY": "9"}),
        ("", "Hrs", {"USD": "1"}),
    ]
    products = [
        {
            "product": {"attributes": {"instanceName": name}},
            "terms": {"OnDemand": {"term": {"priceDimensions": {"one": {"unit": unit, "pricePerUnit": price}}}}},
        }
        for name, unit, price in offers
    ]
    client = boto3.client("pricing", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    asked = {
        "ServiceCode": "AmazonSageMaker",
        "Filters": [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"}],
    }
    with Stubber(client) as pricing:
        pricing.add_response("get_products", {"PriceList": [json.dumps(product) for product in products]}, asked)
        assert lowest_prices(client, regionCode="us-west-2") == {"ml.a": 2.5}
