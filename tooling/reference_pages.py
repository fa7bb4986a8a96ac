"""Writes docs/rules.md and docs/metrics.md: the pages of all rules and of all metrics."""

from __future__ import annotations

from pathlib import Path

from constructs_optim.recipe.metrics import MetricDefinition, Unit, by_name
from constructs_optim.recipe.rules import all_rules

_DOCS = Path(__file__).resolve().parent.parent / "docs"
_GENERATED = "This page is generated: `python tooling/reference_pages.py`."


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
    for part in dict.fromkeys(metric.part for metric in by_name().values()):
        lines += ["", f"## {part[0].upper()}{part[1:]}", ""]
        lines += ["| name | what it is | in CloudWatch | statistic | unit |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(metric) for metric in by_name().values() if metric.part == part]
    return lines


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
