"""Writes docs/rules.md and docs/metrics.md, the pages of all rules and metrics, and what handlers know of metrics."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from constructs_optim.recipe.metrics import EVALUATION, IDENTIFIER, MetricDefinition, Unit, by_name, engines, find
from constructs_optim.recipe.rules import Rule, all_rules

_CHECKOUT = Path(__file__).resolve().parent.parent
_DOCS = _CHECKOUT / "docs"
_RUNTIME = _CHECKOUT / "constructs_optim" / "runtime"
_GENERATED = "<!-- Generated: python tooling/reference_pages.py -->"

_ENGINES = """## Engines

Serving engines publish these metrics. SageMaker's detailed observability collects them from the variants and inference
components of real-time endpoints ([source]({source})). It is on for new configurations; `Observability(detailed=False)`
turns it off. Only PromQL reads these metrics: `metric_<name>()` returns a query that has `create_alarm(...)`, and the
dashboard charts them. `<>` stands for the selector of the endpoint or component.

| server | what SageMaker collects |
| --- | --- |
| vLLM | all metrics |
| SGLang | all metrics; SGLang publishes them only with `SM_SGLANG_ENABLE_METRICS=true`, which the library sets |
| Text Generation Inference | the metrics in the tables; not documented, because AWS names only vLLM and SGLang |
| Large Model Inference | none: djl-serving's own metrics describe requests, not tokens and the KV cache |
| JumpStart's containers | unknown, so these metrics are refused |
| asynchronous endpoints | none |

### OTel enrichment

PromQL finds the metrics of engines only while **OTel enrichment** is running. It is a setting of the account and
Region, and off by default. Start it once:

```console
$ aws observabilityadmin start-telemetry-enrichment
$ aws cloudwatch start-otel-enrichment
```

