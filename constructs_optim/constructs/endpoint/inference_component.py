"""Inference components: models that share an endpoint's accelerators, and their LoRA adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NoReturn, cast

import jsii
from aws_cdk import Aws, CfnResource, Fn, RemovalPolicy, Resource, Size, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.interfaces.aws_sagemaker import IInferenceComponentRef, InferenceComponentReference
from constructs import Construct

from constructs_optim.constructs.artifacts.hosted_model import HostedModel, describe_hosted
from constructs_optim.constructs.artifacts.model_source import S3Location
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.evaluation.endpoint_evaluation import EvaluatedSubject, EvaluationTarget
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.constructs.stack.arguments import MEMORY, refuse
from constructs_optim.constructs.stack.custom_resource import COMPONENT_SECONDS, RESPONSE_SECONDS, drop_none
from constructs_optim.constructs.stack.findings import advise_when_complete
from constructs_optim.constructs.stack.network import Network
from constructs_optim.constructs.stack.permissions import Statement, statements_of
from constructs_optim.constructs.stack.stack_context import StackContext, generated_name, path_of, physical_name
from constructs_optim.constructs.validation.template_size import watch_template_size
from constructs_optim.recipe import Violation
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.hosting import (
    COMPONENT_STARTUP_SECONDS,
    PARTITION_STARTUP_SECONDS,
    Adapter,
    Component,
    Hosting,
    instances_for_copies,
)
from constructs_optim.recipe.hosting.options import DependentOption
from constructs_optim.recipe.hosting.scaling import scaling_defaults
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.rules.hosting_rules import MOST_ROLLBACK_ALARMS
from constructs_optim.recipe.settings import methods_suggest_keywords
from constructs_optim.recipe.tokens import is_token
from constructs_optim.templates.resource_types import OPTIMIZED_INFERENCE_COMPONENT

from .endpoint_base import ModelServer, grant_invocations, name_in_arn, openai_base_url, warn_of_openai
from .endpoint_configuration import EndpointConfiguration
from .endpoint_updates import name_in_failure
from .options import ComponentOptions, declare_alarms
from .update_policy import component_deployment_config

if TYPE_CHECKING:
    from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard


@dataclass
class EndpointResources:
    """An endpoint's resources and components, and the options that the components share.

    ``network`` is None without a VPC; ``served`` is None for an endpoint imported with its configuration.
    """

    endpoint: sagemaker.CfnEndpoint
    config: sagemaker.CfnEndpointConfig
    literal_name: str
    configuration: EndpointConfiguration
    hosting: Hosting
    network: Network | None
    served: CfnResource | None
    components: list[InferenceComponent] = field(default_factory=lambda: list[InferenceComponent]())

    def evaluation_target(
        self,
        server: ModelServer,
        alarms: EndpointAlarms | None,
        dashboard: EndpointDashboard | None,
        *,
        component_arn: str | None = None,
        share_of_instance: float | None = None,
    ) -> EvaluationTarget:
        """Return the evaluation target for the variant or a component."""
        return EvaluationTarget(
            label=path_of(server),
            after=self.served,
            endpoint_arn=self.endpoint.ref,
            endpoint_config_name=self.config.attr_endpoint_config_name,
            component_arn=component_arn,
            served=server.served,
            subjects=[EvaluatedSubject.of(hosted) for hosted in server.models],
            share_of_instance=share_of_instance,
            network=self.network,
            asynchronous=self.hosting.asynchronous,
            discount=self.configuration.monitoring.discount,
            instance_price_per_hour=self.configuration.monitoring.instance_price_per_hour,
            alarms=alarms,
            dashboard=dashboard,
        )

    @property
    def rollback_alarm_names(self) -> list[str]:
        """The components' rollback alarms: the first of each component, then the second of each, and so on."""
        names = [component.alarms.rollback_alarm_names for component in self.components]
        return [name for turn in zip_longest(*names) for name in turn if name is not None]

    @property
    def managed_range(self) -> tuple[int, int]:
        """The minimum and maximum number of instances: as set, or what the copies need, plus one for updates."""
        variant = self.configuration.variant
        initial, fewest, most = variant.initial_instance_count, variant.min_instance_count, variant.max_instance_count
        if not self.components:
            start = self.hosting.initial_instance_count
            return start if fewest is None else fewest, max(1, start if most is None else most)
        if fewest is None:
            taken = self._instances([component.copies(component.fewest_copies) for component in self.components])
            fewest = taken if initial is None else min(initial, taken) if taken == 0 else max(initial, taken)
        if most is None:
            taken = self._instances([component.copies(component.most_copies) for component in self.components])
            most = max(1, fewest, initial or 0, taken + 1)
        return fewest, most

    def check_copies(self, component: InferenceComponent, copies: int) -> None:
        """Refuse a number of copies that does not fit together with the other components."""
        hosting = self.hosting
        beside = [server.copies(server.most_copies) for server in self.components if server is not component]
        components = [*beside, component.copies(copies)]
        violations: list[Violation] = []
        for instance_type, of_type in zip(hosting.instance_types, zip(*components, strict=True), strict=True):
            violations += check(replace(hosting, instance_types=(instance_type,), components=of_type))
        refuse(violations)

    def _instances(self, components: Sequence[Sequence[Component]]) -> int:
        """Return how many instances the copies need, of the instance type that needs the most."""
        # Not strict: the catalog may not know all of the instance types.
        by_type = zip(self.hosting.rows, zip(*components, strict=True), strict=False)
        partitions = self.hosting.partitions
        return max((instances_for_copies(list(of_type), row, partitions) for row, of_type in by_type), default=1)


