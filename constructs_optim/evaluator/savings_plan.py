"""Prices of instances under a SageMaker savings plan.

Source: AWS Savings Plans API reference, DescribeSavingsPlansOfferingRates. Needs
``savingsplans:DescribeSavingsPlansOfferingRates``. Usage types of hosting end with ``Host:`` and the instance type, as
in the bill.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

API_REGION = "us-east-1"
_USAGE = re.compile(r"(?:^|-)Host:(ml\.[a-z0-9-]+\.[a-z0-9-]+)$")
_YEAR_SECONDS = 31_536_000


class SavingsPlan(StrEnum):
    """A plan: its term in years, and its upfront payment."""

    years: int
    payment: str

    def __new__(cls, value: str, years: int, payment: str) -> SavingsPlan:
        """Create a plan, whose value is its name in options."""
        plan = str.__new__(cls, value)
        plan._value_, plan.years, plan.payment = value, years, payment
        return plan

    ONE_YEAR_NO_UPFRONT = "1y-no-upfront", 1, "No Upfront"
    ONE_YEAR_PARTIAL_UPFRONT = "1y-partial-upfront", 1, "Partial Upfront"
    ONE_YEAR_ALL_UPFRONT = "1y-all-upfront", 1, "All Upfront"
    THREE_YEARS_NO_UPFRONT = "3y-no-upfront", 3, "No Upfront"
    THREE_YEARS_PARTIAL_UPFRONT = "3y-partial-upfront", 3, "Partial Upfront"
    THREE_YEARS_ALL_UPFRONT = "3y-all-upfront", 3, "All Upfront"


def savings_plan_price(client: Any, region: str, instance_type: str, plan: SavingsPlan) -> float | None:
    """Return the hosting price of an instance in US dollars per hour; None if the plan has no such price."""
    prices = [
        float(rate["rate"])
        for rate in _rates(client, region, plan)
        if rate.get("unit") == "Hrs"
        and rate.get("savingsPlanOffering", {}).get("durationSeconds") == plan.years * _YEAR_SECONDS
        and (usage := _USAGE.search(rate.get("usageType", ""))) is not None
        and usage[1] == instance_type
    ]
    return min(prices, default=None)


def _rates(client: Any, region: str, plan: SavingsPlan) -> Iterator[dict[str, Any]]:
    asked: dict[str, Any] = {
        "savingsPlanTypes": ["SageMaker"],
        "products": ["SageMaker"],
        "serviceCodes": ["AmazonSageMaker"],
        "savingsPlanPaymentOptions": [plan.payment],
        "filters": [{"name": "region", "values": [region]}],
    }
    while True:
        page = client.describe_savings_plans_offering_rates(**asked)
        yield from page.get("searchResults", [])
        if not page.get("nextToken"):
            return
        asked["nextToken"] = page["nextToken"]
