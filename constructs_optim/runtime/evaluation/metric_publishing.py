"""What an evaluation measured, as CloudWatch metrics."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..custom_resource import client
from .benchmark_output import Level, metric_definitions

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef, MetricDatumTypeDef

_NAMESPACE = "ConstructsOptim/Evaluation"
# PutMetricData takes 1,000 metrics and 1 MB; a smaller request is repeated sooner.
_AT_ONCE = 200


def publish(dimensions: Mapping[str, str], artifact_key: str, levels: Sequence[Level], *, at: dt.datetime) -> None:
    """Publish every metric of every concurrency, at the time the evaluation ended."""
    data = [datum for level in levels for datum in _data(dimensions, artifact_key, level, at)]
    cloudwatch = client("cloudwatch")
    for start in range(0, len(data), _AT_ONCE):
        cloudwatch.put_metric_data(Namespace=_NAMESPACE, MetricData=data[start : start + _AT_ONCE])


def _data(
    dimensions: Mapping[str, str], artifact_key: str, level: Level, at: dt.datetime
) -> Iterator[MetricDatumTypeDef]:
    named = {**dimensions, "Concurrency": str(level.concurrency), "ArtifactKey": artifact_key}
    listed: list[DimensionTypeDef] = [{"Name": name, "Value": value} for name, value in named.items()]
    for definition in metric_definitions():
        value = level.metrics.get(definition["name"])
        if value is not None:
            yield {
                "MetricName": definition["metric_name"],
                "Dimensions": listed,
                "Timestamp": at,
                "Unit": definition["unit"],
                "Value": value,
            }
