"""The endpoint a platform team declares: model, techniques and instance type in, a served artifact out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import jsii
from aws_cdk import Annotations, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore
from constructs_optim.constructs.artifacts.execution_role import granted_role
from constructs_optim.constructs.artifacts.hosted_model import ModelOptions, create_model, describe_hosted
from constructs_optim.constructs.artifacts.optimization_job import JobOptions
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.components.component_hosting import ComponentHosting
from constructs_optim.constructs.components.endpoint_components import EndpointComponents
from constructs_optim.constructs.components.inference_component import InferenceComponent, Needs
from constructs_optim.constructs.evaluation.endpoint_evaluation import EvaluationTarget
from constructs_optim.constructs.evaluation.evaluated_endpoint import EvaluatedEndpoint
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from constructs_optim.constructs.monitoring.endpoint_metrics import EndpointMetrics
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.scaling_target import AsyncVariantTarget, VariantTarget
from constructs_optim.constructs.stack.network import Network, NetworkOptions, make_connectable
from constructs_optim.constructs.stack.physical_names import endpoint_name_of
from constructs_optim.constructs.stack.stack_context import StackContext, is_token, path_of
from constructs_optim.constructs.validation.argument_kinds import refuse_wrong_kinds, wrong_kinds
from constructs_optim.constructs.validation.refusal import declaring, refuse
from constructs_optim.constructs.validation.template_size import watch_template_size
from constructs_optim.recipe import Model
from constructs_optim.recipe.hosting import Adapters
from constructs_optim.recipe.hosting.scaling import scaling_defaults
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.techniques import Technique

from .alarming import Alarming, follow_scaling
from .async_inference import AsyncInference
from .data_capture import DataCapture
from .endpoint_base import EndpointBase
from .endpoint_configuration import EndpointOptions
from .endpoint_models import EndpointModels
from .endpoint_recipes import listed, pool_scope, pools_of, recipes_of
from .instance_pool import Pool
from .options import MonitoringOptions, VariantOptions
from .update_policy import UpdatePolicy, watch_statements

if TYPE_CHECKING:
    from aws_cdk import aws_kms as kms


@jsii.implements(iam.IGrantable)
class OptimizedEndpoint(EvaluatedEndpoint, EndpointComponents, EndpointModels, EndpointMetrics, EndpointBase):
    """A SageMaker endpoint that serves a model after its techniques were applied.

    A changed recipe makes a new artifact, a new model and a new endpoint configuration, and the endpoint moves over as
    its update policy says; when one of its alarms goes off meanwhile, it goes back. The old artifact stays in the
    store.

    Example:
        ```python
        endpoint = OptimizedEndpoint(
            stack,
            "Llama70B",
            model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
        )
        endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)
        ```

    An endpoint takes one of three forms: ``model``, ``techniques`` and ``instance_type``; ``model`` and
    ``instance_pools``; or ``instance_type`` alone, for the models that ``add_component`` adds.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model | None = None,
        techniques: Sequence[Technique] | None = None,
        instance_type: str | None = None,
        instance_pools: Sequence[Pool] | None = None,
        artifact_store: IArtifactStore | None = None,
        artifact_key: str | None = None,
        environment: Mapping[str, str] | None = None,
        adapters: Adapters | None = None,
        inference_component: bool | None = None,
        variant: VariantOptions | None = None,
        jobs: JobOptions | None = None,
        monitoring: MonitoringOptions | None = None,
        update_policy: UpdatePolicy | None = None,
        async_inference: AsyncInference | None = None,
        data_capture: DataCapture | None = None,
        endpoint_name: str | None = None,
        encryption_key: kms.IKey | None = None,
        network: NetworkOptions | None = None,
        role: iam.IRole | None = None,
        removal_policy: RemovalPolicy | None = None,
    ) -> None:
        """Declare the endpoint.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            model: where the weights come from. Default: none of its own; ``add_component`` brings models.
            techniques: what to do with them, in order.
            instance_type: what the endpoint runs on, for instance ``ml.g5.12xlarge``.
            instance_pools: instead of ``techniques`` and ``instance_type``, up to five instance types, the preferred
                first, each with the techniques for it; one that has no capacity gives way to the next.
            artifact_store: where artifacts are kept; one that may only be read goes with ``artifact_key``. Default: one
                store for the whole stack.
            artifact_key: the key of an artifact that is in ``artifact_store``, 64 hexadecimal digits; of the last job
                where the recipe has several. May be a token. No job runs then, and the deployment fails with what is
                known of the artifact where it is not there. Default: jobs make what is not in the store.
            environment: more environment variables for the model's container. Default: none.
            adapters: that the model's container loads LoRA adapters. Default: it does not.
            inference_component: whether the model is served as an inference component: others can be added then, it
                scales by copies, to none as well, and requests name it. Default: only where nothing else will do.
            variant: the production variant: its instances, time limits and routing. Default: one instance.
            jobs: how optimization and training jobs run: their role, the time they may take, and how long the
                deployment waits for them.
            monitoring: alarms and their actions, metrics beyond the usual ones, and the price that the dashboard's
                costs are reckoned with. Default: alarms without actions.
            update_policy: how the endpoint moves to a changed configuration, and what makes it go back. Default: all at
                once, with the old fleet kept for 10 minutes.
            async_inference: that requests are queued and answered in S3. Default: they are answered at once.
            data_capture: that requests and responses are kept in S3. Default: they are not.
            endpoint_name: default: one made of the stack's name and the endpoint's place in it.
            encryption_key: the KMS key of the instances' volumes, for types without NVMe disks. Default: SageMaker's.
            network: the VPC that jobs and model reach the network through, and whether the model's container is cut off
                from it. Default: no VPC, and cut off wherever the techniques allow it.
            role: what SageMaker assumes for the model, and for jobs unless they have a role of their own. Default: one
                role for all models of the stack, which writes nothing.
            removal_policy: what becomes of endpoint, configuration and model when they are removed from the stack.
                Default: they are deleted.

        Raises:
            RecipeError: with every rule the recipe breaks; no resource has been added then.
            ValueError: when what is given does not go together, or ``artifact_key`` is not the key of this recipe.
        """
        refuse_wrong_kinds(variant=variant, jobs=jobs, monitoring=monitoring, network=network)
        variant, jobs = variant or VariantOptions(), jobs or JobOptions()
        monitoring, network = monitoring or MonitoringOptions(), network or NetworkOptions()
        pools = pools_of(model, techniques, instance_type, instance_pools, artifact_key)
        recipes = recipes_of(model, pools, environment, adapters, pooled=instance_pools is not None)
        self._options = EndpointOptions(
            async_inference=async_inference,
            data_capture=data_capture,
            encryption_key=encryption_key,
            observability=monitoring.observability,
            update_policy=update_policy if update_policy is not None else UpdatePolicy.all_at_once(),
            variant=variant,
        )
        self._hosting = self._options.hosting(
            instance_types=tuple(pool.instance_type for pool in pools),
            pooled=instance_pools is not None,
            has_model=model is not None,
            techniques=tuple(technique for pool in pools for technique in listed(pool.techniques)),
            inference_component=inference_component,
            endpoint_name=endpoint_name,
            adapter_settings=adapters,
            region=StackContext.of(scope).known_region,
        )
        self._model_options = ModelOptions(artifact_store=artifact_store, role=role, jobs=jobs, network=network)
        mistaken = [
            *wrong_kinds(
                artifact_store=artifact_store,
                async_inference=async_inference,
                data_capture=data_capture,
                encryption_key=encryption_key,
                removal_policy=removal_policy,
                role=role,
            ),
            *wrong_kinds(place="variant.", **vars(variant)),
            *wrong_kinds(place="jobs.", **vars(jobs)),
            *wrong_kinds(place="monitoring.", **vars(monitoring)),
            *wrong_kinds(place="network.", **vars(network)),
        ]
        broken = [violation for recipe in recipes for violation in recipe.violations(scope, jobs.max_runtime)]
        refuse([*mistaken, *broken, *check(self._hosting)])
        self._models, self._added = [], []
        if self._hosting.serves_components:
            self._isolate(id, recipes)
        if network.vpc is not None:
            make_connectable(OptimizedEndpoint)
        self._literal_name = endpoint_name_of(scope, id, endpoint_name)
        with declaring(scope, id):
            super().__init__(scope, id, physical_name=self._literal_name)
        watch_template_size(self)
        for advice in warnings(self._hosting):
            Annotations.of(self).add_warning_v2(advice.id, advice.message)

        self.variant_name = variant.name
        self._name: str | None = None
        self._arn: str | None = None
        self._price, self._discount = monitoring.instance_price_per_hour, monitoring.discount
        self._removal_policy = removal_policy
        rollback_alarms = self._options.update_policy.rollback_alarms
        self._rollback_alarm_names = [alarm.alarm_name for alarm in rollback_alarms]
        self._model_options = replace(self._model_options, network=network.with_shared_security_groups(self))
        self._network = Network.of(self, self._model_options.network)
        self._models = [create_model(pool_scope(self, recipe), recipe, self._model_options) for recipe in recipes]
        self._role = (
            self._models[0].artifact.execution_role
            if self._models
            else granted_role(self, role, lambda: OptimizationService.of(self).execution_role)
        )
        self._role.permit(self._options.statements())
        self._config = sagemaker.CfnEndpointConfig(self, "Config", **self._configuration())
        self._alarming = Alarming(monitoring.alarms, tuple(monitoring.alarm_actions), tuple(monitoring.ok_actions))
        self.alarms: EndpointAlarms | None = None
        if self._models and not self._hosting.serves_components:
            self.alarms = self._alarming.watch(
                self,
                self._literally_served,
                self._models,
                label=path_of(self),
                is_asynchronous=async_inference is not None,
            )
            # Once the model is there, the endpoint is minutes away: until then nothing is wrong.
            self.alarms.node.add_dependency(self._config)
        self._endpoint = sagemaker.CfnEndpoint(
            self,
            "Resource",
            deployment_config=self._deployment_config(),
            endpoint_config_name=self._config.attr_endpoint_config_name,
            endpoint_name=self._literal_name,
        )
        if rollback_alarms:
            # Apart: an alarm may be about another endpoint, whose model waits for the role's other permissions.
            watched = watch_statements([alarm.alarm_arn for alarm in rollback_alarms])
            self._endpoint.node.add_dependency(self._role.permit_separately(self, "WatchAlarms", watched))
        for described in (self._config, self._endpoint):
            describe_hosted(described, self._models)
        self._components = ComponentHosting(
            self._hosting,
            self._options,
            self._endpoint,
            self._literal_name,
            self._alarming,
            self._rollback_alarm_names,
            self._evaluation_target_of,
            on_change=self._follow_components,
        )
        self.component: InferenceComponent | None = None
        if self._models and self._hosting.serves_components:
            needs = [Needs.of(model, None, None, 1) for model in self._models]
            self.component = self._add(self, "Component", "model", self._models, needs, adapters)
        self._scaling: EndpointScaling | None = None
        if removal_policy is not None:
            # A retained endpoint launches instances from its configuration and its models, as its role.
            for kept in (self._endpoint, self._config, *(model.resource for model in self._models)):
                kept.apply_removal_policy(removal_policy)
            self._role.apply_removal_policy(removal_policy)
            self._keep(self.component)

        self._dashboard = EndpointDashboard(
            self,
            "Dashboard",
            endpoint_name=self.endpoint_name,
            variant_name=variant.name,
            artifact=self._models[0].artifact if self._models else None,
            discount=monitoring.discount,
            inference_component_name=self.inference_component_name,
            instance_price_per_hour=monitoring.instance_price_per_hour,
            instance_types=self._hosting.instance_types,
            publishing_seconds=self._options.publishing_seconds,
        )
        alarms_shown = self.alarms if self.component is None else self.component.alarms
        if alarms_shown is not None:
            self._dashboard.add_alarms(*alarms_shown.arns_within_stack)
            if (seconds := alarms_shown.latency_threshold_seconds) is not None:
                self._dashboard.show_latency_alarm(seconds)

    @property
    def _literally_served(self) -> ServedModel:
        """What serves the model, by names that alarms can have before the endpoint is there."""
        return ServedModel(
            self._literal_name,
            self.variant_name,
            instance_type=self._hosting.instance_types[0] if len(self._hosting.instance_types) == 1 else None,
            artifact_key=self._first.evaluation_key,
            publishing_seconds=self._options.publishing_seconds,
        )

    @property
    def served(self) -> ServedModel:
        """What serves the endpoint's own model, as CloudWatch knows it.

        Raises:
            ValueError: for an endpoint without a model of its own.
        """
        if self.component is not None:
            return self.component.served
        return replace(self._literally_served, endpoint_name=self.endpoint_name)

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name (a token)."""
        if self._name is None:
            self._name = self._get_resource_name_attribute(self._endpoint.attr_endpoint_name)
        return self._name

    @property
    def endpoint_arn(self) -> str:
        """The endpoint's ARN (a token)."""
        # ARNs have names in lower case; a name that is known only at deployment is taken as it is.
        if self._arn is None:
            self._arn = self._get_resource_arn_attribute(
                self._endpoint.ref,
                service="sagemaker",
                resource="endpoint",
                resource_name=self._literal_name if is_token(self._literal_name) else self._literal_name.lower(),
            )
        return self._arn

    @property
    def dashboard(self) -> EndpointDashboard:
        """The endpoint's CloudWatch dashboard."""
        return self._dashboard

    def _evaluation_target(self, price: float | None, discount: float | None) -> EvaluationTarget:
        if self.component is not None:
            return self.component._evaluation_target(price, discount)  # noqa: SLF001 - its own component
        return self._evaluation_target_of(
            path_of(self), self.served, self._models, alarms=self.alarms, price=price, discount=discount
        )

    def auto_scale(self, *, max_capacity: int, min_capacity: int = 1) -> EndpointScaling:
        """Let Application Auto Scaling choose the number of instances, or of its inference component's copies.

        From then on an update of the endpoint keeps the number that scaling has set.

        Args:
            max_capacity: the most instances, or copies.
            min_capacity: the fewest. Copies may go to 0; a variant keeps an instance. Default: 1.

        Raises:
            RecipeError: if the range cannot work, for instance ``max_capacity < min_capacity``.
            ValueError: if the endpoint is scaled already.
        """
        if self.component is not None:
            scaling = self.component.auto_scale(max_capacity=max_capacity, min_capacity=min_capacity)
            self._dashboard.show_scaling(min_capacity=min_capacity, max_capacity=max_capacity)
            return scaling
        if self._scaling is not None:
            raise ValueError(f"{self.node.path} is scaled already: call auto_scale once and add policies to its result")
        scaled = AsyncVariantTarget if self._hosting.asynchronous else VariantTarget
        self._scaling = EndpointScaling(
            self,
            "Scaling",
            target=scaled(self._endpoint.attr_endpoint_name, self.variant_name),
            min_capacity=min_capacity,
            max_capacity=max_capacity,
            defaults=scaling_defaults(self.plan),
            on_change=follow_scaling(self.alarms),
        )
        self._endpoint.retain_all_variant_properties = True
        self._dashboard.show_scaling(min_capacity=min_capacity, max_capacity=max_capacity)
        return self._scaling
