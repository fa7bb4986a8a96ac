"""An evaluation's result as a document (read by ``recipe/evaluation_result.py``) and as a page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from ..documents import object_in
from ..requests.run_properties import EvaluationRequest
from .benchmark_output import Level
from .differences import Measured, intervals
from .evaluated_fleet import Fleet
from .forecasts import compared, other_fleet, outside
from .formatting import number
from .gate import Findings
from .token_counts import NOTABLE_DIFFERENCE

_SHOWN = (
    ("time_to_first_token_p50", "TTFT p50 (ms)"),
    ("time_to_first_token_p99", "TTFT p99 (ms)"),
    ("inter_token_latency_p50", "ITL p50 (ms)"),
    ("inter_token_latency_p99", "ITL p99 (ms)"),
    ("client_latency_p90", "client latency p90 (ms)"),
    ("output_tokens_per_second", "output tokens/s"),
    ("inputs_per_second", "inputs/s"),
    ("acceptance_length", "acceptance length"),
    ("drafts", "drafts"),
    ("client_invocations", "requests"),
    ("client_invocation_errors", "errors"),
    ("blended_price_per_million_tokens", "blended price per million tokens ($)"),
    ("price_per_million_input_tokens", "price per million input tokens ($)"),
)
# Columns of models that generate no text.
_OF_POOLED = frozenset({"inputs_per_second", "price_per_million_input_tokens"})


# Members of a level that the document has elsewhere, or in other words.
_NOT_IN_RESULT = ("observations", "server_counted", "uncounted")


class Measurement(NamedTuple):
    """What sent the requests, when, and what came of them, with notes about it."""

    tool: str
    started: dt.datetime
    ended: dt.datetime
    levels: Sequence[Level]
    notes: Sequence[str] = ()

    @staticmethod
    def of_job(job: Mapping[str, Any], levels: Sequence[Level], notes: Sequence[str] = ()) -> Measurement:
        """Return the measurement of a benchmark job that ended."""
        tool = f"aiperf, by the benchmark job {job['AIBenchmarkJobName']}"
        ended = job.get("EndTime") or dt.datetime.now(dt.UTC)
        return Measurement(tool, job.get("StartTime") or job["CreationTime"], ended, levels, notes)

    def priced(self, price_per_hour: float, discount: float) -> Measurement:
        """Return a copy with the metrics that depend on a price."""
        return self._replace(levels=[level.priced(price_per_hour, discount) for level in self.levels])


def result(request: EvaluationRequest, evaluated: Fleet, measurement: Measurement) -> dict[str, Any]:
    """Return the document; the notes of the measurement are added to its own notes."""
    levels = measurement.levels
    parameters = object_in(request.workload.get("parameters"))
    requests, seconds = parameters.get("request_count"), parameters.get("benchmark_duration")
    if (load := request.load) is not None:
        parameters = load.model_dump(mode="json", exclude_none=True)
        requests, seconds = load.requests, load.duration_seconds
    price = {
        "instance_price_per_hour": evaluated.price_per_hour,
        "discount": request.discount,
        "source": evaluated.price_source,
    }
    component, measured = request.inference_component_name, {level.concurrency: level.metrics for level in levels}
    recipe = next((each.recipe for each in request.subjects if each.instance_type == evaluated.instance_type), None)
    unlike = other_fleet(request.forecasts, evaluated.instance_type, evaluated.copies)
    forecasts = request.forecasts if unlike is None else ()
    forecast = [each.document for each in compared(forecasts, measured)]
    findings = [f"Not compared with the forecast: {unlike}."] if unlike is not None else []
    findings += [
        f"{each}. `constructs-optim recommend` with --store {request.bucket} forecasts with this measurement."
        for each in outside(forecasts, measured)
    ]
    return {
        "subject": {
            "label": request.label,
            "endpoint_name": request.endpoint_name,
            **({"variant_name": request.variant_name} if request.variant_name else {}),
            **({"inference_component_name": component} if component else {}),
            "artifact_key": evaluated.artifact_key,
            "instance_type": evaluated.instance_type,
            "instance_count": max(1, round(evaluated.count)),
            "copies": evaluated.copies,
            **({"recipe": recipe.model_dump(mode="json", exclude_none=True)} if recipe is not None else {}),
        },
        "workload": {
            "prompts": int(str(requests or 1)),
            "tool": measurement.tool,
            "format": "openai" if load is None else request.task,
            "parameters": {
                name: value for name, value in parameters.items() if isinstance(value, str | int | float | bool)
            },
            **({"requests": int(str(requests))} if requests else {}),
            **({"seconds": float(str(seconds))} if seconds else {}),
            "tokens_counted_by": "server"
            if load is not None or any("output" in level.server_counted for level in levels)
            else "tokenizer",
            **({"tokenizer": str(parameters["tokenizer"])} if parameters.get("tokenizer") else {}),
        },
        "started": measurement.started.isoformat(),
        "levels": [
            {name: value for name, value in asdict(level).items() if name not in _NOT_IN_RESULT}
            | {"intervals": intervals(Measured(level.metrics, level.sample))}
            for level in levels
        ],
        **({"price": price} if evaluated.price_per_hour is not None else {}),
        **({"forecast": forecast} if forecast else {}),
        "notes": [
            *evaluated.notes,
            *measurement.notes,
            *findings,
            *(note for level in levels for note in _level_notes(level)),
        ],
    }


def _level_notes(level: Level) -> Iterator[str]:
    for kind, difference in level.server_counted.items():
        if difference is not None and abs(difference) > NOTABLE_DIFFERENCE:
            yield (
                f"At {level.concurrency} users, the server counted {abs(difference):.1%} "
                f"{'more' if difference > 0 else 'fewer'} {kind} tokens than aiperf's tokenizer. Rates, inter-token "
                "latency, and prices use the server's count."
            )
    if level.uncounted:
        yield (
            f"At {level.concurrency} users, neither the server nor aiperf counted the tokens of {level.uncounted} "
            "responses, so token rates and the prices derived from them are missing."
        )
    if level.left_out:
        yield _left_out(level)


def _left_out(level: Level) -> str:
    return (
        f"At {level.concurrency} users, latencies and rates exclude {level.left_out} requests that were sent before "
        "every user had its first response."
    )


def markdown(document: Mapping[str, Any], found: Findings, measurements: int = 1) -> str:
    """Return the document as Markdown, with the differences from the replaced endpoint.

    ``measurements`` is the number of measurements behind the findings, of which the document is the first.
    """
    subject = document["subject"]
    # A column is shown only if this recipe has values for it.
    measured = {name for level in document["levels"] for name in level["metrics"]}
    hidden = frozenset[str]() if "inputs_per_second" in measured else _OF_POOLED
    shown = [(name, title) for name, title in _SHOWN if name in measured - hidden]
    columns = [title for _, title in shown]
    lines = [
        f"# Evaluation of {subject['label']}",
        "",
        f"{subject['endpoint_name']} on {subject['instance_count']} x {subject['instance_type']}, artifact "
        f"`{subject['artifact_key']}`, {document['started']}.",
        "",
        f"| users | {' | '.join(columns)} |",
        f"| ---: |{' ---: |' * len(columns)}",
    ]
    for level in document["levels"]:
        values = [level["metrics"].get(name) for name, _ in shown]
        cells = ["" if value is None else number(value) for value in values]
        lines.append(f"| {level['concurrency']} | {' | '.join(cells)} |")
    if price := document.get("price"):
        lines += [
            "",
            f"${number(price['instance_price_per_hour'])} an hour ({price['source']}), "
            f"{price['discount']:.0%} discount.",
        ]
    if forecasts := document.get("forecast"):
        lines += ["", "## Against the forecast", "", *_forecasts(forecasts)]
    notes = [*document["notes"]]
    if measurements > 1:
        notes.append(f"The verdict is that on {measurements} measurements together. The table shows the first one.")
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    if any(found.differences.values()):
        lines += ["", "## Against the replaced version", "", *_differences(found)]
    lines += [""] * bool(found.misses or found.undecided)
    lines += [f"- Not met: {miss}." for miss in found.misses]
    lines += [f"- Not decided: {undecided}." for undecided in found.undecided]
    return "\n".join(lines) + "\n"


def _forecasts(forecasts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| users | metric | forecast | 90% interval | measured | within |"
    yield "| ---: | --- | ---: | --- | ---: | --- |"
    for each in forecasts:
        interval, within = f"{number(each['low'])} to {number(each['high'])}", "yes" if each["holds"] else "no"
        yield (
            f"| {each['concurrency']} | {each['metric']} | {number(each['value'])} | {interval} | "
            f"{number(each['measured'])} | {within} |"
        )


def _differences(found: Findings) -> Iterator[str]:
    yield "| users | metric | before | after | change | 95% interval | verdict | requests that would decide |"
    yield "| ---: | --- | ---: | ---: | ---: | --- | --- | ---: |"
    for users, differences in found.differences.items():
        for each in differences:
            change = "" if each.change is None else f"{each.change:+.1%}"
            interval = "" if each.low is None or each.high is None else f"{each.low:+.1%} to {each.high:+.1%}"
            cells = [number(each.before), number(each.after), change, interval, each.verdict, each.requests or ""]
            yield f"| {users} | {each.name} | {' | '.join(map(str, cells))} |"
