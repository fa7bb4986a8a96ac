"""Every metric by which an endpoint is watched and evaluated: one definition, for dashboards, alarms and reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import MappingProxyType

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.catalog.instances import InstanceRow
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.metrics.definition import (
    EVALUATION_NAMESPACE,
    MetricDefinition,
    Part,
    Series,
    Summed,
    Unit,
)
from constructs_optim.recipe.metrics.evaluation import EVALUATION, PERCENTILES
from constructs_optim.recipe.metrics.live import LIVE, PUBLISHING_SECONDS

__all__ = [
    "EVALUATION",
    "EVALUATION_NAMESPACE",
    "LIVE",
    "PERCENTILES",
    "PUBLISHING_SECONDS",
    "MetricDefinition",
    "Part",
    "Series",
    "Summed",
    "Unit",
    "by_name",
    "find",
    "instance",
    "like_all",
    "metrics_page",
    "summed_over",
]


@cache
def by_name() -> MappingProxyType[str, MetricDefinition]:
    """Every metric, in the order in which they are told of."""
    return MappingProxyType({metric.name: metric for metric in (*LIVE, *EVALUATION)})


def find(name: str) -> MetricDefinition:
    """The metric of that name.

    Raises:
        ValueError: where there is none.
    """
    metric = by_name().get(name)
    if metric is None:
        close = close_matches(name, by_name())
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(by_name())}"
        raise ValueError(f"there is no metric {name!r}: {hint}")
    return metric


def instance(instance_type: str | None) -> InstanceRow | None:
    """What is known of an instance type, which may be a token; None where nothing is."""
    return instances.find(instance_type) if instance_type is not None else None


def like_all(instance_types: Sequence[str]) -> str | None:
    """One that publishes like all of these types: the same accelerators and vCPUs; None where they differ."""
    known = [instance(name) for name in instance_types]
    alike = {(row.kind, row.accelerator_count, row.vcpu) if row is not None else None for row in known}
    return instance_types[0] if len(alike) == 1 and None not in alike else None


def summed_over(series: Series, instance_type: str | None) -> int:
    """Over how many GPUs or vCPUs an instance of that type adds the values up; 1 where it does not, or is not known."""
    row = instance(instance_type)
    if row is None or series.summed is None:
        return 1
    return row.accelerator_count if series.summed is Summed.GPUS else row.vcpu


def metrics_page() -> str:
    """The page of all metrics, in Markdown: ``docs/metrics.md``."""
    lines = [
        "# Metrics",
        "",
        "Every metric by which an endpoint is watched and evaluated: one definition each, for dashboards, alarms,",
        "`endpoint.metric(name)` and evaluations. `metric_<name>()` of an endpoint gives a metric as it is published;",
        "dashboards show it in the unit of the last column, where need be by metric math.",
        "",
        "This page is generated: `constructs-optim catalog metrics --format markdown > docs/metrics.md`.",
    ]
    for part in Part:
        lines += ["", f"## {part.value[0].upper()}{part.value[1:]}", ""]
        lines += ["| name | what it is | in CloudWatch | statistic | unit |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(metric) for metric in by_name().values() if metric.part is part]
    return "\n".join(lines) + "\n"


def _row(metric: MetricDefinition) -> str:
    units = dict.fromkeys([metric.published_unit.in_cloudwatch, metric.shown_unit.value])
    told = f"{metric.title}. {metric.definition} ([source]({metric.source}))"
    found = [
        f"{owner}: `{series.namespace}` `{series.metric_name}` by {', '.join(series.dimensions)}"
        + (f"; added up over {series.summed.value}" if series.summed is not None else "")
        for owner, series in (("variant", metric.variant), ("component", metric.component))
        if series is not None
    ]
    if metric.formula is not None:
        found.append(f"formula: `{metric.formula}`")
    if metric.gpus_only:
        found.append("GPUs only")
    return f"| `{metric.name}` | {told} | {'<br>'.join(found)} | {metric.statistic} | {', shown as '.join(units)} |"
