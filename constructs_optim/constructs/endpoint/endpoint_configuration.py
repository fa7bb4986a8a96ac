"""An endpoint's configuration: its options as properties of ``AWS::SageMaker::EndpointConfig``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, Size

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.stack.permissions import Statement
from constructs_optim.recipe import metrics
from constructs_optim.recipe.hosting import Hosting, Observability, Routing

from .async_inference import AsyncInference
from .data_capture import DataCapture
from .options import VariantOptions
from .update_policy import UpdatePolicy

if TYPE_CHECKING:
    from aws_cdk import aws_kms as kms


@dataclass(frozen=True)
class EndpointConfiguration:
    """The options of an endpoint that become its configuration. The meanings are those of ``OptimizedEndpoint``."""

    async_inference: AsyncInference | None
    data_capture: DataCapture | None
    encryption_key: kms.IKey | None
    observability: Observability | None
    update_policy: UpdatePolicy
    variant: VariantOptions

    @property
    def publishing_seconds(self) -> int:
        """How often instances publish their utilization, in seconds."""
        frequency = self.observability.frequency_seconds if self.observability is not None else None
        return frequency if frequency is not None else metrics.PUBLISHING_SECONDS

    def hosting(self, **of_the_endpoint: Any) -> Hosting:
        """The same as data for the rules; options of a wrong type are left out, for OPT090 to report."""
        capture, queue, policy = self.data_capture, self.async_inference, self.update_policy
        variant = self.variant
        return Hosting(
            variant_name=variant.name,
            initial_instance_count=1 if variant.initial_instance_count is None else variant.initial_instance_count,
            minimum_instance_count=variant.min_instance_count,
            maximum_instance_count=variant.max_instance_count,
            routing=variant.routing,
            update=policy.settings if isinstance(policy, UpdatePolicy) else policy,
            rollback_alarms=len(policy.rollback_alarms) if isinstance(policy, UpdatePolicy) else 0,
            capture_percentage=capture.sampling_percentage if isinstance(capture, DataCapture) else None,
            asynchronous=queue is not None,
            concurrent_invocations=queue.max_concurrent_invocations_per_instance
            if isinstance(queue, AsyncInference)
            else None,
            download_timeout_seconds=_seconds(variant.model_data_download_timeout),
            startup_timeout_seconds=_seconds(variant.container_startup_timeout),
            provision_timeout_seconds=_seconds(variant.instance_provision_timeout),
            volume_gib=int(variant.volume_size.to_gibibytes()) if isinstance(variant.volume_size, Size) else None,
            encrypted_volume=self.encryption_key is not None,
            ami_version=variant.inference_ami_version,
            capacity_reservation=variant.capacity_reservation,
            observability=self.observability,
            **of_the_endpoint,
        )

    def statements(self) -> list[Statement]:
        """The permissions of the execution role for capture and queue."""
        parts = (self.data_capture, self.async_inference)
        return [statement for part in parts if part is not None for statement in part.statements()]

    def properties(self) -> dict[str, Any]:
        """The properties of ``AWS::SageMaker::EndpointConfig`` without its variant, and without those of components."""
        capture, queue, key = self.data_capture, self.async_inference, self.encryption_key
        return {
            **({"async_inference_config": queue.to_property()} if queue is not None else {}),
            **({"data_capture_config": capture.to_property()} if capture is not None else {}),
            **({"kms_key_id": key.key_arn} if key is not None else {}),
            **({"metrics_config": _metrics(self.observability)} if self.observability is not None else {}),
        }

    def variant_property(
        self, hosting: Hosting, models: Sequence[HostedModel], managed_range: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """The one production variant.

        Args:
            hosting: the endpoint's instance types and counts.
            models: the models that the variant itself serves.
            managed_range: the fewest and the most instances, where SageMaker scales them for inference components.
        """
        options, fewest = self.variant, managed_range[0] if managed_range is not None else 0
        variant: dict[str, Any] = {
            "initialInstanceCount": max(hosting.initial_instance_count, fewest),
            "routingConfig": _routing(options.routing or Routing.least_outstanding_requests()),
            "variantName": options.name,
        }
        if hosting.pooled:
            variant["instancePools"] = [
                {
                    "instanceType": name,
                    **({"modelNameOverride": models[i].model_name} if not hosting.serves_components and i else {}),
                    "priority": i + 1,
                }
                for i, name in enumerate(hosting.instance_types)
            ]
        else:
            variant["instanceType"] = hosting.instance_types[0]
        if options.capacity_reservation is not None:
            variant["capacityReservationConfig"] = {
                "capacityReservationPreference": "capacity-reservations-only",
                "mlReservationArn": options.capacity_reservation.arn,
            }
        if options.inference_ami_version is not None:
            variant["inferenceAmiVersion"] = options.inference_ami_version
        if options.instance_provision_timeout is not None:
            variant["variantInstanceProvisionTimeoutInSeconds"] = _seconds(options.instance_provision_timeout)
        if options.volume_size is not None:
            variant["volumeSizeInGb"] = int(options.volume_size.to_gibibytes())
        if managed_range is not None:
            variant["managedInstanceScaling"] = {
                "maxInstanceCount": managed_range[1],
                "minInstanceCount": managed_range[0],
                "status": "ENABLED",
            }
        if not hosting.serves_components:
            # An endpoint of components has instances only: model, weight and timeouts are the component's.
            variant |= {"initialVariantWeight": 1, "modelName": models[0].model_name}
            variant |= self.startup_parameters(models[0])
        return dict(sorted(variant.items()))

    def startup_parameters(self, model: HostedModel, *, longest: int | None = None) -> dict[str, Any]:
        """How long a model may take to start, in seconds.

        Args:
            model: its plan, or its JumpStart document, has the defaults.
            longest: the most seconds of a default that comes of the plan. Default: no limit.
        """
        startup, download = self.variant.container_startup_timeout, self.variant.model_data_download_timeout
        timeouts = model.startup_timeouts.within(longest)
        return {
            "containerStartupHealthCheckTimeoutInSeconds": timeouts.startup if startup is None else _seconds(startup),
            "modelDataDownloadTimeoutInSeconds": timeouts.download if download is None else _seconds(download),
        }


def _routing(routing: Routing) -> dict[str, Any]:
    if routing.strategy != "PREFIX_AWARE":
        return {"routingStrategy": routing.strategy}
    return {
        "prefixAwareRoutingConfig": {
            "concurrencyThreshold": routing.concurrency_threshold,
            "prefixLength": routing.prefix_length,
        },
        "routingStrategy": routing.strategy,
    }


def _metrics(observability: Observability) -> dict[str, Any]:
    frequency = observability.frequency_seconds
    return {
        "enableDetailedObservability": observability.detailed,
        "enableEnhancedMetrics": observability.enhanced,
        **({"metricPublishFrequencyInSeconds": frequency} if frequency is not None else {}),
    }


def _seconds(duration: Duration | None) -> Any:
    return int(duration.to_seconds()) if isinstance(duration, Duration) else None
