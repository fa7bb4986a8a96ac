"""What a preview draws: sample metrics, or recorded ones."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from .dashboard_preview import DashboardPreview, PreviewError

PERIOD_SECONDS = 60
_RANGE = re.compile(r"-PT?(\d+)([MHDW])")
_SECONDS = {"M": 60, "H": 3600, "D": 86_400, "W": 604_800}
_MOST_POINTS = 720
# Any fixed day: a preview of the same app is the same picture.
_NOON = dt.datetime(2026, 1, 15, 12, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Row:
    """One metric of a graph: ``.`` of the row before is written out, and rendering properties stand apart."""

    namespace: str
    metric_name: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str
    rendering: Mapping[str, Any] = field(hash=False)

    @property
    def id(self) -> str | None:
        """Its id in metric math."""
        return self.rendering.get("id")


@dataclass(frozen=True)
class TimeRange:
    """The times of a preview's values, a period apart."""

    end: dt.datetime
    points: int
    period_seconds: int
    recorded: bool = False

    @property
    def times(self) -> list[dt.datetime]:
        """Every time, the oldest first."""
        step = dt.timedelta(seconds=self.period_seconds)
        return [self.end - step * (self.points - 1 - place) for place in range(self.points)]


class MetricSource(Protocol):
    """Where values come from."""

    def time_range(self, preview: DashboardPreview) -> TimeRange:
        """The times that a dashboard shows."""
        ...

    def values(self, row: Row, span: TimeRange, *, scale: float, rank: int) -> list[float | None]:
        """A metric's values at the times of ``span``.

        ``scale`` says how many of the published units are one: percentages that are added up over four GPUs have 4.
        ``rank`` tells the sides of a comparison apart, 0 for the first.
        """
        ...


def metric_rows(properties: Mapping[str, Any]) -> list[Row | Mapping[str, Any]]:
    """The ``metrics`` of a graph: rows of metrics, and the properties of expressions."""
    found: list[Row | Mapping[str, Any]] = []
    before: list[Any] = []
    for entry in properties.get("metrics", []):
        rendering = entry[-1] if isinstance(entry[-1], dict) else {}
        parts = [part for part in entry if not isinstance(part, dict)]
        if not parts:
            found.append(rendering)
            continue
        parts = [before[place] if part == "." else part for place, part in enumerate(parts)]
        before = parts
        dimensions = tuple(zip(parts[2::2], parts[3::2], strict=True))
        statistic = rendering.get("stat") or properties.get("stat") or "Average"
        found.append(Row(parts[0], parts[1], dimensions, statistic, rendering))
    return found


