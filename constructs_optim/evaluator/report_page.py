"""An evaluation as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from constructs_optim.recipe.evaluation.calculation import PARTS, ErrorKind
from constructs_optim.recipe.metrics.definition import MetricDefinition, Part, Unit
from constructs_optim.recipe.metrics.evaluation import EVALUATION

from .comparison import NOISE, Answers, Change
from .report_plots import Shown, plots

_STYLE = """
:root { color-scheme: light }
body { margin: 0; background: #f2f3f3; color: #16191f; font: 14px/1.5 system-ui, sans-serif }
main { max-width: 1180px; margin: 0 auto; padding: 20px }
h1 { font-size: 22px; margin: 8px 0 2px }
h2 { font-size: 16px; margin: 28px 0 8px } h3 { font-size: 14px; margin: 14px 0 4px }
p.lead { color: #687078; margin: 0 0 12px }
section, table, details { background: #fff; border: 1px solid #e3e6e8; border-radius: 4px }
section { padding: 10px 14px }
table { border-collapse: collapse; width: 100% }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid #eef0f1; white-space: nowrap }
th { white-space: normal; vertical-align: bottom }
th:first-child, td:first-child { text-align: left }
thead th { color: #687078; font-weight: 600; border-bottom: 1px solid #d5dbdb } tr:last-child td { border-bottom: 0 }
td.better { color: #1d7a1d } td.worse { color: #b7410e } td.same { color: #687078 }
div.scroll { overflow-x: auto }
div.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(440px, 1fr)); gap: 10px }
div.plots img { width: 100%; background: #fff; border: 1px solid #e3e6e8; border-radius: 4px; box-sizing: border-box }
div.answers { display: grid; grid-template-columns: 1fr 1fr; gap: 10px }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f8f9f9; padding: 8px; margin: 0; font-size: 12px }
details { padding: 8px 14px; margin: 6px 0 } summary { cursor: pointer; font-weight: 600 }
ul { margin: 4px 0; padding-left: 20px } .warning { color: #b7410e; font-weight: 600 }
"""
_SUMMARY = (
    "time_to_first_token_p50",
    "time_to_first_token_p99",
    "inter_token_latency_p50",
    "client_latency_p50",
    "output_tokens_per_second",
    "price_per_million_output_tokens",
    "blended_price_per_million_tokens",
    "client_invocation_errors",
)
_LONGEST_ANSWER = 1200


def page(
    sides: Sequence[Shown], compared: Mapping[int, Sequence[Change]] | None = None, answers: Answers | None = None
) -> str:
    """The report.

    Args:
        sides: one, or the baseline and what is compared with it.
        compared: what became of each metric, by concurrency. Default: nothing is compared.
        answers: how alike the answers are. Default: nothing is compared.
    """
    title = " against ".join(escape(side.label) for side in reversed(sides))
    complete = all(side.result.complete for side in sides)
    partial = "" if complete else '<p class="warning">Partial: the evaluation has not been finished.</p>'
    parts = [
        f"<h1>{title}</h1>{partial}{_lead(sides)}",
        f"<section>{''.join(_subject(side) for side in sides)}</section>",
        f"<h2>Summary</h2>{_summary(sides, compared)}",
        f'<h2>Plots</h2><div class="plots">{"".join(_plots(sides))}</div>{_missing_prices(sides)}',
        *([f"<h2>Answers</h2>{_answers(answers)}"] if answers is not None else []),
        f"<h2>Errors</h2>{_errors(sides)}",
        "<h2>All metrics</h2>",
        *(_part(part, sides) for part in PARTS),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>Evaluation of {title}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><main>\n{chr(10).join(parts)}\n</main></body>\n</html>\n"
    )


def readable(value: float) -> str:
    """A number as people read it: three digits, or all before the point."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def _lead(sides: Sequence[Shown]) -> str:
    result = sides[0].result
    work = result.workload
    limit = f"{work.requests} requests" if work.requests else f"{work.seconds:g} s" if work.seconds else ""
    generated = ", ".join(f"{name} {value}" for name, value in work.parameters.items())
    said = [
        result.started.strftime("%d %B %Y, %H:%M %Z").lstrip("0"),
        f"{work.prompts} prompt{'s' if work.prompts > 1 else ''}",
        f"{limit} at each concurrency" if limit else "",
        generated,
    ]
    return f'<p class="lead">{escape(" · ".join(filter(None, said)))}</p>'


def _subject(side: Shown) -> str:
    subject, price, work = side.result.subject, side.result.price, side.result.workload
    instances = f"{subject.instance_count or 1} × {subject.instance_type}" if subject.instance_type else None
    told = {
        "endpoint": subject.endpoint_name or subject.url,
        "variant": subject.variant_name,
        "inference component": subject.inference_component_name,
        "model": subject.model,
        "artifact": subject.artifact_key,
        "instances": instances,
        "price": f"${price.instance_price_per_hour:g} an hour ({price.source})" if price else None,
        "discount": f"{price.discount:.0%}" if price and price.discount else None,
        "format": work.format,
        "tokens counted by": f"the model's tokenizer ({work.tokenizer})" if work.tokenizer else work.tokens_counted_by,
    }
    listed = " · ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in told.items() if value)
    notes = "".join(f"<li>{escape(note)}</li>" for note in side.result.notes)
    return f'<h3 style="color:{side.color}">{escape(side.label)}</h3>{listed}{f"<ul>{notes}</ul>" if notes else ""}'


def _summary(sides: Sequence[Shown], compared: Mapping[int, Sequence[Change]] | None) -> str:
    shown = [metric for metric in EVALUATION if metric.name in _SUMMARY and _known(metric, sides)]
    columns = "".join(f"<th>{escape(metric.title)}{_unit(metric)}</th>" for metric in shown)
    rows: list[str] = []
    for concurrency in sorted({level.concurrency for side in sides for level in side.result.levels}):
        users = _users(concurrency)
        for side in sides:
            cells = "".join(f"<td>{_value(side, metric, concurrency)}</td>" for metric in shown)
            rows.append(f"<tr><td>{users}, {escape(side.label)}</td>{cells}</tr>")
        if compared and concurrency in compared:
            by_name = {change.name: change for change in compared[concurrency]}
            cells = "".join(_change(by_name.get(metric.name)) for metric in shown)
            rows.append(f"<tr><td>{users}, change</td>{cells}</tr>")
    note = f"<p>Changes of less than {NOISE:.0%} are called neither better nor worse.</p>" if compared else ""
    head = f"<thead><tr><th></th>{columns}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>{note}'


def _change(change: Change | None) -> str:
    if change is None:
        return "<td></td>"
    said = "new" if change.change is None else "±0%" if abs(change.change) < 0.005 else f"{change.change:+.0%}"
    return f'<td class="{change.verdict or "same"}">{said}</td>'


def _plots(sides: Sequence[Shown]) -> Iterator[str]:
    for title, svg in plots(sides).items():
        coded = base64.b64encode(svg.encode()).decode()
        yield f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{coded}">'


def _missing_prices(sides: Sequence[Shown]) -> str:
    without = [side.label for side in sides if side.result.price is None]
    if not without:
        return ""
    return f"<p>There are no prices of {escape(' and '.join(without))}: the notes above say why.</p>"


def _answers(answers: Answers) -> str:
    if not answers.compared:
        return "<p>No prompt was answered by both.</p>"
    share = answers.identical / answers.compared
    said = [
        f"{answers.identical} of {answers.compared} prompts ({share:.0%}) got the same answer, to the letter.",
        f"Similarity over all: {answers.similarity:.3f} (words in common and in order; 1 is the same)."
        if answers.similarity is not None
        else "",
        *(
            f"The {side} answered {answers.repeated[side]} prompts more than once, "
            f"{answers.consistent[side]} of them alike."
            for side in answers.repeated
            if answers.repeated[side]
        ),
        *(
            f"{matching:.0%} of the {side}'s answers contain the reference of their prompt."
            for side, matching in answers.reference.items()
        ),
    ]
    examples = "".join(
        f"<details><summary>Prompt {each.prompt + 1}, similarity {each.similarity:.2f}: "
        f'{escape(_shortened(each.asked, 90))}</summary><div class="answers">'
        f"<div><h3>baseline</h3><pre>{escape(_shortened(each.baseline, _LONGEST_ANSWER))}</pre></div>"
        f"<div><h3>optimized</h3><pre>{escape(_shortened(each.optimized, _LONGEST_ANSWER))}</pre></div></div></details>"
        for each in answers.differences
    )
    listed = "".join(f"<li>{escape(line)}</li>" for line in said if line)
    return f"<section><ul>{listed}</ul></section>{examples}"


def _errors(sides: Sequence[Shown]) -> str:
    kinds = [kind for kind in ErrorKind if any(kind in level.errors for s in sides for level in s.result.levels)]
    if not kinds:
        return "<p>No request failed.</p>"
    head = "".join(f'<th title="{escape(kind.meaning)}">{kind.value.replace("_", " ")}</th>' for kind in kinds)
    rows = "".join(
        f"<tr><td>{_users(level.concurrency)}, {escape(side.label)}</td>"
        + "".join(f"<td>{level.errors.get(kind, 0)}</td>" for kind in kinds)
        + "</tr>"
        for side in sides
        for level in side.result.levels
    )
    meanings = "".join(f"<li>{kind.value.replace('_', ' ')}: {escape(kind.meaning)}</li>" for kind in kinds)
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table><ul>{meanings}</ul>"


def _part(part: Part, sides: Sequence[Shown]) -> str:
    shown = [metric for metric in EVALUATION if metric.part is part and _known(metric, sides)]
    if not shown:
        return ""
    levels = [(level.concurrency, side) for side in sides for level in side.result.levels]
    head = "".join(f"<th>{escape(side.label)}, {concurrency}</th>" for concurrency, side in levels)
    rows = "".join(
        f'<tr><td title="{escape(metric.definition)}">{escape(metric.title)}{_unit(metric)}</td>'
        + "".join(f"<td>{_value(side, metric, concurrency)}</td>" for concurrency, side in levels)
        + "</tr>"
        for metric in shown
    )
    title = part.value.partition(": ")[2].capitalize()
    table = f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f"<details><summary>{title}</summary>{table}</details>"


def _known(metric: MetricDefinition, sides: Sequence[Shown]) -> bool:
    return any(metric.name in level.metrics for side in sides for level in side.result.levels)


def _value(side: Shown, metric: MetricDefinition, concurrency: int) -> str:
    level = next((level for level in side.result.levels if level.concurrency == concurrency), None)
    if level is None or metric.name not in level.metrics:
        return "–"
    return readable(level.metrics[metric.name])


def _unit(metric: MetricDefinition) -> str:
    return {Unit.MILLISECONDS: " (ms)", Unit.US_DOLLARS: " ($)"}.get(metric.shown_unit, "")


def _users(concurrency: int) -> str:
    return f"{concurrency} user{'s' if concurrency > 1 else ''}"


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
