"""The endpoint that a recommendation job recommends, from the file that a person reviewed."""

from __future__ import annotations

from typing import Any

from aws_cdk import Annotations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts import model_source
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.artifacts.roles import SageMakerRole, UserRole
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.constructs.stack.arguments import ROLE, refuse, suggests_keywords
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.stack_context import StackContext, endpoint_name_of, physical_name
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.evaluation.recommendation import Recommendation, RecommendedDeployment
from constructs_optim.recipe.plan_data import S3Source
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.tokens import is_token

from .endpoint_base import IOptimizedEndpoint, name_in_arn
from .endpoint_updates import changing, check_served

_VARIANT = "AllTraffic"


@suggests_keywords
class RecommendedEndpoint(IOptimizedEndpoint):
    """An endpoint that serves the model package of a recommendation, on the instances and in the copies it names.

    The package has the container, its environment and the model's files; nothing is decided here that the file does
    not say. A person approves the package first. Several copies on an instance are an inference component's.

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
    ) -> None:
        """Declare model, configuration and endpoint.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            recommendation: ``Recommendation.from_file(...)``.
            endpoint_name: the endpoint's name. Default: generated from the stack's name and the endpoint's path in it.
            role: the role that SageMaker assumes for the model; it is granted the model's files. Default: one role for
                all models of the stack.

        Raises:
            RecipeError: where the recommendation does not fit the stack; no resource has been added then.
        """
        context = StackContext.of(scope)
        if role is not None:
            ROLE.check("role", role)
        account = context.stack.account
        deployment = RecommendedDeployment(recommendation, context.known_region, None if is_token(account) else account)
        refuse(check(deployment))
        name = endpoint_name_of(scope, id, endpoint_name, "")
        super().__init__(scope, id, physical_name=name)
        self._name = name
        for advice in warnings(deployment):
            Annotations.of(self).add_warning_v2(advice.id, advice.message)
        self.recommendation: Recommendation = recommendation
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
        self._endpoint = sagemaker.CfnEndpoint(
            self, "Resource", endpoint_config_name=config.attr_endpoint_config_name, endpoint_name=name
        )
        self._endpoint.add_metadata("ConstructsOptim::Recommendation", self._shown())
        config_name = config.attr_endpoint_config_name
        self._served_check = check_served(self, self._endpoint, name=name, config_name=config_name)
        self.endpoint_name = self._get_resource_name_attribute(self._endpoint.attr_endpoint_name)
        self.endpoint_arn = self._get_resource_arn_attribute(
            self._endpoint.ref, service="sagemaker", resource="endpoint", resource_name=name_in_arn(name)
        )
        if several:
            component = self._declare_component()
            self.inference_component_name = str(component.inference_component_name)
            self._component_arn = component.ref
        self._scaling: EndpointScaling | None = None

    def _variant(self, *, in_copies: bool) -> dict[str, Any]:
        variant = {
            "initialInstanceCount": self.recommendation.instance_count,
            "instanceType": self.recommendation.instance_type,
            "routingConfig": {"routingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            "variantName": _VARIANT,
        }
        served = {"initialVariantWeight": 1, "modelName": self._model.attr_model_name}
        return variant if in_copies else {**variant, **served}

    def _declare_component(self) -> sagemaker.CfnInferenceComponent:
        """The component whose copies share the instances' accelerators and memory in equal parts."""
        recommendation = self.recommendation
        row = instances.find(recommendation.instance_type)
        # A rule refuses copies on a type that is not catalogued. Half of the host's memory is for the copies.
        half = row.memory_mib // (2 * recommendation.copies_per_instance) if row is not None else 128
        return sagemaker.CfnInferenceComponent(
            self,
            "Component",
            endpoint_name=self._endpoint.attr_endpoint_name,
            inference_component_name=physical_name(self, "Component", ""),
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
        """What a reviewer sees of the recommendation in the template."""
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
    def served(self) -> ServedModel:
        """The variant or component, as CloudWatch knows it."""
        return ServedModel(self.endpoint_name, self.variant_name, self.inference_component_name)

    def auto_scale(self, *, max_capacity: int, min_capacity: int = 1) -> EndpointScaling:
        """Let Application Auto Scaling choose the number of instances; an update keeps what it has set.

        Args:
            max_capacity: the maximum number of instances.
            min_capacity: the minimum. Default: 1.

        Raises:
            RecipeError: if the range cannot work.
            ValueError: if it is scaled already, or an inference component serves the copies.
        """
        if self._scaling is not None:
            raise ValueError(f"{self.node.path} is scaled already: call auto_scale once and add policies to its result")
        if self.inference_component_name is not None:
            raise ValueError(
                f"{self.node.path} has {self.recommendation.copies_per_instance} copies on each of "
                f"{self.recommendation.instance_count} instances, which no managed scaling changes: the recommendation "
                "is of that many"
            )
        target = changing(
            self,
            ScalingTarget.variant(self._endpoint.attr_endpoint_name, _VARIANT),
            self._endpoint,
            self._served_check,
            endpoint_name=self._name,
            variant_name=_VARIANT,
            instance_types=[self.recommendation.instance_type],
        )
        self._scaling = EndpointScaling(
            self,
            "Scaling",
            target=target,
            min_capacity=min_capacity,
            max_capacity=max_capacity,
        )
        self._endpoint.retain_all_variant_properties = True
        return self._scaling
