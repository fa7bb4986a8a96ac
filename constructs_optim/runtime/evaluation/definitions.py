"""The metrics of evaluations, as far as handlers and statistics need them: ``evaluation_metrics.json``.

``tooling/reference_pages.py`` writes the file from ``recipe/metrics/definitions.toml``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from ..formula import names_in
from .samples import ALL_TOKENS

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.literals import StandardUnitType


class MetricDefinition(TypedDict):
    """A metric of an evaluation: one of ``aiperf``'s, or a ``formula``."""

    name: str
    metric_name: str
    unit: StandardUnitType
    better: Literal["higher", "lower", "neither"]
    aiperf: str | None
    formula: str | None


DEFINITIONS: list[MetricDefinition] = json.loads(
    Path(__file__).with_name("evaluation_metrics.json").read_text(encoding="utf-8")
)
"""The metrics that an evaluation publishes."""
COUNTS = tuple(each["name"] for each in DEFINITIONS if (each["unit"], each["better"]) == ("Count", "lower"))
"""Metrics that count requests. Comparisons use their shares of all requests."""
# What a formula takes from the load and the prices, which do not vary between requests.
_CONSTANTS = frozenset(("concurrency", "discount", "instance_price_per_hour"))


def _source(formula: str | None) -> str | None:
    measured = names_in(formula) - _CONSTANTS if formula else set[str]()
    if measured == {"input_tokens_per_second", "output_tokens_per_second"}:
        return ALL_TOKENS
    return measured.pop() if len(measured) == 1 else None


SOURCES = {each["name"]: source for each in DEFINITIONS if (source := _source(each["formula"])) is not None}
"""Metrics derived from another metric and constants: both change by the same factor, or by its inverse."""
