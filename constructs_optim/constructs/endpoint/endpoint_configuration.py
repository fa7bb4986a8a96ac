"""An endpoint's configuration: what its props come to, as CloudFormation has it. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, Size

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.stack.network import Network
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
class EndpointOptions:
    """How an endpoint is hosted, in the objects that a user gives. The meanings are those of ``OptimizedEndpoint``."""

    async_inference: AsyncInference | None
    data_capture: DataCapture | None
    encryption_key: kms.IKey | None
    observability: Observability | None
    update_policy: UpdatePolicy
    variant: VariantOptions

    @property
    def publishing_seconds(self) -> int:
        """How often instances publish their utilization."""
        given = self.observability
        frequency = given.frequency_seconds if given is not None else None
        return frequency if frequency is not None else metrics.PUBLISHING_SECONDS

    def hosting(self, **of_the_endpoint: Any) -> Hosting:
        """The same as data that rules look at; what is of a wrong kind is left out, for OPT090 to report."""
        capture, queue, policy = self.data_capture, self.async_inference, self.update_policy
        variant = self.variant
        return Hosting(
            variant_name=variant.name,
            initial_instance_count=1 if variant.initial_instance_count is None else variant.initial_instance_count,
            minimum_instance_count=variant.min_instance_count,
            maximum_instance_count=variant.max_instance_count,
            routing=variant.routing,
            update=policy.settings if isinstance(policy, UpdatePolicy) else policy,
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
            rollback_alarms=len(policy.rollback_alarms) if isinstance(policy, UpdatePolicy) else 0,
            **of_the_endpoint,
        )

    def statements(self) -> list[Statement]:
        """What the execution role may do for capture and queue."""
        parts = (self.data_capture, self.async_inference)
        return [statement for part in parts if part is not None for statement in part.statements()]


def configuration_properties(
    options: EndpointOptions,
    variant: dict[str, Any],
    *,
    role_arn: str | None,
    isolated: bool | None,
    network: Network | None,
) -> dict[str, Any]:
    """The properties of ``AWS::SageMaker::EndpointConfig``; role, isolation and network are those of components."""
    capture, queue, key = options.data_capture, options.async_inference, options.encryption_key
    return {
        **({"async_inference_config": queue.to_property()} if queue is not None else {}),
        **({"data_capture_config": capture.to_property()} if capture is not None else {}),
        **({"enable_network_isolation": isolated} if isolated is not None else {}),
        **({"execution_role_arn": role_arn} if role_arn is not None else {}),
        **({"kms_key_id": key.key_arn} if key is not None else {}),
        **({"metrics_config": _metrics(options.observability)} if options.observability is not None else {}),
        "production_variants": [variant],
        **({"vpc_config": network.to_property("securityGroupIds")} if network is not None else {}),
    }


def variant_properties(
    options: EndpointOptions, hosting: Hosting, models: Sequence[HostedModel], managed: tuple[int, int] | None
) -> dict[str, Any]:
    """The one production variant; ``managed``: the range of instances where SageMaker scales them for components."""
    settings = options.variant
    reservation, routing = settings.capacity_reservation, settings.routing or Routing.least_outstanding_requests()
    variant: dict[str, Any] = {}
    if reservation is not None:
        variant["capacityReservationConfig"] = {
            "capacityReservationPreference": "capacity-reservations-only",
            "mlReservationArn": reservation.arn,
        }
    if settings.inference_ami_version is not None:
        variant["inferenceAmiVersion"] = settings.inference_ami_version
    least = managed[0] if managed is not None else 0
    variant["initialInstanceCount"] = max(hosting.initial_instance_count, least)
    if not hosting.pooled:
        variant["instanceType"] = hosting.instance_types[0]
    else:
        variant["instancePools"] = [
            {
                "instanceType": name,
                **({"modelNameOverride": models[place].model_name} if not hosting.serves_components and place else {}),
                "priority": place + 1,
            }
            for place, name in enumerate(hosting.instance_types)
        ]
    if managed is not None:
        variant["managedInstanceScaling"] = {
            "maxInstanceCount": managed[1],
            "minInstanceCount": managed[0],
            "status": "ENABLED",
        }
    variant["routingConfig"] = _routing(routing)
    if settings.instance_provision_timeout is not None:
        variant["variantInstanceProvisionTimeoutInSeconds"] = _seconds(settings.instance_provision_timeout)
    variant["variantName"] = hosting.variant_name
    if settings.volume_size is not None:
        variant["volumeSizeInGb"] = int(settings.volume_size.to_gibibytes())
    if not hosting.serves_components:
        # An endpoint of components has instances only: model, weight and timeouts are the component's.
        variant |= {"initialVariantWeight": 1, "modelName": models[0].model_name}
        variant |= startup_parameters(options, models[0])
    return dict(sorted(variant.items()))


def startup_parameters(options: EndpointOptions, model: HostedModel, *, longest: int | None = None) -> dict[str, Any]:
    """How long a model may take to start: as given, or as its own document says, or ``longest`` where the plan does."""
    startup, download = options.variant.container_startup_timeout, options.variant.model_data_download_timeout
    timeouts = model.startup_timeouts.within(longest)
    return {
        "containerStartupHealthCheckTimeoutInSeconds": _seconds(startup) if startup is not None else timeouts.startup,
        "modelDataDownloadTimeoutInSeconds": _seconds(download) if download is not None else timeouts.download,
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
