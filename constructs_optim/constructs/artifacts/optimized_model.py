"""The SageMaker model of a plan: CloudFormation's own where it can express it, a custom resource where it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aws_cdk import CfnResource
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.stack.tagged_resource import TaggedResource
from constructs_optim.recipe.planning.plan_data import HubSource

from . import model_source
from .model_source import StartupTimeouts
from .optimization_job import SIGNALLED_VALUES, OptimizationJob
from .optimization_service import OptimizationService
from .optimized_artifact import OptimizedArtifact
from .recipe_metadata import describe_recipe


@dataclass(frozen=True)
class DeclaredModel:
    """The resource, its name (a token), and how long it may take to start."""

    resource: CfnResource
    name: str
    startup_timeouts: StartupTimeouts


def optimized_model(
    scope: Construct, artifact: OptimizationJob | OptimizedArtifact, *, network_isolation: bool | None = None
) -> DeclaredModel:
    """Declare the model in ``scope``.

    ``network_isolation``: where it is not as the plan has it.

    ``AWS::SageMaker::Model`` has no additional model data sources, so a model with a draft or heads beside it is a
    ``Custom::OptimizedModel`` with the same properties, to be reviewed like the native one; and so is a model whose
    files the hub names when the stack is deployed.
    """
    container = artifact.plan.container
    isolated = container.network_isolation if network_isolation is None else network_isolation
    # Two ids: CloudFormation refuses to give a logical id another type ("Update of resource type is not permitted. The
    # new template modifies resource type of the following resources: ..."), and a recipe may gain a draft or lose it.
    if container.is_native:
        return _native(scope, "Model", artifact, isolated)
    return _custom(scope, "OptimizedModel", artifact, isolated)


def _native(scope: Construct, id: str, artifact: OptimizationJob | OptimizedArtifact, isolated: bool) -> DeclaredModel:
    container, network = artifact.plan.container, artifact.network
    model = sagemaker.CfnModel(
        scope,
        id,
        enable_network_isolation=isolated,
        execution_role_arn=artifact.role_arn,
        primary_container={
            "environment": dict(container.environment),
            "image": artifact.image_uri,
            "modelDataSource": {
                "s3DataSource": {
                    "compressionType": "None",
                    "s3DataType": "S3Prefix",
                    "s3Uri": artifact.model_data_uri,
                }
            },
        },
        vpc_config=network.to_property("securityGroupIds") if network is not None else None,
    )
    _explain(model, artifact)
    return DeclaredModel(model, model.attr_model_name, artifact.startup_timeouts)


def _custom(scope: Construct, id: str, artifact: OptimizationJob | OptimizedArtifact, isolated: bool) -> DeclaredModel:
    plan, container, network = artifact.plan, artifact.plan.container, artifact.network
    service = OptimizationService.of(scope)
    properties: dict[str, Any] = {
        "ServiceToken": service.model_service_token(plan, role_arn=artifact.role_arn),
        "ServiceTimeout": service.service_timeout_seconds,
        # The plan's image, not the one a job recommends: that one may ignore a draft.
        **({"Image": container.image} if container.image is not None else {}),
        "Environment": container.environment,
        "InstanceType": plan.instance_type,
        "Source": model_source.properties(container.model, artifact.artifacts),
        "Channels": [
            {"Name": channel.name, "Source": model_source.properties(channel.source, artifact.artifacts)}
            for channel in container.channels
        ],
        "RoleArn": artifact.role_arn,
        "EnableNetworkIsolation": isolated,
        **({"VpcConfig": network.to_property("SecurityGroupIds")} if network is not None else {}),
    }
    model = TaggedResource(scope, id, type="Custom::OptimizedModel", properties=properties, tags=container.tags)
    _explain(model, artifact)
    of_hub = isinstance(container.model, HubSource)
    return DeclaredModel(model, model.ref, StartupTimeouts.of_hub(model) if of_hub else artifact.startup_timeouts)


def _explain(model: CfnResource, artifact: OptimizationJob | OptimizedArtifact) -> None:
    """To reviewers, and to cfn-lint; and have the model wait until its role may read it."""
    if artifact.execution_role.policy is not None:
        model.node.add_dependency(artifact.execution_role.policy)
    describe_recipe(model, artifact.plan, artifact.artifact_key if artifact.plan.jobs else None)
    if isinstance(artifact, OptimizationJob):
        model.add_metadata("cfn-lint", SIGNALLED_VALUES)
