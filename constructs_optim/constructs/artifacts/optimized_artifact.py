"""An artifact that is in the store already, as a resource: looked up by its key when the stack is deployed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Annotations, CfnResource
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.constructs.stack.container_registry import ContainerRegistry
from constructs_optim.constructs.stack.custom_resource import RESPONSE_SECONDS, drop_none
from constructs_optim.constructs.stack.keywords import suggests_keywords
from constructs_optim.constructs.stack.kinds import ROLE, STORE
from constructs_optim.constructs.stack.network import Network, NetworkOptions, refuse_isolation
from constructs_optim.constructs.stack.stack_context import StackContext, is_token
from constructs_optim.constructs.validation.template_size import watch_template_size
from constructs_optim.recipe import Model, Plan
from constructs_optim.recipe.plan_data import ArtifactSource
from constructs_optim.recipe.techniques import Technique

from . import model_source
from .artifact_store import IArtifactStore
from .execution_role import GrantedRole, granted_role, serving_statements
from .model_source import Artifact, StartupTimeouts
from .optimization_service import OptimizationService
from .planned_recipe import add_recipe_metadata, plan_for, shown

_KEY = re.compile(r"[0-9a-f]{64}")


@suggests_keywords
class OptimizedArtifact(Construct):
    """An artifact of another stack, or of another account that shares its store: no job of this stack makes it.

    The recipe is that of the stack that made the artifact. It decides how the artifact is served, and a key that this
    recipe does not make is refused. When the stack is deployed the artifact must be there: a deployment does not wait
    for it. While the stack refers to it, the store counts the reference.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        techniques: Sequence[Technique],
        instance_type: str,
        artifact_key: str,
        artifact_store: IArtifactStore,
        environment: Mapping[str, str] | None = None,
        network: NetworkOptions | None = None,
        role: iam.IRole | None = None,
    ) -> None:
        """Refer to the artifact.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            model: what the artifact was made from.
            techniques: what was done with it, in order.
            instance_type: what the model will be served on, for instance ``ml.g5.12xlarge``.
            artifact_key: the artifact's key, 64 hexadecimal digits; of the last job where the recipe has several. May
                be a token.
            artifact_store: where the artifact is; one that may only be read will do.
            environment: more environment variables for the model's container. Default: none.
            network: the VPC that the model reaches the network through. Default: none.
            role: what SageMaker assumes for the model. Default: one role for all models of the stack.

        Raises:
            RecipeError: with every rule the recipe breaks.
            ValueError: when the key is none, or not the one of this recipe.
        """
        STORE.check("artifact_store", artifact_store)
        ROLE.check("role", role)
        network = network or NetworkOptions()
        refuse_isolation(network, "OptimizedArtifact")
        stack = StackContext.of(scope).stack
        self._registry = registry = ContainerRegistry.of(stack)
        self.plan: Plan = plan_for(
            scope,
            model=model,
            techniques=techniques,
            instance_type=instance_type,
            environment=environment,
        )
        _check(artifact_key, self.plan)
        super().__init__(scope, id)
        watch_template_size(self)
        for advice in self.plan.warnings:
            Annotations.of(self).add_warning_v2(advice.id, advice.message)

        self.artifact_store: IArtifactStore = artifact_store
        self.network: Network | None = Network.of(self, network)
        service = OptimizationService.of(self)
        granted = granted_role(self, role, lambda: service.execution_role)
        granted.permit(serving_statements(self.plan, artifact_store, registry, in_vpc=self.network is not None))
        self.execution_role: GrantedRole = granted
        self.role_arn: str = granted.role_arn
        resource = CfnResource(
            self, "Resource", type="Custom::OptimizedArtifact", properties=self._properties(artifact_key, service)
        )
        add_recipe_metadata(resource, self.plan, artifact_key)
        if granted.policy is not None:
            # What serves the artifact depends on this resource, and so starts when its role may read.
            resource.node.add_dependency(granted.policy)
        recommends_image = self.plan.jobs[-1].recommends_image
        self._artifact = Artifact(
            resource,
            uri=resource.get_att("ModelDataUri").to_string(),
            image=resource.get_att("Image").to_string() if recommends_image else str(self.plan.container.image),
            job_name=lambda: resource.get_att("JobName").to_string(),
        )
        self._key = artifact_key
        self.startup_timeouts: StartupTimeouts = StartupTimeouts.of(self.plan.container)

    @property
    def artifacts(self) -> Mapping[int, Artifact]:
        """The artifact, by the index of its job in the plan, without the earlier ones of a chain."""
        return {len(self.plan.jobs) - 1: self._artifact}

    @property
    def artifact_key(self) -> str:
        """The artifact's key in the store, as it was passed."""
        return self._key

    @property
    def job_name(self) -> str:
        """The name of the SageMaker job that made the artifact (a token)."""
        return self._artifact.job_name

    @property
    def model_data_uri(self) -> str:
        """The artifact's S3 prefix (a token)."""
        return self._artifact.uri

    @property
    def image_uri(self) -> str:
        """The container image that the service recommended for the artifact (a token)."""
        return self._artifact.image

    def _properties(self, artifact_key: str, service: OptimizationService) -> dict[str, Any]:
        store, job = self.artifact_store, self.plan.jobs[-1]
        return drop_none(
            ServiceToken=service.artifact_service_token(store, self.plan),
            ServiceTimeout=RESPONSE_SECONDS,
            Description=self.plan.description,
            JobKind=job.kind if job.kind != "OptimizationJob" else None,
            ArtifactKey=artifact_key,
            RecipeKey=job.recipe_key,
            # What a chain's last job starts from is known by a key alone.
            Source=model_source.properties(job.source) if not isinstance(job.source, ArtifactSource) else None,
            Bucket=store.bucket_name,
            ServingRepositories=self._registry.serving_repositories(self.plan) if job.recommends_image else None,
            KmsKeyArn=store.encryption_key_arn,
        )


def _check(artifact_key: str, plan: Plan) -> None:
    """Refuse a key that names no artifact, or not the one that is served."""
    if not plan.jobs:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and this recipe needs no job, so it has no artifact: leave "
            "artifact_key out"
        )
    if plan.container.artifacts != {len(plan.jobs) - 1}:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and this recipe serves the artifacts of several jobs, which "
            "one key does not name: leave artifact_key out, and the jobs find their artifacts in the store"
        )
    if is_token(artifact_key):
        return
    if not isinstance(artifact_key, str) or not _KEY.fullmatch(artifact_key):
        raise ValueError(
            f"artifact_key is {artifact_key!r}, and a key is 64 hexadecimal digits in lower case, the name of the "
            "artifact's folder below artifacts/ of its store: OptimizationJob.artifact_key has it, and "
            "`constructs-optim plan` prints it"
        )
    own = plan.artifact_key
    if own is not None and own != artifact_key:
        raise ValueError(
            f"artifact_key is {artifact_key}, and this recipe makes {own}: model and version, techniques and their "
            "settings, accelerator, tensor parallel degree, or the container image that a release of constructs-optim "
            "chooses differ from those of the stack that made it. Declare the recipe of that stack with the same "
            f"release, or refer to {own}"
        )
