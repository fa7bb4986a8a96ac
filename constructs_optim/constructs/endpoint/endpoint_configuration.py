"""An endpoint's options as properties of ``AWS::SageMaker::EndpointConfig``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

from aws_cdk import CfnResource, Token
from aws_cdk import aws_kms as kms
from pydantic import Field

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.stack.arguments import KEY
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.permissions import Statement
from constructs_optim.recipe import metrics, tasks
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.hosting.arns import ArnKind
from constructs_optim.recipe.hosting.machine_image import newest
from constructs_optim.recipe.hosting.options import Routing, ScaleIn
from constructs_optim.recipe.metrics.engines import Engine
from constructs_optim.recipe.servers import by_name
from constructs_optim.recipe.settings import Settings

from .options import AsyncInference, DataCapture, MonitoringOptions, VariantOptions
from .update_policy import UpdatePolicy, seconds_of


class EndpointConfiguration(Settings):
    """The options of ``OptimizedEndpoint`` that become its endpoint configuration."""

    async_inference: AsyncInference | None
    data_capture: DataCapture | None
    encryption_key: Annotated[kms.IKey, KEY] | None
    monitoring: MonitoringOptions = Field(default_factory=MonitoringOptions)
    update_policy: UpdatePolicy = Field(default_factory=UpdatePolicy.all_at_once)
    variant: VariantOptions = Field(default_factory=VariantOptions)

    @classmethod
    def display_name(cls) -> str:
        """Return the construct that takes these arguments."""
        return "OptimizedEndpoint"

    def served(
        self, models: Sequence[HostedModel], endpoint_name: str, component_name: str | None = None
    ) -> ServedModel:
        """Return the variant or component that serves ``models``, one for each instance type."""
        observability = self.monitoring.observability
        return ServedModel(
            endpoint_name,
            self.variant.name,
            component_name,
            instance_type=models[0].plan.instance_type if len(models) == 1 else None,
            artifact_key=models[0].evaluation_key if models else None,
            publishing_seconds=(observability and observability.frequency_seconds) or metrics.PUBLISHING_SECONDS,
            engine=self._engine(models),
            is_asynchronous=self.async_inference is not None,
        )

    def _engine(self, models: Sequence[HostedModel]) -> Engine:
        """Return the engine of ``models``, or the reason why SageMaker does not collect its metrics.

        Source: developer guide, "Detailed observability for inference endpoints", which covers real-time endpoints.
        """
        observability = self.monitoring.observability
        servers = {model.plan.container.server for model in models}
        speculates = any(each.kind == "speculative_decoding" for model in models for each in model.plan.techniques)
        engine = Engine(runner=tasks.find(models[0].plan.task).runner if models else "generate")
        if self.async_inference is not None:
            return replace(engine, unpublished="SageMaker collects engine metrics only from real-time endpoints")
        if observability is not None and observability.detailed is False:
            return replace(engine, unpublished="the endpoint has observability=Observability(detailed=False)")
        if len(servers) > 1:
            return replace(engine, unpublished="the models of the pools have different servers")
        server = servers.pop() if servers else None
        title = by_name()[server].title if server is not None else None
        return replace(engine, server=server, title=title, speculates=speculates)

    def hosting(self, **of_the_endpoint: Any) -> Hosting:
        """Return the options as data for the rules."""
        variant, queue, capture = self.variant, self.async_inference, self.data_capture
        return Hosting(
            variant_name=variant.name,
            initial_instance_count=1 if variant.initial_instance_count is None else variant.initial_instance_count,
            minimum_instance_count=variant.min_instance_count,
            maximum_instance_count=variant.max_instance_count,
            scale_in=variant.scale_in,
            routing=variant.routing,
            update=self.update_policy.settings,
            rollback_alarms=len(self.update_policy.rollback_alarms),
            alarms=self.monitoring.chosen_alarms,
            alarm_actions=len(self.monitoring.alarm_actions),
            ok_actions=len(self.monitoring.ok_actions),
            unsent_responses=queue.unsent_responses if queue is not None else (),
            capture_percentage=capture.sampling_percentage if capture is not None else None,
            asynchronous=queue is not None,
            concurrent_invocations=queue.max_concurrent_invocations_per_instance if queue is not None else None,
            download_timeout_seconds=seconds_of(variant.model_data_download_timeout),
            startup_timeout_seconds=seconds_of(variant.container_startup_timeout),
            provision_timeout_seconds=seconds_of(variant.instance_provision_timeout),
            volume_gib=int(variant.volume_size.to_gibibytes()) if variant.volume_size is not None else None,
            encrypted_volume=self.encryption_key is not None,
            ssm_access=variant.ssm_access,
            ami_version=variant.inference_ami_version,
            capacity_reservation=variant.capacity_reservation,
            partitions=tuple(variant.accelerator_partitions),
            existing_configuration=variant.existing_configuration,
            **of_the_endpoint,
        )

    def arns(self) -> Iterator[tuple[str, ArnKind, str]]:
        """Yield the location, the kind and the ARN of the resources that the options refer to."""
        for index, alarm in enumerate(self.update_policy.rollback_alarms):
            yield f"update_policy.rollback_alarms[{index}]", "rollback alarm", alarm.alarm_arn
        if self.variant.capacity_reservation is not None:
            yield "variant.capacity_reservation.arn", "reservation", self.variant.capacity_reservation.arn
        keys: dict[str, tuple[ArnKind, kms.IKey | None]] = {
            "encryption_key": ("volume key", self.encryption_key),
            "variant.core_dumps.encryption_key": (
                "key of files",
                self.variant.core_dumps and self.variant.core_dumps.encryption_key,
            ),
            "data_capture.encryption_key": ("key of files", self.data_capture and self.data_capture.encryption_key),
            "async_inference.encryption_key": (
                "key of files",
                self.async_inference and self.async_inference.encryption_key,
            ),
        }
        for location, (kind, key) in keys.items():
            if key is not None:
                yield location, kind, key.key_arn
        for name in ("success_topic", "error_topic"):
            topic = getattr(self.async_inference, name, None)
            if topic is not None:
                yield f"async_inference.{name}", "topic", topic.topic_arn

    def statements(self) -> Iterator[Statement]:
        """Yield the execution role's permissions for data capture, asynchronous inference and the variant."""
        for option in (self.data_capture, self.async_inference, self.variant):
            yield from option.statements() if option is not None else ()

    def properties(self) -> dict[str, Any]:
        """Return the ``AWS::SageMaker::EndpointConfig`` properties that do not depend on its variant."""
        observability = self.monitoring.observability
        return drop_none(
            async_inference_config=self.async_inference.to_property() if self.async_inference is not None else None,
            data_capture_config=self.data_capture.to_property() if self.data_capture is not None else None,
            kms_key_id=self.encryption_key.key_arn if self.encryption_key is not None else None,
            metrics_config=drop_none(
                enableDetailedObservability=observability.detailed,
                enableEnhancedMetrics=observability.enhanced,
                metricPublishFrequencyInSeconds=observability.frequency_seconds,
            )
            if observability is not None
            else None,
        )

    def is_native(self, hosting: Hosting, models: Sequence[HostedModel]) -> bool:
        """Return whether ``AWS::SageMaker::EndpointConfig`` supports all options, and no hub document decides one."""
        routed = self.variant.routing is None or self.variant.routing.strategy != "KV_AWARE"
        return routed and not self.variant.accelerator_partitions and not self._of_hub(hosting, models)

    def _of_hub(self, hosting: Hosting, models: Sequence[HostedModel]) -> dict[str, Any]:
        """Return the variant's properties that hub documents decide, as tokens for the values of all models."""
        resources = [model.resource for model in models if model.follows_hub]
        properties: dict[str, Any] = {}
        if resources and self.variant.inference_ami_version is None:
            properties["inferenceAmiVersion"] = Token.as_string(_joined(resources, "InferenceAmiVersion"))
        # SageMaker accepts a size only for types without NVMe disks (OPT107); the SDK omits it for the others too.
        if resources and hosting.volume_gib is None and not any(row.nvme_gb for row in hosting.rows):
            properties["volumeSizeInGb"] = Token.as_number(_joined(resources, "VolumeSizeInGB"))
        return properties

    def variant_property(
        self, hosting: Hosting, models: Sequence[HostedModel], managed_range: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """Return the production variant; SageMaker scales instances for components within ``managed_range``."""
        options, (fewest, most) = self.variant, managed_range or (0, 0)
        reservation, provision = options.capacity_reservation, options.instance_provision_timeout
        variant = drop_none(
            capacityReservationConfig={
                "capacityReservationPreference": "capacity-reservations-only",
                "mlReservationArn": reservation.arn,
            }
            if reservation is not None
            else None,
            coreDumpConfig=options.core_dumps.to_property() if options.core_dumps is not None else None,
            enableSsmAccess=True if options.ssm_access else None,
            inferenceAmiVersion=self.ami_version(models),
            initialInstanceCount=max(hosting.initial_instance_count, fewest),
            instanceType=hosting.instance_types[0] if not hosting.pooled else None,
            managedInstanceScaling={
                "maxInstanceCount": most,
                "minInstanceCount": fewest,
                **({"scaleInPolicy": _scale_in(options.scale_in)} if options.scale_in is not None else {}),
                "status": "ENABLED",
            }
            if managed_range is not None
            else None,
            routingConfig=_routing(options.routing),
            variantInstanceProvisionTimeoutInSeconds=seconds_of(provision),
            variantName=options.name,
            volumeSizeInGb=hosting.volume_gib,
        )
        variant |= self._of_hub(hosting, models)
        if hosting.pooled:
            variant["instancePools"] = [
                {
                    "instanceType": name,
                    **({"modelNameOverride": models[i].model_name} if not hosting.serves_components and i else {}),
                    "priority": i + 1,
                }
                for i, name in enumerate(hosting.instance_types)
            ]
        if not hosting.serves_components:
            # With components, the variant only has instances; model, weight and timeouts belong to the component.
            variant |= {"initialVariantWeight": 1, "modelName": models[0].model_name}
            variant |= self.startup_parameters(models[0])
        return dict(sorted(variant.items()))

    def ami_version(self, models: Sequence[HostedModel]) -> str | None:
        """Return the instances' machine image: as set, or the one that the models' containers need."""
        needed = newest(model.plan.container.inference_ami_version for model in models)
        return self.variant.inference_ami_version or needed

    def startup_parameters(self, model: HostedModel, *, longest: int | None = None) -> dict[str, Any]:
        """Return a model's startup timeouts in seconds: as set, or its own defaults, at most ``longest``."""
        timeouts = model.startup_timeouts.within(longest)
        return {
            "containerStartupHealthCheckTimeoutInSeconds": timeouts.startup,
            "modelDataDownloadTimeoutInSeconds": timeouts.download,
            **self.set_startup_parameters(),
        }

    def set_startup_parameters(self) -> dict[str, Any]:
        """Return the startup timeouts in seconds that are set, without defaults."""
        return drop_none(
            containerStartupHealthCheckTimeoutInSeconds=seconds_of(self.variant.container_startup_timeout),
            modelDataDownloadTimeoutInSeconds=seconds_of(self.variant.model_data_download_timeout),
        )


def _joined(resources: Sequence[CfnResource], attribute: str) -> dict[str, Any]:
    """Return an attribute of all resources, in the form that the handler of endpoint configurations reads."""
    values = [{"Fn::GetAtt": [resource.logical_id, attribute]} for resource in resources]
    return values[0] if len(values) == 1 else {"Fn::Join": ["|", values]}


def _scale_in(policy: ScaleIn) -> dict[str, Any]:
    return drop_none(
        cooldownInMinutes=policy.cooldown_minutes, maximumStepSize=policy.max_step_size, strategy=policy.strategy
    )


def _routing(routing: Routing | None) -> dict[str, Any]:
    routing = routing or Routing.least_outstanding_requests()
    if routing.strategy != "PREFIX_AWARE":
        return {"routingStrategy": routing.strategy}
    prefix = {"concurrencyThreshold": routing.concurrency_threshold, "prefixLength": routing.prefix_length}
    return {"prefixAwareRoutingConfig": prefix, "routingStrategy": routing.strategy}