def requirements_of(
    model: HostedModel,
    label: str,
    options: ComponentOptions,
    *,
    accelerators: int | None = None,
    memory: Size | None = None,
    copies: int = 1,
    partition: str | None = None,
) -> Component:
    """Return the resources that a copy of a model reserves: as set, or from the model's plan."""
    MEMORY.check(f"{label}.memory", memory)
    planned = model.plan.copy_requirements
    return Component(
        label,
        planned.accelerators if accelerators is None else accelerators,
        planned.memory_mib if memory is None else int(memory.to_mebibytes()),
        copies,
        int(options.max_memory.to_mebibytes()) if options.max_memory is not None else None,
        options.cpu_cores,
        partition,
    )


@methods_suggest_keywords
@jsii.implements(IInferenceComponentRef)
class _ComponentResource(Resource):
    """An ``AWS::SageMaker::InferenceComponent`` for a model or an adapter.

    CloudFormation has no property for a GPU partition, so a component on one is a custom resource with the same
    properties.
    """

    _endpoint: EndpointResources
    inference_component_name: str
    """The ``InferenceComponentName`` of requests."""
    inference_component_arn: str
    """The component's ARN (a token)."""

    @property
    def inference_component_ref(self) -> InferenceComponentReference:
        """The reference for other CDK constructs (``IInferenceComponentRef``)."""
        return InferenceComponentReference(inference_component_arn=self.inference_component_arn)

    def _declare(
        self,
        endpoint: EndpointResources,
        name: str,
        *,
        partition: str | None = None,
        pattern: str = "",
        **properties: Any,
    ) -> sagemaker.CfnInferenceComponent:
        """Declare the resource; ``pattern`` is that of its name in ARNs, for a component on a ``partition``."""
        self._endpoint = endpoint
        resource = sagemaker.CfnInferenceComponent(
            self,
            # CloudFormation never changes the type of a resource.
            "Resource" if partition is None else "Partitioned",
            endpoint_name=endpoint.endpoint.attr_endpoint_name,
            inference_component_name=name,
            **properties,
        )
        if partition is not None:
            requirements = "Specification.ComputeResourceRequirements"
            resource.add_property_override(f"{requirements}.AcceleratorPartitionType", partition)
            resource.add_override("Type", OPTIMIZED_INFERENCE_COMPONENT)
            runner = OptimizationService.of(self).component_runner
            for property_name, value in runner.properties.items():
                resource.add_property_override(property_name, value)
            resource.add_property_override("ServiceTimeout", COMPONENT_SECONDS)
            # ARNs from known names, because the resources do not exist yet.
            arn = f"arn:{Aws.PARTITION}:sagemaker:{Aws.REGION}:{Aws.ACCOUNT_ID}"
            component = f"{arn}:inference-component/{pattern}"
            host = f"{arn}:endpoint/{name_in_arn(endpoint.literal_name)}"
            runner.watcher.permit(statements_of("manage inference components", Component=component, Endpoint=host))
        self.inference_component_name = self._get_resource_name_attribute(_name_in(resource.ref))
        self.inference_component_arn = self._get_resource_arn_attribute(
            resource.ref, service="sagemaker", resource="inference-component", resource_name=name
        )
        return resource

    @property
    def invoked_arns(self) -> list[str]:
        """The ARNs that a request needs permissions for: the endpoint's and the component's."""
        return [self._endpoint.endpoint.ref, self.inference_component_arn]

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` invoke this component or adapter, also with bearer tokens."""
        return grant_invocations(self, grantee, self.invoked_arns)


@methods_suggest_keywords
class InferenceComponent(_ComponentResource, ModelServer):
    """A model on a shared endpoint, with its own copies, scaling, metrics and grants.

    Created by ``OptimizedEndpoint.add_component``, or by the endpoint itself.
    """

    dashboard: EndpointDashboard | None = None
    """The dashboard that shows evaluations: the endpoint's dashboard, if this is the endpoint's own model."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint: EndpointResources,
        models: Sequence[HostedModel],
        requirements: Sequence[Component],
        options: ComponentOptions,
        name: str | None = None,
        existing_model: str | None = None,
        concurrency: float | None = None,
    ) -> None:
        """Declare the component; use ``OptimizedEndpoint.add_component``.

        ``models`` and ``requirements`` of a copy are in the order of the endpoint's instance types. ``concurrency`` is
        the scaling target, by default the plan's.
        """
        self._options, self._existing_model, self._concurrency = options, existing_model, concurrency
        self.requirements: tuple[Component, ...] = tuple(requirements)
        self.fewest_copies = self.most_copies = requirements[0].copies
        endpoint.check_copies(self, self.most_copies)
        self._partition: str | None = requirements[0].partition
        generated = generated_name(scope, id, _ending(scope, endpoint, self._partition))
        self._name = name or generated.name
        super().__init__(scope, id, physical_name=self._name)
        watch_template_size(self)
        self.models = tuple(models)
        self.variant_name: str = endpoint.configuration.variant.name
        self._endpoint = endpoint
        self._loads_adapters = all(hosted.plan.container.loads_adapters for hosted in models)
        # Next to the component, not below it, to avoid a cycle: the endpoint depends on the alarms, and the component's
        # own dependencies may depend on the endpoint.
        beside = Construct(scope, f"{id}Alarms")
        self.alarms: EndpointAlarms = declare_alarms(
            beside,
            endpoint.configuration.monitoring,
            endpoint.configuration.served(models, endpoint.literal_name, self._name),
            models,
            label=path_of(self),
            accelerators=min(requirement.accelerators for requirement in requirements),
        )
        if endpoint.served is not None:
            name_in_failure(self, self.alarms.rollback_alarm_arns)
        self._definition = self._properties()
        self._resource = self._declare(
            endpoint,
            self._name,
            partition=self._partition,
            pattern=generated.pattern if name is None else name_in_arn(name),
            runtime_config={"copyCount": requirements[0].copies},
            **self._definition,
        )
        if existing_model is None:
            describe_hosted(self._resource, models)
        else:
            self._resource.apply_removal_policy(RemovalPolicy.RETAIN)
        if endpoint.hosting.existing_configuration is None:
            # A new configuration starts with fewer instances than the copies need.
            endpoint.endpoint.retain_all_variant_properties = True
        endpoint.components.append(self)
        self._adapters: list[LoraAdapter] = []
        if self._loads_adapters:
            advise_when_complete(self, self._advice_without_adapters)

    def _advice_without_adapters(self) -> Sequence[Advice]:
        return () if self._adapters else warnings(DependentOption("server.adapters", "set", "add_adapter"))

    def _properties(self) -> dict[str, Any]:
        """Return the component's properties without ``RuntimeConfig``."""
        configuration = self._endpoint.configuration
        longest = COMPONENT_STARTUP_SECONDS if self._partition is None else PARTITION_STARTUP_SECONDS
        if self._existing_model is not None:
            # An imported resource can only refer to resources of the same import.
            specification = {**self._requirements_property(self.requirements[0]), "modelName": self._existing_model}
            if timeouts := configuration.set_startup_parameters():
                specification["startupParameters"] = timeouts
            return {"specification": specification, "variant_name": self.variant_name}
        policy = configuration.update_policy
        alarm_names = [alarm.alarm_name for alarm in policy.rollback_alarms] + self.alarms.rollback_alarm_names
        specifications: list[dict[str, Any]] = [
            {
                **self._requirements_property(requirement),
                "modelName": model.model_name,
                "startupParameters": configuration.startup_parameters(model, longest=longest),
            }
            for model, requirement in zip(self.models, self.requirements, strict=True)
        ]
        properties: dict[str, Any] = {
            "deployment_config": component_deployment_config(policy.settings, alarm_names[:MOST_ROLLBACK_ALARMS]),
            "variant_name": self.variant_name,
        }
        if len(specifications) == 1:
            return {**properties, "specification": specifications[0]}
        for model, specification in zip(self.models, specifications, strict=True):
            specification["instanceType"] = model.plan.instance_type
        return {**properties, "specifications": specifications}

    def _requirements_property(self, requirement: Component) -> dict[str, Any]:
        requirements = drop_none(
            maxMemoryRequiredInMb=requirement.max_memory_mib,
            minMemoryRequiredInMb=requirement.memory_mib,
            numberOfAcceleratorDevicesRequired=requirement.accelerators,
            numberOfCpuCoresRequired=requirement.cpu_cores,
        )
        return {"computeResourceRequirements": requirements, **self._options.to_property()}

    @property
    def served(self) -> ServedModel:
        """The component that CloudWatch publishes metrics for."""
        endpoint_name = self._endpoint.endpoint.attr_endpoint_name
        return self._endpoint.configuration.served(self.models, endpoint_name, self.inference_component_name)

    def copies(self, count: int) -> list[Component]:
        """Return the requirements of ``count`` copies, one for each instance type."""
        return [replace(requirement, copies=count) for requirement in self.requirements]

    def _scaled(self, min_capacity: int, max_capacity: int) -> EndpointScaling:
        self._set_capacity_range(min_capacity, max_capacity)
        scaling = EndpointScaling(
            self,
            "Scaling",
            target=ScalingTarget.component(self.inference_component_name),
            min_capacity=min_capacity,
            max_capacity=max_capacity,
            defaults=scaling_defaults(
                self.plan, accelerators=self.requirements[0].accelerators, concurrency=self._concurrency
            ),
            alarms=self.alarms,
            set_range=self._set_capacity_range,
            served=self.served,
            imported=self._existing_model is not None,
        )
        self.alarms.watch(capacity=scaling.capacity, scales_to_zero=scaling.scales_to_zero)
        if self._existing_model is not None:
            # This app never updates the component, so no update resets its copies.
            return scaling
        definition = {
            "endpoint_name": self._endpoint.endpoint.attr_endpoint_name,
            "inference_component_name": self._name,
            **self._definition,
        }
        initial_copies = min(max_capacity, max(min_capacity, self.requirements[0].copies))
        runtime: Any = {"copyCount": current_copies(self, self._resource, definition, initial_copies)}
        self._resource.runtime_config = runtime
        return scaling

    def _set_capacity_range(self, fewest: int, most: int) -> None:
        if Token.is_unresolved(fewest) or Token.is_unresolved(most):
            raise ValueError(
                "min_capacity or max_capacity is known only when the stack is deployed, and synthesis must check "
                f"whether the copies of {self.requirements[0].label} fit the instances: use numbers"
            )
        self._endpoint.check_copies(self, most)
        self.fewest_copies, self.most_copies = fewest, most

    @property
    def openai_base_url(self) -> str:
        """The ``base_url`` for OpenAI clients, as for an endpoint; contains tokens."""
        warn_of_openai(self, self.models)
        return openai_base_url(self, self._endpoint.endpoint.attr_endpoint_name, self.inference_component_name)

    @property
    def evaluation_target(self) -> EvaluationTarget:
        """The target of evaluations."""
        return self._endpoint.evaluation_target(
            self,
            self.alarms,
            self.dashboard,
            component_arn=self.inference_component_arn,
            share_of_instance=self.requirements[0].accelerators / self._endpoint.hosting.rows[0].parallel_units,
        )

    def add_adapter(self, id: str, *, artifact_uri: str, adapter_name: str | None = None) -> LoraAdapter:
        """Serve a LoRA adapter of this model. Requests name the adapter instead of the component.

        Args:
            id: its ID in this component.
            artifact_uri: the S3 URI of the archive with the adapter's weights and configuration, ``s3://.../*.tar.gz``;
                may be a token.
            adapter_name: the adapter's name. Default: generated from its path in the app.

        Raises:
            RecipeError: if the container's configuration does not support adapters, or the archive's URI is invalid.
        """
        adapter = Adapter(f"add_adapter({id!r})", artifact_uri, self._loads_adapters, adapter_name)
        refuse(check(replace(self._endpoint.hosting, adapters=(adapter,))))
        read = Statement("ReadAdapters", ("s3:GetObject",), (S3Location(artifact_uri).object_arn,))
        for model in self.models:
            model.artifact.execution_role.permit([read])
        base_name = _name_in(self._resource.ref)
        digest = self._endpoint.configuration.variant.partition_digest
        name = adapter_name or physical_name(self, id, digest)
        self._adapters.append(LoraAdapter(self, id, self._endpoint, base_name, artifact_uri, name))
        return self._adapters[-1]


@methods_suggest_keywords
class LoraAdapter(_ComponentResource):
    """A LoRA adapter of an inference component's model. The model's copies load it, and it scales with them."""

    def __init__(
        self, scope: Construct, id: str, endpoint: EndpointResources, base_name: str, artifact_uri: str, name: str
    ) -> None:
        """Declare the adapter; use ``InferenceComponent.add_adapter``."""
        super().__init__(scope, id, physical_name=name)
        watch_template_size(self)
        specification = {"baseInferenceComponentName": base_name, "container": {"artifactUrl": artifact_uri}}
        self._declare(endpoint, name, specification=specification)

    @property
    def openai_base_url(self) -> NoReturn:
        """Raise: an adapter has no URL for OpenAI clients.

        Source: vLLM, ``entrypoints/serve/sagemaker/api_router.py`` (``inject_adapter_id`` of ``/invocations``).

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"{self.node.path} is an adapter, and has no URL for OpenAI clients: the container selects the adapter "
            "only at /invocations, so the model would respond without it. Invoke it by InferenceComponentName, or use "
            f"the URL of {self.node.scope.node.path if self.node.scope else 'its model'}"
        )


def current_copies(
    scope: Construct, component: sagemaker.CfnInferenceComponent, definition: Mapping[str, Any], initial_copies: int
) -> float:
    """Return a scaled component's current number of copies, or the initial one (a token), to keep it in updates.

    ``AWS::SageMaker::InferenceComponent`` sends ``RuntimeConfig.CopyCount`` with every update, and an endpoint's
    ``RetainAllVariantProperties`` has no counterpart for components. The component's ``definition`` (its properties
    without ``runtimeConfig``) is a property of a ``Custom::ComponentCapacity``, so a change of the component runs the
    look-up first. The look-up gets the component's logical ID instead of a reference, because the component depends on
    the response. The component's name must be in lower case, as in its ARN.
    """
    resource = CfnResource(
        Construct(scope, "Capacity"),
        "Resource",
        type="Custom::ComponentCapacity",
        properties={
            "ServiceToken": OptimizationService.of(scope).capacity_service_token,
            "ServiceTimeout": RESPONSE_SECONDS,
            "ComponentLogicalId": component.logical_id,
            "InitialCopyCount": initial_copies,
            "Component": _as_in_templates(definition),
            # Tags update the component as well, and are only complete at synthesis.
            "ComponentTags": component.cdk_tag_manager.rendered_tags,
        },
    )
    return Token.as_number(resource.get_att("CopyCount"))


def _ending(scope: Construct, endpoint: EndpointResources, partition: str | None) -> str:
    """Return the suffix of a component's name: SageMaker can change neither its partition nor the endpoint's layout."""
    if partition is None:
        return ""
    name = endpoint.literal_name
    # A token's text contains the number of tokens before it, which any change of the app changes.
    known = json.dumps(StackContext.of(scope).resolve(name)) if is_token(name) else name
    return f"-{sha256(f'{known}{partition}')[:6]}"


def _as_in_templates(value: Any) -> Any:
    """Return properties with their names in a template: ``modelName`` and ``model_name`` become ``ModelName``."""
    if isinstance(value, list | tuple):
        return [_as_in_templates(item) for item in cast("Sequence[object]", value)]
    if not isinstance(value, Mapping):
        return value
    return {
        "".join(f"{part[:1].upper()}{part[1:]}" for part in name.split("_")): _as_in_templates(member)
        for name, member in cast("Mapping[str, object]", value).items()
    }


def _name_in(arn: str) -> str:
    """Return the name at the end of an ARN; the resource type has no attribute for it."""
    return Fn.select(1, Fn.split("/", arn))
