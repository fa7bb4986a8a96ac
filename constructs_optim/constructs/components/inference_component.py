"""Inference components: models that share an endpoint's accelerators, and adapters of such models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aws_cdk import Fn, Resource, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.hosted_model import HostedModel, describe_hosted
from constructs_optim.constructs.artifacts.model_source import object_arn
from constructs_optim.constructs.endpoint.alarming import follow_scaling
from constructs_optim.constructs.endpoint.endpoint_base import INVOKE_ACTIONS
from constructs_optim.constructs.endpoint.invocation_grants import grant_invocation
from constructs_optim.constructs.endpoint.update_policy import component_deployment_config
from constructs_optim.constructs.evaluation.endpoint_evaluation import EvaluationTarget
from constructs_optim.constructs.evaluation.evaluated_endpoint import EvaluatedEndpoint
from constructs_optim.constructs.monitoring.endpoint_metrics import EndpointMetrics
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.scaling_target import ComponentTarget
from constructs_optim.constructs.stack.permissions import Statement
from constructs_optim.constructs.stack.physical_names import physical_name
from constructs_optim.constructs.stack.stack_context import path_of
from constructs_optim.constructs.validation.template_size import watch_template_size
from constructs_optim.recipe import Plan
from constructs_optim.recipe.hosting import Component
from constructs_optim.recipe.hosting.scaling import scaling_defaults
from constructs_optim.recipe.rules.update_rules import MOST_ROLLBACK_ALARMS

from .component_capacity import ComponentCapacity

if TYPE_CHECKING:
    from constructs_optim.constructs.artifacts.optimization_job import OptimizationJob
    from constructs_optim.constructs.artifacts.optimized_artifact import OptimizedArtifact
    from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms

    from .component_hosting import ComponentHosting


@dataclass(frozen=True)
class Needs:
    """What each copy reserves of an instance, and how many copies there are to begin with."""

    accelerators: int
    memory_mib: int
    copies: int

    @staticmethod
    def of(hosted: HostedModel, accelerators: int | None, memory: Size | None, copies: int) -> Needs:
        """What is given, and what the plan of the model says where it is not."""
        planned = hosted.plan.copy_requirements
        return Needs(
            accelerators if accelerators is not None else planned.accelerators,
            int(memory.to_mebibytes()) if memory is not None else planned.memory_mib,
            copies,
        )

    def asked_by(self, label: str, copies: int | None = None) -> Component:
        """The same for the rules; ``copies``: the most there may be."""
        return Component(label, self.accelerators, self.memory_mib, self.copies if copies is None else copies)


class InferenceComponent(EvaluatedEndpoint, EndpointMetrics, Resource):
    """A model on an endpoint that it shares with others. It has its own copies, scaling, metrics and grants.

    Made by ``OptimizedEndpoint.add_component``, or by the endpoint itself.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        host: ComponentHosting,
        hosted: Sequence[HostedModel],
        needs: Sequence[Needs],
        startup_parameters: Sequence[dict[str, Any]],
        loads_adapters: bool,
        on_scaling: Callable[[int, int], None],
    ) -> None:
        """Declare the component; one model for each instance type of the endpoint, in the order of its pools."""
        self._name = physical_name(scope, id)
        super().__init__(scope, id, physical_name=self._name)
        watch_template_size(self)
        self.hosted: tuple[HostedModel, ...] = tuple(hosted)
        self.needs: tuple[Needs, ...] = tuple(needs)
        self.variant_name: str = host.options.variant.name
        self._host, self._on_scaling, self._loads_adapters = host, on_scaling, loads_adapters
        self._scaling: EndpointScaling | None = None
        # Beside the component, not below it: the endpoint waits for the alarms, and what the component waits for may
        # wait for the endpoint.
        beside = Construct(scope, f"{id}Alarms")
        self.alarms: EndpointAlarms = host.alarming.watch(
            beside,
            self._literally_served,
            hosted,
            label=path_of(self),
            accelerators=min(need.accelerators for need in needs),
        )
        specifications = [
            {
                "computeResourceRequirements": {
                    "minMemoryRequiredInMb": need.memory_mib,
                    "numberOfAcceleratorDevicesRequired": need.accelerators,
                },
                "modelName": one.model_name,
                "startupParameters": startup,
            }
            for one, need, startup in zip(hosted, needs, startup_parameters, strict=True)
        ]
        single = len(hosted) == 1
        names = [*host.rollback_alarm_names, *self.alarms.rollback_alarm_names][:MOST_ROLLBACK_ALARMS]
        definition: dict[str, Any] = {
            "deployment_config": component_deployment_config(host.options.update_policy.settings, names),
            "endpoint_name": host.endpoint_name,
            "inference_component_name": self._name,
            **(
                {"specification": specifications[0]}
                if single
                else {
                    "specifications": [
                        {"instanceType": one.instance_type, **specification}
                        for one, specification in zip(hosted, specifications, strict=True)
                    ]
                }
            ),
            "variant_name": self.variant_name,
        }
        self._definition = {
            "".join(part.capitalize() for part in name.split("_")): value for name, value in definition.items()
        }
        self._resource = sagemaker.CfnInferenceComponent(
            self, "Resource", runtime_config={"copyCount": needs[0].copies}, **definition
        )
        describe_hosted(self._resource, hosted)

    @property
    def _literally_served(self) -> ServedModel:
        """What serves the model, by names that alarms can have before the component is there."""
        return ServedModel(
            self._host.literal_name,
            self.variant_name,
            self._name,
            instance_type=self.hosted[0].instance_type if len(self.hosted) == 1 else None,
            artifact_key=self.hosted[0].evaluation_key,
            publishing_seconds=self._host.options.publishing_seconds,
        )

    @property
    def served(self) -> ServedModel:
        """What serves the model, as CloudWatch knows it."""
        return replace(
            self._literally_served,
            endpoint_name=self._host.endpoint_name,
            inference_component_name=self.inference_component_name,
        )

    @property
    def plan(self) -> Plan:
        """What the recipe came to; of the endpoint's first pool, where there are several."""
        return self.hosted[0].plan

    @property
    def artifact(self) -> OptimizationJob | OptimizedArtifact:
        """What is served; of the endpoint's first pool, where there are several."""
        return self.hosted[0].artifact

    @property
    def inference_component_name(self) -> str:
        """The name that requests give (``InferenceComponentName``)."""
        return self._get_resource_name_attribute(_name_in(self._resource.ref))

    @property
    def inference_component_arn(self) -> str:
        """The component's ARN (a token)."""
        return self._get_resource_arn_attribute(
            self._resource.ref, service="sagemaker", resource="inference-component", resource_name=self._name
        )

    def auto_scale(self, *, max_capacity: int, min_capacity: int = 1) -> EndpointScaling:
        """Let Application Auto Scaling choose the number of copies; instances follow.

        From then on an update of the component keeps the number that scaling has set.

        Args:
            max_capacity: the most copies.
            min_capacity: the fewest copies; with 0, the last copy goes when nothing is asked of it, and a request that
                finds none brings one back. Default: 1.

        Raises:
            RecipeError: when the copies do not fit the instances that there may be.
            ValueError: when the component is scaled already.
        """
        if self._scaling is not None:
            raise ValueError(f"{self.node.path} is scaled already: call auto_scale once and add policies to its result")
        self._on_scaling(min_capacity, max_capacity)
        self._scaling = EndpointScaling(
            self,
            "Scaling",
            target=ComponentTarget(self.inference_component_name),
            min_capacity=min_capacity,
            max_capacity=max_capacity,
            defaults=scaling_defaults(self.plan, accelerators=self.needs[0].accelerators),
            on_change=self._follow,
        )
        self._follow(self._scaling)
        capacity = ComponentCapacity(
            self,
            "Capacity",
            component=self._resource,
            definition=self._definition,
            initial_copies=min(max_capacity, max(min_capacity, self.needs[0].copies)),
        )
        started: Any = {"copyCount": capacity.copies}
        self._resource.runtime_config = started
        return self._scaling

    def _evaluation_target(self, price: float | None, discount: float | None) -> EvaluationTarget:
        return self._host.evaluation_target(
            self.node.path,
            self.served,
            self.hosted,
            alarms=self.alarms,
            component_arn=self.inference_component_arn,
            share_of_instance=self.needs[0].accelerators / self._host.hosting.rows[0].parallel_units,
            price=price,
            discount=discount,
        )

    def _follow(self, scaling: EndpointScaling) -> None:
        self._on_scaling(*scaling.capacity_range)
        follow_scaling(self.alarms)(scaling)

    def add_adapter(self, id: str, *, artifact_uri: str, adapter_name: str | None = None) -> LoraAdapter:
        """Serve a LoRA adapter of this model. Requests name the adapter instead of the component.

        Args:
            id: its id in this component.
            artifact_uri: its archive, ``s3://.../*.tar.gz``, of the adapter's weights and configuration; may be a
                token.
            adapter_name: default: one made of its place in the app.

        Raises:
            RecipeError: when the container was not started for adapters (``adapters=Adapters(...)``), or the archive is
                none.
        """
        self._host.check_adapter(f"add_adapter({id!r})", artifact_uri, loads=self._loads_adapters)
        for one in self.hosted:
            one.artifact.execution_role.permit([_read_statement(artifact_uri)])
        return LoraAdapter(
            self,
            id,
            host=self._host,
            base_name=_name_in(self._resource.ref),
            artifact_uri=artifact_uri,
            adapter_name=adapter_name,
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` invoke this component of the endpoint."""
        return grant_invocation(
            self, self.env.account, grantee, INVOKE_ACTIONS, [self._host.endpoint_arn, self.inference_component_arn]
        )


class LoraAdapter(Resource):
    """A LoRA adapter of an inference component's model. It lives in the copies of its model and scales with them."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        host: ComponentHosting,
        base_name: str,
        artifact_uri: str,
        adapter_name: str | None = None,
    ) -> None:
        """Declare the adapter; use ``InferenceComponent.add_adapter``."""
        name = adapter_name if adapter_name is not None else physical_name(scope, id)
        super().__init__(scope, id, physical_name=name)
        watch_template_size(self)
        self._host, self._name = host, name
        self._resource = sagemaker.CfnInferenceComponent(
            self,
            "Resource",
            endpoint_name=host.endpoint_name,
            inference_component_name=name,
            specification={"baseInferenceComponentName": base_name, "container": {"artifactUrl": artifact_uri}},
        )

    @property
    def inference_component_name(self) -> str:
        """The name that requests give to be answered with this adapter."""
        return self._get_resource_name_attribute(_name_in(self._resource.ref))

    @property
    def inference_component_arn(self) -> str:
        """The adapter's ARN (a token)."""
        return self._get_resource_arn_attribute(
            self._resource.ref, service="sagemaker", resource="inference-component", resource_name=self._name
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` invoke the model with this adapter."""
        return grant_invocation(
            self, self.env.account, grantee, INVOKE_ACTIONS, [self._host.endpoint_arn, self.inference_component_arn]
        )


def _name_in(arn: str) -> str:
    """The name that an ARN ends in: the resource type has no attribute for it."""
    return Fn.select(1, Fn.split("/", arn))


def _read_statement(artifact_uri: str) -> Statement:
    return Statement("ReadAdapters", ("s3:GetObject",), (object_arn(artifact_uri),))
