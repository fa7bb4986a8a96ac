"""CloudWatch metrics: what services publish, and what functions log in the embedded metric format.

Source of the format: CloudWatch user guide, "Specification: Embedded metric format". Functions use the machine's time,
so their metrics get the time of the local cloud's clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from constructs_optim_local.clock import Clock
from constructs_optim_local.cloudwatch.metrics import Datapoint

from .patches import replace


class MinistackMetrics:
    """An implementation of ``metrics.Metrics``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Account, Region, namespace, name and dimensions of the metrics that have the clock's time.
        self._timed = set[tuple[str, ...]]()

    def follows_clock(self, metric: Mapping[str, Any]) -> bool:
        """Return whether the datapoints of an alarm's metric have the clock's time, not a client's."""
        from ministack.core.responses import get_account_id, get_region

        dimensions = {each["Name"]: each["Value"] for each in metric.get("Dimensions") or ()}
        where = get_account_id(), get_region()
        return _key(*where, metric.get("Namespace", ""), metric.get("MetricName", ""), dimensions) in self._timed

    def install(self) -> None:
        """Extract the metrics of functions' logs. Called once, before the first request."""
        from ministack.core.responses import get_account_id, get_region
        from ministack.services import cloudwatch, lambda_svc

        emit, put = lambda_svc._emit_lambda_logs, cloudwatch._put_metric_data

        def emit_lambda_logs(func: Any, request_id: str, log_text: str, *rest: Any, **named: Any) -> None:
            emit(func, request_id, log_text, *rest, **named)
            now = self._clock.now().timestamp()
            for datapoint in embedded(log_text or "", now):
                self.publish(datapoint, account=get_account_id(), region=get_region())

        def put_metric_data(params: Any, request: dict[str, Any], *rest: Any, **named: Any) -> Any:
            # The query protocol, which botocore no longer uses for CloudWatch, keeps ministack's time.
            now = self._clock.now().timestamp()
            for datum in request.get("MetricData", ()):
                if "Timestamp" not in datum:
                    dimensions = {each["Name"]: each["Value"] for each in datum.get("Dimensions") or ()}
                    where = get_account_id(), get_region()
                    self._timed.add(_key(*where, request.get("Namespace", ""), datum["MetricName"], dimensions))
            stamped = [{"Timestamp": now, **datum} for datum in request.get("MetricData", ())]
            return put(params, {**request, "MetricData": stamped}, *rest, **named)

        replace("services.lambda_svc._emit_lambda_logs", emit_lambda_logs)
        replace("services.cloudwatch._put_metric_data", put_metric_data)

    def publish(self, datapoint: Datapoint, *, account: str, region: str) -> None:
        """Store a datapoint."""
        from ministack.core.responses import request_scope
        from ministack.services import cloudwatch

        dimensions = dict(datapoint.dimensions)
        self._timed.add(_key(account, region, datapoint.namespace, datapoint.name, dimensions))
        with request_scope(account, region):
            cloudwatch._metric_bucket((datapoint.namespace, datapoint.name, cloudwatch._dims_key(dimensions))).append(
                {
                    "Timestamp": datapoint.at,
                    "Value": datapoint.value,
                    "Unit": datapoint.unit,
                    "Dimensions": dimensions,
                }
            )


def _key(account: str, region: str, namespace: str, name: str, dimensions: Mapping[str, str]) -> tuple[str, ...]:
    return (account, region, namespace, name, *(text for pair in sorted(dimensions.items()) for text in pair))


def embedded(log: str, at: float) -> Iterator[Datapoint]:
    """Yield the metrics in a log's lines, one for each set of dimensions; invalid lines are ordinary log lines."""
    for line in log.splitlines():
        try:
            document = json.loads(line)
            directives = document["_aws"]["CloudWatchMetrics"]
            found = [
                Datapoint(
                    directive["Namespace"],
                    metric["Name"],
                    {name: str(document[name]) for name in names},
                    float(value),
                    metric.get("Unit", "None"),
                    at,
                )
                for directive in directives
                for names in directive["Dimensions"]
                for metric in directive["Metrics"]
                for value in _listed(document[metric["Name"]])
            ]
        except (KeyError, TypeError, ValueError):
            continue
        yield from found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
