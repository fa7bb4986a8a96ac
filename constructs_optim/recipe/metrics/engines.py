"""The metrics of the serving engines, and the PromQL that queries them from CloudWatch.

The definitions are data: ``engines.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from constructs_optim.recipe.catalog import availability
from constructs_optim.recipe.errors import did_you_mean
from constructs_optim.recipe.tasks import Runner

from . import Unit

SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/inference-monitoring.html"
"""AWS's list of vLLM's metrics; it calls SGLang's "equivalent counterparts"."""
WINDOW_SECONDS = 300
"""The default time range of rates."""
PROMQL_REGIONS = "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-PromQL.html"
"""AWS's list of the Regions with PromQL."""
_SERVERS = ("vllm", "sglang", "text_generation_inference")


@dataclass(frozen=True)
class EngineMetric:
    """One metric of the engines; ``queries`` are by the names of the servers that publish it.

    ``quantile`` is a latency's default quantile, and None for other metrics. ``window_seconds`` is the default time
    range of rates. Its values are between ``least`` and ``most``; None: without a known limit. Smaller thresholds than
    ``least_meant`` are probably meant as shares. Only a recipe with speculative decoding has a metric of
    ``speculation``, and only models of its ``runner`` have it (None: all).
    """

    name: str
    title: str
    part: str
    definition: str
    unit: Unit
    queries: Mapping[str, str]
    quantile: float | None = None
    window_seconds: int = WINDOW_SECONDS
    least: float = 0
    most: float | None = None
    least_meant: float = 0
    speculation: bool = False
    runner: Runner | None = None

    def query(
        self, server: str, selector: str, *, window_seconds: int | None = None, quantile: float | None = None
    ) -> str:
        """Return its PromQL for the series that ``selector`` selects: one value, in ``unit``."""
        window = f"{window_seconds or self.window_seconds}s"
        text = self.windowed(server, selector).replace("$window", window)
        return text.replace("$quantile", f"{quantile or self.quantile:g}") if self.quantile is not None else text

    def windowed(self, server: str, selector: str) -> str:
        """Return the PromQL with ``$window`` as a placeholder for the time range."""
        return self.queries[server].replace("<>", selector)


@dataclass(frozen=True)
class Engine:
    """The engine behind an endpoint or component, as far as its metrics need it.

    ``server`` is the name of its server, ``title`` its name in texts. ``unpublished`` is the reason why SageMaker
    publishes no engine metrics, if so. ``speculates`` tells whether the recipe has speculative decoding, and ``runner``
    whether the model generates text. ``region`` is its Region, or None for an environment-agnostic stack.
    """

    server: str | None = None
    title: str | None = None
    unpublished: str | None = None
    speculates: bool = False
    region: str | None = None
    runner: Runner = "generate"

    @property
    def lacks_promql(self) -> bool:
        """Whether its Region has no PromQL, without which no engine metric can be read."""
        return self.region is not None and availability.lacks_promql(self.region)

    def has(self, metric: EngineMetric) -> bool:
        """Return whether this engine's ``metric`` can be read from CloudWatch."""
        return not self.lacks_promql and self.lack_of(metric) is None

    def lack_of(self, metric: EngineMetric) -> str | None:
        """Return why SageMaker does not publish this engine's ``metric``; None if it does."""
        if self.unpublished is not None:
            return self.unpublished
        if self.server is None:
            return "the server of the model is unknown"
        if self.server not in metric.queries:
            return f"{self.title or self.server} publishes no such metric"
        if metric.runner not in (None, self.runner):
            return "the model generates no text"
        if metric.speculation and not self.speculates:
            return "the recipe has no speculative decoding"
        return None


@dataclass(frozen=True)
class EngineMetricUse:
    """Engine metrics that ``location`` uses, for the rules to check."""

    location: str
    metrics: tuple[str, ...]
    engine: Engine
    quantile: float | None = None


@cache
def by_name() -> MappingProxyType[str, EngineMetric]:
    """Return every engine metric, in the order of pages and dashboards."""
    rows: dict[str, dict[str, Any]] = tomllib.loads(
        (files("constructs_optim.recipe.metrics") / "engines.toml").read_text(encoding="utf-8")
    )
    return MappingProxyType({name: _metric(name, row) for name, row in rows.items()})


def find(name: str) -> EngineMetric:
    """Return the engine metric with this name.

    Raises:
        ValueError: if there is no such metric.
    """
    metric = by_name().get(name)
    if metric is None:
        hint = did_you_mean(name, by_name(), f"there are {', '.join(by_name())}")
        raise ValueError(f"there is no engine metric {name!r}: {hint}")
    return metric


def selector(*, endpoint_name: str, variant_name: str, component_name: str | None) -> str:
    """Return the PromQL selector of the series of a variant or an inference component.

    Source: developer guide, "OpenTelemetry metrics reference". Labels with dots are quoted (Prometheus 3).
    """
    labels = {"aws.sagemaker.endpoint.name": endpoint_name, "aws.sagemaker.variant.name": variant_name}
    if component_name is not None:
        labels = {"aws.sagemaker.inference_component.name": component_name}
    return "{" + ", ".join(f'"{label}"="{value}"' for label, value in labels.items()) + "}"


def _metric(name: str, row: dict[str, Any]) -> EngineMetric:
    queries = {server: row.pop(server) for server in _SERVERS if server in row}
    columns: dict[str, Any] = {**row, "unit": Unit(row["unit"])}
    return EngineMetric(name=name, queries=MappingProxyType(queries), **columns)
