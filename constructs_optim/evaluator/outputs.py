"""What an evaluation leaves: JSON for machines, CSV for spreadsheets, and a page for people."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from constructs_optim.recipe.evaluation.calculation import ErrorKind
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.metrics.evaluation import EVALUATION

from .comparison import Answers, answers, changes, comparison_data
from .prompts import Prompt
from .records import Record
from .report_page import page
from .report_plots import COLORS, Shown
from .run_directory import MeasuredLevel, RunDirectory

REPORT = "report.html"
_TABLE, _COMPARISON = "levels.csv", "comparison.json"


def write_outputs(
    directory: RunDirectory, results: Sequence[tuple[str, EvaluationResult]], prompts: Sequence[Prompt]
) -> Answers | None:
    """Write ``<side>.json``, ``levels.csv``, ``report.html`` and, of two sides, ``comparison.json``.

    Args:
        directory: where to.
        results: by the name of their side; of two, the baseline comes first.
        prompts: that were asked.

    Returns:
        How alike the answers of two sides are; None of one side.
    """
    for name, result in results:
        (directory.path / f"{name}.json").write_text(result.to_json(), encoding="utf-8")
    (directory.path / _TABLE).write_text(table([result for _, result in results]), encoding="utf-8")
    measured = [
        {each.concurrency: directory.measured(name, each.concurrency) for each in result.levels}
        for name, result in results
    ]
    colors = COLORS if len(results) > 1 else COLORS[1:]
    sides = [Shown(result, levels, color) for (_, result), levels, color in zip(results, measured, colors, strict=True)]
    compared, found = None, None
    if len(results) > 1:
        compared = changes(results[0][1], results[1][1])
        found = answers(prompts, *(_records(levels) for levels in measured))
        data = json.dumps(comparison_data(compared, found), indent=1)
        (directory.path / _COMPARISON).write_text(data + "\n", encoding="utf-8")
    (directory.path / REPORT).write_text(page(sides, compared, found), encoding="utf-8")
    return found


def table(results: Sequence[EvaluationResult]) -> str:
    """CSV with a row for each subject and concurrency; what is not known is empty."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    metrics = [metric.name for metric in EVALUATION]
    writer.writerow(["label", "seconds", "complete", *metrics, *(f"errors_{kind.value}" for kind in ErrorKind)])
    for result in results:
        for level in result.levels:
            writer.writerow(
                [
                    result.subject.label,
                    level.seconds,
                    str(level.complete).lower(),
                    *(level.metrics.get(name, "") for name in metrics),
                    *(level.errors.get(kind, 0) for kind in ErrorKind),
                ]
            )
    return written.getvalue()


def outputs_in(path: Path) -> list[Path]:
    """The files that were written, for people to be told of."""
    return sorted(
        each for each in path.iterdir() if each.suffix in (".json", ".csv", ".html") and each.name != "run.json"
    )


def _records(levels: dict[int, MeasuredLevel]) -> list[Record]:
    return [record for _, level in sorted(levels.items()) for record in level.records]
