"""Hosting prices from the AWS Price List."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.evaluation.price_list import prices_per_hour
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
