"""The metrics of serving engines as CloudWatch stores them: labeled samples, queried with PromQL.

Metrics that a container exposes in Prometheus' text format are collected with SageMaker's labels on every series.
Sources: SageMaker developer guide, "OpenTelemetry metrics reference" (labels); the AWS Machine Learning Blog, "Monitor
and debug generative AI inference with SageMaker detailed metrics and Insights dashboard" (the engine's own metric
names, and native histograms).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from .enrichment import Enrichment
from .promql import Histogram, Labels, PromqlError, Series, Value, evaluate

# The longest range of a query: CloudWatch user guide, "PromQL limits and restrictions".
_KEPT_SECONDS = 24 * 3600.0
_Location = tuple[str, str]


class Telemetry:
    """The engines' metrics of every account and Region, which queries see only while ``enrichment`` is running."""

    def __init__(self, enrichment: Enrichment) -> None:
        self.enrichment = enrichment
        self._lock = threading.Lock()
        self._series: dict[_Location, dict[tuple[str, Labels], list[tuple[float, Value]]]] = {}

    def collect(self, exposition: str, labels: Mapping[str, str], at: float, *, account: str, region: str) -> None:
        """Store the metrics that a container exposes at one time.

        Args:
            exposition: the response of an engine's ``/metrics``, in Prometheus' text format.
            labels: the container's labels, such as ``aws.sagemaker.endpoint.name``.
            at: the time of the metrics, in seconds since 1970.
            account: the endpoint's account.
            region: the endpoint's Region.
        """
        with self._lock:
            kept = self._series.setdefault((account, region), {})
            for family in text_string_to_metric_families(exposition):
                for name, own, value in _values(family):
                    samples = kept.setdefault((name, frozenset({**own, **labels}.items())), [])
                    samples.append((at, value))
                    while samples[0][0] < at - _KEPT_SECONDS:
                        del samples[0]

    def query(self, query: str, at: float, *, account: str, region: str) -> dict[Labels, float]:
        """Return the result of an instant query; without OTel enrichment, of a query without data.

        Raises:
            PromqlError: if the query is invalid.
        """
        is_enriched = self.enrichment.is_running(account=account, region=region)
        with self._lock:
            kept = self._series.get((account, region), {}) if is_enriched else {}
            series = [Series(name, labels, tuple(samples)) for (name, labels), samples in kept.items()]
        return evaluate(query, series, at)

    def check(self, query: str) -> None:
        """Raise a ``PromqlError`` unless the query is valid and returns a vector."""
        evaluate(query, (), 0.0)


def _values(family: Metric) -> Iterable[tuple[str, Mapping[str, str], Value]]:
    """Yield the series of a metric family: whole histograms, other samples by name."""
    if family.type != "histogram":
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                yield sample.name, sample.labels, float(sample.value)
        return
    parts: dict[frozenset[tuple[str, str]], dict[str, list[tuple[float, float]]]] = {}
    for sample in family.samples:
        kind = sample.name.removeprefix(family.name)
        own = {name: value for name, value in sample.labels.items() if name != "le"}
        bound = float(sample.labels.get("le", "0").replace("+Inf", "inf"))
        parts.setdefault(frozenset(own.items()), {}).setdefault(kind, []).append((bound, float(sample.value)))
    for labels, part in parts.items():
        if {"_bucket", "_sum", "_count"} <= set(part):
            buckets = tuple(sorted(part["_bucket"]))
            yield family.name, dict(labels), Histogram(buckets, part["_sum"][0][1], part["_count"][0][1])


__all__ = ["PromqlError", "Telemetry"]