class SampleMetrics:
    """Made-up values that look like a working day: always the same for the same metric."""

    def __init__(self, units: Mapping[tuple[str, str], str]) -> None:
        """Prepare to make values up.

        Args:
            units: the published unit by namespace and metric name; others are counts.
        """
        self._units = units

    def time_range(self, preview: DashboardPreview) -> TimeRange:
        """As far back as the dashboard looks, up to the newest deployment that is marked in it, or to noon."""
        marks = [
            dt.datetime.fromisoformat(mark["value"])
            for widget in preview.widgets
            for mark in widget.get("properties", {}).get("annotations", {}).get("vertical", [])
            if isinstance(mark, dict) and _is_time(mark.get("value"))
        ]
        end = max(marks) + dt.timedelta(hours=1) if marks else _NOON
        matched = _RANGE.fullmatch(preview.start)
        seconds = int(matched[1]) * _SECONDS[matched[2]] if matched else 3 * 3600
        period = max(PERIOD_SECONDS, math.ceil(seconds / _MOST_POINTS / 60) * 60)
        return TimeRange(end, seconds // period + 1, period)

    def values(self, row: Row, span: TimeRange, *, scale: float, rank: int) -> list[float | None]:
        """A metric's values: more traffic means more of everything else."""
        named = dict(row.dimensions)
        if "Concurrency" in named:
            return [self._evaluated(row, int(named["Concurrency"]), rank)] * span.points
        noise = random.Random(f"{row.namespace} {row.metric_name} {row.dimensions}")  # noqa: S311 - a picture
        own = hashlib.sha256(str(row.dimensions).encode()).digest()
        shift, share = own[0] / 512, 0.7 + own[1] / 850
        return [
            self._live(
                row, share * _traffic(place / max(span.points - 1, 1) + shift), noise, scale, span.period_seconds
            )
            for place in range(span.points)
        ]

    def _live(self, row: Row, traffic: float, noise: random.Random, scale: float, period: int) -> float:
        unit, jitter = self._units.get((row.namespace, row.metric_name), "Count"), noise.gauss(1, 0.04)
        instances = 1 + (traffic > 0.45) + (traffic > 0.8)
        if row.statistic == "SampleCount":
            return float(instances * period / 60)
        if "Error" in row.metric_name:
            return float(noise.random() < 0.06 * traffic) * noise.choice([1, 1, 2, 3])
        if unit == "Microseconds":
            base = {"Overhead": 9_000, "FirstChunk": 260_000}
            typical = next((value for start, value in base.items() if row.metric_name.startswith(start)), 2_400_000)
            return typical * (0.75 + 0.5 * traffic) * _of_statistic(row.statistic) * jitter
        if unit == "Percent":
            typical = {"GPUMemory": 86, "GPUReservation": 100, "GPU": 78, "CPU": 22, "MemoryR": 50, "Memory": 41}
            share = next((value for start, value in typical.items() if row.metric_name.startswith(start)), 35)
            swing = 1 if share in (86, 100, 50, 35) else 0.45 + 0.55 * traffic
            highest = 1.08 if row.statistic == "Maximum" else 1
            steady = 1 if share in (100, 50) else 1 + (jitter - 1) * (0.2 if swing == 1 else 1)
            return min(share * swing * highest * steady, 100) * scale
        if row.metric_name.startswith("Concurrent"):
            return round(max(9 * traffic / instances * 1.6 * jitter * (0.3 if row.statistic == "Minimum" else 1), 0))
        invocations = round(180 * traffic * jitter * period / 60)
        return invocations / instances if "Per" in row.metric_name else float(invocations)

    def _evaluated(self, row: Row, concurrency: int, rank: int) -> float:
        """What an evaluation measured: the second side of a comparison is the better one."""
        unit, name = self._units.get((row.namespace, row.metric_name), "Count"), row.metric_name
        if name == "Concurrency":
            return float(concurrency)
        if unit == "Milliseconds":
            typical = {"TimeToFirstToken": 180, "InterTokenLatency": 36}
            base = next((value for start, value in typical.items() if name.startswith(start)), 7_400)
            spread = _of_statistic(name[-3:].lower()) if name[-3:-2] == "P" else 1.1
            return base * (1 + 0.05 * concurrency) * spread * (0.55 if rank else 1)
        if "Price" in name:
            return (0.5 if rank else 1) * {"Instance": 7.09, "Blended": 1.9}.get(name.removesuffix("PerHour")[:7], 5.6)
        if unit == "Count/Second":
            each = 26 * (1.8 if rank else 1) * (4 if name.startswith("Input") else 1)
            return each if name.endswith("PerRequest") else each * concurrency**0.85
        if name in ("InputTokens", "OutputTokens"):
            return 622.0 if name == "InputTokens" else 250.0
        if name == "ClientInvocations":
            return 64.0 * concurrency
        return 0.0


class RecordedMetrics:
    """Values of ``aws cloudwatch get-metric-data``, found by the ids that a dashboard's metrics have."""

    def __init__(self, results: Sequence[Mapping[str, Any]]) -> None:
        self._by_id: dict[str, dict[dt.datetime, float]] = {}
        for result in results:
            points = self._by_id.setdefault(str(result["Id"]), {})
            for at, value in zip(result["Timestamps"], result["Values"], strict=True):
                points[dt.datetime.fromisoformat(str(at)).astimezone(dt.UTC)] = float(value)

    @classmethod
    def read(cls, path: Path) -> RecordedMetrics:
        """The metrics of a file.

        Raises:
            PreviewError: where it does not hold what ``get-metric-data`` answers.
        """
        try:
            return cls(json.loads(path.read_text(encoding="utf-8"))["MetricDataResults"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PreviewError(
                f"{path} does not hold what `aws cloudwatch get-metric-data --output json` answers "
                f"(MetricDataResults with Id, Timestamps and Values): {error!r}"
            ) from None

    def time_range(self, preview: DashboardPreview) -> TimeRange:
        """From the oldest to the newest value of any metric, a period of theirs apart.

        Raises:
            PreviewError: where there are no values.
        """
        times = sorted({at for points in self._by_id.values() for at in points})
        if not times:
            raise PreviewError("the recorded metrics have no values at all: was the time range right?")
        gaps = [int((after - before).total_seconds()) for before, after in pairwise(times)]
        period = min(gaps, default=PERIOD_SECONDS)
        points = int((times[-1] - times[0]).total_seconds()) // period + 1
        return TimeRange(times[-1], points, period, recorded=True)

    def values(self, row: Row, span: TimeRange, *, scale: float, rank: int) -> list[float | None]:
        """A metric's values, None where none was recorded."""
        points = self._by_id.get(row.id or "", {})
        return [points.get(at) for at in span.times]


def metric_data_queries(preview: DashboardPreview, *, period_seconds: int = PERIOD_SECONDS) -> list[dict[str, Any]]:
    """The ``--metric-data-queries`` that record what a dashboard shows."""
    queries: dict[str, dict[str, Any]] = {}
    for widget in preview.widgets:
        for row in metric_rows(widget.get("properties", {})) if widget["type"] == "metric" else []:
            if not isinstance(row, Row) or row.id is None:
                continue
            dimensions = [{"Name": name, "Value": value} for name, value in row.dimensions]
            metric = {"Namespace": row.namespace, "MetricName": row.metric_name, "Dimensions": dimensions}
            queries.setdefault(
                row.id,
                {"Id": row.id, "MetricStat": {"Metric": metric, "Period": period_seconds, "Stat": row.statistic}},
            )
    return list(queries.values())


def _traffic(place: float) -> float:
    """Between 0.1 and 1: two waves, as of a morning and its coffee break."""
    return 0.55 + 0.33 * math.sin(2 * math.pi * (place - 0.2)) + 0.1 * math.sin(9 * place)


def _of_statistic(statistic: str) -> float:
    return {"p50": 1.0, "p90": 1.6, "p99": 2.4, "Maximum": 3.0, "Minimum": 0.4}.get(statistic, 1.1)


def _is_time(value: object) -> bool:
    try:
        return dt.datetime.fromisoformat(str(value)).tzinfo is not None
    except ValueError:
        return False
