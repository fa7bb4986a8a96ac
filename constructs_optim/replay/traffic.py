"""Recorded traffic: the time of each request, and its tokens.

Formats: SageMaker's data capture (``constructs-optim captures``) with token counts in responses; traces of Mooncake and
AIPerf; CSV with the columns of Azure's or BurstGPT's traces, or ``seconds,input_tokens,output_tokens``.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from constructs_optim.evaluator.datasets import TRACES
from constructs_optim.recipe.objectives import MOST_TOKENS
from constructs_optim.runtime.documents import json_value, nested
from constructs_optim.runtime.shadow.captures import read_captures

_USAGE = ("prompt_tokens", "completion_tokens")
_MOST_DAYS = 92


class TrafficError(ValueError):
    """A file without traffic to replay."""


@dataclass(frozen=True)
class Traffic:
    """Requests in the order of their arrival: seconds since the first request, input and output tokens.

    ``start`` is the time of the first request, if the file has clock times. ``left_out`` is the number of requests
    without tokens.
    """

    seconds: array[float] = field(default_factory=lambda: array("d"))
    input_tokens: array[int] = field(default_factory=lambda: array("l"))
    output_tokens: array[int] = field(default_factory=lambda: array("l"))
    start: dt.datetime = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def duration(self) -> float:
        """Seconds from the first request to the last."""
        return self.seconds[-1] if self.seconds else 0.0

    @property
    def lengths(self) -> tuple[float, float]:
        """The mean input and output tokens."""
        return sum(self.input_tokens) / len(self), sum(self.output_tokens) / len(self)


@dataclass(frozen=True)
class _Request:
    at: float
    is_clock: bool
    input_tokens: int | None
    output_tokens: int | None


def read_traffic(path: Path, lengths: tuple[int | None, int | None] = (None, None)) -> Traffic:
    """Read the traffic of a file; ``lengths`` are the tokens of requests whose own are unknown.

    Raises:
        TrafficError: if no request has a time, or the tokens of all requests are unknown.
    """
    try:
        requests = sorted(_requests(path), key=lambda request: request.at)
    except OSError as error:
        raise TrafficError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, csv.Error) as error:
        raise TrafficError(f"{path} is not traffic: {error}") from None
    if not requests:
        raise TrafficError(f"{path} has no request with a time, so there is nothing to replay")
    first, last = requests[0], requests[-1]
    if last.at - first.at > _MOST_DAYS * 86_400:
        raise TrafficError(
            f"{path} has requests over {(last.at - first.at) / 86_400:,.0f} days, which is more than {_MOST_DAYS}: "
            "remove the requests of other periods"
        )
    start = dt.datetime.fromtimestamp(first.at, dt.UTC) if first.is_clock else Traffic.start
    traffic = Traffic(start=start)
    left_out = 0
    for request in requests:
        given = lengths[0] if request.input_tokens is None else request.input_tokens
        expected = lengths[1] if request.output_tokens is None else request.output_tokens
        if not given or not expected:
            left_out += 1
            continue
        traffic.seconds.append(request.at - first.at)
        traffic.input_tokens.append(given)
        traffic.output_tokens.append(expected)
    if not len(traffic):
        raise TrafficError(
            f"{path} does not say how many tokens its requests have: captures do if responses include "
            "usage; for other files, set --input-tokens and --output-tokens"
        )
    return Traffic(traffic.seconds, traffic.input_tokens, traffic.output_tokens, start, left_out)


def _requests(path: Path) -> Iterator[_Request]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        if not first.strip():
            return
        file.seek(0)
        if first.lstrip().startswith("{"):
            for number, line in enumerate(file, start=1):
                try:
                    request = _of_line(line) if line.strip() else None
                except ValueError as error:
                    raise ValueError(f"line {number}: {error}") from None
                if request is not None:
                    yield request
            return
        rows = csv.DictReader(file)
        columns = next((tuple(each) for each in TRACES if each.keys() <= {*(rows.fieldnames or ())}), None)
        if columns is None:
            wanted = " or ".join(",".join(each) for each in TRACES)
            raise ValueError(f"it starts with {first.strip()[:200]!r} instead of the columns {wanted}")
        for row in rows:
            at, is_clock = _moment(row[columns[0]])
            yield _Request(at, is_clock, _tokens(row[columns[1]]), _tokens(row[columns[2]]))


def _of_line(line: str) -> _Request | None:
    document = json_value(line)
    if not isinstance(document, dict):
        raise ValueError(f"{line.strip()[:200]!r} is not a JSON object")
    if "captureData" in document:
        return _of_capture(line)
    if "timestamp" not in document:
        return None
    # Mooncake and AIPerf use milliseconds.
    at, is_clock = _moment(document["timestamp"])
    at = at if is_clock else at / 1000
    return _Request(at, is_clock, _tokens(document.get("input_length")), _tokens(document.get("output_length")))


def _of_capture(line: str) -> _Request | None:
    captures = read_captures(line.encode(), answered=False).captures
    if not captures or not captures[0].inference_time:
        return None
    capture = captures[0]
    given, expected = (_tokens(nested(capture.response, "usage", name)) for name in _USAGE)
    at, _ = _moment(capture.inference_time)
    return _Request(at, True, given, expected)


def _moment(value: object) -> tuple[float, bool]:
    """Return seconds, and whether they are clock times.

    Raises:
        ValueError: if the value is not a time.
    """
    text = str(value)
    with suppress(ValueError):
        if math.isfinite(at := float(text)):
            return at, False
    try:
        moment = dt.datetime.fromisoformat(text)
        in_utc = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
        # In the last moments of the year 9999, the seconds are rounded to the year 10000.
        dt.datetime.fromtimestamp(in_utc.timestamp(), dt.UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:200]!r} is not a time, such as 12.5 (seconds) or 2026-11-02T10:00:00Z") from None
    return in_utc.timestamp(), True


def _tokens(value: object) -> int | None:
    """Return a number of tokens, which is 0 for a failed request; None if the value is not one."""
    try:
        count = float(str(value))
    except ValueError:
        return None
    return round(count) if 0 <= count <= MOST_TOKENS else None
