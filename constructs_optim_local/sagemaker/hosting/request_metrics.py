"""The CloudWatch metrics that SageMaker publishes about requests, instances and copies.

Sources: Amazon SageMaker AI developer guide, "Amazon SageMaker AI metrics in Amazon CloudWatch", and "Metric name
mapping: legacy to OTel" (streams). Latencies are measured on this machine; utilization is this machine's. Assumed,
because no source says so: a request that gets no response counts in InvocationModelErrors and ModelLatency but in
neither Invocation4XXErrors nor Invocation5XXErrors, a stream that breaks off counts in MidStreamErrors alone, and a
request that SageMaker refuses counts nowhere.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from constructs_optim_local.api.error import ApiError
from constructs_optim_local.cloudwatch.metrics import Datapoint, Metrics
from constructs_optim_local.sagemaker.records import Scope

from .invocations import Completion, Forwarded, ModelError, StreamFailed

if TYPE_CHECKING:
    from .servers import Server

_NAMESPACE, _ENDPOINTS, _COMPONENTS = (
    "AWS/SageMaker",
    "/aws/sagemaker/Endpoints",
    "/aws/sagemaker/InferenceComponents",
)
_MICROSECONDS = 1_000_000
_CONCURRENCY_SECONDS, _UTILIZATION_SECONDS = 10, 60
# After a longer advance of the clock, only the last two hours have reports.
_MOST_SECONDS = 7_200
_CLIENT_ERROR, _SERVER_ERROR = 400, 500


@dataclass(frozen=True)
class Fleet:
    """The number of a variant's instances, each of which reports its utilization every so many seconds."""

    endpoint: str
    variant: str
    instances: int
    seconds: int


class RequestMetrics:
    """The metrics of an account's requests in a Region."""

    def __init__(self, scope: Scope, metrics: Metrics) -> None:
        self._scope, self._metrics = scope, metrics
        self._reported = scope.now().timestamp()

    def of_request(self, forwarded: Forwarded, forward: Callable[[Forwarded], Completion]) -> Completion:
        """Forward a request, and publish what becomes of it.

        Raises:
            ApiError: the error of ``forward``.
        """
        began = time.monotonic()
        of_component = forwarded.invocation.component is not None
        self._publish(forwarded, "Invocations", 1)
        per = "InvocationsPerCopy" if of_component else "InvocationsPerInstance"
        self._publish(forwarded, per, 1 / max(1, forwarded.copies))
        try:
            completion = forward(forwarded)
        except ApiError as error:
            self._responded(forwarded, error.model_status if isinstance(error, ModelError) else None, began)
            raise
        if isinstance(completion.parts, tuple):
            self._responded(forwarded, completion.status, began)
            return completion
        return replace(completion, parts=self._streamed(forwarded, completion.parts, completion.status, began))

    def without_capacity(self, component: str) -> None:
        """Publish that a request found no copy of an inference component."""
        self._put(_NAMESPACE, "NoCapacityInvocationFailures", {"InferenceComponentName": component}, 1)

    def report(self, fleets: Iterable[Fleet], copies: Iterable[str], in_flight: InFlight) -> None:
        """Publish the reports that are due since the last call.

        Args:
            fleets: the variants' instances.
            copies: the inference component of each copy.
            in_flight: the model servers, each with its requests in flight.
        """
        last, now = self._reported, self._scope.now().timestamp()
        self._reported = now
        last = max(last, now - _MOST_SECONDS)
        for server, count in in_flight.items():
            name = "ConcurrentRequestsPerCopy" if server.component else "ConcurrentRequestsPerModel"
            dimensions = _dimensions(server.endpoint, server.variant, server.component)
            for at in _marks(last, now, _CONCURRENCY_SECONDS):
                self._put(_NAMESPACE, name, dimensions, count, at=at)
        used = _utilization()
        for fleet in fleets:
            for at in _marks(last, now, fleet.seconds):
                for name, percent in fleet.instances * [*used.items()]:
                    dimensions = _dimensions(fleet.endpoint, fleet.variant)
                    self._put(_ENDPOINTS, name, dimensions, percent, unit="Percent", at=at)
        for component in copies:
            for at in _marks(last, now, _UTILIZATION_SECONDS):
                for name in ("CPUUtilization", "MemoryUtilization"):
                    dimensions = {"InferenceComponentName": component}
                    self._put(_COMPONENTS, f"{name}Normalized", dimensions, used[name], unit="Percent", at=at)

    def _responded(self, forwarded: Forwarded, status: int | None, began: float) -> None:
        """Publish a response's status, which is None without a response."""
        is_client_error = status is not None and _CLIENT_ERROR <= status < _SERVER_ERROR
        is_server_error = status is not None and status >= _SERVER_ERROR
        self._publish(forwarded, "Invocation4XXErrors", is_client_error)
        self._publish(forwarded, "Invocation5XXErrors", is_server_error)
        self._publish(forwarded, "InvocationModelErrors", status is None or status >= _CLIENT_ERROR)
        self._publish(forwarded, "ModelLatency", (time.monotonic() - began) * _MICROSECONDS, unit="Microseconds")

    def _streamed(self, forwarded: Forwarded, parts: Iterator[bytes], status: int, began: float) -> Iterator[bytes]:
        has_failed, is_first = False, True
        try:
            for part in parts:
                if is_first and forwarded.invocation.component is None:
                    microseconds = (time.monotonic() - began) * _MICROSECONDS
                    for name in ("FirstChunkLatency", "FirstChunkModelLatency"):
                        self._publish(forwarded, name, microseconds, unit="Microseconds")
                is_first = False
                yield part
        except StreamFailed:
            has_failed = True
            raise
        finally:
            self._responded(forwarded, status, began)
            # SageMaker publishes it for variants only.
            if forwarded.invocation.component is None:
                self._publish(forwarded, "MidStreamErrors", has_failed)

    def _publish(self, forwarded: Forwarded, name: str, value: float, *, unit: str = "None") -> None:
        invocation = forwarded.invocation
        dimensions = _dimensions(invocation.endpoint, forwarded.variant, invocation.component)
        self._put(_NAMESPACE, name, dimensions, value, unit=unit)

    def _put(
        self,
        namespace: str,
        name: str,
        dimensions: Mapping[str, str],
        value: float,
        *,
        unit: str = "None",
        at: float | None = None,
    ) -> None:
        when = at if at is not None else self._scope.now().timestamp()
        datapoint = Datapoint(namespace, name, dimensions, float(value), unit, when)
        self._metrics.publish(datapoint, account=self._scope.account, region=self._scope.region)


InFlight = Mapping["Server", int]
"""Model servers, each with its requests in flight."""


def _dimensions(endpoint: str, variant: str, component: str | None = None) -> dict[str, str]:
    if component is not None:
        return {"InferenceComponentName": component.rpartition("/")[2]}
    return {"EndpointName": endpoint.rpartition("/")[2], "VariantName": variant}


def _marks(last: float, now: float, every: int) -> Iterator[float]:
    """Yield the multiples of ``every`` seconds after ``last``, up to ``now``."""
    at = (last // every + 1) * every
    while at <= now:
        yield at
        at += every


def _utilization() -> dict[str, float]:
    """Return this machine's utilization, in percent."""
    pages, free = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_AVPHYS_PAGES")
    disk = shutil.disk_usage(os.sep)
    return {
        "CPUUtilization": 100 * os.getloadavg()[0],
        "MemoryUtilization": 100 * (1 - free / pages),
        "DiskUtilization": 100 * disk.used / disk.total,
    }
