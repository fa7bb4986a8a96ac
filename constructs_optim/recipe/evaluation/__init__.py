"""Evaluations and recommendations of an endpoint, for the rules to check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe.catalog import availability
from constructs_optim.recipe.hosting import CapacityReservation
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.tasks import GENERATE, TaskName

from .requirements import Requirements
from .workload import Workload


@dataclass(frozen=True)
class Benchmark:
    """The declaration of an evaluation. Without ``after_deployment``, it runs only on its ``schedule``.

    ``task`` is what the model does; a benchmark job measures only the generation of text. ``longest_input`` is the
    longest input of another model in tokens; None if it is unknown.
    ``asynchronous``: whether the endpoint queues requests, and so does not stream. ``discount`` is a share. ``region``
    is None if it is known only at deployment.
    """

    workload: Workload
    after_deployment: bool = True
    schedule: str | None = None
    task: TaskName = GENERATE
    longest_input: int | None = None
    requirements: Requirements | None = None
    asynchronous: bool = False
    instance_price_per_hour: float | None = None
    discount: float = 0
    region: str | None = None


@dataclass(frozen=True)
class RecommendationRequest:
    """The declaration of a recommendation for a model in S3. None: SageMaker chooses.

    With ``capacity_reservations``, SageMaker launches instances only there. ``region`` is None if it is known only at
    deployment.
    """

    model: Model
    optimize_for: str = "cost"
    instance_types: Sequence[str] | None = None
    framework: str | None = None
    capacity_reservations: Sequence[CapacityReservation] = ()
    region: str | None = None

    @property
    def properties(self) -> Mapping[str, Any]:
        """The job's part of the custom resource's ``Request``."""
        reservations = [reservation.arn for reservation in self.capacity_reservations]
        return {
            "ModelUri": self.model.uri,
            "Metric": availability.recommendations().metrics[self.optimize_for],
            **({"InstanceTypes": list(self.instance_types)} if self.instance_types is not None else {}),
            **({"Framework": self.framework} if self.framework is not None else {}),
            **({"ReservationArns": reservations} if reservations else {}),
        }
