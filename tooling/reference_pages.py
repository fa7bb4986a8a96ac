"""Writes docs/rules.md and docs/metrics.md: the pages of all rules and of all metrics."""

from __future__ import annotations

from pathlib import Path

from constructs_optim.recipe.metrics import MetricDefinition, Unit, by_name, engines
from constructs_optim.recipe.rules import all_rules

_DOCS = Path(__file__).resolve().parent.parent / "docs"
_GENERATED = "This page is generated: `python tooling/reference_pages.py`."

_ENGINES = """## Engines

What the serving engine measures of itself. SageMaker's detailed observability collects it from real-time endpoints,
of variants as of inference components ([source]({source})). It is on for new configurations, unless
`Observability(detailed=False)` says otherwise. PromQL alone reads it: `metric_<name>()` returns a query, with
`create_alarm(...)`, and the dashboard has charts of it. `<>` stands for the selector of the endpoint or component.

| what serves | what SageMaker collects |
| --- | --- |
| vLLM | all of it |
| SGLang | all of it; without `SM_SGLANG_ENABLE_METRICS=true`, which its container gets, SGLang publishes none |
| Text Generation Inference | what the tables have; AWS names vLLM and SGLang alone, so nobody vouches for it |
| Large Model Inference | none of it: djl-serving's own metrics are of requests, not of tokens and the KV cache |
| JumpStart's containers | not known, and so refused |
| asynchronous endpoints | none of it |

PromQL is not available in every region (Amazon CloudWatch user guide, "Query metrics with PromQL")."""


def main() -> None:
    """Write the pages."""
    for name, content in pages().items():
        (_DOCS / name).write_text(content, encoding="utf-8")


def pages() -> dict[str, str]:
    """The content of each page by the name of its file."""
    return {"rules.md": "\n".join(_rules()) + "\n", "metrics.md": "\n".join(_metrics()) + "\n"}


def _rules() -> list[str]:
    lines = [
        "# Rules",
        "",
        "A recipe that breaks a rule is refused at synth, with all the rules it breaks. An advisory rule warns; its",
        'warning is acknowledged with `Annotations.of(scope).acknowledge_warning("constructs-optim:<id>")`.',
        "",
        _GENERATED,
    ]
    for rule in all_rules():
        advisory = " Advisory: it warns." if rule.advisory else ""
        reason = f"{rule.reason[:1].upper()}{rule.reason[1:].rstrip('.')}."
        lines += ["", f"## {rule.id}", "", f"**{rule.title}.**{advisory} {reason} ([Source]({rule.link}))"]
    return lines


def _metrics() -> list[str]:
    lines = [
        "# Metrics",
        "",
        "Every metric by which an endpoint is watched and evaluated: one definition each, for dashboards, alarms,",
        "`endpoint.metric(name)` and evaluations. `metric_<name>()` of an endpoint gives a metric as it is published;",
        "dashboards show it in the unit of the last column, where need be by metric math.",
        "",
        _GENERATED,
    ]
    live = dict.fromkeys(metric.part for metric in by_name().values() if not metric.of_evaluation)
    parts = dict.fromkeys([*live, *(metric.part for metric in by_name().values())])
    for part in live:
        lines += _part(part)
    lines += _engines()
    for part in parts:
        if part not in live:
            lines += _part(part)
    return lines


def _part(part: str) -> list[str]:
    return [
        "",
        f"## {part[0].upper()}{part[1:]}",
        "",
        "| name | what it is | in CloudWatch | statistic | unit |",
        "| --- | --- | --- | --- | --- |",
        *(_row(metric) for metric in by_name().values() if metric.part == part),
    ]


def _engines() -> list[str]:
    """The metrics of engines, with the PromQL of each server that publishes them."""
    lines = ["", *_ENGINES.format(source=engines.SOURCE).splitlines()]
    metrics = engines.by_name().values()
    for part in dict.fromkeys(metric.part for metric in metrics):
        lines += ["", f"## {part[0].upper()}{part[1:]}".replace(":", ""), ""]
        lines += ["| name | what it is | PromQL | unit |", "| --- | --- | --- | --- |"]
        lines += [_engine_row(metric) for metric in metrics if metric.part == part]
    return lines


def _engine_row(metric: engines.EngineMetric) -> str:
    queries = [f"{server}: `{query}`" for server, query in metric.queries.items()]
    quantile = f", quantile {metric.quantile:g} by default" if metric.quantile is not None else ""
    return (
        f"| `{metric.name}` | {metric.title}. {metric.definition} | {'<br>'.join(queries)} | {metric.unit}{quantile} |"
    )


def _row(metric: MetricDefinition) -> str:
    # CloudWatch has no unit of money.
    published_unit = Unit.NONE if metric.published_unit is Unit.US_DOLLARS else metric.published_unit
    units = dict.fromkeys([published_unit.value, metric.shown_unit.value])
    meaning = f"{metric.title}. {metric.definition} ([source]({metric.source}))"
    published = [
        f"{owner}: `{series.namespace}` `{series.metric_name}` by {', '.join(series.dimensions)}"
        + (f"; added up over {series.summed}" if series.summed is not None else "")
        for owner, series in (("variant", metric.variant), ("component", metric.component))
        if series is not None
    ]
    if metric.formula is not None:
        published.append(f"formula: `{metric.formula}`")
    if metric.gpus_only:
        published.append("GPUs only")
    return (
        f"| `{metric.name}` | {meaning} | {'<br>'.join(published)} | {metric.statistic} | {', shown as '.join(units)} |"
    )


if __name__ == "__main__":
    main()
