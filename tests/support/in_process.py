"""SageMaker, Application Auto Scaling and the Price List of the local cloud in this process, with a clock to advance.

The clients are boto3's own: they check, sign, write and parse as ever, and what they would send is served here.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import io
import json
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError

from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.api.error import ApiError
from constructs_optim_local.autoscaling.service import ApplicationAutoScaling
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloud import DEFAULT_REGION
from constructs_optim_local.cloudwatch.alarms import Calling, Tripped, alarm_arn
from constructs_optim_local.faults import Fault, Faults
from constructs_optim_local.price_list import PriceList, hourly_price
from constructs_optim_local.sagemaker.context import Context, Timing
from constructs_optim_local.sagemaker.hub import Hub
from constructs_optim_local.sagemaker.optimization.jobs import JobDurations
from constructs_optim_local.sagemaker.quotas import Quotas
from constructs_optim_local.sagemaker.runtime import SageMakerRuntime
from constructs_optim_local.sagemaker.service import SageMaker, to_json
from constructs_optim_local.service_quotas import ServiceQuotas

ACCOUNT = "000000000000"
Response = tuple[int, dict[str, str], bytes]


class MemoryObjects:
    """Objects in S3, in memory, by their URIs: an implementation of ``sagemaker.objects.Objects``."""

    def __init__(self) -> None:
        self.buckets: set[str] = set()
        self.content: dict[str, bytes] = {}

    def put(self, job: str, objects: dict[str, bytes]) -> None:
        for uri in objects:
            if uri.split("/")[2] not in self.buckets:
                raise LookupError(f"NoSuchBucket: {uri}")
        self.content |= objects

    def read(self, uri: str) -> bytes | None:
        return self.content.get(uri)

    def etag(self, uri: str) -> str | None:
        content = self.content.get(uri)
        return hashlib.md5(content, usedforsecurity=False).hexdigest() if content is not None else None

    def uris(self, uri: str) -> list[str]:
        return sorted(key for key in self.content if key.startswith(uri))

    def download(self, uri: str, path: Path) -> None:
        path.write_bytes(self.content[uri])

    def upload(self, path: Path, uri: str, key_id: str | None) -> None:
        self.content[uri] = path.read_bytes()


class MemoryS3:
    """The calls of an S3 client that tests need, on :class:`MemoryObjects`."""

    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects

    def create_bucket(self, *, Bucket: str, **more: Any) -> None:  # noqa: N803 - boto3's
        self._objects.buckets.add(Bucket)

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803
        self._objects.put("", {f"s3://{Bucket}/{Key}": Body})

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        content = self._objects.read(f"s3://{Bucket}/{Key}")
        if content is None:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(content)}

    def list_objects_v2(self, *, Bucket: str, Prefix: str = "") -> dict[str, Any]:  # noqa: N803
        keys = [uri.removeprefix(f"s3://{Bucket}/") for uri in self._objects.uris(f"s3://{Bucket}/{Prefix}")]
        return {"KeyCount": len(keys), "Contents": [{"Key": key} for key in keys]}


class MemoryAlarms:
    """CloudWatch's alarms, set by a test: the queries of SageMaker, and two operations of the client."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._history: dict[str, list[tuple[dt.datetime, str]]] = {}

    def put_metric_alarm(self, **alarm: Any) -> None:
        self._history[alarm["AlarmName"]] = [(self._clock.now(), "OK")]

    def set_alarm_state(self, *, AlarmName: str, StateValue: str, StateReason: str) -> None:  # noqa: N803 - boto3's
        self._history[AlarmName].append((self._clock.now(), StateValue))

    def missing(self, names: Sequence[str], *, account: str, region: str) -> list[str]:
        return [name for name in names if name not in self._history]

    def tripped(
        self, names: Sequence[str], start: dt.datetime, end: dt.datetime, *, account: str, region: str
    ) -> Tripped | None:
        return min((found for name in names if (found := self._first(name, start, end))), default=None)

    def calling(self, action: str, *, account: str, region: str) -> list[Calling]:
        return []

    def scope(self, name: str, *, account: str, region: str) -> str:
        return alarm_arn(name, account, region)

    def put(self, alarm: dict[str, Any], *, account: str, region: str) -> str:
        self.put_metric_alarm(**alarm)
        return alarm_arn(alarm["AlarmName"], account, region)

    def delete(self, name: str, *, account: str, region: str) -> None:
        self._history.pop(name, None)

    def _first(self, name: str, start: dt.datetime, end: dt.datetime) -> Tripped | None:
        states = self._history.get(name, [])
        before = [state for at, state in states if at <= start]
        if before and before[-1] == "ALARM":
            return start, name
        return next(((at, name) for at, state in states if start < at <= end and state == "ALARM"), None)


@functools.cache
def _session() -> boto3.Session:
    """One for all: a session reads the services' descriptions anew."""
    return boto3.Session()


