"""The endpoint a platform team declares: model, techniques and instance type in, a served artifact out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.recipe import Model, Plan
from constructs_optim.recipe.techniques import Technique

from .artifact_store import IArtifactStore
from .endpoint_dashboard import EndpointDashboard
from .endpoint_scaling import EndpointScaling
from .optimization_job import SIGNALLED_VALUES, OptimizationJob

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
            artifact_store: where artifacts are kept. Default: one store for the whole stack.
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
        """
        super().__init__(scope, id)
        self.variant_name = variant_name
        self.job = OptimizationJob(
            self,
            "Optimization",
            model=model,
            techniques=techniques,
            instance_type=instance_type,
            artifact_store=artifact_store,
            environment=environment,
            max_runtime=max_runtime,
            role=role,
            timeout=timeout,
            vpc=vpc,
            vpc_subnets=vpc_subnets,
            security_groups=security_groups,
        )
        container = self.plan.container
        if not container.is_native or container.component is not None:
            raise ValueError(
                f"{self.node.path}: the endpoint is a native AWS::SageMaker::Model on a production variant so far, "
                "which takes neither drafts nor shards"
            )
        network = self.job.network
        served = sagemaker.CfnModel(
            self,
            "Model",
            enable_network_isolation=container.network_isolation,
            execution_role_arn=self.job.role_arn,
            primary_container={
                "environment": dict(container.environment),
                "image": self.job.image_uri,
                "modelDataSource": {
                    "s3DataSource": {
                        "compressionType": "None",
                        "s3DataType": "S3Prefix",
                        "s3Uri": self.job.model_data_uri,
                    }
                },
            },
            vpc_config=network.to_property("securityGroupIds") if network is not None else None,
        )
        served.add_metadata("cfn-lint", SIGNALLED_VALUES)
        config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[
                {
                    "containerStartupHealthCheckTimeoutInSeconds": container.container_startup_timeout_seconds,
                    "initialInstanceCount": initial_instance_count,
                    "initialVariantWeight": 1,
                    "instanceType": instance_type,
                    "modelDataDownloadTimeoutInSeconds": container.model_data_download_timeout_seconds,
                    "modelName": served.attr_model_name,
                    "routingConfig": {"routingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
                    "variantName": variant_name,
                }
            ],
        )
        self._endpoint = sagemaker.CfnEndpoint(
            self,
            "Resource",
            endpoint_config_name=config.attr_endpoint_config_name,
            endpoint_name=endpoint_name,
        )
        self._endpoint_name = self._endpoint.attr_endpoint_name
        self._scaling: EndpointScaling | None = None
        self._dashboard = EndpointDashboard(
            self, "Dashboard", endpoint_name=self._endpoint_name, variant_name=variant_name, plan=self.plan
        )

    @property
    def plan(self) -> Plan:
        """What the recipe came to: jobs, container and artifact key."""
        return self.job.plan

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
        """Let Application Auto Scaling choose the number of instances.

        From then on an update of the endpoint keeps the number that scaling has set.

        Args:
            max_capacity: the most instances.
            min_capacity: the fewest instances. Default: 1.

        Raises:
            ValueError: when the range is none, or the endpoint is scaled already.
        """
        if self._scaling is not None:
            raise ValueError(f"{self.node.path} is scaled already: call auto_scale once and add policies to its result")
        self._scaling = EndpointScaling(
            self,
            "Scaling",
            endpoint_name=self._endpoint_name,
            variant_name=self.variant_name,
            min_capacity=min_capacity,
            max_capacity=max_capacity,
        )
        self._endpoint.add_property_override("RetainAllVariantProperties", True)
        return self._scaling

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` invoke this endpoint, with or without response streaming."""
        return iam.Grant.add_to_principal(grantee=grantee, actions=_INVOKE_ACTIONS, resource_arns=[self.endpoint_arn])
