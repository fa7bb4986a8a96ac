"""Scaling of an endpoint's production variant with Application Auto Scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as scaling
from constructs import Construct

_NAMESPACE = "sagemaker"


@dataclass(frozen=True)
class VariantTarget:
    """A production variant, which scales by instances."""

    endpoint_name: str
    variant_name: str

    dimension = "sagemaker:variant:DesiredInstanceCount"
    concurrency_metric = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    invocations_metric = "SageMakerVariantInvocationsPerInstance"

    @property
    def resource_id(self) -> str:
        """What Application Auto Scaling calls it."""
        return f"endpoint/{self.endpoint_name}/variant/{self.variant_name}"


@dataclass(frozen=True)
class ComponentTarget:
    """An inference component, which scales by copies of its model."""

    name: str

    dimension = "sagemaker:inference-component:DesiredCopyCount"
    concurrency_metric = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
    invocations_metric = "SageMakerInferenceComponentInvocationsPerCopy"

    @property
    def resource_id(self) -> str:
        """What Application Auto Scaling calls it."""
        return f"inference-component/{self.name}"


class EndpointScaling(Construct):
    """The range an endpoint scales in; each ``on_...`` adds a policy that moves it within the range."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        target: VariantTarget | ComponentTarget,
        min_capacity: int,
        max_capacity: int,
    ) -> None:
        """Register the variant as a scalable target.

        Raises:
            ValueError: when the range is none.
        """
        if not 0 < min_capacity <= max_capacity:
            raise ValueError(
                f"min_capacity is {min_capacity} and max_capacity {max_capacity}: a variant keeps at least one "
                "instance, and the maximum is not below the minimum"
            )
        super().__init__(scope, id)
        self._scaled = target
        self._target = scaling.CfnScalableTarget(
            self,
            "Target",
            max_capacity=max_capacity,
            min_capacity=min_capacity,
            resource_id=target.resource_id,
            scalable_dimension=target.dimension,
            service_namespace=_NAMESPACE,
        )

    def on_concurrency(
        self,
        *,
        target: float,
        scale_in_cooldown: Duration | None = None,
        scale_out_cooldown: Duration | None = None,
    ) -> EndpointScaling:
        """Hold the requests that each model copy works on at once near ``target``.

        Uses the high-resolution ConcurrentRequestsPerModel metric (every 10 s), which sees a burst of long
        generations before invocations a minute do.

        Args:
            target: concurrent requests for each instance, above zero.
            scale_in_cooldown: pause after instances were taken away. Default: 5 minutes.
            scale_out_cooldown: pause after instances were added. Default: 5 minutes.
        """
        return self._track(
            "OnConcurrency",
            self._scaled.concurrency_metric,
            target,
            scale_in_cooldown,
            scale_out_cooldown,
        )

    def on_invocations(
        self,
        *,
        target: float,
        scale_in_cooldown: Duration | None = None,
        scale_out_cooldown: Duration | None = None,
    ) -> EndpointScaling:
        """Hold the invocations a minute of each instance near ``target``.

        Args:
            target: invocations a minute for each instance, above zero.
            scale_in_cooldown: pause after instances were taken away. Default: 5 minutes.
            scale_out_cooldown: pause after instances were added. Default: 5 minutes.
        """
        return self._track(
            "OnInvocations",
            self._scaled.invocations_metric,
            target,
            scale_in_cooldown,
            scale_out_cooldown,
        )

    def _track(
        self, id: str, metric: str, target: float, scale_in: Duration | None, scale_out: Duration | None
    ) -> EndpointScaling:
        if target <= 0:
            raise ValueError(f"target is {target}, and a target is above zero")
        cooldowns: dict[str, Any] = {
            name: int(cooldown.to_seconds()) if cooldown is not None else 300
            for name, cooldown in (("scaleInCooldown", scale_in), ("scaleOutCooldown", scale_out))
        }
        scaling.CfnScalingPolicy(
            self,
            id,
            policy_name=id,
            policy_type="TargetTrackingScaling",
            scaling_target_id=self._target.ref,
            target_tracking_scaling_policy_configuration={
                "predefinedMetricSpecification": {"predefinedMetricType": metric},
                "targetValue": target,
                **cooldowns,
            },
        )
        return self
