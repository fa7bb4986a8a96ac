"""What an endpoint's configuration follows: its inference components, and the instances that their copies take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from aws_cdk import RemovalPolicy, Size
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.artifact_store import ArtifactStore
from constructs_optim.constructs.artifacts.execution_role import GrantedRole
from constructs_optim.constructs.artifacts.hosted_model import (
    HostedModel,
    ModelOptions,
    ModelRecipe,
    create_model,
)
from constructs_optim.constructs.endpoint.endpoint_configuration import (
    EndpointOptions,
    configuration_properties,
    variant_properties,
)
from constructs_optim.constructs.endpoint.endpoint_recipes import (
    listed,
    pool_scope,
    pools_of_component,
    recipes_of,
)
from constructs_optim.constructs.endpoint.instance_pool import Pool
from constructs_optim.constructs.endpoint.update_policy import deployment_config
from constructs_optim.constructs.evaluation.endpoint_evaluation import EndpointEvaluation, EvaluationTarget
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.stack.network import Network
from constructs_optim.constructs.validation.refusal import refuse
from constructs_optim.recipe import Model
from constructs_optim.recipe.hosting import Adapters, Component, Hosting
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.rules.update_rules import MOST_ROLLBACK_ALARMS
from constructs_optim.recipe.techniques import Technique

from .component_hosting import ComponentHosting
from .inference_component import InferenceComponent, Needs

if TYPE_CHECKING:
    from constructs_optim.constructs.monitoring.dashboard_evaluation import EvaluatedModel
    from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard


class EndpointComponents:
    """Mixed into the endpoint, which declares what is named here before it uses any of it."""

    alarms: EndpointAlarms | None
    component: InferenceComponent | None
    endpoint_arn: Any
    endpoint_name: Any
    _model_options: ModelOptions
    _added: list[HostedModel]
    _components: ComponentHosting
    _config: sagemaker.CfnEndpointConfig
    _dashboard: EndpointDashboard
    _discount: float
    _endpoint: sagemaker.CfnEndpoint
    _hosting: Hosting
    _models: list[HostedModel]
    _network: Network | None
    _options: EndpointOptions
    _price: float | None
    _removal_policy: RemovalPolicy | None
    _role: GrantedRole
    _rollback_alarm_names: list[str]

    @property
    def inference_component_name(self) -> str | None:
        """The inference component's name (a token), which requests must name; None where a variant serves the model."""
        return self.component.inference_component_name if self.component is not None else None

    @property
    def _component_arns(self) -> list[str]:
        return [self.component.inference_component_arn] if self.component is not None else []

    def add_component(
        self,
        id: str,
        *,
        model: Model,
        techniques: Sequence[Technique] | None = None,
        instance_pools: Sequence[Pool] | None = None,
        accelerators: int | None = None,
        adapters: Adapters | None = None,
        artifact_key: str | None = None,
        copies: int = 1,
        environment: Mapping[str, str] | None = None,
        memory: Size | None = None,
    ) -> InferenceComponent:
        """Serve one more model on the endpoint's instances.

        Args:
            id: its id in this endpoint.
            model: where the weights come from.
            techniques: what to do with them, in order, for the endpoint's instance type.
            instance_pools: instead of ``techniques``, on an endpoint with pools: the techniques for each of its types.
            accelerators: accelerators (NeuronCores on Inferentia and Trainium) of each copy. Default: the plan's
                tensor parallel degree.
            adapters: that the model's container loads LoRA adapters. Default: it does not.
            artifact_key: as for the endpoint.
            copies: how many there are to begin with. Default: 1.
            environment: more environment variables for the model's container. Default: none.
            memory: host memory of each copy. Default: half of the memory that goes with its accelerators.

        Raises:
            RecipeError: with every rule that is broken, for instance where the copies do not fit the instances.
            ValueError: when what is given does not go together.
        """
        pools = pools_of_component(self._hosting, techniques, instance_pools, artifact_key)
        recipes = recipes_of(model, pools, environment, adapters, pooled=instance_pools is not None)
        scope = cast("Construct", self)
        asked = replace(
            self._hosting,
            components=(Component(f"add_component({id!r})", 1, 128, copies),),
            techniques=(*self._hosting.techniques, *(t for pool in pools for t in listed(pool.techniques))),
            adapter_settings=adapters,
        )
        broken = [each for recipe in recipes for each in recipe.violations(scope, self._model_options.jobs.max_runtime)]
        refuse([*broken, *check(asked)])
        self._isolate(f"add_component({id!r})", recipes)
        place = Construct(scope, id)
        models = [create_model(pool_scope(place, recipe), recipe, self._model_options) for recipe in recipes]
        needs = [Needs.of(one, accelerators, memory, copies) for one in models]
        self._added += models
        self._config.enable_network_isolation = self._isolated
        component = self._add(place, "Component", f"add_component({id!r})", models, needs, adapters)
        self._keep(component)
        self._dashboard.show_component(id, component.served).add_alarms(*component.alarms.arns_within_stack)
        return component

    def _evaluation_target_of(
        self,
        label: str,
        served: ServedModel,
        models: Sequence[HostedModel],
        *,
        alarms: EndpointAlarms | None,
        component_arn: str | None = None,
        share_of_instance: float | None = None,
        price: float | None = None,
        discount: float | None = None,
    ) -> EvaluationTarget:
        """What is evaluated of the endpoint; results go to the store of the first model, if it may be written."""
        stores = [model.artifact.artifact_store for model in models if not model.artifact.artifact_store.read_only]

        def declared(evaluation: EndpointEvaluation, baseline: EvaluatedModel | None) -> None:
            if list(models) == self._models:
                self._dashboard.show_evaluation(concurrencies=evaluation.concurrencies, baseline=baseline)
            if alarms is not None and evaluation.has_schedule:
                alarms.watch(evaluation_concurrency=evaluation.concurrencies[0])

        return EvaluationTarget(
            label=label,
            endpoint_name=self.endpoint_name,
            endpoint_arn=self.endpoint_arn,
            endpoint_config_name=self._config.attr_endpoint_config_name,
            component_arn=component_arn,
            served=served,
            models=models,
            share_of_instance=share_of_instance,
            store=stores[0] if stores else ArtifactStore.default_of(self._endpoint),
            network=self._network,
            asynchronous=self._hosting.asynchronous,
            discount=self._discount if discount is None else discount,
            instance_price_per_hour=self._price if price is None else price,
            on_declared=declared,
        )

    def _add(
        self,
        scope: Construct,
        id: str,
        label: str,
        models: Sequence[HostedModel],
        needs: Sequence[Needs],
        adapters: Adapters | None,
    ) -> InferenceComponent:
        return self._components.add(
            scope,
            id,
            label=label,
            models=models,
            needs=needs,
            loads_adapters=adapters is not None,
        )

    def _keep(self, component: InferenceComponent | None) -> None:
        """What becomes of a component and its models is what becomes of the endpoint."""
        if component is not None and self._removal_policy is not None:
            component.apply_removal_policy(self._removal_policy)
            for hosted in component.hosted:
                hosted.resource.apply_removal_policy(self._removal_policy)

    def _configuration(self) -> dict[str, Any]:
        components = self._hosting.serves_components
        return configuration_properties(
            self._options,
            self._variant((self._hosting.initial_instance_count, self._hosting.initial_instance_count)),
            role_arn=self._role.role_arn if components else None,
            isolated=self._isolated if components else None,
            network=self._network if components else None,
        )

    @property
    def _isolated(self) -> bool | None:
        """Whether the containers of components are cut off: as was said, or as the plans of their models have it.

        EnableNetworkIsolation of the configuration "sets whether all model containers deployed to the endpoint are
        isolated" (Amazon SageMaker API reference, CreateEndpointConfig): what the models say of themselves agrees.
        """
        said = self._model_options.network.isolation
        found = {model.plan.container.network_isolation for model in self._hosted()}
        return all(found) if said is None and found else said

    def _hosted(self) -> list[HostedModel]:
        """The models of all components that there are."""
        return [*self._models, *self._added]

    def _isolate(self, label: str, recipes: Sequence[ModelRecipe]) -> None:
        """Refuse models whose containers are not as the endpoint's others are.

        Raises:
            ValueError: where isolated containers would meet others.
        """
        isolated = {all(technique.network_isolation for technique in recipe.techniques) for recipe in recipes}
        isolated |= {model.plan.container.network_isolation for model in self._hosted()}
        if self._model_options.network.isolation is None and len(isolated) > 1:
            raise ValueError(
                f"{label}: some of the endpoint's models are cut off from the network, and others cannot be, such as "
                "those of Sharding.fast_load(); of an endpoint with inference components, all containers are cut off "
                "or none is (CreateEndpointConfig, EnableNetworkIsolation). Give the endpoint "
                "network=NetworkOptions(isolation=False), or serve the models on two endpoints"
            )

    def _variant(self, managed: tuple[int, int]) -> dict[str, Any]:
        range_ = managed if self._hosting.serves_components else None
        return variant_properties(self._options, self._hosting, self._models, range_)

    def _deployment_config(self) -> dict[str, Any]:
        own = self.alarms.rollback_alarm_names if self.alarms is not None else []
        return deployment_config(
            self._options.update_policy.settings, [*self._rollback_alarm_names, *own][:MOST_ROLLBACK_ALARMS]
        )

    def _follow_components(self) -> None:
        """Write what the components take and watch into the configuration and the endpoint."""
        variants: Any = [self._variant(self._components.managed_range())]
        self._config.production_variants = variants
        # The instances are as many as the copies take, which is more than a new configuration starts with.
        self._endpoint.retain_all_variant_properties = True
        # The rules have counted those that were given; what the service takes beside them is the components'.
        names = [*self._rollback_alarm_names, *self._components.rollback_alarm_names_of_all()][:MOST_ROLLBACK_ALARMS]
        self._endpoint.deployment_config = deployment_config(  # pyright: ignore[reportAttributeAccessIssue]
            self._options.update_policy.settings, names
        )
