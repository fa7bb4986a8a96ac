"""Logs and metric data in this cloud's own CloudWatch, for the jobs that SageMaker runs."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from .own_clients import OwnClients

# Service quotas of PutLogEvents and PutMetricData; CloudWatch Logs takes no event without text.
_EVENTS_AT_ONCE = 1_000
_VALUES_AT_ONCE = 500
_EMPTY = " "


class CloudWatchTelemetry:
    """An implementation of ``sagemaker.training_logs.Telemetry``, for one account and region.

    What cannot be told is dropped: as on AWS, a job does not fail for its logs.
    """

    def __init__(self, clients: OwnClients, account: str, region: str) -> None:
        self._clients, self._account, self._region = clients, account, region

    def log(self, group: str, stream: str, lines: Sequence[tuple[dt.datetime, str]]) -> None:
        """Add lines to a stream, which is made where there is none."""
        events = [{"timestamp": int(at.timestamp() * 1000), "message": line or _EMPTY} for at, line in lines]
        with contextlib.suppress(BotoCoreError, ClientError):
            for call, given in (
                (self._logs.create_log_group, {}),
                (self._logs.create_log_stream, {"logStreamName": stream}),
            ):
                with contextlib.suppress(self._logs.exceptions.ResourceAlreadyExistsException):
                    call(logGroupName=group, **given)
            for start in range(0, len(events), _EVENTS_AT_ONCE):
                some = events[start : start + _EVENTS_AT_ONCE]
                self._logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=some)

    def metrics(
        self, namespace: str, dimensions: dict[str, str], values: Sequence[tuple[str, float, dt.datetime]]
    ) -> None:
        """Add values of metrics, each with its name and time."""
        named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
        data = [
            {"MetricName": name, "Dimensions": named, "Timestamp": at, "Value": value} for name, value, at in values
        ]
        with contextlib.suppress(BotoCoreError, ClientError):
            for start in range(0, len(data), _VALUES_AT_ONCE):
                some = data[start : start + _VALUES_AT_ONCE]
                self._cloudwatch.put_metric_data(Namespace=namespace, MetricData=some)

    @property
    def _logs(self) -> Any:
        return self._clients.client("logs", self._account, self._region)

    @property
    def _cloudwatch(self) -> Any:
        return self._clients.client("cloudwatch", self._account, self._region)
