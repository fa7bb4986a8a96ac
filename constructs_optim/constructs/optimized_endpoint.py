"""The endpoint a platform team declares: model, techniques and instance type in, a served artifact out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, Fn
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.recipe import Model, Plan
from constructs_optim.recipe.plan_data import ComponentPlan
from constructs_optim.recipe.techniques import Technique

from .artifact_store import IArtifactStore
from .endpoint_dashboard import EndpointDashboard
from .endpoint_scaling import ComponentTarget, EndpointScaling, VariantTarget
from .optimization_job import OptimizationJob
from .optimized_artifact import OptimizedArtifact
from .optimized_model import optimized_model
from .stack_plan import shown

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2

_INVOKE_ACTIONS = ["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"]


class OptimizedEndpoint(Construct):
    """A SageMaker endpoint that serves a model after its techniques were applied.

    A changed recipe makes a new artifact, a new model and a new endpoint configuration, and the endpoint moves over;
    the old artifact stays in the store. Names are left to CloudFormation unless they are given.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        techniques: Sequence[Technique],
        instance_type: str,
        artifact_key: str | None = None,
        artifact_store: IArtifactStore | None = None,
        endpoint_name: str | None = None,
        environment: Mapping[str, str] | None = None,
        initial_instance_count: int = 1,
        max_runtime: Duration | None = None,
        role: iam.IRole | None = None,
        timeout: Duration | None = None,
        variant_name: str = "AllTraffic",
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
    ) -> None:
        """Declare the endpoint.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            model: where the weights come from.
            techniques: what to do with them, in order.
            instance_type: what the endpoint runs on, for instance ``ml.g5.12xlarge``.
            artifact_key: the key of an artifact that is in ``artifact_store``, 64 hexadecimal digits; of the last job
                where the recipe has several. May be a token. No job runs then, and the deployment fails with what is
                known of the artifact where it is not there. Default: jobs make what is not in the store.
            artifact_store: where artifacts are kept; one that may only be read goes with ``artifact_key``. Default: one
                store for the whole stack.
            endpoint_name: default: CloudFormation makes one up.
            environment: more environment variables for the model's container. Default: none.
            initial_instance_count: instances to start with. Default: 1.
            max_runtime: how long the optimization job may run. Default: 10 hours.
            role: what SageMaker assumes for job and model. Default: one execution role for the whole stack.
            timeout: how long the deployment waits for the artifact, at most 12 hours. Default: 12 hours.
            variant_name: name of the production variant. Default: ``AllTraffic``.
            vpc: the VPC that job and model reach the network through. Default: none.
            vpc_subnets: which of its subnets. Default: the private ones.
            security_groups: default: a new one without ingress.

        Raises:
            RecipeError: with every rule the recipe breaks; no resource has been added then.
            ValueError: when what is given does not go together, or ``artifact_key`` is not the key of this recipe.
        """
        super().__init__(scope, id)
        self.variant_name = variant_name
        given: dict[str, Any] = {
            "model": model,
            "techniques": techniques,
            "instance_type": instance_type,
            "environment": environment,
            "role": role,
            "vpc": vpc,
            "vpc_subnets": vpc_subnets,
            "security_groups": security_groups,
        }
        self.artifact: OptimizationJob | OptimizedArtifact
        if artifact_key is None:
            self.artifact = OptimizationJob(
                self, "Optimization", artifact_store=artifact_store, max_runtime=max_runtime, timeout=timeout, **given
            )
        else:
            store = _store_of_reference(artifact_key, artifact_store, max_runtime, timeout)
            # Not under the job's id: CloudFormation does not change the type of a resource.
            self.artifact = OptimizedArtifact(
                self, "Artifact", artifact_key=artifact_key, artifact_store=store, **given
            )
        container = self.plan.container
        model_name = optimized_model(self, "Model", self.artifact)
        variant: dict[str, Any] = {
            "containerStartupHealthCheckTimeoutInSeconds": container.container_startup_timeout_seconds,
            "initialInstanceCount": initial_instance_count,
            "initialVariantWeight": 1,
            "instanceType": instance_type,
            "modelDataDownloadTimeoutInSeconds": container.model_data_download_timeout_seconds,
            "modelName": model_name,
            "routingConfig": {"routingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            "variantName": variant_name,
        }
        component = container.component
        if component is not None:
            # An endpoint of components has instances only; the model and its timeouts are the component's.
            variant = {
                name: value
                for name, value in variant.items()
                if name in ("initialInstanceCount", "instanceType", "routingConfig", "variantName")
            }
        config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            execution_role_arn=self.artifact.role_arn if component is not None else None,
            production_variants=[variant],
        )
        self._endpoint = sagemaker.CfnEndpoint(
            self, "Resource", endpoint_config_name=config.attr_endpoint_config_name, endpoint_name=endpoint_name
        )
        self._endpoint_name = self._endpoint.attr_endpoint_name
        self._component = self._add_component(component, model_name) if component is not None else None
        self._scaling: EndpointScaling | None = None
        self._dashboard = EndpointDashboard(
            self,
            "Dashboard",
            endpoint_name=self._endpoint_name,
            variant_name=variant_name,
            artifact=self.artifact,
            inference_component_name=self.inference_component_name,
        )

    def _add_component(self, component: ComponentPlan, model_name: str) -> sagemaker.CfnInferenceComponent:
        container = self.plan.container
        return sagemaker.CfnInferenceComponent(
            self,
            "Component",
            endpoint_name=self._endpoint_name,
            runtime_config={"copyCount": 1},
            specification={
                "computeResourceRequirements": {
                    "minMemoryRequiredInMb": component.memory_mib,
                    "numberOfAcceleratorDevicesRequired": component.accelerators,
                },
                "modelName": model_name,
                "startupParameters": {
                    "containerStartupHealthCheckTimeoutInSeconds": container.container_startup_timeout_seconds,
                    "modelDataDownloadTimeoutInSeconds": container.model_data_download_timeout_seconds,
                },
            },
            variant_name=self.variant_name,
        )

    @property
    def inference_component_name(self) -> str | None:
        """The inference component's name (a token), which requests must name; None where a variant serves the model."""
        # The resource type has no attribute for a name that CloudFormation made up: the ARN ends in it.
        return Fn.select(1, Fn.split("/", self._component.ref)) if self._component is not None else None

    @property
    def plan(self) -> Plan:
        """What the recipe came to: jobs, container and artifact key."""
        return self.artifact.plan

    @property
    def job(self) -> OptimizationJob:
        """What makes the artifact. ``artifact`` is what is served, whether a job of this stack makes it or not.

        Raises:
            ValueError: with ``artifact_key``: the artifact is of another stack's making.
        """
        if not isinstance(self.artifact, OptimizationJob):
            raise ValueError(
                f"{self.node.path} refers to an artifact by its key, and no job of its own makes it: use .artifact, "
                "which has artifact_key, model_data_uri, image_uri and job_name"
            )
        return self.artifact

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name (a token)."""
        return self._endpoint_name

    @property
    def endpoint_arn(self) -> str:
        """The endpoint's ARN (a token)."""
        return self._endpoint.ref

    @property
    def dashboard(self) -> EndpointDashboard:
        """The endpoint's CloudWatch dashboard."""
        return self._dashboard

    def auto_scale(self, *, max_capacity: int, min_capacity: int = 1) -> EndpointScaling:
        """Let Application Auto Scaling choose the number of instances, or of an inference component's copies.

        From then on an update of the endpoint keeps the number that scaling has set.

        Args:
            max_capacity: the most instances.
            min_capacity: the fewest instances. Default: 1.

        Raises:
            ValueError: when the range is none, or the endpoint is scaled already.
        """
        if self._scaling is not None:
            raise ValueError(f"{self.node.path} is scaled already: call auto_scale once and add policies to its result")
        component = self.inference_component_name
        self._scaling = EndpointScaling(
            self,
            "Scaling",
            target=VariantTarget(self._endpoint_name, self.variant_name)
            if component is None
            else ComponentTarget(component),
            min_capacity=min_capacity,
            max_capacity=max_capacity,
        )
        self._endpoint.add_property_override("RetainAllVariantProperties", True)
        return self._scaling

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` invoke this endpoint, with or without response streaming."""
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=_INVOKE_ACTIONS,
            resource_arns=[self.endpoint_arn, *([self._component.ref] if self._component is not None else [])],
        )


def _store_of_reference(
    artifact_key: str, store: IArtifactStore | None, max_runtime: Duration | None, timeout: Duration | None
) -> IArtifactStore:
    """The store of an artifact that no job makes; what only a job could use is refused."""
    unused = [name for name, value in (("max_runtime", max_runtime), ("timeout", timeout)) if value is not None]
    if unused:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and with it no job runs and nothing is waited for: leave "
            f"{' and '.join(unused)} out"
        )
    if store is None:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and a store that this stack makes for itself has no artifacts: "
            "name the one that has it with artifact_store=..., for instance ArtifactStore.from_bucket(bucket, "
            "read_only=True)"
        )
    return store
