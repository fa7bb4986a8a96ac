"""A served model: its artifact, and the SageMaker model created from it.

The model is an ``AWS::SageMaker::Model`` if CloudFormation supports it, otherwise a custom resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from aws_cdk import CfnResource, IResolvable, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct
from pydantic import Field

from constructs_optim.constructs.stack.arguments import REMOVAL_POLICY, ROLE, STORE
from constructs_optim.constructs.stack.custom_resource import (
    RESPONSE_SECONDS,
    SIGNALED_VALUES,
    TaggedResource,
    drop_none,
)
from constructs_optim.constructs.stack.network import NetworkOptions
from constructs_optim.constructs.stack.stack_context import path_of
from constructs_optim.constructs.validation.network_ways import watch_network
from constructs_optim.recipe import Plan
from constructs_optim.recipe.hosting.arns import ArnKind
from constructs_optim.recipe.plan_data import HubSource
from constructs_optim.recipe.settings import Settings
from constructs_optim.templates.resource_types import METADATA_KEY

from . import model_source
from .artifact_store import IArtifactStore
from .optimization_job import JobOptions, OptimizationJob
from .optimization_service import OptimizationService
from .optimized_artifact import OptimizedArtifact
from .planned_recipe import ModelRecipe, add_recipe_metadata, recipe_metadata, shown
from .preflight import Preflight
from .recipe_artifact import RecipeArtifact, StartupTimeouts

_DECLARED = ("model", "techniques", "instance_type", "environment", "server", "accelerator_partition")


class ModelOptions(Settings):
    """Options that all models of an endpoint share."""

    artifact_store: Annotated[IArtifactStore, STORE] | None = None
    role: Annotated[iam.IRole, ROLE] | None = None
    removal_policy: Annotated[RemovalPolicy, REMOVAL_POLICY] | None = None
    jobs: JobOptions = Field(default_factory=JobOptions)
    network: NetworkOptions = Field(default_factory=NetworkOptions)

    @classmethod
    def display_name(cls) -> str:
        """Return the construct that takes these arguments."""
        return "OptimizedEndpoint"

    def arns(self) -> Iterator[tuple[str, ArnKind, str]]:
        """Yield the location, the kind and the ARN of the resources that the options refer to."""
        for location, role in (("role", self.role), ("jobs.role", self.jobs.role)):
            if role is not None:
                yield location, "role", role.role_arn
        if self.jobs.capacity_reservation is not None:
            yield "jobs.capacity_reservation.arn", "reservation", self.jobs.capacity_reservation.arn


@dataclass(frozen=True)
class ModelHost:
    """A variant whose options cannot follow the hub document of a model that it hosts.

    Attributes:
        ami_version: its machine image, or a token for it; None for SageMaker's default.
        isolated: whether it isolates all containers, or a token for that; None if each model decides, or the user did.
        is_shadow: whether it is a shadow variant, which has instances of its own.
    """

    ami_version: IResolvable | str | None = None
    isolated: IResolvable | None = None
    is_shadow: bool = False


@dataclass(frozen=True)
class HostedModel:
    """A SageMaker model with its name (a token), its declared recipe, and its artifact.

    ``follows_hub``: whether the hub's configuration decides the variant's options that the user leaves out.
    """

    recipe: ModelRecipe
    artifact: RecipeArtifact
    resource: CfnResource
    model_name: str
    startup_timeouts: StartupTimeouts
    follows_hub: bool = False

    @property
    def plan(self) -> Plan:
        """The plan of its recipe."""
        return self.artifact.plan

    @property
    def artifact_key(self) -> str | None:
        """The artifact's key (may be a token); None for a recipe without an artifact."""
        return self.artifact.artifact_key if self.plan.jobs else None

    @property
    def evaluation_key(self) -> str:
        """The key of its published evaluations: the artifact's or, without one, the serving configuration's."""
        return self.artifact_key or self.plan.container_key