class InProcessCloud:
    """What of a local cloud needs no ministack, with the methods of ``LocalCloud`` that tests use."""

    region = DEFAULT_REGION
    endpoint_url = "http://in-process"

    def __init__(
        self,
        *,
        job_seconds: tuple[float, float] = (0.3, 0.3),
        endpoint_seconds: float = 0.1,
        time_scale: float = 0.001,
        hub_folders: Sequence[Path] = (),
        region: str = DEFAULT_REGION,
    ) -> None:
        self.region, self.clock = region, Clock(runs=False)
        self._faults, self._calls, self._function_calls = Faults(), CallLog(), CallLog()
        self.objects, self.alarms = MemoryObjects(), MemoryAlarms(self.clock)
        self._quotas = Quotas()
        self.sagemaker = SageMaker(
            Context(
                objects=lambda account, region: self.objects,
                hub=Hub(*hub_folders),
                faults=self._faults,
                calls=self._calls,
                timing=Timing(JobDurations(*job_seconds), endpoint_seconds, time_scale),
                alarms=self.alarms,
                price=hourly_price,
                clock=self.clock,
                quotas=self._quotas,
            )
        )
        self._runtime = SageMakerRuntime(self.sagemaker)
        self.services: dict[str, Any] = {
            "sagemaker": self.sagemaker,
            "application-autoscaling": ApplicationAutoScaling(
                self._faults, self._calls, self.sagemaker, self.alarms, time_scale, self.clock
            ),
            "pricing": PriceList(self._faults, self._calls),
            "service-quotas": ServiceQuotas(self._quotas, self._faults, self._calls),
        }

    def client(self, service: str, account: str = ACCOUNT, *, region: str | None = None, **config: Any) -> Any:
        """A boto3 client whose requests are served in this process; for S3 and CloudWatch, a stand-in for one."""
        if service == "s3":
            return MemoryS3(self.objects)
        if service == "cloudwatch":
            return self.alarms
        region = region or self.region
        client: Any = _session().client(
            service,
            region_name=region,
            endpoint_url=self.endpoint_url,
            aws_access_key_id=account,
            aws_secret_access_key="secret",
            config=Config(**({"retries": {"mode": "standard", "max_attempts": 2}} | config)),
        )

        def serve(request: AWSPreparedRequest, **more: Any) -> AWSResponse:
            body = request.body or b""
            headers = {name.lower(): _text(value) for name, value in request.headers.items()}
            status, returned, content = self._serve(
                service, (account, region), request, headers, body.encode() if isinstance(body, str) else body
            )
            return AWSResponse(request.url, status, returned, _Raw(content))  # type: ignore[arg-type]

        client.meta.events.register("before-send", serve)
        return client

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def inject(self, name: str, **fault: Any) -> None:
        self._faults.inject(Fault(name, **fault))

    def faults(self) -> list[dict[str, Any]]:
        return [fault.to_json() for fault in self._faults.active()]

    def clear_faults(self) -> None:
        self._faults.clear()

    def set_performance(self, match: str = "", **numbers: float) -> None:
        self.sagemaker.performances.set({"match": match, **numbers})

    def set_quota(self, name: str, value: float) -> None:
        self._quotas.set(name, value)

    def performances(self) -> list[dict[str, Any]]:
        return self.sagemaker.performances.to_json()

    def clear_performances(self) -> None:
        self.sagemaker.performances.clear()

    def jobs(self) -> list[dict[str, Any]]:
        return self.sagemaker.jobs()

    def benchmark_jobs(self) -> list[dict[str, Any]]:
        return self.sagemaker.benchmarks()

    def deployments(self, resource: str | None = None) -> list[dict[str, Any]]:
        return [item for item in self.sagemaker.deployments() if resource in (None, item["resource"])]

    def calls(self, operation: str | None = None) -> list[dict[str, Any]]:
        return self._calls.to_json(operation)

    def _serve(
        self,
        service: str,
        place: tuple[str, str],
        request: AWSPreparedRequest,
        headers: dict[str, str],
        body: bytes,
    ) -> Response:
        account, region = place
        if service == "sagemaker-runtime":
            path = urllib.parse.unquote(urllib.parse.urlsplit(request.url).path)
            invocation = self._runtime.invocation(request.method, path, headers, body)
            assert invocation is not None
            return self._runtime.respond(invocation, account=account, region=region)
        operation = headers["x-amz-target"].rpartition(".")[2]
        try:
            result = self.services[service].invoke(operation, json.loads(body or b"{}"), account=account, region=region)
        except ApiError as error:
            return error.to_response()
        return 200, {"Content-Type": "application/x-amz-json-1.1"}, to_json(result)


class _Raw(io.BytesIO):
    """A response's body, as botocore reads it."""

    def stream(self, **more: Any) -> Iterator[bytes]:
        while content := self.read():
            yield content


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
