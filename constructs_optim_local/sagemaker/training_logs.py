"""What a training job prints, on its way to CloudWatch.

Source: developer guide, "CloudWatch Logs for Amazon SageMaker AI" (log group ``/aws/sagemaker/TrainingJobs``, a stream
for each host, ``<job>/algo-<n>-<time>``) and "Amazon SageMaker AI metrics in Amazon CloudWatch" (namespace
``/aws/sagemaker/TrainingJobs``; what the code emits has the dimension ``TrainingJobName``).
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
from typing import Protocol

from .records import now
from .training_host import Host
from .training_metrics import TrainingMetrics

GROUP = NAMESPACE = "/aws/sagemaker/TrainingJobs"


class Telemetry(Protocol):
    """CloudWatch's logs and metrics."""

    def log(self, group: str, stream: str, lines: Sequence[tuple[dt.datetime, str]]) -> None:
        """Add lines to a stream, which is made where there is none."""
        ...

    def metrics(
        self, namespace: str, dimensions: dict[str, str], values: Sequence[tuple[str, float, dt.datetime]]
    ) -> None:
        """Add values of metrics, each with its name and time."""
        ...


class NoTelemetry:
    """Of a cloud without CloudWatch."""

    def log(self, group: str, stream: str, lines: Sequence[tuple[dt.datetime, str]]) -> None:
        """Drop them."""

    def metrics(
        self, namespace: str, dimensions: dict[str, str], values: Sequence[tuple[str, float, dt.datetime]]
    ) -> None:
        """Drop them."""


class TrainingLog:
    """What the hosts of one job print: kept until it is told to CloudWatch, and read for metrics at once."""

    def __init__(self, job: str, metrics: TrainingMetrics, telemetry: Telemetry) -> None:
        self._job, self._metrics, self._telemetry = job, metrics, telemetry
        self._began = int(now().timestamp())
        self._lock = threading.Lock()
        self._untold: dict[str, list[tuple[dt.datetime, str]]] = {}

    def add(self, host: Host, line: str) -> None:
        """Keep a line of a host's output."""
        at = now()
        self._metrics.read(line, at)
        stream = f"{self._job}/algo-{host.number}-{self._began}"
        with self._lock:
            self._untold.setdefault(stream, []).append((at, line))

    def tell(self) -> None:
        """Send what there is to CloudWatch."""
        with self._lock:
            untold, self._untold = self._untold, {}
        for stream, lines in untold.items():
            self._telemetry.log(GROUP, stream, lines)
        values = self._metrics.take()
        if values:
            self._telemetry.metrics(NAMESPACE, {"TrainingJobName": self._job}, values)
