"""Sends a training job's output to CloudWatch as logs and metrics.

Source: developer guide, "CloudWatch Logs for Amazon SageMaker AI" (log group ``/aws/sagemaker/TrainingJobs`` with a
stream ``<job>/algo-<n>-<time>`` for each host) and "Amazon SageMaker AI metrics in Amazon CloudWatch" (namespace
``/aws/sagemaker/TrainingJobs``; metrics that the code emits have the dimension ``TrainingJobName``).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from constructs_optim_local.access.credentials import OwnClients
from constructs_optim_local.clock import Clock
from constructs_optim_local.sagemaker.records import Record

from .host import Host

GROUP = NAMESPACE = "/aws/sagemaker/TrainingJobs"


class Telemetry(Protocol):
    """CloudWatch's logs and metrics."""

    def log(self, group: str, stream: str, lines: Sequence[tuple[dt.datetime, str]]) -> None:
        """Add lines to a stream, creating it if needed."""
        ...

    def metrics(
        self, namespace: str, dimensions: dict[str, str], values: Sequence[tuple[str, float, dt.datetime]]
    ) -> None:
        """Add metric values, each with its name and time."""
        ...


class NoTelemetry:
    """Telemetry of a cloud without CloudWatch."""

    def log(self, group: str, stream: str, lines: Sequence[tuple[dt.datetime, str]]) -> None:
        """Do nothing."""

    def metrics(
        self, namespace: str, dimensions: dict[str, str], values: Sequence[tuple[str, float, dt.datetime]]
    ) -> None:
        """Do nothing."""


class TrainingLog:
    """The output of one job's hosts, parsed for metrics and kept until sent to CloudWatch."""

    def __init__(self, job: str, metrics: TrainingMetrics, telemetry: Telemetry, clock: Clock) -> None:
        self._job, self._metrics, self._telemetry, self._clock = job, metrics, telemetry, clock
        self._began = int(self._clock.now().timestamp())
        self._lock = threading.Lock()
        self._untold: dict[str, list[tuple[dt.datetime, str]]] = {}

    def add(self, host: Host, line: str) -> None:
        """Record a line of a host's output."""
        at = self._clock.now()
        self._metrics.read(line, at)
        stream = f"{self._job}/algo-{host.number}-{self._began}"
        with self._lock:
            self._untold.setdefault(stream, []).append((at, line))

    def tell(self) -> None:
        """Send the recorded output and metrics to CloudWatch."""
        with self._lock:
            untold, self._untold = self._untold, {}
        for stream, lines in untold.items():
            self._telemetry.log(GROUP, stream, lines)
        values = self._metrics.take()
        if values:
            self._telemetry.metrics(NAMESPACE, {"TrainingJobName": self._job}, values)


class TrainingMetrics:
    """The metrics in a job's output so far. The expressions in the job's ``definitions`` must be valid."""

    def __init__(self, definitions: Sequence[Record]) -> None:
        self._definitions = [(item["Name"], re.compile(item["Regex"])) for item in definitions]
        self._lock = threading.Lock()
        self._last: dict[str, tuple[float, dt.datetime]] = {}
        self._unpublished: list[tuple[str, float, dt.datetime]] = []

    def read(self, line: str, at: dt.datetime) -> None:
        """Record the metrics in a line of the output."""
        for name, expression in self._definitions:
            for found in expression.finditer(line):
                value = _number(found[1] if expression.groups else found[0])
                if value is not None:
                    with self._lock:
                        self._last[name] = value, at
                        self._unpublished.append((name, value, at))

    def final(self) -> list[dict[str, Any]]:
        """Return ``FinalMetricDataList``: the last value of each metric, in the order of the definitions."""
        with self._lock:
            last = dict(self._last)
        names = dict.fromkeys(name for name, _ in self._definitions)
        return [
            {"MetricName": name, "Value": last[name][0], "Timestamp": last[name][1]} for name in names if name in last
        ]

    def take(self) -> list[tuple[str, float, dt.datetime]]:
        """Return the values since the last call, for CloudWatch."""
        with self._lock:
            taken, self._unpublished = self._unpublished, []
        return taken


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# Service quotas of PutLogEvents and PutMetricData. CloudWatch Logs accepts no event without text.
_EVENTS_AT_ONCE = 1_000
_VALUES_AT_ONCE = 500
_EMPTY = " "


class CloudWatchTelemetry:
    """An implementation of ``Telemetry`` for one account and Region.

    Output that cannot be sent is dropped. As on AWS, a job does not fail because of its logs.
    """

    def __init__(self, clients: OwnClients, account: str, region: str) -> None:
        self._clients, self._account, self._region = clients, account, region

    def log(self, group: str, stream: str, lines: Sequence[tuple[dt.datetime, str]]) -> None:
        """Add lines to a stream, creating it if needed."""
        events = [{"timestamp": int(at.timestamp() * 1000), "message": line or _EMPTY} for at, line in lines]
        with contextlib.suppress(BotoCoreError, ClientError):
            for call, arguments in (
                (self._logs.create_log_group, {}),
                (self._logs.create_log_stream, {"logStreamName": stream}),
            ):
                with contextlib.suppress(self._logs.exceptions.ResourceAlreadyExistsException):
                    call(logGroupName=group, **arguments)
            for start in range(0, len(events), _EVENTS_AT_ONCE):
                some = events[start : start + _EVENTS_AT_ONCE]
                self._logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=some)

    def metrics(
        self, namespace: str, dimensions: dict[str, str], values: Sequence[tuple[str, float, dt.datetime]]
    ) -> None:
        """Add metric values, each with its name and time."""
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


@dataclass(frozen=True)
class TrainingSettings:
    """How to run training jobs.

    Attributes:
        path: the folder of the programs to run instead of the image's. Default: this interpreter's folder.
        starting: how long a job waits for its instances, in seconds. A job that reuses a warm pool does not wait.
        simulates: whether jobs that copy or quantize a model only write small files with the right names.
        running: how long a simulated job trains, in seconds.
        stop_seconds: seconds from SIGTERM to SIGKILL (120 on AWS).
        keep_alive_scale: real seconds for each second of a warm pool.
        cloud: variables that point the code's SDK at this cloud.
        telemetry: receives the jobs' logs and metrics.
    """

    path: Path = Path(sys.executable).parent
    starting: float = 3.0
    simulates: bool = False
    running: float = 5.0
    stop_seconds: float = 120.0
    keep_alive_scale: float = 1.0
    cloud: Mapping[str, str] = field(default_factory=dict[str, str])
    telemetry: Telemetry = field(default_factory=NoTelemetry)