As CloudFormation resources, these are `AWS::ObservabilityAdmin::TelemetryEnrichment` (`Scope: ACCOUNT`) and
`AWS::CloudWatch::OTelEnrichment`. This library does not declare them, because the setting is the account's: deleting a
stack that declares it stops the enrichment for everything else. Enriched metrics cost $0.50 per GB, in addition to the
metrics themselves ([costs](observability.md#costs)). Sources: SageMaker developer guide, ["Getting started with
detailed observability"](https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-detailed-observability-getting-started.html);
Amazon CloudWatch user guide, "Troubleshooting SageMaker AI Insights". An article of the AWS Machine Learning Blog
("Monitor and debug generative AI inference with SageMaker detailed metrics and Insights dashboard", June 2026) says
instead that only CloudWatch's classic metrics need enrichment. Which of the two is right has not been tested on AWS.

Without enrichment, PromQL alarms do not go off, scaling on engine metrics does not scale, charts stay empty, and
evaluations have no acceptance length. The [preflight](preflight.md) checks for it: what needs engine metrics (scaling,
a required acceptance length) fails the deployment before it starts anything; alarms and charts cause advice.

### Regions with PromQL

CloudWatch has PromQL in 31 Regions (Amazon CloudWatch user guide, ["Query metrics with
PromQL"](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-PromQL.html#CloudWatch-PromQL-Regions)),
but not in `il-central-1`, `me-central-1`, `me-south-1`, GovCloud, China, or the European Sovereign Cloud. There, the
library refuses alarms, scaling and requirements on engine metrics ([OPT240](rules.md#opt240)), and dashboards omit
their charts."""


# Product names that stay lowercase at the beginning of a sentence.
_LOWERCASE_NAMES = ("llm-compressor", "vLLM")


def main() -> None:
    """Write the pages and the definitions."""
    for name, content in pages().items():
        (_DOCS / name).write_text(content, encoding="utf-8")
    for name, content in definitions_of_handlers().items():
        (_RUNTIME / name).write_text(content, encoding="utf-8")


def pages() -> dict[str, str]:
    """Return the content of each page by file name."""
    return {"rules.md": "\n".join(_rules()) + "\n", "metrics.md": "\n".join(_metrics()) + "\n"}


def definitions_of_handlers() -> dict[str, str]:
    """Return the definitions of metrics that handlers have, which import nothing of the recipe, by file name."""
    return {
        "evaluation/evaluation_metrics.json": _metrics_of_evaluations(),
        "shadow/failed_requests.json": _failed_requests(),
    }


def _metrics_of_evaluations() -> str:
    rows = [
        {
            "name": metric.name,
            "metric_name": metric.variant.metric_name,
            "unit": "None" if metric.published_unit is Unit.US_DOLLARS else metric.published_unit.value,
            "better": metric.better,
            "aiperf": metric.aiperf,
            "formula": metric.formula,
        }
        for metric in EVALUATION
        if metric.variant is not None
    ]
    return json.dumps(rows, indent=1) + "\n"


def _failed_requests() -> str:
    formula = find("failed_requests").formula or ""
    series = {name: find(name).variant for name in sorted(set(IDENTIFIER.findall(formula)) & by_name().keys())}
    metrics = {name: each.metric_name for name, each in series.items() if each is not None}
    return json.dumps({"formula": formula, "metrics": metrics}, indent=1) + "\n"


def _rules() -> list[str]:
    lines = [
        "# Rules",
        "",
        "Look up a rule by the ID in an error or warning. Synthesis refuses a recipe that breaks rules, and reports",
        "all of them at once. A rule marked **Warning only** does not. To acknowledge its warning, call",
        '`Annotations.of(scope).acknowledge_warning("constructs-optim:<id>")`. In an endpoint file or in Terraform,',
        "write `acknowledge: [{rule: <id>, reason: ...}]` in the endpoint or the stack",
        "([endpoint files](endpoint-file.md)). You cannot acknowledge an error.",
        "",
        _GENERATED,
    ]
    modules: dict[str, list[Rule]] = {}
    for rule in all_rules():
        modules.setdefault(rule.check.__module__, []).append(rule)
    for module, rules in modules.items():
        heading = module.rpartition(".")[2].replace("_", " ").capitalize()
        lines += ["", f"## {heading}", "", str(sys.modules[module].__doc__).partition("\n")[0]]
        for rule in rules:
            advisory = " **Warning only.**" if rule.advisory else ""
            reason = f"{_capitalized(rule.reason).rstrip('.')}."
            lines += ["", f"### {rule.id}", "", f"**{rule.title}.**{advisory} {reason} ([Source]({rule.link}))"]
    return lines


def _capitalized(text: str) -> str:
    return text if text.startswith(_LOWERCASE_NAMES) else f"{text[:1].upper()}{text[1:]}"


def _metrics() -> list[str]:
    lines = [
        "# Metrics",
        "",
        "Look up the metrics of an endpoint. Dashboards, alarms, `endpoint.metric(name)` and evaluations use the same",
        "definitions. `metric_<name>()` of an endpoint returns a metric as CloudWatch publishes it. Dashboards show it",
        "in the last unit of the last column, and convert it with metric math if necessary.",
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
        "| name | meaning | in CloudWatch | statistic | unit |",
        "| --- | --- | --- | --- | --- |",
        *(_row(metric) for metric in by_name().values() if metric.part == part),
    ]


def _engines() -> list[str]:
    """Return the lines on engine metrics, with the PromQL of each server that publishes them."""
    lines = ["", *_ENGINES.format(source=engines.SOURCE).splitlines()]
    metrics = engines.by_name().values()
    for part in dict.fromkeys(metric.part for metric in metrics):
        lines += ["", f"## {part[0].upper()}{part[1:]}".replace(":", ""), ""]
        lines += ["| name | meaning | PromQL | unit |", "| --- | --- | --- | --- |"]
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
        + (f"; summed over {series.summed}" if series.summed is not None else "")
        for owner, series in (("variant", metric.variant), ("component", metric.component))
        if series is not None
    ]
    if metric.formula is not None:
        published.append(f"formula: `{metric.formula}`")
    if metric.component_formula is not None:
        published.append(f"of a component: `{metric.component_formula}`")
    if metric.asynchronous_formula is not None:
        published.append(f"of an asynchronous endpoint: `{metric.asynchronous_formula}`")
    if metric.only is not None:
        published.append(f"{metric.only} endpoints only")
    if metric.gpus_only:
        published.append("GPUs only")
    return (
        f"| `{metric.name}` | {meaning} | {'<br>'.join(published)} | {metric.statistic} | {', shown as '.join(units)} |"
    )


if __name__ == "__main__":
    main()
