"""OTel enrichment, the setting of an account and Region with which PromQL finds the metrics of engines.

Sources: SageMaker developer guide, "Getting started with detailed observability" ("To query metrics via PromQL ...,
enable OTel enrichment at the account level"); CloudWatch user guide, "Troubleshooting SageMaker AI Insights" (without
it, all panels are empty); CloudWatch API reference, GetOTelEnrichment. An article of the AWS Machine Learning Blog
("Monitor and debug generative AI inference with SageMaker detailed metrics and Insights dashboard", 2026-06-18) says
instead that only CloudWatch's classic metrics need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..requests.preflight_properties import EngineMetricNeed
from .context import Context
from .report import PreflightFinding, advice, problem

_NAME = "engine metrics"
_START = "aws observabilityadmin start-telemetry-enrichment && aws cloudwatch start-otel-enrichment"


def check_enrichment(needs: Sequence[EngineMetricNeed], context: Context) -> Iterator[PreflightFinding]:
    """Check that OTel enrichment is running."""
    if context.client("cloudwatch").get_otel_enrichment()["Status"] == "Running":
        return
    why = (
        f"but OTel enrichment is not running in this account and Region ({context.region}), so CloudWatch does not "
        "find them"
    )
    start = f"start it once, at CloudWatch's price for OpenTelemetry metrics: {_START}"
    required = [need.used_by for need in needs if need.required]
    others = [need.used_by for need in needs if not need.required]
    if required:
        text = f"{', '.join(required)} need{'' if len(required) > 1 else 's'} engine metrics, {why}"
        fix = f"{start}; or scale on another metric, and require no acceptance length"
        yield problem(_NAME, text, fix)
    if others:
        text = f"{', '.join(others)} use{'' if len(others) > 1 else 's'} engine metrics, {why}"
        yield advice(_NAME, text, f"{start}; otherwise, these alarms never go off, and these charts stay empty")
