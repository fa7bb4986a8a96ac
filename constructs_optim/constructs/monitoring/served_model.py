"""The variant or inference component that serves a model, with its CloudWatch metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from constructs import Construct

from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe import metrics, pricing
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.metrics import IDENTIFIER, MetricDefinition, Series, engines
from constructs_optim.recipe.metrics.engines import Engine, EngineMetric
from constructs_optim.recipe.settings import methods_suggest_keywords


@methods_suggest_keywords
@dataclass(frozen=True)
class ServedModel:
    """The variant of an endpoint, or the inference component on it, that serves a model. Names may be tokens.

    Attributes:
        endpoint_name: the endpoint's name.
        variant_name: the production variant's name.
        inference_component_name: the inference component's name; None if the variant serves the model itself.
        instance_type: for instance ``ml.g5.12xlarge``; None if it is not known. With it, percentages that SageMaker
            sums over GPUs or vCPUs are shown as a share of all of them.
        artifact_key: the key of the served artifact, a dimension of its evaluations; None if it is not known.
        publishing_seconds: the interval at which instances report their utilization, from ``MetricsConfig``. Default:
            60.
        engine: the serving engine, whose metrics SageMaker collects. Default: unknown, without engine metrics.
        is_asynchronous: whether the endpoint queues requests; it publishes other metrics. Default: no.
    """

    endpoint_name: str
    variant_name: str
    inference_component_name: str | None = None
    instance_type: str | None = None
    artifact_key: str | None = None
    publishing_seconds: int = metrics.PUBLISHING_SECONDS
    engine: Engine = field(default_factory=Engine)
    is_asynchronous: bool = False

    @property
    def is_component(self) -> bool:
        """Whether an inference component serves the model."""
        return self.inference_component_name is not None

    @property
    def has_gpus(self) -> bool:
        """Whether its instances publish GPU metrics; assumed for an unknown instance type."""
        row = instances.find(self.instance_type)
        return row is None or row.kind == "gpu"

    def in_stack_of(self, scope: Construct) -> ServedModel:
        """Return it with the Region of ``scope``'s stack, if known: CloudWatch lacks engine metrics in some Regions."""
        region = self.engine.region or StackContext.of(scope).known_region
        return replace(self, engine=replace(self.engine, region=region))

    def publishes(self, metric: MetricDefinition) -> bool:
        """Return whether CloudWatch receives ``metric``, or all operands of its formula."""
        if (metric.gpus_only and not self.has_gpus) or not self._has_kind_for(metric):
            return False
        if metric.series(component=self.is_component) is not None:
            return True
        formula = self._formula(metric)
        return formula is not None and all(self.publishes(operand) for operand in operands(formula))

    def engine_query(
        self, metric: EngineMetric, *, window_seconds: int | None = None, quantile: float | None = None
    ) -> str:
        """Return the PromQL query of a metric that the engine publishes."""
        server = self.engine.server or ""
        return metric.query(server, self._selector, window_seconds=window_seconds, quantile=quantile)

    def windowed_engine_query(self, name: str) -> str | None:
        """Return the PromQL query of a metric with ``$window`` as its range; None if CloudWatch lacks it."""
        metric = engines.find(name)
        if not self.engine.has(metric):
            return None
        return metric.windowed(self.engine.server or "", self._selector)

    @property
    def _selector(self) -> str:
        return engines.selector(
            endpoint_name=self.endpoint_name,
            variant_name=self.variant_name,
            component_name=self.inference_component_name,
        )

    def series(self, metric: MetricDefinition) -> Series:
        """Return the CloudWatch series of ``metric``; raise a ``ValueError`` if SageMaker does not publish it."""
        series = metric.series(component=self.is_component)
        if metric.gpus_only and not self.has_gpus:
            raise ValueError(
                f"{metric.name}: {self.instance_type} has no GPUs, and SageMaker does not publish the utilization of "
                "other accelerators; use cpu_utilization and concurrent_requests"
            )
        if series is None and metric.formula is not None:
            raise ValueError(f"{metric.name} is a formula ({metric.formula}), not a single CloudWatch series")
        if series is None or not self._has_kind_for(metric):
            server = "an inference component" if self.is_component else "a variant"
            server = "an asynchronous endpoint" if self.is_asynchronous else server
            server = f"{server} of a model that generates no text" if self.engine.runner == "pooling" else server
            raise ValueError(f"{metric.name}: SageMaker does not publish it for {server}; see {page('metrics')}")
        return series

    def dimensions(
        self, series: Series, *, concurrency: int | None = None, artifact_key: str | None = None
    ) -> dict[str, str]:
        """Return the dimensions of a series; an evaluation's series needs a concurrency and an artifact key."""
        key = artifact_key or self.artifact_key
        known = {
            "EndpointName": self.endpoint_name,
            "VariantName": self.variant_name,
            "InferenceComponentName": self.inference_component_name,
            "Concurrency": str(concurrency) if concurrency is not None else None,
            "ArtifactKey": key,
        }
        missing = [name for name in series.dimensions if known[name] is None]
        if missing:
            raise ValueError(
                f"{series.metric_name} of an evaluation is published for each concurrency and artifact, and "
                f"{' and '.join(missing)} is not set: use metric_evaluation(name, concurrency=..., artifact_key=...), "
                "or for a dashboard ServedModel(..., artifact_key=...)"
            )
        return {name: str(known[name]) for name in series.dimensions}

    def row(self, metric: MetricDefinition, rendering: dict[str, Any], *, concurrency: int | None = None) -> list[Any]:
        """Return a row of a graph's ``metrics``: namespace, name, dimensions and rendering properties."""
        series = self.series(metric)
        dimensions = self.dimensions(series, concurrency=concurrency)
        flat = [text for pair in dimensions.items() for text in pair]
        return [series.namespace, series.metric_name, *flat, rendering]

    def expression(self, metric: MetricDefinition, *, price: float | None = None, discount: float = 0) -> str:
        """Return a formula as metric math, with the values of parameters, and metric names as IDs.

        Without ``price``, the price of an instance an hour is an evaluation's metric ``instance_price_per_hour``.
        """
        pricing.check_price(price, discount)
        values = {"publishing_seconds": f"{self.publishing_seconds}", "discount": f"{discount:g}"}
        if price is not None:
            values["instance_price_per_hour"] = f"{price:g}"
        return renamed(self._formula(metric) or "", values)

    def _has_kind_for(self, metric: MetricDefinition) -> bool:
        is_of_kind = metric.only in (None, "asynchronous" if self.is_asynchronous else "real-time")
        return is_of_kind and metric.runner in (None, self.engine.runner)

    def _formula(self, metric: MetricDefinition) -> str | None:
        return metric.formula_for(component=self.is_component, asynchronous=self.is_asynchronous)


def operands(formula: str) -> list[MetricDefinition]:
    """Return the metrics in a formula, in order, without parameters."""
    known = metrics.by_name()
    return [known[name] for name in dict.fromkeys(IDENTIFIER.findall(formula)) if name in known]


def renamed(formula: str, names: Mapping[str, str]) -> str:
    """Return a formula with names replaced by other names or by values."""
    return IDENTIFIER.sub(lambda match: names.get(match[0], match[0]), formula)
