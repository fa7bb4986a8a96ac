"""The definitions of all metrics of endpoints, for dashboards, alarms and evaluations.

The definitions are data: ``definitions.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.errors import did_you_mean
from constructs_optim.recipe.tasks import Runner

IDENTIFIER = re.compile(r"\b[a-z][a-z0-9_]*\b")
"""The names in a formula: of metrics and of parameters."""
PERCENTILES = ("p50", "p90", "p99")
"""The percentiles of an evaluation's latencies, in addition to the mean."""
PUBLISHING_SECONDS = 60
"""The interval of utilization metrics, unless the endpoint configuration's ``MetricsConfig`` sets another."""
EVALUATION_NAMESPACE = "ConstructsOptim/Evaluation"
"""The CloudWatch namespace of evaluations."""
# The dimensions of a production variant and of an inference component, and the additional dimensions of an evaluation.
_BY_VARIANT = ("EndpointName", "VariantName")
_BY_COMPONENT = ("InferenceComponentName",)
_BY_EVALUATION = ("Concurrency", "ArtifactKey")


class Unit(StrEnum):
    """A unit, by CloudWatch's name if CloudWatch has the unit."""

    NONE = "None"
    COUNT = "Count"
    COUNT_PER_SECOND = "Count/Second"
    MICROSECONDS = "Microseconds"
    MILLISECONDS = "Milliseconds"
    PERCENT = "Percent"
    US_DOLLARS = "US dollars"


@dataclass(frozen=True)
class Series:
    """A metric in CloudWatch: namespace, name and dimensions.

    A percentage can be ``summed`` over GPUs or vCPUs: four GPUs at 100% are published as 400%.
    """

    namespace: str
    metric_name: str
    dimensions: tuple[str, ...]
    summed: Literal["GPUs", "vCPUs"] | None = None


@dataclass(frozen=True)
class MetricDefinition:
    """One metric: ``published_unit`` is the unit of CloudWatch's values, ``shown_unit`` the unit on pages and reports.

    ``part`` is its group, ``statistic`` the default. ``variant`` and ``component`` are its series for a production
    variant and an inference component. If ``gpus_only``, only instances with GPUs publish it; SageMaker documents no
    utilization metric of NeuronCores. ``only`` are the endpoints that publish it, if not both kinds do. ``formula`` is
    metric math over names of metrics and parameters of ``pricing``; ``component_formula`` and ``asynchronous_formula``
    replace it for an inference component and for an asynchronous endpoint. ``runner`` is the engine's whose models have
    it; None: both. ``aiperf`` is a formula over aiperf's
    metrics. ``better`` says which values of an evaluation's metric are better: all of these metrics have it.
    """

    name: str
    title: str
    part: str
    definition: str
    statistic: str
    published_unit: Unit
    shown_unit: Unit
    source: str
    variant: Series | None = None
    component: Series | None = None
    gpus_only: bool = False
    only: Literal["real-time", "asynchronous"] | None = None
    formula: str | None = None
    component_formula: str | None = None
    asynchronous_formula: str | None = None
    aiperf: str | None = None
    better: Literal["higher", "lower", "neither"] | None = None
    runner: Runner | None = None

    def series(self, *, component: bool) -> Series | None:
        """Return its series for an inference component, or for a variant."""
        return self.component if component else self.variant

    def formula_for(self, *, component: bool, asynchronous: bool = False) -> str | None:
        """Return its formula for an inference component, or for a variant."""
        special = self.component_formula if component else self.asynchronous_formula if asynchronous else None
        return special or self.formula

    def __post_init__(self) -> None:
        if self.of_evaluation and self.better is None:
            raise ValueError(f'{self.name}: set better = "higher", "lower" or "neither"')

    @property
    def divisor(self) -> int:
        """Published units per shown unit."""
        units = (self.published_unit, self.shown_unit)
        return 1000 if units == (Unit.MICROSECONDS, Unit.MILLISECONDS) else 1

    @property
    def direction(self) -> int:
        """Whether higher values are better (1), worse (-1), or neither (0)."""
        return {"higher": 1, "lower": -1}.get(self.better or "", 0)

    @property
    def of_evaluation(self) -> bool:
        """Whether an evaluation publishes it, with the dimensions Concurrency and ArtifactKey."""
        return self.variant is not None and self.variant.namespace == EVALUATION_NAMESPACE


