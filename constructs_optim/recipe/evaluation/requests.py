"""What an evaluation or a recommendation job asks of SageMaker, as rules check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe.catalog import availability
from constructs_optim.recipe.hosting import CapacityReservation
from constructs_optim.recipe.recipe import Model

from .requirements import Requirements
from .workload import Workload


@dataclass(frozen=True)
class Benchmark:
    """What is declared about one evaluation.

    Attributes:
        workload: what is sent.
        after_deployment: whether it runs when the endpoint has changed.
        schedule: when it runs besides; None for never.
        requirements: what must come of it; None where nothing depends on it.
        asynchronous: whether the endpoint queues requests, and so does not stream.
        instance_price_per_hour: what an instance costs, where that is stated.
        discount: what a savings plan takes off, as a share.
        region: where it runs; None where only the deployment knows.
    """

    workload: Workload
    after_deployment: bool = True
    schedule: str | None = None
    requirements: Requirements | None = None
    asynchronous: bool = False
    instance_price_per_hour: float | None = None
    discount: float = 0
    region: str | None = None


@dataclass(frozen=True)
class RecommendationRequest:
    """What is declared about one recommendation.

    Attributes:
        model: a model in S3.
        optimize_for: ``cost``, ``latency`` or ``throughput``.
        instance_types: those to try; None for the service's choice.
        framework: ``LMI`` or ``VLLM``; None for the service's choice.
        capacity_reservations: outside of which nothing is launched.
        region: where the job runs; None where only the deployment knows.
    """

    model: Model
    optimize_for: str = "cost"
    instance_types: Sequence[str] | None = None
    framework: str | None = None
    capacity_reservations: Sequence[CapacityReservation] = ()
    region: str | None = None

    @property
    def properties(self) -> Mapping[str, Any]:
        """The job's part of the custom resource's ``Request``, of a request that keeps the rules."""
        reservations = [each.arn for each in self.capacity_reservations]
        return {
            "ModelUri": self.model.uri,
            "Metric": availability.recommendations().metrics[self.optimize_for],
            **({"InstanceTypes": list(self.instance_types)} if self.instance_types is not None else {}),
            **({"Framework": self.framework} if self.framework is not None else {}),
            **({"ReservationArns": reservations} if reservations else {}),
        }
