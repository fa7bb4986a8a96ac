"""What a metric is: its name, units and meaning, and where CloudWatch has it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

EVALUATION_NAMESPACE = "ConstructsOptim/Evaluation"
"""Where an evaluation publishes what it measured."""
BY_VARIANT = ("EndpointName", "VariantName")
"""The dimensions of what a production variant serves."""
BY_COMPONENT = ("InferenceComponentName",)
"""The dimensions of what an inference component serves."""


class Unit(StrEnum):
    """A unit, by CloudWatch's name for it where CloudWatch has one."""

    NONE = "None"
    COUNT = "Count"
    COUNT_PER_SECOND = "Count/Second"
    MICROSECONDS = "Microseconds"
    MILLISECONDS = "Milliseconds"
    PERCENT = "Percent"
    US_DOLLARS = "US dollars"

    @property
    def in_cloudwatch(self) -> str:
        """What a published value's ``Unit`` says."""
        return Unit.NONE.value if self is Unit.US_DOLLARS else self.value


class Part(StrEnum):
    """What a metric tells of."""

    TRAFFIC = "traffic and latency"
    CONCURRENCY = "concurrency and throughput"
    ERRORS = "errors"
    ACCELERATORS = "accelerators"
    HOST = "host"
    SCALING = "scaling"
    COST = "cost"
    EVALUATION_LATENCY = "evaluation: latency"
    EVALUATION_THROUGHPUT = "evaluation: throughput"
    EVALUATION_PRICE = "evaluation: price"


class Summed(StrEnum):
    """What a percentage is added up over: with four GPUs, 100 % each are published as 400 %."""

    GPUS = "GPUs"
    VCPUS = "vCPUs"


@dataclass(frozen=True)
class Series:
    """Where CloudWatch has a metric: namespace, name and the dimensions that choose one time series."""

    namespace: str
    metric_name: str
    dimensions: tuple[str, ...]
    summed: Summed | None = None


@dataclass(frozen=True)
class MetricDefinition:
    """One metric.

    Attributes:
        name: an identifier, for Python (``metric_<name>``) and as an id in metric math.
        title: what people read.
        part: what it tells of.
        definition: one sentence.
        statistic: of the values in a period, where nothing else is asked for.
        published_unit: the unit of the published values.
        shown_unit: the unit that people are shown.
        variant: its series where a production variant serves the model; None where there is none.
        component: its series where an inference component serves the model; None where there is none.
        gpus_only: only instances with GPUs publish it. SageMaker documents no utilization metric of NeuronCores.
        formula: metric math over the names of other metrics and of the parameters of ``pricing``.
        source: where its definition comes from.
    """

    name: str
    title: str
    part: Part
    definition: str
    statistic: str
    published_unit: Unit
    shown_unit: Unit
    source: str
    variant: Series | None = None
    component: Series | None = None
    gpus_only: bool = False
    formula: str | None = None

    def series(self, *, component: bool) -> Series | None:
        """Its series for an inference component, or for a variant."""
        return self.component if component else self.variant

    @property
    def divisor(self) -> int:
        """How many published units make one that is shown."""
        units = (self.published_unit, self.shown_unit)
        return 1000 if units == (Unit.MICROSECONDS, Unit.MILLISECONDS) else 1

    @property
    def of_evaluation(self) -> bool:
        """Whether an evaluation publishes it, with the dimensions Concurrency and ArtifactKey."""
        return self.variant is not None and self.variant.namespace == EVALUATION_NAMESPACE
