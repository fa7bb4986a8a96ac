"""What an endpoint knows of the models that it was declared with: plans, artifacts, role and network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_iam as iam

from constructs_optim.constructs.artifacts.execution_role import GrantedRole, SeveralRoles
from constructs_optim.constructs.artifacts.hosted_model import HostedModel, ModelOptions
from constructs_optim.constructs.artifacts.optimization_job import OptimizationJob
from constructs_optim.constructs.artifacts.optimized_artifact import OptimizedArtifact
from constructs_optim.recipe import Plan

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2
    from constructs import Node


class EndpointModels:
    """Mixed into the endpoint, which declares them."""

    _models: list[HostedModel]
    _model_options: ModelOptions
    _role: GrantedRole

    if TYPE_CHECKING:

        @property
        def node(self) -> Node:
            """The construct's node."""
            ...

    @property
    def plan(self) -> Plan:
        """What the recipe came to: jobs, container and artifact key; of the first pool, where there are several.

        Raises:
            ValueError: for an endpoint without a model of its own.
        """
        return self._first.plan

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of all pools, in their order."""
        return tuple(model.plan for model in self._models)

    @property
    def artifact(self) -> OptimizationJob | OptimizedArtifact:
        """What is served, whether a job of this stack makes it or not; of the first pool, where there are several.

        Raises:
            ValueError: for an endpoint without a model of its own.
        """
        return self._first.artifact

    @property
    def artifacts(self) -> tuple[OptimizationJob | OptimizedArtifact, ...]:
        """What the pools serve, in their order."""
        return tuple(model.artifact for model in self._models)

    @property
    def _first(self) -> HostedModel:
        if not self._models:
            raise ValueError(
                f"{self.node.path} has no model of its own: each component that add_component(...) returns has its "
                "artifact and its plan"
            )
        return self._models[0]

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
    def grant_principal(self) -> iam.IPrincipal:
        """What SageMaker assumes for models and jobs: grants to the endpoint are grants to the roles of both."""
        of_jobs = [model.artifact.job_role for model in self._models if isinstance(model.artifact, OptimizationJob)]
        roles = dict.fromkeys([self._role, *(role for role in of_jobs if role is not None)])
        if len(roles) == 1:
            return self._role.role.grant_principal
        return SeveralRoles([role.role for role in roles])

    @property
    def connections(self) -> ec2.Connections:
        """The network connections of jobs and models.

        Raises:
            ValueError: without a VPC.
        """
        groups = self._model_options.network.security_groups
        if groups is None:
            raise ValueError(
                f"{self.node.path} is in no VPC: give it network=NetworkOptions(vpc=...), and it has connections"
            )
        from aws_cdk import aws_ec2

        return aws_ec2.Connections(security_groups=list(groups))
