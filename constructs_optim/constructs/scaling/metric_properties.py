"""CDK metrics as the plain properties that alarms and scaling policies have for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constructs_optim.constructs.stack.custom_resource import drop_none

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch

# The statistics of a customized metric of target tracking (Application Auto Scaling API reference, MetricStatistic).
_STATISTICS = {
    "average": "Average",
    "maximum": "Maximum",
    "max": "Maximum",
    "minimum": "Minimum",
    "min": "Minimum",
    "samplecount": "SampleCount",
    "n": "SampleCount",
    "sum": "Sum",
}


def plain_statistic(statistic: str) -> str | None:
    """CloudWatch's name for a statistic that is no percentile or the like; None for one that is."""
    return _STATISTICS.get(statistic.replace(" ", "").lower())


def tracked(metric: cloudwatch.IMetric) -> dict[str, Any]:
    """The ``customizedMetricSpecification`` of a target tracking policy."""
    config: Any = metric.to_metric_config()
    single = config.metric_stat
    if single is not None and (statistic := plain_statistic(single.statistic)) is not None:
        return drop_none(**_metric(single), statistic=statistic, unit=_unit(single))
    return {"metrics": _queries(config, with_period=False)}


def alarmed(metric: cloudwatch.IMetric) -> dict[str, Any]:
    """What an alarm compares: the properties of a single metric, or ``metrics``."""
    config: Any = metric.to_metric_config()
    single = config.metric_stat
    if single is None:
        return {"metrics": _queries(config, with_period=True)}
    statistic, named = plain_statistic(single.statistic), _metric(single)
    return drop_none(
        dimensions=named.get("dimensions"),
        metric_name=named["metricName"],
        namespace=named["namespace"],
        period=_seconds(single),
        statistic=statistic,
        extended_statistic=single.statistic if statistic is None else None,
        unit=_unit(single),
    )


def _metric(single: Any) -> dict[str, Any]:
    dimensions = [{"name": dimension.name, "value": dimension.value} for dimension in single.dimensions or []]
    return drop_none(dimensions=dimensions or None, metricName=single.metric_name, namespace=single.namespace)


def _unit(single: Any) -> str | None:
    # The enumeration has the API's names in capitals: COUNT_PER_SECOND for Count/Second.
    unit = single.unit_filter
    return "/".join(map(str.capitalize, unit.value.split("_PER_"))) if unit is not None else None


def _seconds(single: Any) -> int:
    return int(single.period.to_seconds())


def _queries(config: Any, *, with_period: bool) -> list[dict[str, Any]]:
    """The metrics of a metric math expression, and its operands; the last one is the result."""
    queries: dict[str, dict[str, Any]] = {}

    def add(part: Any, id: str) -> None:
        single, expression = part.metric_stat, part.math_expression
        if single is not None:
            stat = drop_none(
                metric=_metric(single),
                period=_seconds(single) if with_period else None,
                stat=plain_statistic(single.statistic) or single.statistic,
                unit=_unit(single),
            )
            query: dict[str, Any] = {"metricStat": stat}
        elif expression is not None:
            for name, used in (expression.using_metrics or {}).items():
                add(used.to_metric_config(), name)
            query = drop_none(expression=expression.expression, period=int(expression.period) if with_period else None)
        else:
            raise ValueError("alarms and scaling policies cannot use search expressions: name the metrics")
        if queries.setdefault(id, query) != query:
            raise ValueError(f"two metrics of an expression have the id {id}: give one of them another")

    add(config, "result")
    return [
        dict(sorted({**query, "id": name, "returnData": name == "result"}.items())) for name, query in queries.items()
    ]
