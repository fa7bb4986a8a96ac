"""CloudWatch metrics keep the dimensions they are published with."""

from __future__ import annotations

import datetime as dt
from typing import Any

from constructs_optim_local.cloud import LocalCloud


def test_metric_data_is_stored_per_dimension_set(cloud: LocalCloud) -> None:
    cloudwatch, now = cloud.client("cloudwatch"), dt.datetime.now(dt.UTC)

    def data(concurrency: str, value: float) -> dict[str, Any]:
        dimensions = [{"Name": "EndpointName", "Value": "chat"}, {"Name": "Concurrency", "Value": concurrency}]
        return {"MetricName": "ClientLatency", "Dimensions": dimensions, "Value": value, "Unit": "Milliseconds"}

    cloudwatch.put_metric_data(Namespace="Evaluation", MetricData=[data("1", 100), data("8", 400)])
    queries = [
        {
            "Id": f"at{concurrency}",
            "MetricStat": {
                "Metric": {
                    "Namespace": "Evaluation",
                    **{key: data(concurrency, 0)[key] for key in ("MetricName", "Dimensions")},
                },
                "Period": 60,
                "Stat": "Average",
            },
        }
        for concurrency in ("1", "8", "16")
    ]
    found = cloudwatch.get_metric_data(
        MetricDataQueries=queries, StartTime=now - dt.timedelta(hours=1), EndTime=now + dt.timedelta(hours=1)
    )["MetricDataResults"]
    assert {result["Id"]: result["Values"] for result in found} == {"at1": [100], "at8": [400], "at16": []}
    listed = cloudwatch.list_metrics(Namespace="Evaluation")["Metrics"]
    assert len(listed) == 2
