"""An endpoint declared from a reviewed recommendation of a recommendation job."""

from __future__ import annotations

from typing import Any, Unpack

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts import model_source
from constructs_optim.constructs.artifacts.artifact_store import ArtifactStore, IArtifactStore
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.artifacts.preflight import Preflight
from constructs_optim.constructs.artifacts.roles import SageMakerRole, UserRole
from constructs_optim.constructs.evaluation.endpoint_evaluation import (
    EndpointEvaluation,
    EvaluatedSubject,
    EvaluationOptions,
    EvaluationTarget,
)
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.constructs.stack.arguments import ROLE, refuse, suggests_keywords, unique_ids
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.findings import advise
from constructs_optim.constructs.stack.stack_context import StackContext, endpoint_name_of, path_of, physical_name
from constructs_optim.recipe.catalog import images, instances
from constructs_optim.recipe.evaluation.recommendation import Recommendation, RecommendedDeployment
from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.plan_data import S3Source
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.tokens import is_token

from .endpoint_base import IOptimizedEndpoint, name_in_arn
from .endpoint_updates import changing, check_served, name_in_failure
from .options import MonitoringOptions
from .update_policy import UpdatePolicy, deployment_config, watch_statements

_VARIANT = "AllTraffic"


@suggests_keywords
class RecommendedEndpoint(IOptimizedEndpoint):
    """An endpoint that serves a recommendation's model package, with its instances and copies.

    The package contains the container, its environment and the model's files. All values come from the recommendation
    file. A person must approve the package first. If the recommendation has several copies for each instance, an
    inference component runs them.

    Source: Amazon SageMaker developer guide, "Deploy a generative AI inference recommendation".
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        recommendation: Recommendation,
        endpoint_name: str | None = None,
        role: iam.IRole | None = None,
        monitoring: MonitoringOptions | None = None,
        artifact_store: IArtifactStore | None = None,
    ) -> None:
        """Declare model, configuration, endpoint, alarms and dashboard.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            recommendation: the reviewed recommendation: ``Recommendation.from_file(...)``.
            endpoint_name: the endpoint's name. Default: generated from the endpoint's path in the stack and the stack's
                name or, in a template for any number of stacks, its ID.
            role: the role that SageMaker assumes for the model; it gets permission to read the model's files. Default:
                one role for all models of the stack.
            monitoring: the alarms, their actions, and the instance price for the dashboard. The saturation alarm needs
                a threshold, because a recommendation does not say how many requests an instance is sized for. Default:
                the alarms that need no threshold, without actions; those on errors and lost capacity roll an update
                back.
            artifact_store: the store of evaluation results and of suspended scaling. Default: the stack's own store.

        Raises:
            RecipeError: if the recommendation does not fit the stack. No resource is added.
        """
        context = StackContext.of(scope)
        if role is not None:
            ROLE.check("role", role)
        account = context.stack.account
        monitoring = monitoring or MonitoringOptions()
        alarms = monitoring.alarms or Alarms(saturation=False)
        deployment = RecommendedDeployment(
            recommendation, context.known_region, None if is_token(account) else account, alarms
        )
        refuse(check(deployment))
        name = endpoint_name_of(scope, id, endpoint_name, "")
        super().__init__(scope, id, physical_name=name)
        self._name = name
        advise(self, *warnings(deployment))
        self.recommendation: Recommendation = recommendation
        self._monitoring, self._store = monitoring, artifact_store
        self.variant_name = _VARIANT
        self._role: SageMakerRole = (
            UserRole.of(self, role) if role is not None else OptimizationService.of(self).execution_role
        )
        sources = [S3Source(uri=uri) for uri in recommendation.model_uris]
        self._role.permit(model_source.read_statements(*sources))
        self._model = sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=self._role.role_arn,
            primary_container={
                "inferenceSpecificationName": recommendation.inference_specification_name,
                "modelPackageName": recommendation.model_package_arn,
            },
        )
        self._role.delay(self._model)
        several = recommendation.copies_per_instance > 1
        config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            execution_role_arn=self._role.role_arn if several else None,
            production_variants=[self._variant(in_copies=several)],
        )
        self._role.delay(config)
        component_name = physical_name(self, "Component", "") if several else None
        self.alarms: EndpointAlarms = self._declare_alarms(alarms, ServedModel(name, _VARIANT, component_name))
        # Keeps the alarms from evaluating an endpoint that does not exist yet.
        self.alarms.node.add_dependency(config)
        self._config = config
        update = UpdatePolicy.all_at_once().settings
        self._endpoint = sagemaker.CfnEndpoint(
            self,
            "Resource",
            deployment_config=deployment_config(update, self.alarms.rollback_alarm_names),
            endpoint_config_name=config.attr_endpoint_config_name,
            endpoint_name=name,
        )
        self._endpoint.add_metadata("ConstructsOptim::Recommendation", self._shown())
        if (preflight := Preflight.of(self)) is not None:
            preflight.add_fleet(
                self._endpoint,
                endpoint_name=name,
                instance_types=[recommendation.instance_type],
                instance_count=recommendation.instance_count,
                update=update,
                definition=sha256(f"{self._package} {recommendation.instance_type}")[:8],
                reservation=None,
            )
        config_name = config.attr_endpoint_config_name
        self._served_check = check_served(self, self._endpoint, name=name, config_name=config_name)
        self.endpoint_name = self._get_resource_name_attribute(self._endpoint.attr_endpoint_name)
        self.endpoint_arn = self._get_resource_arn_attribute(
            self._endpoint.ref, service="sagemaker", resource="endpoint", resource_name=name_in_arn(name)
        )
        if component_name is not None:
            component = self._declare_component(component_name)
            self.inference_component_name = str(component.inference_component_name)
            self._component_arn = component.ref
        self._scaling: EndpointScaling | None = None
        self.dashboard: EndpointDashboard = EndpointDashboard(
            self, "Dashboard", served=self.served, instance_types=[recommendation.instance_type]
        )
        if monitoring.instance_price_per_hour is not None:
            self.dashboard.show_costs(
                instance_price_per_hour=monitoring.instance_price_per_hour, discount=monitoring.discount
            )
        self.dashboard.add_alarms(*self.alarms.arns_within_stack)
        if (seconds := self.alarms.latency_threshold_seconds) is not None:
            self.dashboard.show_latency_alarm(seconds)

    def _declare_alarms(self, alarms: Alarms, served: ServedModel) -> EndpointAlarms:
        monitoring = self._monitoring
        declared = EndpointAlarms(
            self,
            "Alarms",
            served=served,
            endpoint=path_of(self),
            capacity=0,
            alarms=alarms,
            runs_jobs=False,
            alarm_actions=monitoring.alarm_actions,
            ok_actions=monitoring.ok_actions,
            name_prefix=served.inference_component_name or served.endpoint_name,
            runbook=monitoring.runbook,
        )
        self._role.permit(watch_statements(declared.rollback_alarm_arns))
        name_in_failure(self, declared.rollback_alarm_arns)
        return declared

    def _variant(self, *, in_copies: bool) -> dict[str, Any]:
        variant = {
            "initialInstanceCount": self.recommendation.instance_count,
            "instanceType": self.recommendation.instance_type,
            "routingConfig": {"routingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            "variantName": _VARIANT,
        }
        served = {"initialVariantWeight": 1, "modelName": self._model.attr_model_name}
        return variant if in_copies else {**variant, **served}

    def _declare_component(self, name: str) -> sagemaker.CfnInferenceComponent:
        """Declare the component whose copies share the instances' accelerators and memory equally."""
        recommendation = self.recommendation
        row = instances.find(recommendation.instance_type)
        # A rule refuses copies on a type outside the catalog. The copies get half of the host's memory.
        half = row.memory_mib // (2 * recommendation.copies_per_instance) if row is not None else 128
        return sagemaker.CfnInferenceComponent(
            self,
            "Component",
            endpoint_name=self._endpoint.attr_endpoint_name,
            inference_component_name=name,
            runtime_config={"copyCount": recommendation.copies_per_instance * recommendation.instance_count},
            specification={
                "computeResourceRequirements": {
                    "minMemoryRequiredInMb": recommendation.min_memory_mib or half,
                    "numberOfAcceleratorDevicesRequired": recommendation.accelerators_of_a_copy,
                },
                "modelName": self._model.attr_model_name,
            },
            variant_name=_VARIANT,
        )

    def _shown(self) -> dict[str, Any]:
        """Return the part of the recommendation that the template shows to reviewers."""
        recommendation = self.recommendation
        return drop_none(
            Job=recommendation.job_arn,
            Chosen=f"{recommendation.chosen} of {recommendation.recommended}",
            Reason=recommendation.reason,
            ExpectedPerformance=[
                " ".join(filter(None, (each.metric, each.statistic, each.value, each.unit)))
                for each in recommendation.expected_performance
            ]
            or None,
        )

    @property
    def _package(self) -> str:
        """The identity of the served model; the content of a model package version never changes, only its metadata."""
        return f"{self.recommendation.model_package_arn} {self.recommendation.inference_specification_name}"

    @property
    def served(self) -> ServedModel:
        """The variant or component that CloudWatch publishes metrics for."""
        recommendation = self.recommendation
        return ServedModel(
            self.endpoint_name,
            self.variant_name,
            self.inference_component_name,
            recommendation.instance_type,
            artifact_key=sha256(self._package),
        )

    @unique_ids()
    def evaluate(self, id: str = "Evaluation", **options: Unpack[EvaluationOptions]) -> EndpointEvaluation:
        """Benchmark the endpoint, as ``OptimizedEndpoint.evaluate`` does.

        The recommendation's expected performance applies to the load that its job sent. Use the same workload here, and
        ``require(...)`` that performance.

        Args:
            id: its ID in this construct.
            options: the workload, when it runs, and its prices: see ``EvaluationOptions``.

        Raises:
            RecipeError: if rules are broken; lists all of them.
            ValueError: if the timeout is longer than CloudFormation can wait.
        """
        return EndpointEvaluation(self, id, target=self.evaluation_target, options=options)

    @property
    def evaluation_target(self) -> EvaluationTarget:
        """The target of evaluations."""
        recommendation, monitoring = self.recommendation, self._monitoring
        served, key = self.served, str(self.served.artifact_key)
        image = (recommendation.image or "").rpartition("/")[2]
        subject = EvaluatedSubject(
            self._model.attr_model_name,
            recommendation.instance_type,
            key,
            (key, recommendation.instance_type, str(recommendation.copies_per_instance)),
            images.uncataloged(image).server,
            store=self._store,
        )
        return EvaluationTarget(
            label=path_of(self),
            after=self._served_check,
            endpoint_arn=self._endpoint.ref,
            endpoint_config_name=self._config.attr_endpoint_config_name,
            component_arn=self._component_arn,
            served=served,
            subjects=[subject],
            share_of_instance=1 / recommendation.copies_per_instance if self._component_arn is not None else None,
            network=None,
            asynchronous=False,
            discount=monitoring.discount,
            instance_price_per_hour=monitoring.instance_price_per_hour,
            alarms=self.alarms,
            dashboard=self.dashboard,
        )

    def auto_scale(self, *, max_capacity: int, min_capacity: int = 1) -> EndpointScaling:
        """Let Application Auto Scaling choose the number of instances; updates keep that number.

        Args:
            max_capacity: the maximum number of instances.
            min_capacity: the minimum number of instances. Default: 1.

        Raises:
            RecipeError: if the range cannot work.
            ValueError: if ``auto_scale`` was called before, or an inference component serves the copies.
        """
        if self._scaling is not None:
            raise ValueError(
                f"{self.node.path} already has auto scaling: call auto_scale once and add policies to its result"
            )
        if self.inference_component_name is not None:
            raise ValueError(
                f"{self.node.path} has {self.recommendation.copies_per_instance} copies on each of "
                f"{self.recommendation.instance_count} instances, which managed scaling cannot change: the "
                "recommendation is for that many"
            )
        target = changing(
            self,
            ScalingTarget.variant(self._endpoint.attr_endpoint_name, _VARIANT),
            self._endpoint,
            self._served_check,
            endpoint_name=self._name,
            variant_name=_VARIANT,
            instance_types=[self.recommendation.instance_type],
            store=ArtifactStore.writable_of(self, [self._store] if self._store is not None else []),
        )
        self._scaling = EndpointScaling(
            self,
            "Scaling",
            target=target,
            min_capacity=min_capacity,
            max_capacity=max_capacity,
        )
        self.dashboard.show_scaling(min_capacity=min_capacity, max_capacity=max_capacity)
        self._endpoint.retain_all_variant_properties = True
        return self._scaling
