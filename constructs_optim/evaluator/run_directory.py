"""The folder of an evaluation: what was asked for, and every request as soon as it has ended.

run.json                          the options, so that it can be resumed by the folder's name alone
prompts.jsonl                     a copy of the prompts
<side>/requests-<concurrency>.jsonl   a line a request; a line at the end of each segment
<side>.json, levels.csv, comparison.json, report.html    the results, written by ``outputs``
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .errors import EvaluationError
from .load import Load, Segment
from .records import Record

_RUN, PROMPTS = "run.json", "prompts.jsonl"
VERSION = 1


@dataclass
class MeasuredLevel:
    """What is there of one side at one concurrency.

    Attributes:
        records: of requests.
        segments: of which it was made, the finished ones.
    """

    records: list[Record] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether everything was sent that was to be sent."""
        return bool(self.segments) and self.segments[-1].complete

    @property
    def next_segment(self) -> int:
        """The number of the segment that goes on with it."""
        return max((record.segment for record in self.records), default=-1) + 1

    @property
    def seconds(self) -> float:
        """From each segment's first request to its last answer."""
        spans: dict[int, tuple[float, float]] = {}
        for record in self.records:
            first, last = spans.get(record.segment, (record.start, record.end))
            spans[record.segment] = min(first, record.start), max(last, record.end)
        return sum(last - first for first, last in spans.values())

    @property
    def lag_p99(self) -> float:
        """The worst of its segments', in milliseconds."""
        return max((segment.lag_p99 for segment in self.segments), default=0.0)


class RunDirectory:
    """Reads and writes the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, options: dict[str, Any], prompts: str) -> RunDirectory:
        """Begin an evaluation.

        Raises:
            EvaluationError: where there is one already, or where nothing can be written.
        """
        if (path / _RUN).exists():
            raise EvaluationError(
                f"{path} holds an evaluation already: go on with it (--resume {path}), or choose another folder "
                "(--output)"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / PROMPTS).write_text(prompts, encoding="utf-8")
            described = {"version": VERSION, **options}
            (path / _RUN).write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise EvaluationError(f"nothing can be written to {path}: {error}") from None
        return cls(path)

    def options(self) -> dict[str, Any]:
        """What was asked for.

        Raises:
            EvaluationError: where there is no evaluation, or one of another version.
        """
        try:
            options = json.loads((self.path / _RUN).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EvaluationError(f"{self.path} holds no evaluation to go on with: {error}") from None
        if options.pop("version", None) != VERSION:
            raise EvaluationError(
                f"{self.path} holds an evaluation of another version: evaluate anew with another --output"
            )
        return options

    @property
    def prompts(self) -> Path:
        """The copy of the prompts."""
        return self.path / PROMPTS

    def measured(self, side: str, concurrency: int) -> MeasuredLevel:
        """What is there of a side at a concurrency; a line that was not written whole is passed over.

        Raises:
            EvaluationError: where a line is something else.
        """
        level = MeasuredLevel()
        path = self._requests(side, concurrency)
        if not path.exists():
            return level
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                data = json.loads(line)
                if "segment_end" in data:
                    level.segments.append(Segment(data["complete"], data["lag_p99"], data["abandoned"]))
                else:
                    level.records.append(Record.from_data(data))
            except (ValueError, TypeError, KeyError) as error:
                if number < len(lines) and line.endswith("}"):
                    raise EvaluationError(f"{path}, line {number}, is no request: {error!r}") from None
        return level

    @contextlib.contextmanager
    def appended(self, side: str, concurrency: int) -> Iterator[RequestFile]:
        """The file to which the requests of a side at a concurrency are added."""
        path = self._requests(side, concurrency)
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        # A line at a time: what has been measured is there, however this process ends.
        with path.open("a", encoding="utf-8", buffering=1) as file:
            if torn:
                file.write("\n")
            yield RequestFile(file)

    def rewritten(self, side: str, concurrency: int, level: MeasuredLevel) -> None:
        """Write a finished level anew, with its tokens counted."""
        path = self._requests(side, concurrency)
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            requests = RequestFile(file)
            for record in level.records:
                requests.add(record)
            for number, segment in enumerate(level.segments):
                requests.end(number, segment)
        new.replace(path)

    def remaining(self, load: Load, level: MeasuredLevel) -> bool:
        """Whether there is something left to send of a load."""
        if level.complete:
            return False
        if load.requests is not None:
            return len(level.records) < load.requests
        return load.seconds is None or level.seconds < load.seconds

    def _requests(self, side: str, concurrency: int) -> Path:
        return self.path / side / f"requests-{concurrency}.jsonl"


class RequestFile:
    """A file of requests that is being written."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def add(self, record: Record) -> None:
        """One request."""
        self._file.write(record.to_json() + "\n")

    def end(self, number: int, segment: Segment) -> None:
        """The end of a segment."""
        told = {
            "segment_end": number,
            "complete": segment.complete,
            "lag_p99": round(segment.lag_p99, 3),
            "abandoned": segment.abandoned,
        }
        self._file.write(json.dumps(told) + "\n")
