"""The folder of an evaluation: its options, and every request as soon as it has ended.

run.json                          the options, so that it can be resumed by the folder's name alone
prompts.jsonl                     a copy of the prompts
<side>/requests-<concurrency>.jsonl   a line a request; a line at the end of each segment
<side>.json, levels.csv, comparison.json, report.html    the results, written by ``report``
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from constructs_optim.recipe.evaluation.calculation import ErrorKind

from .load import MeasuredLevel, Record, Segment
from .options import EvaluationError, Options
from .prompts import describe_errors

_VERSION = 2


class RunDirectory:
    """Reads and writes the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.prompts: Path = path / "prompts.jsonl"
        self._run = path / "run.json"

    def create(self, options: Options, prompts: str) -> None:
        """Begin an evaluation."""
        if self._run.exists():
            raise EvaluationError(
                f"{self.path} holds an evaluation already: go on with it (--resume {self.path}), or choose another "
                "folder (--output)"
            )
        content = {"version": _VERSION, **options.model_dump(mode="json")}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.prompts.write_text(prompts, encoding="utf-8")
            self._run.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise EvaluationError(f"nothing can be written to {self.path}: {error}") from None

    def options(self) -> Options:
        """The options that the evaluation was started with."""
        try:
            content = json.loads(self._run.read_text(encoding="utf-8"))
            if content.pop("version", None) != _VERSION:
                raise EvaluationError(
                    f"{self.path} holds an evaluation of another version: evaluate anew with another --output"
                )
            return Options.model_validate(content)
        except ValidationError as error:
            raise EvaluationError(f"{self._run} has been changed: {describe_errors(error)}") from None
        except (OSError, ValueError, AttributeError) as error:
            raise EvaluationError(f"{self.path} holds no evaluation to go on with: {error}") from None

    def measured(self, side: str, concurrency: int) -> MeasuredLevel:
        """The requests of a side at a concurrency; a last line that was not written whole is passed over."""
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
                    level.records.append(_record(data))
            except (ValueError, TypeError, KeyError) as error:
                if number < len(lines) and line.endswith("}"):
                    raise EvaluationError(f"{path}, line {number}, is no request: {error!r}") from None
        return level

    @contextlib.contextmanager
    def append(self, side: str, concurrency: int, level: MeasuredLevel) -> Iterator[Callable[[Record], None]]:
        """Add the requests of a segment to a level's file, and the segment's end when the level has it."""
        path = self._requests(side, concurrency)
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        number, before = level.next_segment, len(level.segments)
        # A line at a time: what has been measured is there, however this process ends.
        with path.open("a", encoding="utf-8", buffering=1) as file:
            if torn:
                file.write("\n")
            try:
                yield lambda record: _write_record(file, record)
            finally:
                for segment in level.segments[before:]:
                    _write_end(file, number, segment)

    def rewrite(self, side: str, concurrency: int, level: MeasuredLevel) -> None:
        """Write a finished level anew, with its tokens counted."""
        path = self._requests(side, concurrency)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            for record in level.records:
                _write_record(file, record)
            for number, segment in enumerate(level.segments):
                _write_end(file, number, segment)
        new.replace(path)

    def _requests(self, side: str, concurrency: int) -> Path:
        return self.path / side / f"requests-{concurrency}.jsonl"


def _write_record(file: IO[str], record: Record) -> None:
    """Write one request, without what is not known and what is not so."""
    known = {name: value for name, value in asdict(record).items() if value not in (None, "") and value is not False}
    file.write(json.dumps(known) + "\n")


def _write_end(file: IO[str], number: int, segment: Segment) -> None:
    content = asdict(segment) | {"segment_end": number, "lag_p99": round(segment.lag_p99, 3)}
    file.write(json.dumps(content) + "\n")


def _record(data: dict[str, Any]) -> Record:
    # Not by pydantic, which refuses text with half a character: a server may send one.
    known: dict[str, Any] = {part.name: data[part.name] for part in fields(Record) if part.name in data}
    if known.get("error"):
        known["error"] = ErrorKind(known["error"])
    return Record(**known)
