"""CDK metrics as the plain properties that alarms and scaling policies have for them."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch

# What a customized metric of target tracking knows (Application Auto Scaling API reference, MetricStatistic).
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
        return {**_metric(single), "statistic": statistic, **_unit(single)}
    return {"metrics": _queries(config, with_period=False)}


def alarmed(metric: cloudwatch.IMetric) -> dict[str, Any]:
    """What an alarm compares: the properties of a single metric, or ``metrics``."""
    config: Any = metric.to_metric_config()
    single = config.metric_stat
    if single is None:
        return {"metrics": _queries(config, with_period=True)}
    statistic = plain_statistic(single.statistic)
    chosen = {"statistic": statistic} if statistic is not None else {"extended_statistic": single.statistic}
    named = _metric(single)
    return {
        "dimensions": named.get("dimensions"),
        "metric_name": named["metricName"],
        "namespace": named["namespace"],
        "period": _seconds(single),
        **chosen,
        **_unit(single),
    }


def _metric(single: Any) -> dict[str, Any]:
    dimensions = [{"name": dimension.name, "value": dimension.value} for dimension in single.dimensions or []]
    return {
        **({"dimensions": dimensions} if dimensions else {}),
        "metricName": single.metric_name,
        "namespace": single.namespace,
    }


def _unit(single: Any) -> dict[str, Any]:
    # The enumeration has the API's names in capitals: COUNT_PER_SECOND for Count/Second.
    unit = single.unit_filter
    return {"unit": "/".join(map(str.capitalize, unit.value.split("_PER_")))} if unit is not None else {}


def _seconds(single: Any) -> int:
    return int(single.period.to_seconds())


def _queries(config: Any, *, with_period: bool) -> list[dict[str, Any]]:
    """The metrics of a metric math expression, and of those it is made of; the last one is the result."""
    queries: dict[str, dict[str, Any]] = {}

    def add(part: Any, id: str) -> None:
        single = part.metric_stat
        if single is not None:
            query: dict[str, Any] = {
                "metricStat": {
                    "metric": _metric(single),
                    **({"period": _seconds(single)} if with_period else {}),
                    "stat": plain_statistic(single.statistic) or single.statistic,
                    **_unit(single),
                }
            }
        else:
            expression = part.math_expression
            if expression is None:
                raise ValueError("alarms and scaling policies cannot use search expressions: name the metrics")
            for name, used in (expression.using_metrics or {}).items():
                add(used.to_metric_config(), name)
            query = {"expression": expression.expression}
            if with_period:
                query["period"] = int(expression.period)
        known = queries.setdefault(id, query)
        if known != query:
            raise ValueError(f"two metrics of an expression have the id {id}: give one of them another")

    add(config, "result")
    return [
        dict(sorted({**query, "id": name, "returnData": name == "result"}.items())) for name, query in queries.items()
    ]
