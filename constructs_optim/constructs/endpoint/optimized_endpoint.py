"""The endpoint that a platform team declares by model, techniques and instance type."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import jsii
from aws_cdk import CfnResource, Duration, RemovalPolicy, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.artifact_store import ArtifactStore, IArtifactStore
from constructs_optim.constructs.artifacts.hosted_model import (
    HostedModel,
    ModelHost,
    ModelOptions,
    create_model,
    describe_hosted,
)
from constructs_optim.constructs.artifacts.optimization_job import JobOptions
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.artifacts.planned_recipe import (
    ModelRecipe,
    Pool,
    advice_on_choice,
    choice_of,
    pool_scope,
    pools_of,
    pools_of_choice,
    pools_of_component,
    recipes_of,
    violations_of_choice,
)
from constructs_optim.constructs.artifacts.preflight import Preflight
from constructs_optim.constructs.artifacts.recipe_artifact import RecipeArtifact
from constructs_optim.constructs.artifacts.roles import SageMakerRole, SeveralRoles, UserRole
from constructs_optim.constructs.evaluation.endpoint_evaluation import EvaluatedSubject, EvaluationTarget
from constructs_optim.constructs.evaluation.shadow_run import (
    ShadowCandidate,
    ShadowedEndpoint,
    ShadowRun,
)
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.monitoring.speculation_restart import RestartedEndpoint, SpeculationRestart
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.constructs.stack.arguments import DURATION, collected, refuse, suggests_keywords, unique_ids
from constructs_optim.constructs.stack.custom_resource import RESPONSE_SECONDS, drop_none
from constructs_optim.constructs.stack.findings import advise, advise_when_complete, refuse_when_complete
from constructs_optim.constructs.stack.network import Network, NetworkOptions, make_connectable
from constructs_optim.constructs.stack.property_injection import property_injectable
from constructs_optim.constructs.stack.stack_context import StackContext, endpoint_name_of, late_value, path_of
from constructs_optim.constructs.validation.template_size import watch_template_size
from constructs_optim.recipe import Model, Plan, Violation
from constructs_optim.recipe.catalog.lock import RecordedChoice
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.hosting import Component
from constructs_optim.recipe.hosting.machine_image import MachineImageUse, machine_image_of
from constructs_optim.recipe.hosting.options import DependentOption, StepOfFleet
from constructs_optim.recipe.hosting.scaling import scaling_defaults
from constructs_optim.recipe.hosting.shadow import SHADOW_VARIANT, AnswerCheck, Shadow
from constructs_optim.recipe.hosting.speculation import Speculation
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.rules.hosting_rules import MOST_ROLLBACK_ALARMS
from constructs_optim.recipe.servers import ServerSettings
from constructs_optim.recipe.tasks import GENERATE
from constructs_optim.recipe.techniques import Technique
from constructs_optim.recipe.techniques.captured import CapturedEndpoint, CapturedTraffic
from constructs_optim.runtime.shadow.sequential_test import announced_pairs
from constructs_optim.templates.resource_types import CHOICE_KEY, OPTIMIZED_ENDPOINT_CONFIG

from .endpoint_base import IOptimizedEndpoint, ModelServer, name_in_arn, warn_of_openai
from .endpoint_configuration import EndpointConfiguration
from .endpoint_updates import changing, check_served, name_in_failure
from .inference_component import EndpointResources, InferenceComponent, requirements_of
from .options import (
    AsyncInference,
    ComponentOptions,
    DataCapture,
    MonitoringOptions,
    VariantOptions,
    declare_alarms,
)
from .update_policy import UpdatePolicy, deployment_config, watch_statements

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_sns as sns


@suggests_keywords
@property_injectable
@jsii.implements(iam.IGrantable)
class OptimizedEndpoint(IOptimizedEndpoint, ModelServer):
    """A SageMaker endpoint that serves a model after applying optimization techniques to it.

    When the recipe changes, the deployment creates a new artifact, model and endpoint configuration, and updates the
    endpoint as its update policy defines. The update rolls back if one of the endpoint's alarms goes into ALARM. The
    old artifact stays in the store.

    Examples:
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

    An endpoint takes one of four forms: ``model``, ``techniques`` and ``instance_type``; ``model`` and
    ``instance_pools``; ``model`` and ``objectives``, with a choice that ``constructs-optim recommend --update``
    recorded in the lock file; or ``instance_type`` alone, for the models that ``add_component`` adds.
    """

    PROPERTY_INJECTION_ID: ClassVar[str] = "constructs_optim.OptimizedEndpoint"
    """The ``construct_unique_id`` of an ``IPropertyInjector`` for this construct."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model | None = None,
        techniques: Sequence[Technique] | None = None,
        instance_type: str | None = None,
        instance_pools: Sequence[Pool] | None = None,
        objectives: Objectives | None = None,
        artifact_store: IArtifactStore | None = None,
        artifact_key: str | None = None,
        environment: Mapping[str, str] | None = None,
        server: ServerSettings | None = None,
        inference_component: bool | ComponentOptions | None = None,
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
            id: its ID in that scope.
            model: the source of the weights. Default: none, for an endpoint of inference components.
            techniques: the techniques to apply, in order.
            instance_type: the endpoint's instance type, for instance ``ml.g5.12xlarge``.
            instance_pools: instead of ``techniques`` and ``instance_type``, up to five instance types with the
                techniques for each, in order of preference. SageMaker launches instances of the first type that has
                capacity.
            objectives: instead of ``techniques`` and ``instance_type``, the performance that the endpoint must reach.
                The lock file's choice for these objectives sets the recipe, the instance types, the number of
                instances, and the scaling target.
            artifact_store: the store of the artifacts; a read-only one requires ``artifact_key``. Default: one store
                for the whole stack.
            artifact_key: the key of an existing artifact in ``artifact_store``, 64 hexadecimal digits; may be a token.
                For a recipe with several jobs, it is the last job's key. No job runs, and the deployment fails if the
                store does not have the artifact. Default: jobs create the artifacts that are missing from the store.
            environment: additional environment variables of the model's container. Default: none.
            server: the model server and its settings. Default: vLLM, unless a technique needs another server.
            inference_component: whether the model is served as an inference component. Such an endpoint accepts further
                components and scales by copies, also to zero; requests name the component. ``ComponentOptions`` mean
                yes, with these options. Default: only if a technique requires it.
            variant: the production variant: its instances, time limits and routing. Default: one instance.
            jobs: the role and the maximum runtime of optimization and training jobs, and how long the deployment waits
                for them.
            monitoring: the alarms and their actions, additional metrics, and the instance price for the dashboard's
                costs. Default: alarms without actions.
            update_policy: how a changed configuration reaches the endpoint, and what rolls the update back. Default:
                all at once, keeping the old fleet for 10 minutes.
            async_inference: asynchronous inference, which queues requests and writes responses to S3. Default:
                synchronous inference.
            data_capture: capture of requests and responses to S3. Default: no capture.
            endpoint_name: the endpoint's name. Default: generated from the endpoint's path in the stack and the stack's
                name or, in a template for any number of stacks, its ID.
            encryption_key: the KMS key of the instances' volumes, for types without NVMe disks. Default: SageMaker's.
            network: the VPC of jobs and models, and whether the model's container is isolated from the network.
                Default: no VPC, and isolation if the techniques allow it.
            role: the role that SageMaker assumes for the model, and for jobs without a role of their own. Default: one
                role for all models of the stack, without write permissions.
            removal_policy: whether the endpoint, its configuration and its models are deleted with the stack. Default:
                they are deleted.

        Raises:
            RecipeError: if the recipe breaks rules; lists all of them. No resource is added.
            ValueError: if arguments exclude each other, or ``artifact_key`` is not the key of this recipe.
        """
        violations: list[Violation] = []
        with collected(violations):
            self._configuration = EndpointConfiguration(
                async_inference=async_inference,
                data_capture=data_capture,
                encryption_key=encryption_key,
                **drop_none(monitoring=monitoring, update_policy=update_policy, variant=variant),
            )
        with collected(violations):
            models = {"artifact_store": artifact_store, "role": role, "removal_policy": removal_policy}
            self._model_options = ModelOptions(**models, **drop_none(jobs=jobs, network=network))
        self._choice: RecordedChoice | None = None
        if objectives is None:
            pools = pools_of(model, techniques, instance_type, instance_pools, artifact_key)
            pooled = instance_pools is not None
        else:
            given = {"techniques": techniques, "instance_type": instance_type, "instance_pools": instance_pools}
            self._choice = choice_of(scope, model, objectives, given)
            pools = pools_of_choice(self._choice, server, artifact_key)
            pooled = len(pools) > 1
            inference_component = self._with_copies(self._choice, inference_component)
            self._configuration = self._with_instances(self._configuration, self._choice, inference_component)
        options = inference_component if isinstance(inference_component, ComponentOptions) else ComponentOptions()
        partition = options.partition_of(variant) if isinstance(variant, VariantOptions) else None
        recipes = recipes_of(model, pools, environment, server, pooled=pooled, partition=partition)
        if violations:
            refuse([*violations, *(each for recipe in recipes for each in recipe.violations(scope))])
        violations = self._violations(scope, recipes)
        if objectives is not None and not violations:
            violations = violations_of_choice(scope, objectives, recipes)
        self._hosting = self._configuration.hosting(
            instance_types=tuple(pool.instance_type for pool in pools),
            pooled=pooled,
            has_model=model is not None,
            techniques=_techniques(pools),
            inference_component=True if isinstance(inference_component, ComponentOptions) else inference_component,
            network_isolation=self._model_options.network.isolation,
            endpoint_name=endpoint_name,
            **(self._containers(scope, recipes) if not violations else {}),
            region=StackContext.of(scope).known_region,
        )
        self._cure = self._configuration.monitoring.speculation_cure
        self._drafting = next((each for each in self._hosting.techniques if each.kind == "speculative_decoding"), None)
        if self._cure is not None:
            alarms = self._configuration.monitoring.chosen_alarms
            violations += check(Speculation(self._hosting, self._cure, self._drafting, alarms))
        machine_image = self._machine_image(scope, () if violations else recipes)
        context = StackContext.of(scope)
        arns = [context.arn_use(*each) for each in (*self._configuration.arns(), *self._model_options.arns())]
        violations += [violation for each in arns for violation in check(each)]
        refuse([*violations, *check(self._hosting), *check(machine_image)])
        self._recipes, self._shadow = tuple(recipes), cast("ShadowRun | None", None)
        self.is_asynchronous = self._hosting.asynchronous
        self._component_models: list[HostedModel] = []
        if self._hosting.serves_components:
            self._check_isolation(id, recipes)
        if self._model_options.network.vpc is not None:
            make_connectable(OptimizedEndpoint)
        self._literal_name = endpoint_name_of(scope, id, endpoint_name, self._configuration.variant.partition_digest)
        super().__init__(scope, id, physical_name=self._literal_name)
        watch_template_size(self)
        of_choice = advice_on_choice(scope, self._choice, recipes) if self._choice is not None else ()
        of_arns = [advice for each in arns for advice in warnings(each)]
        advise(self, *warnings(self._hosting), *warnings(machine_image), *of_choice, *of_arns)

        self.variant_name: str = self._configuration.variant.name
        shared = self._model_options.network.with_shared_security_groups(self)
        self._model_options = self._model_options.model_copy(update={"network": shared})
        self._network = Network.of(self, shared)
        host = self._host() if self._hosting.serves_components else None
        self.models = tuple(
            create_model(pool_scope(self, recipe), recipe, self._model_options, host=host) for recipe in recipes
        )
        self._role: SageMakerRole
        if self.models:
            self._role = self.models[0].artifact.execution_role
        else:
            self._role = UserRole.of(self, role) if role is not None else OptimizationService.of(self).execution_role
        self._role.permit(list(self._configuration.statements()))
        self._config = self._declare_config()
        self._alarms: EndpointAlarms | None = self._declare_alarms()
        self._endpoint = self._declare_endpoint()
        self._served_check = self._check_served()
        self.endpoint_name = self._get_resource_name_attribute(self._endpoint.attr_endpoint_name)
        self.endpoint_arn = self._get_resource_arn_attribute(
            self._endpoint.ref, service="sagemaker", resource="endpoint", resource_name=name_in_arn(self._literal_name)
        )
        self._declare_restart()
        self._resources = EndpointResources(
            self._endpoint,
            self._config,
            self._literal_name,
            self._configuration,
            self._hosting,
            self._network,
            self._served_check,
        )
        self.component: InferenceComponent | None = None
        if self.models and self._hosting.serves_components:
            copies = self._choice.copies if self._choice is not None else 1
            self.component = InferenceComponent(
                self,
                "Component",
                endpoint=self._resources,
                models=self.models,
                requirements=[
                    requirements_of(hosted, "model", options, copies=copies, partition=partition)
                    for hosted in self.models
                ],
                options=options,
                concurrency=self._choice.concurrency if self._choice is not None else None,
            )
            self.inference_component_name = self.component.inference_component_name
            self._component_arn = self.component.inference_component_arn
        if removal_policy is not None:
            # A retained endpoint launches instances from its configuration and its models, as its role.
            models = [hosted.resource for hosted in self.models]
            for kept in (self._endpoint, self._config, self._role, *models, *self._resources.components):
                kept.apply_removal_policy(removal_policy)
        self.dashboard: EndpointDashboard = self._declare_dashboard()
        if self.component is not None:
            self.component.dashboard = self.dashboard
        if not self.models:
            advise_when_complete(self, self._advice_without_components)
        if jobs is not None and jobs != JobOptions():
            advise_when_complete(self, self._advice_without_jobs)
        if self._hosting.update.size_unit == "INSTANCE_COUNT":
            refuse_when_complete(self, lambda: check(self._step))
            advise_when_complete(self, lambda: warnings(self._step))

    @property
    def _step(self) -> StepOfFleet:
        """A step of an update, which is a number of instances, and the sizes of the fleet."""
        hosting, start, size = self._hosting, self._hosting.initial_instance_count, self._hosting.update.size or 0
        if hosting.serves_components:
            fewest, most = hosting.minimum_instance_count, hosting.maximum_instance_count
        else:
            # Another construct may scale the endpoint.
            fewest, most = self._scaling.capacity_range if self._scaling is not None else (None, None)
        return StepOfFleet(hosting.update.strategy, size, start, fewest, most)

    def _advice_without_components(self) -> Sequence[Advice]:
        return () if self._resources.components else warnings(DependentOption("model", None, "add_component"))

    def _advice_without_jobs(self) -> Sequence[Advice]:
        hosted = (*self.models, *self._component_models)
        if self._shadow is not None or any(each.artifact.job_role is not None for each in hosted):
            return ()
        return warnings(DependentOption("jobs", "set", "jobs"))

    @classmethod
    def from_file(
        cls, scope: Construct, id: str, path: str | Path, *, endpoint: str | None = None, **arguments: Any
    ) -> Self:
        """Create the endpoint that a file declares, with components, scaling and evaluations.

        https://constructs-optim.dev/endpoint-file/ describes the file. Account, Region, tags, policy and outputs come
        from the app, not from the file.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            path: the path of the YAML or JSON file.
            endpoint: the endpoint's ID in the file. Default: ``id``, or the file's only endpoint.
            arguments: constructor arguments that replace those of the file, for values that only an app has, such as
                ``network=NetworkOptions(vpc=vpc)``.

        Raises:
            DeclarationError: if the file has errors; lists all of them by line and column. It is a RecipeError.
        """
        from .endpoint_file import read_endpoint

        return read_endpoint(cls, OptimizedEndpoint, scope, id, Path(path), endpoint, arguments)

    @staticmethod
    def _with_copies(
        choice: RecordedChoice, inference_component: bool | ComponentOptions | None
    ) -> bool | ComponentOptions | None:
        """Return ``inference_component``, or True if the choice's copies share instances."""
        if all(pool.copies_per_instance == 1 for pool in choice.pools) or inference_component not in (None, False):
            return inference_component
        if inference_component is False:
            raise ValueError(
                f"inference_component is False, and the choice for {choice.model} places {choice.copies} copies on "
                f"{choice.instances} instances, which requires components: leave it out"
            )
        return True

    @staticmethod
    def _with_instances(
        configuration: EndpointConfiguration,
        choice: RecordedChoice,
        inference_component: bool | ComponentOptions | None,
    ) -> EndpointConfiguration:
        """Return the configuration with the choice's instance count; with components, instances follow the copies."""
        variant = configuration.variant
        if inference_component or variant.initial_instance_count is not None:
            return configuration
        sized = variant.model_copy(update={"initial_instance_count": choice.instances})
        return configuration.model_copy(update={"variant": sized})

    def _declare_config(self) -> sagemaker.CfnEndpointConfig:
        properties = self._configuration.properties()
        # CloudFormation cannot change a resource's type, so a custom resource needs another logical ID.
        name = "Config" if self._has_native_config else "OptimizedConfig"
        if self._restarts:
            # Another logical ID: removing the cure moves the endpoint back to the configuration that remains.
            name = f"Restartable{name}"
        if not self._hosting.serves_components:
            properties["production_variants"] = [self._configuration.variant_property(self._hosting, self.models)]
            return self._by_api(sagemaker.CfnEndpointConfig(self, name, **properties))
        if self._network is not None:
            properties["vpc_config"] = self._network.to_property("securityGroupIds")

        def variants() -> list[dict[str, Any]]:
            models = (*self.models, *self._component_models)
            return [self._configuration.variant_property(self._hosting, models, self._resources.managed_range)]

        # Components may be added later, so isolation and instances are only known at synthesis.
        config = sagemaker.CfnEndpointConfig(
            self,
            name,
            enable_network_isolation=late_value(lambda: self._isolated),
            execution_role_arn=self._role.role_arn,
            production_variants=late_value(variants),
            **properties,
        )
        return self._by_api(config)

    @property
    def _has_native_config(self) -> bool:
        return self._configuration.is_native(self._hosting, self.models)

    def _host(self) -> ModelHost:
        """Return what the endpoint's instances decide for all of its components."""

        def ami_version() -> str | None:
            models = (*self.models, *self._component_models)
            return self._configuration.ami_version(models)

        decided = self._model_options.network.isolation is not None
        return ModelHost(late_value(ami_version), None if decided else late_value(lambda: self._isolated))

    def _by_api(self, config: sagemaker.CfnEndpointConfig) -> sagemaker.CfnEndpointConfig:
        """Turn the configuration into a custom resource if CloudFormation does not support one of its values."""
        if not self._has_native_config:
            service = OptimizationService.of(self)
            role = self._role.role_arn if self._hosting.serves_components else None
            token = service.endpoint_config_service_token(role)
            config.add_override("Type", OPTIMIZED_ENDPOINT_CONFIG)
            config.add_property_override("ServiceToken", token)
            config.add_property_override("ServiceTimeout", RESPONSE_SECONDS)
            if partitions := self._configuration.variant.accelerator_partitions:
                layouts = [{"AcceleratorPartitionTypes": list(partitions)}]
                config.add_property_override("ProductionVariants.0.AcceleratorPartitionLayouts", layouts)
        return config

    def _config_arn(self, config: sagemaker.CfnEndpointConfig) -> str:
        if self._has_native_config:
            return config.ref
        return config.get_att("EndpointConfigArn").to_string()

    def _retained(self, config: sagemaker.CfnEndpointConfig) -> sagemaker.CfnEndpointConfig:
        """Apply the endpoint's removal policy to a configuration that the endpoint may be updated to."""
        if self._model_options.removal_policy is not None:
            config.apply_removal_policy(self._model_options.removal_policy)
        return config

    @property
    def _restarts(self) -> bool:
        return self._cure is not None and self._cure.kind == "restart"

    def _declare_restart(self) -> None:
        """Declare a second configuration with the same content, and the restart that alternates between the two."""
        if self._cure is None or self._cure.at_most_every_hours is None or self._alarms is None:
            return
        scope = Construct(self, "Restart")
        variant = self._configuration.variant_property(self._hosting, self.models)
        properties: dict[str, Any] = {**self._configuration.properties(), "production_variants": [variant]}
        twin = self._retained(self._by_api(sagemaker.CfnEndpointConfig(scope, "Config", **properties)))
        describe_hosted(twin, self.models)
        # The endpoint may use it when the stack is deleted, so CloudFormation must delete it after the endpoint.
        self._endpoint.add_resource_dependency(twin)
        SpeculationRestart(
            scope,
            "OnDecay",
            restarted=RestartedEndpoint(
                self._endpoint,
                self._literal_name,
                {config.attr_endpoint_config_name: self._config_arn(config) for config in (self._config, twin)},
                ArtifactStore.writable_of(self, (model.artifact.artifact_store for model in self.models)),
            ),
            alarm=self._alarms.alarms["acceptance_decay"],
            at_most_every_seconds=3_600 * self._cure.at_most_every_hours,
        )

    @property
    def alarms(self) -> EndpointAlarms:
        """The alarms of the endpoint's model.

        Raises:
            ValueError: if the endpoint has no model of its own.
        """
        alarms = self._alarms if self.component is None else self.component.alarms
        if alarms is None:
            raise ValueError(f"{self.node.path} has no model of its own: the alarms of one of its components")
        return alarms

    def _declare_alarms(self) -> EndpointAlarms | None:
        """Declare the alarms of the endpoint's own variant; components declare their own alarms."""
        if not self.models or self._hosting.serves_components:
            return None
        alarms = declare_alarms(
            self,
            self._configuration.monitoring,
            self._configuration.served(self.models, self._literal_name),
            self.models,
            label=path_of(self),
            cure=self._cure.advice(self._drafting) if self._cure is not None and self._drafting is not None else None,
        )
        # Keeps the alarms from evaluating an endpoint that does not exist yet while jobs run.
        alarms.node.add_dependency(self._config)
        return alarms

    def _declare_endpoint(self) -> sagemaker.CfnEndpoint:
        if (existing := self._hosting.existing_configuration) is not None:
            # An imported resource can only refer to resources of the same import.
            describe_hosted(self._config, self.models)
            imported = sagemaker.CfnEndpoint(
                self, "Resource", endpoint_config_name=existing, endpoint_name=self._literal_name
            )
            imported.apply_removal_policy(RemovalPolicy.RETAIN)
            return imported
        deployment: Any = (
            late_value(self._deployment_config) if self._hosting.serves_components else self._deployment_config()
        )
        endpoint = sagemaker.CfnEndpoint(
            self,
            "Resource",
            deployment_config=deployment,
            endpoint_config_name=self._config.attr_endpoint_config_name,
            endpoint_name=self._literal_name,
        )
        policy = self._configuration.update_policy
        if rollback_alarms := policy.rollback_alarms:
            # A separate policy avoids a cycle: an alarm may watch another endpoint whose model depends on the role's
            # policy.
            arns = [alarm.alarm_arn for alarm in rollback_alarms]
            watched = watch_statements(arns, composite=policy.rolls_back_on_composite_alarms)
            endpoint.node.add_dependency(self._role.permit_separately(self, "WatchAlarms", watched))
        if (preflight := Preflight.of(self)) is not None:
            self._look_before(preflight, endpoint)
        for described in (self._config, endpoint):
            describe_hosted(described, self.models)
        if self._choice is not None:
            endpoint.add_metadata(CHOICE_KEY, self._choice.model_dump(mode="json", exclude_none=True))
        return endpoint

    def _look_before(self, preflight: Preflight, endpoint: sagemaker.CfnEndpoint) -> None:
        hosting, reservation = self._hosting, self._configuration.variant.capacity_reservation
        # Components' models are placed on instances that already run.
        launching = () if hosting.serves_components else self.plans
        preflight.add_fleet(
            endpoint,
            endpoint_name=self._literal_name,
            instance_types=hosting.instance_types,
            instance_count=hosting.initial_instance_count,
            update=self._configuration.update_policy.settings,
            definition=_definition(launching, hosting.instance_types, hosting.initial_instance_count),
            reservation=reservation.arn if reservation is not None else None,
        )

    def _check_served(self) -> CfnResource | None:
        """Declare the check that fails the deployment if SageMaker rolled the endpoint's update back."""
        if self._hosting.existing_configuration is not None:
            # A resource import allows no other change of the stack.
            return None
        own = self._alarms.rollback_alarm_arns if self._alarms is not None else []
        policy = self._configuration.update_policy
        others = [alarm.alarm_arn for alarm in policy.rollback_alarms]
        name_in_failure(self, [*own, *others], composite=policy.rolls_back_on_composite_alarms)
        config_name = self._config.attr_endpoint_config_name
        return check_served(self, self._endpoint, name=self._literal_name, config_name=config_name)

    def _deployment_config(self) -> dict[str, Any]:
        """Return the ``deploymentConfig``: of the ten alarms that SageMaker allows, the policy's own come first."""
        policy = self._configuration.update_policy
        own = self._alarms.rollback_alarm_names if self._alarms is not None else []
        of_components = self._resources.rollback_alarm_names if self._hosting.serves_components else []
        names = [*(alarm.alarm_name for alarm in policy.rollback_alarms), *own, *of_components]
        return deployment_config(policy.settings, names[:MOST_ROLLBACK_ALARMS])

    def _declare_dashboard(self) -> EndpointDashboard:
        monitoring = self._configuration.monitoring
        dashboard = EndpointDashboard(
            self,
            "Dashboard",
            served=self._configuration.served(self.models, self.endpoint_name, self.inference_component_name),
            artifact=self.models[0].artifact if self.models else None,
            instance_types=self._hosting.instance_types,
        )
        if monitoring.instance_price_per_hour is not None:
            dashboard.show_costs(
                instance_price_per_hour=monitoring.instance_price_per_hour, discount=monitoring.discount
            )
        alarms = self._alarms if self.component is None else self.component.alarms
        if alarms is not None:
            dashboard.add_alarms(*alarms.arns_within_stack)
            if (seconds := alarms.latency_threshold_seconds) is not None:
                dashboard.show_latency_alarm(seconds)
        return dashboard

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of all pools, in the order of the pools."""
        return tuple(hosted.plan for hosted in self.models)

    @property
    def artifacts(self) -> tuple[RecipeArtifact, ...]:
        """The artifacts of all pools, in the order of the pools."""
        return tuple(hosted.artifact for hosted in self.models)

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The roles of models and jobs; a grant to the endpoint applies to all of them."""
        of_jobs = [hosted.artifact.job_role for hosted in (*self.models, *self._component_models)]
        roles = dict.fromkeys([self._role, *(role for role in of_jobs if role is not None)])
        if len(roles) == 1:
            return self._role.role.grant_principal
        return SeveralRoles([role.role for role in roles])

    @property
    def connections(self) -> ec2.Connections:
        """The network connections of jobs and models.

        Raises:
            ValueError: if the endpoint has no VPC.
        """
        groups = self._model_options.network.security_groups
        if groups is None:
            raise ValueError(
                f"{self.node.path} is not in a VPC, so it has no connections: set network=NetworkOptions(vpc=...)"
            )
        from aws_cdk import aws_ec2

        return aws_ec2.Connections(security_groups=list(groups))

    @property
    def served(self) -> ServedModel:
        """The variant or component that CloudWatch publishes the metrics of the endpoint's own model for.

        Raises:
            ValueError: if the endpoint has no model of its own.
        """
        if self.component is not None:
            return self.component.served
        return self._configuration.served((self._first_model, *self.models[1:]), self.endpoint_name)

    @property
    def _objective_capacity(self) -> int | None:
        if self._choice is None:
            return None
        return self._choice.copies if self.component is not None else self._choice.instances

    def _scaled(self, min_capacity: int, max_capacity: int) -> EndpointScaling:
        if self._shadow is not None:
            refuse(check(replace(self._shadow.settings, is_scaled=True)))
        if self.component is not None:
            scaling = self.component.auto_scale(max_capacity=max_capacity, min_capacity=min_capacity)
        else:
            imported = self._hosting.existing_configuration is not None
            target = ScalingTarget.variant(
                self._endpoint.attr_endpoint_name, self.variant_name, is_asynchronous=self._hosting.asynchronous
            )
            if self._served_check is not None:
                target = changing(
                    self,
                    target,
                    self._endpoint,
                    self._served_check,
                    endpoint_name=self._literal_name,
                    variant_name=self.variant_name,
                    instance_types=self._hosting.instance_types,
                    store=ArtifactStore.writable_of(self, (model.artifact.artifact_store for model in self.models)),
                )
            scaling = EndpointScaling(
                self,
                "Scaling",
                target=target,
                min_capacity=min_capacity,
                max_capacity=max_capacity,
                defaults=scaling_defaults(self.plan, concurrency=self._choice.concurrency if self._choice else None),
                alarms=self._alarms,
                served=self.served,
                imported=imported,
                initial_capacity=self._hosting.initial_instance_count,
            )
            if not imported:
                self._endpoint.retain_all_variant_properties = True
        self.dashboard.show_scaling(min_capacity=min_capacity, max_capacity=max_capacity)
        return scaling

    @property
    def openai_base_url(self) -> str:
        """See ``IOptimizedEndpoint.openai_base_url``."""
        if not self.models:
            raise ValueError(f"{self.node.path} has no model of its own: the URL of one of its components")
        url = super().openai_base_url
        warn_of_openai(self, self.models)
        return url

    @property
    def captured(self) -> CapturedTraffic:
        """The endpoint's captured traffic, as training data for another endpoint's EAGLE heads.

        Train on a completed period, ``captured.during("2026-11")``, because captures keep growing. An endpoint that
        trains on its own captures gets them from ``DataCapture.captured``.

        Raises:
            RecipeError: if the endpoint has no data capture.
        """
        capture = self._configuration.data_capture
        refuse(check(CapturedEndpoint(capture.sampling_percentage if capture is not None else None)))
        assert capture is not None  # noqa: S101 - OPT213
        return capture.captured(self._literal_name, variant_name=self.variant_name)

    @property
    def evaluation_target(self) -> EvaluationTarget:
        """The target of evaluations."""
        if self.component is not None:
            target = self.component.evaluation_target
        else:
            target = self._resources.evaluation_target(self, self._alarms, self.dashboard)
        count = self._configuration.variant.initial_instance_count
        is_resized = self._choice is not None and self.component is None and count != self._choice.instances
        return replace(target, choice=self._choice, is_resized=is_resized)

    @unique_ids()
    def add_component(
        self,
        id: str,
        *,
        model: Model,
        techniques: Sequence[Technique] | None = None,
        instance_pools: Sequence[Pool] | None = None,
        accelerators: int | None = None,
        server: ServerSettings | None = None,
        artifact_key: str | None = None,
        copies: int = 1,
        environment: Mapping[str, str] | None = None,
        memory: Size | None = None,
        options: ComponentOptions | None = None,
        component_name: str | None = None,
        existing_model: str | None = None,
    ) -> InferenceComponent:
        """Serve one more model on the endpoint's instances.

        Args:
            id: its ID in this endpoint.
            model: the source of the weights.
            techniques: the techniques to apply, in order, for the endpoint's instance type.
            instance_pools: on an endpoint with pools, the techniques for each of its types, instead of ``techniques``.
            accelerators: the number of accelerators (NeuronCores on Inferentia and Trainium) of each copy. Default: the
                plan's tensor parallel degree.
            server: the model server and its settings. Default: vLLM, unless a technique needs another server.
            artifact_key: the key of an existing artifact, as for the endpoint.
            copies: the initial number of copies. Default: 1.
            environment: additional environment variables of the model's container. Default: none.
            memory: host memory of each copy. Default: half of the instance's memory, in proportion to its accelerators.
            options: other resources of a copy, and the placement of copies. Default: SageMaker's defaults.
            component_name: the component's name, in lower case. Default: generated from its path in the app.
            existing_model: the name of the SageMaker model that an imported component keeps (``constructs-optim
                adopt``). The component switches to ``model`` when you remove this argument. Default: ``model``.

        Raises:
            RecipeError: if rules are broken, for instance if the copies do not fit the instances; lists all of them.
            ValueError: if the arguments exclude each other.
        """
        label, options = f"add_component({id!r})", options or ComponentOptions()
        pools = pools_of_component(self._hosting, model, techniques, instance_pools, artifact_key)
        partition = options.partition_of(self._configuration.variant)
        recipes = recipes_of(model, pools, environment, server, pooled=instance_pools is not None, partition=partition)
        violations = self._violations(self, recipes)
        hosting = replace(
            self._hosting,
            **(self._containers(self, recipes) if not violations else {}),
            components=(Component(label, 1, 128, copies, partition=partition),),
            component_name=component_name,
            existing_model=existing_model,
            techniques=(*self._hosting.techniques, *_techniques(pools)),
        )
        machine_image = self._machine_image(self, () if violations else recipes, beside=self._served_plans)
        refuse([*violations, *check(hosting), *check(machine_image)])
        self._check_isolation(label, recipes)
        scope = Construct(self, id)
        advise(scope, *warnings(machine_image))
        models = [
            create_model(pool_scope(scope, recipe), recipe, self._model_options, host=self._host())
            for recipe in recipes
        ]
        self._component_models += models
        component = InferenceComponent(
            scope,
            "Component",
            endpoint=self._resources,
            models=models,
            requirements=[
                requirements_of(
                    hosted,
                    label,
                    options,
                    accelerators=accelerators,
                    memory=memory,
                    copies=copies,
                    partition=partition,
                )
                for hosted in models
            ],
            options=options,
            name=component_name,
            existing_model=existing_model,
        )
        if self._model_options.removal_policy is not None:
            for kept in (component, *(hosted.resource for hosted in models)):
                kept.apply_removal_policy(self._model_options.removal_policy)
        self.dashboard.show_component(id, component.served).add_alarms(*component.alarms.arns_within_stack)
        return component

    @unique_ids()
    def shadow(
        self,
        id: str = "Shadow",
        *,
        candidate: ShadowCandidate,
        checks: Sequence[AnswerCheck],
        sample_percent: float = 5,
        duration: Duration | None = None,
        margin: float = 0.02,
        latency_tolerance: float = 0.1,
        promote: bool = False,
        topic: sns.ITopic | None = None,
        instance_quota: int | None = None,
    ) -> ShadowRun:
        """Send copies of the requests to a candidate, and test whether it is worse than production.

        Callers only get production's answers. The endpoint's ``data_capture`` stores the prompts and answers of both.
        When the run reaches a verdict or its end, the endpoint is updated to a configuration without the shadow
        variant, or with the candidate in production. https://constructs-optim.dev/shadow/ describes later deployments.

        Args:
            id: its ID in this endpoint.
            candidate: the candidate to compare with the served model.
            checks: the checks that compare the answers.
            sample_percent: the percentage of requests that the candidate also answers, above 0, up to 100.
            duration: the maximum duration of the run, 3 hours to 30 days. Default: 7 days.
            margin: the share of pairs by which a candidate may be worse and still pass, 0.02 for 2 points; also applies
                to errors.
            latency_tolerance: the share by which the median latency may be higher, 0.1 for 10%.
            promote: whether a candidate that passes replaces production. Default: the shadow ends, and a person
                decides.
            topic: an SNS topic that receives the verdict. Default: none.
            instance_quota: the account's quota of the candidate's instance type for endpoints. Default: not checked.

        Raises:
            RecipeError: if rules are broken, for instance if the endpoint cannot have a shadow; lists all of them.
            ValueError: if the endpoint already has a shadow.
        """
        DURATION.check("duration", duration)
        if self._shadow is not None:
            raise ValueError(
                f"{self.node.path} already has a shadow: SageMaker supports one shadow variant for each endpoint"
            )
        if not self.models:
            raise ValueError(f"{self.node.path} has no model of its own to compare a shadow with")
        capture, production = self._configuration.data_capture, self.models[0]
        declared, first = self._recipes[0], production.plan
        instance_type = candidate.instance_type or first.instance_type
        recipes = recipes_of(
            candidate.model or declared.model,
            [Pool(instance_type, candidate.techniques, candidate.artifact_key)],
            candidate.environment if candidate.environment is not None else declared.environment,
            candidate.server or declared.server,
            pooled=False,
        )
        settings = Shadow(
            self._hosting,
            instance_type=instance_type,
            instance_count=candidate.instance_count,
            sample_percent=sample_percent,
            duration_seconds=duration.to_seconds() if duration is not None else 7 * 86_400,
            margin=margin,
            latency_tolerance=latency_tolerance,
            checks=tuple(checks),
            announced_pairs=announced_pairs(margin, len(checks)) if 0 < margin < 1 else None,
            captures=capture is not None and capture.requests and capture.responses,
            promotes=promote,
            is_scaled=self._endpoint.retain_all_variant_properties is True,
            instance_quota=instance_quota,
            is_restarted=self._restarts,
            task=self.models[0].plan.task if self.models else GENERATE,
        )
        violations = self._violations(self, recipes)
        # The shadow variant has its own instances, with the machine image that the endpoint sets.
        machine_image = self._machine_image(self, () if violations else recipes)
        refuse([*violations, *check(settings), *check(machine_image)])
        assert capture is not None  # noqa: S101 - OPT191
        scope = Construct(self, id)
        advise(scope, *warnings(settings), *warnings(machine_image))
        # A shadow variant is added to a configuration whose resource type is already chosen.
        ami_version = self._configuration.variant.inference_ami_version
        host = ModelHost(ami_version, is_shadow=True) if self._has_native_config else None
        hosted = create_model(scope, recipes[0], self._model_options, host=host)
        if self._model_options.removal_policy is not None:
            hosted.resource.apply_removal_policy(self._model_options.removal_policy)
        described = dict(self._configuration.properties())
        serving = self._configuration.variant_property(self._hosting, self.models)
        shadowing = {
            **self._configuration.variant_property(
                replace(
                    self._hosting,
                    instance_types=(instance_type,),
                    initial_instance_count=candidate.instance_count,
                ),
                [hosted],
            ),
            "initialVariantWeight": sample_percent / 100,
            "variantName": SHADOW_VARIANT,
        }
        shadows: Any = [shadowing]
        self._config.shadow_production_variants = shadows
        promoted = {
            **shadowing,
            "initialInstanceCount": serving["initialInstanceCount"],
            "initialVariantWeight": 1,
            "variantName": self.variant_name,
        }
        ended = sagemaker.CfnEndpointConfig(scope, "Ended", production_variants=[serving], **described)
        configs = [self._retained(self._by_api(ended))]
        if promote:
            promotion = sagemaker.CfnEndpointConfig(scope, "Promoted", production_variants=[promoted], **described)
            configs.append(self._retained(self._by_api(promotion)))
        shadowed = ShadowedEndpoint(
            label=path_of(self),
            endpoint=self._endpoint,
            served=self._served_check,
            endpoint_name=self._literal_name,
            variant_name=self.variant_name,
            shadow=self._config,
            ended=configs[0],
            promoted=configs[1] if promote else None,
            config_arns=[self._config_arn(config) for config in (self._config, *configs)],
            volume_key=self._config.kms_key_id,
            production=EvaluatedSubject.of(production),
            candidate=EvaluatedSubject.of(hosted),
            capture_bucket=capture.bucket,
            capture_prefix=capture.prefix,
            capture_keys=capture.key_arns,
            store=ArtifactStore.writable_of(self, (model.artifact.artifact_store for model in (production, hosted))),
        )
        if (preflight := Preflight.of(self)) is not None:
            preflight.add_shadow(
                endpoint_name=self._literal_name,
                instance_type=instance_type,
                instance_count=candidate.instance_count,
                definition=_definition([hosted.plan], [instance_type], candidate.instance_count),
            )
        self._shadow = ShadowRun(scope, "Run", shadowed=shadowed, settings=settings, topic=topic)
        return self._shadow

    @property
    def _isolated(self) -> bool | None:
        """Whether the containers of components are isolated: as set, or as their models' plans define.

        EnableNetworkIsolation of the configuration "sets whether all model containers deployed to the endpoint are
        isolated" (Amazon SageMaker API reference, CreateEndpointConfig), so the models' own values must agree with it.
        """
        models = [*self.models, *self._component_models]
        if self._model_options.network.isolation is not None or not models:
            return self._model_options.network.isolation
        return all(hosted.plan.container.network_isolation for hosted in models)

    def _check_isolation(self, label: str, recipes: Sequence[ModelRecipe]) -> None:
        """Refuse a mix of isolated and non-isolated containers."""
        isolated = {all(technique.network_isolation for technique in recipe.techniques) for recipe in recipes}
        isolated |= {hosted.plan.container.network_isolation for hosted in (*self.models, *self._component_models)}
        if self._model_options.network.isolation and False in isolated:
            raise ValueError(f"{label}: the container of Sharding.fast_load() reads S3: leave network.isolation out")
        if self._model_options.network.isolation is None and len(isolated) > 1:
            raise ValueError(
                f"{label}: some of the endpoint's models are isolated from the network, and others cannot be, such as "
                "those of Sharding.fast_load(). With inference components, all containers are isolated or none is "
                "(CreateEndpointConfig, EnableNetworkIsolation). Set network=NetworkOptions(isolation=False), or serve "
                "the models on two endpoints"
            )

    def _violations(self, scope: Construct, recipes: Sequence[ModelRecipe]) -> list[Violation]:
        jobs = self._model_options.jobs.settings
        return [violation for recipe in recipes for violation in recipe.violations(scope, jobs)]

    @property
    def _served_plans(self) -> tuple[Plan, ...]:
        """The plans of all models on the endpoint's instances, also of components."""
        return tuple(hosted.plan for hosted in (*self.models, *self._component_models))

    def _machine_image(
        self, scope: Construct, recipes: Sequence[ModelRecipe], *, beside: Sequence[Plan] = ()
    ) -> MachineImageUse:
        """Return the machine image for valid recipes, on the same variant as the plans ``beside`` them."""
        jobs = self._model_options.jobs.settings
        plans = [*beside, *(recipe.plan_in(scope, jobs) for recipe in recipes)]
        return machine_image_of(plans, self._configuration.variant.inference_ami_version)

    def _containers(self, scope: Construct, recipes: Sequence[ModelRecipe]) -> dict[str, tuple[str, ...]]:
        """Return the servers of valid recipes, and the machine images that their containers need."""
        jobs = self._model_options.jobs.settings
        containers = [recipe.plan_in(scope, jobs).container for recipe in recipes]
        amis = [container.inference_ami_version for container in containers]
        return {
            "container_amis": tuple(dict.fromkeys(ami for ami in amis if ami is not None)),
            "servers": tuple(dict.fromkeys(c.server for c in containers if c.server is not None)),
        }


def _techniques(pools: Sequence[Pool]) -> tuple[Technique, ...]:
    """Return the techniques of all pools; recipe rules refuse anything else."""
    lists = [pool.techniques for pool in pools if isinstance(pool.techniques, list | tuple)]
    return tuple(technique for techniques in lists for technique in techniques if isinstance(technique, Technique))


def _definition(plans: Sequence[Plan], instance_types: Sequence[str], instance_count: int) -> str:
    """Return a digest that changes with the served artifacts, the containers, or the instances."""
    served = [f"{plan.deployment_hash} {plan.container_key}" for plan in plans]
    return sha256("\n".join([*served, *instance_types, str(instance_count)]))[:8]
