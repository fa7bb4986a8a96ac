"""The Lambda context of a handler, and its log lines and metrics."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest


class StandardOutput:
    """Standard output as it is when something is written: pytest replaces it in every phase of a test."""

    def write(self, text: str) -> int:
        return sys.stdout.write(text)

    def flush(self) -> None:
        sys.stdout.flush()


@dataclass
class CapturedLogs:
    """All that was written to standard output and standard error."""

    capsys: pytest.CaptureFixture[str]
    _so_far: str = field(default="")

    def text(self) -> str:
        written = self.capsys.readouterr()
        self._so_far += written.out + written.err
        return self._so_far

    def lines(self) -> list[dict[str, Any]]:
        """The log lines, without the metrics; fails where something else than JSON was written."""
        return [line for line in self._objects() if "_aws" not in line]

    def line(self, message: str) -> dict[str, Any]:
        (found,) = [line for line in self.lines() if line["message"] == message]
        return found

    def metrics(self) -> dict[str, list[float]]:
        """Every published metric's values."""
        return {
            metric["Name"]: line[metric["Name"]]
            for line in self._objects()
            if "_aws" in line
            for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
        }

    def units(self) -> dict[str, str]:
        return {
            metric["Name"]: metric["Unit"]
            for line in self._objects()
            if "_aws" in line
            for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
        }

    def _objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]
