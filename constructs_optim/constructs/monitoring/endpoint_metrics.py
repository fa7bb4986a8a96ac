"""The ``metric_...`` methods of endpoints: the metrics of ``recipe.metrics`` as CDK metrics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from aws_cdk import Duration, Resource, Token
from aws_cdk import aws_cloudwatch as cloudwatch

from constructs_optim.recipe import metrics
from constructs_optim.recipe.metrics import MetricDefinition

from .served_model import ServedModel, operands


class MetricOptions(TypedDict, total=False):
    """The options of a metric; names and meanings are those of ``aws_cloudwatch.MetricOptions``.

    ``period`` is 5 minutes by default, ``statistic`` the metric's own (docs/metrics.md).
    """

    account: str
    color: str
    dimensions_map: Mapping[str, str]
    id: str
    label: str
    period: Duration
    region: str
    stack_account: str
    stack_region: str
    statistic: str
    unit: cloudwatch.Unit
    visible: bool


# The options of a math expression, and of the metrics that it calculates with.
_OF_EXPRESSIONS = ("color", "label", "period")
_OF_OPERANDS = ("account", "period", "region", "stack_account", "stack_region")


def _method(name: str):
    """A method that returns a metric as SageMaker publishes it; its documentation is the metric's definition."""
    definition = metrics.find(name)

    def metric(self: MeasuredResource, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        return self._metric(definition, options)  # pyright: ignore[reportPrivateUsage]

    metric.__name__ = metric.__qualname__ = f"metric_{name}"
    metric.__doc__ = f"{definition.title}. {definition.definition} Default statistic: {definition.statistic}."
    return metric


class MeasuredResource(Resource):
    """A resource with an endpoint's metrics: an endpoint, or an inference component on one.

    Every ``metric_...`` returns the metric as SageMaker publishes it: latencies in microseconds, utilization added up
    over the GPUs or vCPUs of an instance; and raises a ``ValueError`` where SageMaker does not publish it for what is
    served. docs/metrics.md has them all.
    """

    @property
    @abstractmethod
    def served(self) -> ServedModel:
        """The variant or component that serves the model, by its names in CloudWatch."""

    def metric(self, name: str, **options: Unpack[MetricOptions]) -> cloudwatch.Metric | cloudwatch.MathExpression:
        """A metric by its name in docs/metrics.md, for instance ``model_latency`` or ``error_rate``.

        Args:
            name: of a live metric. Those of an evaluation come from ``metric_evaluation``.
            options: as for any CDK metric.

        Raises:
            ValueError: when no metric has the name, or SageMaker does not publish it for this endpoint.
        """
        definition = metrics.find(name)
        served = self.served
        if definition.series(component=served.is_component) is None and served.publishes(definition):
            return self._calculated(definition, served.expression(definition), options)
        return self._metric(definition, options)

    def metric_evaluation(
        self, name: str, *, concurrency: int, artifact_key: str | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """A metric of evaluations, for instance ``time_to_first_token_p90``.

        Args:
            name: of a metric of an evaluation in docs/metrics.md.
            concurrency: users at the same time.
            artifact_key: of what was evaluated. Default: of what is served.
            options: as for any CDK metric.

        Raises:
            ValueError: where there is no such metric, or no artifact's key is known.
        """
        definition = metrics.find(name)
        if not definition.of_evaluation:
            raise ValueError(f"{name} is not measured by an evaluation: metric({name!r}) has it")
        return self._metric(definition, options, concurrency=concurrency, artifact_key=artifact_key)

    metric_invocations = _method("invocations")
    metric_invocations_per_copy = _method("invocations_per_copy")
    metric_model_latency = _method("model_latency")
    metric_overhead_latency = _method("overhead_latency")
    metric_first_chunk_latency = _method("first_chunk_latency")
    metric_first_chunk_model_latency = _method("first_chunk_model_latency")
    metric_concurrent_requests = _method("concurrent_requests")
    metric_invocation_4xx_errors = _method("invocation_4xx_errors")
    metric_invocation_5xx_errors = _method("invocation_5xx_errors")
    metric_invocation_model_errors = _method("invocation_model_errors")
    metric_mid_stream_errors = _method("mid_stream_errors")
    metric_gpu_utilization = _method("gpu_utilization")
    metric_gpu_memory_utilization = _method("gpu_memory_utilization")
    metric_cpu_utilization = _method("cpu_utilization")
    metric_memory_utilization = _method("memory_utilization")
    metric_disk_utilization = _method("disk_utilization")

    def metric_cost_per_hour(
        self, *, instance_price_per_hour: float, discount: float = 0, **options: Unpack[MetricOptions]
    ) -> cloudwatch.MathExpression:
        """The cost of the running instances per hour, by metric math.

        Args:
            instance_price_per_hour: of one instance.
            discount: the discount of a savings plan, as a share. Default: 0.
            options: ``color``, ``label`` and ``period``, as for any CDK math expression.

        Raises:
            ValueError: for a price that is not above zero, or a discount that is no share.
        """
        definition = metrics.find("cost_per_hour")
        text = self.served.expression(definition, price=instance_price_per_hour, discount=discount)
        return self._calculated(definition, text, options)

    def _calculated(self, definition: MetricDefinition, text: str, options: MetricOptions) -> cloudwatch.MathExpression:
        if "instance_price_per_hour" in text:
            raise ValueError(
                f"{definition.name} needs the price of an instance: metric_cost_per_hour(instance_price_per_hour=...), "
                "or endpoint.dashboard.show_costs(instance_price_per_hour=...)"
            )
        unknown = sorted(set(options) - {*_OF_EXPRESSIONS, *_OF_OPERANDS})
        if unknown:
            raise ValueError(
                f"{definition.name} is calculated by metric math ({text}), which leaves no choice of "
                f"{' and '.join(unknown)}"
            )
        inner: Any = {name: value for name, value in options.items() if name in _OF_OPERANDS}
        chosen: dict[str, Any] = {name: value for name, value in options.items() if name in _OF_EXPRESSIONS}
        chosen.setdefault("label", definition.title)
        return cloudwatch.MathExpression(
            expression=text, using_metrics={part.name: self._metric(part, inner) for part in operands(text)}, **chosen
        )

    def _metric(
        self,
        definition: MetricDefinition,
        options: MetricOptions,
        *,
        concurrency: int | None = None,
        artifact_key: str | None = None,
    ) -> cloudwatch.Metric:
        served = self.served
        series = served.series(definition)
        dimensions = served.dimensions(series, concurrency=concurrency, artifact_key=artifact_key)
        # The account and region of the metrics, as far as they are known: another stack may draw them.
        environment = {"account": self.env.account, "region": self.env.region}
        chosen: dict[str, Any] = {name: value for name, value in environment.items() if not Token.is_unresolved(value)}
        chosen |= {"statistic": definition.statistic, **options}
        chosen["dimensions_map"] = {**dimensions, **options.get("dimensions_map", {})}
        return cloudwatch.Metric(namespace=series.namespace, metric_name=series.metric_name, **chosen)