def create_model(
    scope: Construct, recipe: ModelRecipe, options: ModelOptions, *, host: ModelHost | None = None
) -> HostedModel:
    """Declare the model, and its artifact or a reference to it; ``host`` if the variant does not follow the model."""
    declared: Any = {name: getattr(recipe, name) for name in _DECLARED}
    declared |= {"network": options.network.model_copy(update={"isolation": None}), "role": options.role}
    artifact: RecipeArtifact
    if recipe.artifact_key is None:
        store = options.artifact_store
        artifact = OptimizationJob(scope, "Optimization", artifact_store=store, jobs=options.jobs, **declared)
    else:
        # Not under the job's ID, because CloudFormation cannot change the type of a resource.
        key, store = recipe.artifact_key, _store_of_reference(recipe.artifact_key, options)
        artifact = OptimizedArtifact(scope, "Artifact", artifact_key=key, artifact_store=store, **declared)
    # Two logical IDs, because a recipe may gain or lose a draft, and CloudFormation refuses another type for a logical
    # ID ("Update of resource type is not permitted. The new template modifies resource type of the following resources:
    # ...").
    container, isolated, timeouts = artifact.plan.container, options.network.isolation, artifact.startup_timeouts
    of_hub = container.image is None
    if isolated is None and (host is not None or not of_hub):
        isolated = container.network_isolation
    model: CfnResource
    if container.is_native:
        native = _native_model(scope, artifact, isolated=isolated)
        model, name = native, native.attr_model_name
    else:
        model = _custom_model(scope, artifact, host if of_hub else None, isolated=isolated)
        name = model.ref
        if isinstance(container.model, HubSource):
            timeouts = StartupTimeouts.of_hub(model)
    artifact.execution_role.delay(model)
    watch_network(scope, artifact.network, f"the model of {path_of(scope)}")
    if (preflight := Preflight.of(scope)) is not None:
        preflight.add_model(model, artifact.plan, artifact.artifact_store, artifact.execution_role, artifact.network)
    hosted = HostedModel(recipe, artifact, model, name, timeouts, follows_hub=of_hub and host is None)
    add_recipe_metadata(model, artifact.plan, hosted.artifact_key)
    if isinstance(artifact, OptimizationJob):
        model.add_metadata("cfn-lint", SIGNALED_VALUES)
    return hosted


def _store_of_reference(artifact_key: str, options: ModelOptions) -> IArtifactStore:
    """Return the store of an artifact referred to by key; refuse job options."""
    if unused := [f"jobs.{name}" for name, value in vars(options.jobs).items() if value is not None]:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, so no job runs and the deployment waits for nothing: leave "
            f"{' and '.join(unused)} out"
        )
    if options.artifact_store is None:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and the stack's own new store has no artifacts: pass the store "
            "that has it as artifact_store=..., for instance ArtifactStore.from_bucket(bucket, read_only=True)"
        )
    return options.artifact_store


def _native_model(scope: Construct, artifact: RecipeArtifact, *, isolated: bool | None) -> sagemaker.CfnModel:
    network = artifact.network
    files = {"compressionType": "None", "s3DataType": "S3Prefix", "s3Uri": artifact.model_data_uri}
    return sagemaker.CfnModel(
        scope,
        "Model",
        enable_network_isolation=isolated,
        execution_role_arn=artifact.execution_role.role_arn,
        primary_container={
            "environment": dict(artifact.plan.container.environment),
            "image": artifact.plan.container.image,
            "modelDataSource": {"s3DataSource": files},
        },
        vpc_config=network.to_property("securityGroupIds") if network is not None else None,
    )


def _custom_model(
    scope: Construct, artifact: RecipeArtifact, host: ModelHost | None, *, isolated: bool | None
) -> CfnResource:
    """Declare a model with draft models, heads or hub files, which ``AWS::SageMaker::Model`` does not support."""
    plan, container, network = artifact.plan, artifact.plan.container, artifact.network
    role_arn = artifact.execution_role.role_arn
    properties = drop_none(
        ServiceToken=OptimizationService.of(scope).model_service_token(plan, role_arn=role_arn),
        ServiceTimeout=RESPONSE_SECONDS,
        Image=container.image,
        Environment=container.environment,
        InstanceType=plan.instance_type,
        Source=model_source.properties(container.model, artifact.artifacts),
        Channels=[
            {"Name": channel.name, "Source": model_source.properties(channel.source, artifact.artifacts)}
            for channel in container.channels
        ],
        RoleArn=role_arn,
        EnableNetworkIsolation=isolated,
        Host=drop_none(
            EnableNetworkIsolation=host.isolated,
            InferenceAmiVersion=host.ami_version,
            IsShadow=host.is_shadow or None,
        )
        if host is not None
        else None,
        VpcConfig=network.to_property("SecurityGroupIds") if network is not None else None,
    )
    return TaggedResource(
        scope, "OptimizedModel", type="Custom::OptimizedModel", properties=properties, tags=container.tags
    )


def describe_hosted(resource: CfnResource, models: Sequence[HostedModel]) -> None:
    """Add the served recipes to the metadata of an endpoint, its configuration or a component."""
    recipes = [recipe_metadata(model.plan, model.artifact_key) for model in models]
    if recipes:
        resource.add_metadata(METADATA_KEY, recipes[0] if len(recipes) == 1 else {"Pools": recipes})
