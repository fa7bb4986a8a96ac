"""``evaluate``, of endpoints and of inference components."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, cast

from aws_cdk import Duration
from constructs import Construct

from constructs_optim.recipe.evaluation import Workload

from .endpoint_evaluation import EndpointEvaluation, EvaluationTarget

if TYPE_CHECKING:
    from constructs_optim.constructs.monitoring.dashboard_evaluation import EvaluatedModel


class EvaluatedEndpoint:
    """Mixed into whatever serves a model and can say how it is reached."""

    @abstractmethod
    def _evaluation_target(self, price: float | None, discount: float | None) -> EvaluationTarget:
        """What is evaluated, at the stated price and discount."""

    def evaluate(
        self,
        id: str = "Evaluation",
        *,
        workload: Workload | None = None,
        after_deployment: bool = True,
        baseline: EvaluatedModel | None = None,
        discount: float | None = None,
        instance_price_per_hour: float | None = None,
        schedule: str | None = None,
        timeout: Duration | None = None,
    ) -> EndpointEvaluation:
        """Benchmark what is served: after each deployment that changes it, on a schedule, or both.

        The service's own benchmark job sends the requests. What it measures is published as CloudWatch metrics
        (docs/metrics.md) by endpoint, concurrency and artifact, shown on the dashboard, and kept in the artifact store
        with a report.

        Args:
            id: its id in this construct.
            workload: what is sent. Default: made-up prompts of 622 tokens, from 1, 8 and 32 users.
            after_deployment: whether it runs when something else is served than before. Default: it does.
            baseline: what the dashboard shows beside it, for instance the same model without techniques. Default:
                nothing.
            discount: what a savings plan takes off the price, as a share. Default: that of the endpoint.
            instance_price_per_hour: what an instance costs in an hour, in US dollars. Default: that of the endpoint,
                and otherwise what the AWS Price List says when it runs.
            schedule: when it runs besides: ``rate(1 day)``, or ``cron(0 6 ? * MON-FRI *)`` in UTC. Default: never.
            timeout: how long a deployment that has requirements waits, at most 12 hours. Default: 4 hours.

        Raises:
            RecipeError: with every rule that is broken.
            ValueError: for a timeout that CloudFormation cannot wait for.
        """
        return EndpointEvaluation(
            cast("Construct", self),
            id,
            target=self._evaluation_target(instance_price_per_hour, discount),
            workload=workload if workload is not None else Workload(),
            after_deployment=after_deployment,
            baseline=baseline,
            schedule=schedule,
            timeout=timeout,
        )