def _definition(name: str, row: dict[str, Any]) -> MetricDefinition:
    columns: dict[str, Any] = {**row, "name": name, "source": _DATA["sources"][row["source"]]}
    if "formula" in row:
        columns["formula"] = _expanded(row, "formula")
        for special in ("component_formula", "asynchronous_formula"):
            formula = _expanded(row, special)
            columns[special] = formula if formula != columns["formula"] else None
    for owner, dimensions in (("variant", _BY_VARIANT), ("component", _BY_COMPONENT)):
        if owner in row:
            columns[owner] = {"dimensions": dimensions, **row[owner]}
    return MetricDefinition(**columns)


def _expanded(row: dict[str, Any], column: str) -> str:
    """Return the formula in a column, or the general one, without the names of other formulas."""

    def expanded(found: re.Match[str]) -> str:
        inner = _DATA["live"].get(found[0], {})
        return f"({_expanded(inner, column)})" if "formula" in inner else found[0]

    return IDENTIFIER.sub(expanded, row.get(column, row["formula"]))


def _evaluated(name: str, row: dict[str, Any]) -> Iterator[MetricDefinition]:
    """Yield a metric of an evaluation, and its percentiles if it has any."""
    # An evaluation publishes one value; values of evaluations in the same period are averaged.
    row = {**row, "statistic": "Average", "published_unit": row["unit"], "shown_unit": row["unit"]}
    for statistic in ("avg", *PERCENTILES) if "percentiles" in row else ("",):
        metric, changes = name, dict[str, Any]()
        if statistic == "avg":
            changes["definition"] = f"{row['definition']} The mean over all requests."
        elif statistic:
            metric, changes["title"] = f"{name}_{statistic}", f"{row['title']}, {statistic}"
            changes["definition"] = f"{row['definition']} The {statistic[1:]}th percentile over all requests."
            changes |= {"aiperf": row["aiperf"].replace(".avg", f".{statistic}")} if "aiperf" in row else {}
        published = row.get("metric_name", "".join(word.capitalize() for word in metric.split("_")))
        series = {"namespace": EVALUATION_NAMESPACE, "metric_name": published}
        changes["variant"] = {**series, "dimensions": (*_BY_VARIANT, *_BY_EVALUATION)}
        changes["component"] = {**series, "dimensions": (*_BY_COMPONENT, *_BY_EVALUATION)}
        yield _definition(metric, {**row, **changes})


_DATA = tomllib.loads((files(__name__) / "definitions.toml").read_text(encoding="utf-8"))

EVALUATION: tuple[MetricDefinition, ...] = tuple(
    metric for name, row in _DATA["evaluation"].items() for metric in _evaluated(name, row)
)
"""The metrics that evaluations publish for each concurrency and artifact."""


@cache
def by_name() -> MappingProxyType[str, MetricDefinition]:
    """Return every metric, in the order of pages and dashboards."""
    live = (_definition(name, row) for name, row in _DATA["live"].items())
    return MappingProxyType({metric.name: metric for metric in (*live, *EVALUATION)})


def with_word(name: str) -> list[str]:
    """Return up to three metrics with a name as one of the words of theirs, such as ``gpu``."""
    return [each for each in by_name() if name.lower() in each.split("_")][:3]


def find(name: str) -> MetricDefinition:
    """Return the metric with this name.

    Raises:
        ValueError: if there is no such metric.
    """
    metric = by_name().get(name)
    if metric is None:
        near = with_word(name)
        hint = did_you_mean(name, by_name(), f"there are {', '.join(by_name())}")
        hint = f"did you mean {' or '.join(near)}?" if near else hint
        raise ValueError(f"there is no metric {name!r}: {hint}")
    return metric


def like_all(instance_types: Sequence[str]) -> str | None:
    """Return the first of instance types with the same accelerators and vCPUs; None if they differ."""
    known = [instances.find(name) for name in instance_types]
    alike = {(row.kind, row.accelerator_count, row.vcpu) if row is not None else None for row in known}
    return instance_types[0] if len(alike) == 1 and None not in alike else None


def summed_over(series: Series, instance_type: str | None) -> int:
    """Return the number of GPUs or vCPUs that a series sums over; 1 if it is not a sum, or unknown."""
    row = instances.find(instance_type)
    if row is None or series.summed is None:
        return 1
    return row.accelerator_count if series.summed == "GPUs" else row.vcpu
