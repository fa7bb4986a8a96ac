from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from constructs_optim.evaluator.price_list import API_REGION, hosting_price_per_hour


def product(price: str, *, unit: str = "Hrs", **attributes: str) -> str:
    """An entry as the price list has it: terms by keys that mean nothing."""
    described = {"instanceName": "ml.g5.12xlarge", "component": "Hosting", "regionCode": "us-west-2", **attributes}
    dimension = {"unit": unit, "pricePerUnit": {"USD": price}}
    return json.dumps(
        {
            "product": {"productFamily": "ML Instance", "attributes": described},
            "terms": {"OnDemand": {"ABC.JRTC": {"priceDimensions": {"ABC.JRTC.6YS6": dimension}}}},
        }
    )


def asked(*pages: list[str]) -> float | None:
    """The price that comes of these pages; what is asked for is checked against the service's own model."""
    client = boto3.client("pricing", region_name=API_REGION, aws_access_key_id="a", aws_secret_access_key="b")
    filters = [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"},
        {"Type": "TERM_MATCH", "Field": "instanceName", "Value": "ml.g5.12xlarge"},
    ]
    with Stubber(client) as answers:
        for number, page in enumerate(pages):
            token: dict[str, Any] = {"NextToken": str(number)} if number else {}
            more = {"NextToken": str(number + 1)} if number + 1 < len(pages) else {}
            expected = {"ServiceCode": "AmazonSageMaker", "Filters": filters, **token}
            answers.add_response("get_products", {"PriceList": page, **more}, expected)
        found = hosting_price_per_hour(client, "ml.g5.12xlarge", "us-west-2")
        answers.assert_no_pending_responses()
    return found


def test_the_price_of_hosting_is_taken_and_not_that_of_training_or_notebooks() -> None:
    others = [product("9.99", component="Training"), product("8.88", component="Notebook")]
    assert asked([*others, product("7.0900000000")]) == 7.09


@pytest.mark.parametrize(
    "entry",
    [
        product("7.09", component="", platoinstancetype="Hosting"),
        product("7.09", unit="hrs"),
    ],
)
def test_the_list_writes_the_same_in_several_ways(entry: str) -> None:
    assert asked([entry]) == 7.09


def test_prices_on_further_pages_are_found() -> None:
    assert asked([product("1", component="Training")], [product("7.09")]) == 7.09


@pytest.mark.parametrize(
    "page",
    [
        [],
        [product("0.0000000000")],
        [product("7.09", instanceName="ml.g5.24xlarge")],
        [product("7.09", unit="GB-Mo")],
    ],
)
def test_what_is_not_in_the_list_has_no_price(page: list[str]) -> None:
    assert asked(page) is None
