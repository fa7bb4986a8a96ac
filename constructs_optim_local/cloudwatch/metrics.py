"""CloudWatch metrics as other services use them: to publish datapoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Datapoint:
    """A value of a metric in one account and Region.

    Attributes:
        namespace: for instance ``AWS/SageMaker``.
        name: the metric's name.
        dimensions: the metric's dimensions.
        value: the value, in the metric's unit.
        unit: CloudWatch's name of the unit.
        at: the time, in seconds since 1970.
    """

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    value: float
    unit: str
    at: float


class Metrics(Protocol):
    """The metrics of every account and Region."""

    def publish(self, datapoint: Datapoint, *, account: str, region: str) -> None:
        """Store a datapoint. Alarms see it when they are evaluated next."""
        ...


class NoMetrics:
    """The metrics of a cloud without CloudWatch."""

    def publish(self, datapoint: Datapoint, *, account: str, region: str) -> None:
        """Do nothing."""
