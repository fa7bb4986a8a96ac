from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from constructs_optim.evaluator.options import SideOptions
from constructs_optim.evaluator.savings_plan import SavingsPlan, savings_plan_price
from constructs_optim.evaluator.sides import price_of
from constructs_optim.recipe.evaluation.result import Price, Subject


def savings_plans() -> Any:
    return boto3.client(
        "savingsplans", region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret"
    )


def rate(usage: str, price: str, *, seconds: int = 31_536_000, unit: str = "Hrs") -> dict[str, Any]:
    """A rate as the API describes it; botocore checks its shape."""
    return {
        "savingsPlanOffering": {
            "offeringId": "0f1cbb2e-8a1b-4c60-b5b2-3f6f4bbf0a11",
            "paymentOption": "No Upfront",
            "planType": "SageMaker",
            "durationSeconds": seconds,
            "currency": "USD",
        },
        "rate": price,
        "unit": unit,
        "productType": "SageMaker",
        "serviceCode": "AmazonSageMaker",
        "usageType": usage,
        "operation": "RunInstance",
    }


def asked(**more: Any) -> dict[str, Any]:
    return {
        "savingsPlanTypes": ["SageMaker"],
        "products": ["SageMaker"],
        "serviceCodes": ["AmazonSageMaker"],
        "savingsPlanPaymentOptions": ["No Upfront"],
        "filters": [{"name": "region", "values": ["us-west-2"]}],
        **more,
    }


@pytest.mark.parametrize(
    ("plan", "expected"),
    [(SavingsPlan.ONE_YEAR_NO_UPFRONT, 5.25), (SavingsPlan.THREE_YEARS_NO_UPFRONT, 3.9)],
)
def test_the_rate_is_that_of_hosting_on_the_instance_type_for_the_plans_years(
    plan: SavingsPlan, expected: float
) -> None:
    client = savings_plans()
    pages = (
        [rate("USW2-Host:ml.g5.12xlarge", "5.25"), rate("USW2-Train:ml.g5.12xlarge", "1.0")],
        [
            rate("USW2-Host:ml.g5.12xlarge", "3.9", seconds=3 * 31_536_000),
            rate("USW2-Host:ml.g5.48xlarge", "9.0"),
            rate("USW2-AsyncHost:ml.g5.12xlarge", "2.0"),
        ],
    )
    with Stubber(client) as stub:
        stub.add_response(
            "describe_savings_plans_offering_rates", {"searchResults": pages[0], "nextToken": "more"}, asked()
        )
        stub.add_response("describe_savings_plans_offering_rates", {"searchResults": pages[1]}, asked(nextToken="more"))
        assert savings_plan_price(client, "us-west-2", "ml.g5.12xlarge", plan) == expected


def test_an_instance_type_without_a_rate_has_no_price() -> None:
    client = savings_plans()
    with Stubber(client) as stub:
        stub.add_response("describe_savings_plans_offering_rates", {"searchResults": []}, asked())
        assert savings_plan_price(client, "us-west-2", "ml.p5.48xlarge", SavingsPlan.ONE_YEAR_NO_UPFRONT) is None


def test_a_side_is_charged_the_rate_of_its_plan_for_all_its_instances() -> None:
    client = savings_plans()

    class Session:
        region_name = "us-west-2"

        def client(self, name: str, region_name: str) -> Any:
            assert (name, region_name) == ("savingsplans", "us-east-1")
            return client

    side = SideOptions(name="endpoint", endpoint_name="chat", savings_plan=SavingsPlan.ONE_YEAR_NO_UPFRONT)
    subject = Subject(label="chat", instance_type="ml.g5.12xlarge", instance_count=2)
    rates = {"searchResults": [rate("USW2-Host:ml.g5.12xlarge", "5.25")]}
    with Stubber(client) as stub:
        stub.add_response("describe_savings_plans_offering_rates", rates, asked())
        stub.add_response("describe_savings_plans_offering_rates", {"searchResults": []}, asked())
        stub.add_client_error("describe_savings_plans_offering_rates", "AccessDeniedException", "not you")
        found = price_of(side, subject, Session)  # pyright: ignore[reportArgumentType]
        assert found == Price(instance_price_per_hour=10.5, source="SageMaker savings plan 1y-no-upfront, us-west-2")
        missing = price_of(side, subject, Session)  # pyright: ignore[reportArgumentType]
        assert missing == "no SageMaker savings plan 1y-no-upfront has ml.g5.12xlarge in us-west-2"
        denied = price_of(side, subject, Session)  # pyright: ignore[reportArgumentType]
        assert str(denied).startswith("the rates of savings plans could not be read")
