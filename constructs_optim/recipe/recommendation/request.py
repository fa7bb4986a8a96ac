"""What a recommendation job is asked, as the rules look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe.catalog import recommendations


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

    model: Any
    optimize_for: Any = "cost"
    instance_types: Any = None
    framework: Any = None
    capacity_reservations: Any = ()
    region: str | None = None

    @property
    def properties(self) -> Mapping[str, Any]:
        """The job's part of the custom resource's ``Request``, of a request that keeps the rules."""
        reservations = [each.arn for each in self.capacity_reservations]
        return {
            "ModelUri": self.model.uri,
            "Metric": recommendations.metrics()[self.optimize_for],
            **({"InstanceTypes": list(self.instance_types)} if self.instance_types is not None else {}),
            **({"Framework": self.framework} if self.framework is not None else {}),
            **({"ReservationArns": reservations} if reservations else {}),
        }
