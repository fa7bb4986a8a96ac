"""A run's observations so far. New captures and metrics are added once each, in the order in which they are read.

Captures without a pair yet are kept as places in files, not as content: prompts and answers stay where SageMaker wrote
them.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError
from pydantic import BaseModel, model_validator

from ..aws import client
from ..documents import is_object, json_value, nested
from ..errors import DeploymentError, code_of
from ..requests.shadow_properties import ShadowRequest
from ..store.json_records import get_object
from ..telemetry import log
from .captures import Capture, CaptureFile, Pair, paired, read_captures
from .checks import Check, Judge, outcome, prompt_of
from .failed_requests import METRICS, failed_requests
from .sequential_test import Counts
from .verdict import Criteria, Observed, add_minute, add_pair, add_requests

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef, MetricDataQueryTypeDef
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

_FILES_A_POLL = 200
# The limits of the run's record, which has to stay below the size that is read (store/json_records.py) with names of
# 1,024 bytes, the longest in S3. Captures beyond them are not compared.
_MOST_WAITING = 20_000
_MOST_FILES = 20_000
_MOST_READ = 20_000
# A file may appear after its hour has ended, and CloudWatch publishes a minute's metrics some minutes late.
_LATE = dt.timedelta(hours=1)
_METRICS_LATE_SECONDS = 180
# The length of "yyyy/mm/dd/hh", with which the names of captured files start.
_HOUR = 13
_MINUTES_A_POLL = 1_000
COUNTING = 2
"""The version of how outcomes are counted. A run goes on with its own version's counts, or counts anew."""
# A poll has room for one answer that does not come, after the time for which it reads.
_JUDGE = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 2})
# AWS Lambda's quotas: the payload of a synchronous invocation has at most 6 MB.
_LARGEST_JUDGED = 6_000_000
_TOO_LARGE = ("RequestTooLargeException", "RequestEntityTooLargeException")


class Place(BaseModel):
    """A capture's place: the number of its file, and its number in the file."""

    digest: str
    file: int
    number: int


class Reading(BaseModel):
    """The state of reading a variant's captures: the files since ``hour``, and the captures without a pair yet.

    ``read`` has each file's hour and digest, and ``waiting`` places in the files of the ``RunState``.
    """

    hour: str = ""
    read: list[str] = []
    waiting: list[Place] = []


class RunState(BaseModel):
    """The record of a run.

    ``files`` are the files of the captures that wait. ``minute`` is the time up to which metrics were read, in seconds
    since 1970. ``counting`` is how the outcomes in ``observed`` were counted. ``updates`` counts the updates to end the
    shadow that SageMaker accepted, and ``refusals`` those that it has refused since; ``refusal`` is the reason if it
    refused the last one. ``unusable`` counts both variants' captures that cannot be read, such as requests that are not
    JSON, ``unjudged`` the pairs that a check could not judge, and ``further_polls`` the polls after which the next one
    read on at once.
    """

    began: float
    phase: str = "observing"
    minute: float
    files: list[str] = []
    production: Reading = Reading()
    candidate: Reading = Reading()
    observed: Observed = Observed()
    counting: int = COUNTING
    unusable: int = 0
    unjudged: int = 0
    further_polls: int = 0
    updates: int = 0
    refusals: int = 0
    refusal: str = ""

    @model_validator(mode="before")
    @classmethod
    def _counts_anew(cls, stored: object) -> object:
        if not is_object(stored) or "observed" not in stored or stored.get("counting") == COUNTING:
            return stored
        log("comparison restarted", reason="another release counted the outcomes so far in another way")
        return {name: value for name, value in stored.items() if name not in ("observed", "counting")}


def criteria_of(request: ShadowRequest) -> Criteria:
    """Return the run's criteria."""
    checks = [Check(check.kind, check.at_least) for check in request.checks]
    return Criteria(checks, request.margin, request.latency_tolerance)


