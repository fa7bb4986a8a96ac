"""The folder of an evaluation: its options, and its requests as they end.

================================  =================================================================
``run.json``                      the options, so that the folder's name is enough to resume it
``prompts.jsonl``                 a copy of the prompts
``<side>/requests-<load>.jsonl``  a line for each request; at the end a line for each segment
``<side>.json``                   the results of a side, which ``report`` writes, as it does the others
``levels.csv``                    the results of all loads
``comparison.json``               the differences between the sides
``report.html``                   the report
================================  =================================================================
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from constructs_optim.recipe.errors import listed_mistakes
from constructs_optim.runtime.documents import json_value

from .datasets import write_prompts
from .load import MeasuredLevel, Segment
from .options import EvaluationError, Load, Options
from .prompts import Prompt
from .requests import ErrorKind
from .streaming import Record


class RunDirectory:
    """Reads and writes the folder of an evaluation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.prompts: Path = path / "prompts.jsonl"
        self._run = path / "run.json"

    def create(self, options: Options, prompts: Sequence[Prompt]) -> None:
        """Create the folder of a new evaluation."""
        # An evaluation without any request can be overwritten.
        if self._run.exists() and any(self.path.glob("*/requests-*.jsonl")):
            raise EvaluationError(
                f"{self.path} already contains an evaluation: resume it (--resume {self.path}), or choose another "
                "folder (--output)"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_prompts(self.prompts, prompts)
            self.save(options)
        except OSError as error:
            raise EvaluationError(f"{self.path} is not writable: {error}") from None

    def save(self, options: Options) -> None:
        """Replace the options, after loads were added."""
        self._run.write_text(options.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def options(self) -> Options:
        """Return the options that the evaluation was started with."""
        try:
            return Options.model_validate_json(self._run.read_bytes())
        except OSError as error:
            raise EvaluationError(f"{self.path} contains no evaluation to resume: {error}") from None
        except ValidationError as error:
            reason = f"it was changed, or another version wrote it ({listed_mistakes(error)})"
            raise EvaluationError(f"{self._run} cannot be resumed: {reason}") from None

    def measured(self, side: str, load: Load) -> MeasuredLevel:
        """Return the requests of a side under a load; an incomplete last line is ignored."""
        level = MeasuredLevel()
        path = self._requests(side, load)
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                data: Any = json_value(line)
                if data.pop("segment_end", None) is not None:
                    level.segments.append(Segment(**data))
                else:
                    error = ErrorKind(data.pop("error")) if "error" in data else None
                    level.records.append(Record(**data, error=error))
            except (ValueError, TypeError, AttributeError) as error:
                if number < len(lines):
                    raise EvaluationError(f"{path}, line {number}, is not a request: {error!r}") from None
        return level

    @contextlib.contextmanager
    def append(self, side: str, load: Load, level: MeasuredLevel) -> Iterator[Callable[[Record], None]]:
        """Append requests to a level's file as they end, and its new segments at the end."""
        self.rewrite(side, load, level)
        try:
            # Line-buffered, so that ended requests are in the file even if this process is killed.
            with self._requests(side, load).open("a", encoding="utf-8", buffering=1) as file:
                yield lambda record: print(_record_line(record), file=file)
        finally:
            self.rewrite(side, load, level)

    def rewrite(self, side: str, load: Load, level: MeasuredLevel) -> None:
        """Write the whole file of a level."""
        path = self._requests(side, load)
        path.parent.mkdir(parents=True, exist_ok=True)
        segments = (json.dumps(asdict(segment) | {"segment_end": n}) for n, segment in enumerate(level.segments))
        lines = [*map(_record_line, level.records), *segments]
        new = path.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        new.replace(path)

    def _requests(self, side: str, load: Load) -> Path:
        return self.path / side / f"requests-{load.file_name}.jsonl"


_DEFAULTS = asdict(Record(start=-1.0, end=-1.0))


def _record_line(record: Record) -> str:
    """Return the JSON of a request, without fields that have their default."""
    known = {name: value for name, value in asdict(record).items() if value != _DEFAULTS.get(name)}
    return json.dumps(known)
