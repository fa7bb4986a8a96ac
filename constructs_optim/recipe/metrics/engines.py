"""What the serving engines measure of themselves, and the PromQL that reads it from CloudWatch.

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

from constructs_optim.recipe.errors import did_you_mean

from . import Unit

SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/inference-monitoring.html"
"""AWS's list of these metrics, of vLLM; those of SGLang are "equivalent counterparts"."""
WINDOW_SECONDS = 300
"""The range that rates are taken over, unless another is asked for."""
_OF_SPECULATION = ("acceptance_length", "drafts_per_second", "acceptance_length_kept")
_SERVERS = ("vllm", "sglang", "text_generation_inference")


@dataclass(frozen=True)
class EngineMetric:
    """One metric of the engines; ``queries`` are those of the servers that publish it, by their names.

    ``quantile`` is the default of a latency, of which any may be asked for; None for a number. ``window_seconds`` is
    the default of the range that rates are taken over.
    """

    name: str
    title: str
    part: str
    definition: str
    unit: Unit
    queries: Mapping[str, str]
    quantile: float | None = None
    window_seconds: int = WINDOW_SECONDS

    def query(
        self, server: str, selector: str, *, window_seconds: int | None = None, quantile: float | None = None
    ) -> str:
        """Its PromQL for what ``selector`` selects: one value, in ``unit``."""
        window = f"{window_seconds or self.window_seconds}s"
        text = self.windowed(server, selector).replace("$window", window)
        return text.replace("$quantile", f"{quantile or self.quantile:g}") if self.quantile is not None else text

    def windowed(self, server: str, selector: str) -> str:
        """The same with ``$window`` for the range, which is known only when it is asked."""
        return self.queries[server].replace("<>", selector)


@dataclass(frozen=True)
class Engine:
    """The engine behind an endpoint or component, as far as its metrics are concerned.

    ``server`` is the name of its server, ``title`` how texts name it. Where SageMaker publishes no metrics of engines
    at all, ``unpublished`` says why. ``speculates`` is whether the recipe has speculative decoding.
    """

    server: str | None = None
    title: str | None = None
    unpublished: str | None = None
    speculates: bool = False

    def lack_of(self, metric: EngineMetric) -> str | None:
        """Why CloudWatch does not have ``metric`` of it; None if it has."""
        if self.unpublished is not None:
            return self.unpublished
        if self.server is None:
            return "no server is known that serves the model"
        if self.server not in metric.queries:
            return f"{self.title or self.server} publishes no such metric"
        if metric.name in _OF_SPECULATION and not self.speculates:
            return "the recipe has no speculative decoding"
        return None


@dataclass(frozen=True)
class EngineMetricUse:
    """Metrics of an engine that are asked for at ``location``, which rules check."""

    location: str
    metrics: tuple[str, ...]
    engine: Engine
    quantile: float | None = None


@cache
def by_name() -> MappingProxyType[str, EngineMetric]:
    """Every engine metric, in the order of pages and dashboards."""
    rows: dict[str, dict[str, Any]] = tomllib.loads(
        (files("constructs_optim.recipe.metrics") / "engines.toml").read_text(encoding="utf-8")
    )
    return MappingProxyType({name: _metric(name, row) for name, row in rows.items()})


def find(name: str) -> EngineMetric:
    """The engine metric of that name. Raises ValueError where there is none."""
    metric = by_name().get(name)
    if metric is None:
        hint = did_you_mean(name, by_name(), f"there are {', '.join(by_name())}")
        raise ValueError(f"there is no metric {name!r} of an engine: {hint}")
    return metric


def selector(*, endpoint_name: str, variant_name: str, component_name: str | None) -> str:
    """The PromQL selector of what a variant or an inference component publishes.

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