def _items(page: ListObjectsV2OutputTypeDef) -> Sequence[ObjectTypeDef]:
    return page.get("Contents", [])


def _mark(name: str) -> str:
    """Return what is kept of a file that was read: its hour and a digest, of a fixed length whatever its name."""
    return f"{name[:_HOUR]}/{hashlib.sha256(name.encode()).hexdigest()[:16]}"


class _NotJudgedError(Exception):
    """The judge cannot judge a pair. The message is a reason without any text of the pair."""


def _judged(check: Check, pair: Pair, references: Mapping[str, str], judge: Judge | None) -> Counts | str | None:
    """Return a check's outcome, None if it does not apply, or why it cannot judge the pair.

    Clients and models decide what captures say, so that none of them may end a run. A call to AWS that fails is no
    fault of a pair: the next poll tries it again.
    """
    try:
        return outcome(check, pair, references, judge)
    except (BotoCoreError, ClientError):
        raise
    except _NotJudgedError as error:
        return str(error)
    except Exception as error:
        # Its message may have text of users.
        return f"{check.kind}: {type(error).__name__}"


class Observer:
    """Reads a run's new captures and metrics."""

    def __init__(self, request: ShadowRequest, state: RunState) -> None:
        self._request, self._state, self._criteria = request, state, criteria_of(request)
        self._s3: S3Client = client("s3")
        self._bucket, _, self._prefix = request.captures.removeprefix("s3://").partition("/")
        self._contents: dict[int, CaptureFile] = {}

    def observe(self, now: float, until: float = math.inf) -> bool:
        """Read new captures and metrics; return whether more may be available at once.

        Pairs that are not compared at ``until``, in the seconds of ``time.monotonic``, wait for the next call.
        """
        more = [
            self._take(self._state.production, self._request.production.variant_name, now),
            self._take(self._state.candidate, self._request.candidate.variant_name, now),
        ]
        more.append(self._compare(now, until))
        self._forget_files()
        self._read_metrics(now)
        return any(more)

    def _compare(self, now: float, until: float) -> bool:
        """Compare the pairs that wait; return whether some of them still wait."""
        references, judge, reasons = self._references(), self._judge(), Counter[str]()
        sent, copied = self._state.production, self._state.candidate
        pairs, sent.waiting, copied.waiting = paired(sent.waiting, copied.waiting)
        compared = 0
        # At least one, so that no run stands still.
        while compared < len(pairs) and (not compared or time.monotonic() < until):
            production, candidate = map(self._capture, pairs[compared])
            compared += 1
            if production is None or candidate is None:
                continue
            pair = Pair(candidate.request, production.response, candidate.response)
            unjudged = add_pair(
                self._state.observed,
                self._criteria,
                pair.request,
                self._minute(candidate, now),
                lambda check, pair=pair: _judged(check, pair, references, judge),
            )
            self._state.unjudged += bool(unjudged)
            reasons.update(unjudged)
        for reason, count in reasons.items():
            log("pairs not judged", endpoint_name=self._request.endpoint_name, pairs=count, reason=reason)
        for reading, number in ((sent, 0), (copied, 1)):
            waiting = [*reading.waiting, *(pair[number] for pair in pairs[compared:])]
            reading.waiting = sorted(waiting, key=lambda place: (place.file, place.number))
        return compared < len(pairs)

    def _minute(self, capture: Capture, now: float) -> int:
        """Return when a request was sent, in minutes since the run began; captures may lack the time."""
        try:
            sent = dt.datetime.fromisoformat(capture.inference_time).replace(tzinfo=dt.UTC).timestamp()
        except (ValueError, OverflowError):
            sent = now
        return self._minutes(min(sent, now))

    def _minutes(self, at: float) -> int:
        return max(0, int((at - self._state.began) // 60))

    def _take(self, reading: Reading, variant: str, now: float) -> bool:
        state, started = self._state, dt.datetime.fromtimestamp(self._state.began, dt.UTC)
        folder = f"{self._prefix.rstrip('/')}/{self._request.endpoint_name}/{variant}/"
        hour = reading.hour or (started - _LATE).strftime("%Y/%m/%d/%H")
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=folder, StartAfter=f"{folder}{hour}"
        )
        known, taken = set(reading.read), 0
        # Hours that have ended long ago get no more files.
        complete = (dt.datetime.fromtimestamp(now, dt.UTC) - 2 * _LATE).strftime("%Y/%m/%d/%H")
        is_more = False
        for key, written in (
            (item.get("Key", ""), item.get("LastModified")) for page in pages for item in _items(page)
        ):
            mark = _mark(key.removeprefix(folder))
            # Captures from before the run belong to another configuration.
            if mark in known or (written is not None and written.timestamp() < state.began):
                continue
            if len(reading.read) >= _MOST_READ:
                break
            if taken == _FILES_A_POLL:
                # The listing is sorted, so that all earlier hours have been read.
                is_more, complete = True, min(complete, mark[:_HOUR])
                break
            taken += 1
            state.files.append(key)
            reading.read.append(mark)
            number = len(state.files) - 1
            found = self._captures(number)
            state.unusable += found.unusable
            reading.waiting += [
                Place(digest=capture.digest, file=number, number=index) for index, capture in enumerate(found.captures)
            ]
        reading.waiting = reading.waiting[-_MOST_WAITING:]
        reading.hour = max(hour, complete)
        reading.read = [mark for mark in reading.read if mark[:_HOUR] >= reading.hour]
        return is_more

    def _forget_files(self) -> None:
        """Keep the files of captures that wait for their pair, at most the latest ``_MOST_FILES``."""
        state, readings = self._state, (self._state.production, self._state.candidate)
        numbers = sorted({place.file for reading in readings for place in reading.waiting})[-_MOST_FILES:]
        kept = {number: index for index, number in enumerate(numbers)}
        for reading in readings:
            reading.waiting = [
                place.model_copy(update={"file": kept[place.file]}) for place in reading.waiting if place.file in kept
            ]
        state.files = [state.files[number] for number in numbers]
        self._contents = {kept[number]: found for number, found in self._contents.items() if number in kept}

    def _capture(self, place: Place) -> Capture | None:
        captures = self._captures(place.file).captures
        return captures[place.number] if place.number < len(captures) else None

    def _captures(self, number: int) -> CaptureFile:
        if number not in self._contents:
            found = get_object(self._s3, self._bucket, self._state.files[number])
            # A lifecycle rule may have deleted the file.
            self._contents[number] = read_captures(found["Body"].read() if found is not None else b"")
        return self._contents[number]

    def _references(self) -> dict[str, str]:
        uri = next((check.reference for check in self._request.checks if check.reference), None)
        if uri is None:
            return {}
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        found = get_object(self._s3, bucket, key)
        if found is None:
            raise DeploymentError(f"the object {uri} with the reference answers does not exist")
        references: dict[str, str] = {}
        lines = enumerate(found["Body"].read().split(b"\n"), 1)
        for number, line in ((number, line) for number, line in lines if line.strip()):
            try:
                row = json_value(line)
            except ValueError:
                row = None
            if not is_object(row) or "prompt" not in row or "answer" not in row:
                raise DeploymentError(f'line {number} of {uri} is not of the form {{"prompt": ..., "answer": ...}}')
            references[prompt_of({"prompt": row["prompt"]})] = str(row["answer"])
        return references

    def _judge(self) -> Judge | None:
        arn = next((check.judge for check in self._request.checks if check.judge), None)
        if arn is None:
            return None
        functions = client("lambda", _JUDGE)

        def judge(pair: Pair) -> tuple[bool, bool] | None:
            asked = {"request": pair.request, "production": pair.production, "candidate": pair.candidate}
            payload = json.dumps(asked, ensure_ascii=False).encode()
            if len(payload) > _LARGEST_JUDGED:
                raise _NotJudgedError("too large for the judge")
            try:
                response = functions.invoke(FunctionName=arn, Payload=payload)
                said = json_value(response["Payload"].read())
            except ReadTimeoutError:
                raise _NotJudgedError("the judge did not answer in time") from None
            except ClientError as error:
                # Others, such as a missing permission, are the same for every pair.
                if code_of(error) not in _TOO_LARGE:
                    raise
                raise _NotJudgedError("too large for the judge") from None
            except ValueError:
                raise _NotJudgedError("the judge did not answer in JSON") from None
            if response.get("FunctionError"):
                raise _NotJudgedError("the judge failed")
            production, candidate = nested(said, "production"), nested(said, "candidate")
            if production is None and candidate is None:
                return None
            if isinstance(production, bool) and isinstance(candidate, bool):
                return production, candidate
            raise _NotJudgedError("the judge gave no verdict")

        return judge

    def _read_metrics(self, now: float) -> None:
        state = self._state
        until = (now - _METRICS_LATE_SECONDS) // 60 * 60
        until = min(until, state.minute + 60 * _MINUTES_A_POLL)
        if until <= state.minute:
            return
        production = self._metrics(self._request.production.variant_name, state.minute, until)
        candidate = self._metrics(self._request.candidate.variant_name, state.minute, until)
        for minute in sorted(production["latency"].keys() & candidate["latency"].keys()):
            latencies = production["latency"][minute], candidate["latency"][minute]
            add_minute(state.observed, self._criteria, *latencies)
        for minute in sorted(production["requests"].keys() & candidate["requests"].keys()):
            counts = [
                (round(each["requests"][minute]), round(failed_requests(_at(each, minute))))
                for each in (production, candidate)
            ]
            add_requests(state.observed, self._minutes(minute), counts[0], counts[1])
        state.minute = until

    def _metrics(self, variant: str, start: float, end: float) -> dict[str, dict[float, float]]:
        """Return a variant's latencies, requests, and what counts its failed requests, by metric and minute.

        Source: developer guide, "Monitor a shadow test", on the metrics of both variants.
        """
        dimensions: list[DimensionTypeDef] = [
            {"Name": "EndpointName", "Value": self._request.endpoint_name},
            {"Name": "VariantName", "Value": variant},
        ]
        queries: list[MetricDataQueryTypeDef] = [
            {
                "Id": name,
                "MetricStat": {
                    "Metric": {"Namespace": "AWS/SageMaker", "MetricName": metric, "Dimensions": dimensions},
                    "Period": 60,
                    "Stat": statistic,
                },
            }
            for name, metric, statistic in (
                ("latency", "ModelLatency", "Average"),
                ("requests", "Invocations", "Sum"),
                *((name, metric, "Sum") for name, metric in METRICS.items()),
            )
        ]
        found: dict[str, dict[float, float]] = {name: {} for name in ("latency", "requests", *METRICS)}
        pages = (
            client("cloudwatch")
            .get_paginator("get_metric_data")
            .paginate(
                MetricDataQueries=queries,
                StartTime=dt.datetime.fromtimestamp(start, dt.UTC),
                EndTime=dt.datetime.fromtimestamp(end, dt.UTC),
            )
        )
        for page in pages:
            for series in page.get("MetricDataResults", []):
                values = zip(series.get("Timestamps", []), series.get("Values", []), strict=True)
                found[series.get("Id", "")] |= {at.timestamp(): value for at, value in values}
        return found


def _at(series: Mapping[str, Mapping[float, float]], minute: float) -> dict[str, float]:
    """Return the failures that a variant's metrics count in a minute; SageMaker publishes none without failures."""
    return {name: series[name][minute] for name in METRICS if minute in series[name]}
