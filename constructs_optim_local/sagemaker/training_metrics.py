"""The metrics of a training job, found in its output by the regular expressions of its ``MetricDefinitions``.

Source: developer guide, "Use Amazon CloudWatch Logs for logging training jobs" and API reference, MetricDefinition: the
first group of an expression is the value. Assumed, for no source says so: what an expression without a group gives (all
that it matches), and that of several matches in a line each counts.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import threading
from collections.abc import Sequence
from typing import Any

from .records import Record


class TrainingMetrics:
    """What a job's output says so far. ``definitions`` are the job's; their expressions compile."""

    def __init__(self, definitions: Sequence[Record]) -> None:
        self._definitions = [(item["Name"], re.compile(item["Regex"])) for item in definitions]
        self._lock = threading.Lock()
        self._last: dict[str, tuple[float, dt.datetime]] = {}
        self._unpublished: list[tuple[str, float, dt.datetime]] = []

    def read(self, line: str, at: dt.datetime) -> None:
        """Look at a line of the output."""
        for name, expression in self._definitions:
            for found in expression.finditer(line):
                value = _number(found[1] if expression.groups else found[0])
                if value is not None:
                    with self._lock:
                        self._last[name] = value, at
                        self._unpublished.append((name, value, at))

    def final(self) -> list[dict[str, Any]]:
        """``FinalMetricDataList``: the last value of each, in the order of the definitions."""
        with self._lock:
            last = dict(self._last)
        names = dict.fromkeys(name for name, _ in self._definitions)
        return [
            {"MetricName": name, "Value": last[name][0], "Timestamp": last[name][1]} for name in names if name in last
        ]

    def take(self) -> list[tuple[str, float, dt.datetime]]:
        """The values since the last call, for CloudWatch."""
        with self._lock:
            taken, self._unpublished = self._unpublished, []
        return taken


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
