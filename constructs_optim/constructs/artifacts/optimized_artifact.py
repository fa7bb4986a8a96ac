"""An existing artifact as a resource, looked up in the store by key when the stack is deployed."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from aws_cdk import CfnResource
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.constructs.stack.arguments import ROLE, STORE, suggests_keywords
from constructs_optim.constructs.stack.custom_resource import RESPONSE_SECONDS, drop_none
from constructs_optim.constructs.stack.network import NetworkOptions, refuse_isolation
from constructs_optim.recipe import Model, Plan
from constructs_optim.recipe.plan_data import ArtifactSource
from constructs_optim.recipe.servers import ServerSettings
from constructs_optim.recipe.techniques import Technique
from constructs_optim.recipe.tokens import is_token

from . import model_source
from .artifact_store import IArtifactStore
from .model_source import Artifact
from .planned_recipe import ModelRecipe, add_recipe_metadata, shown
from .recipe_artifact import RecipeArtifact

_KEY = re.compile(r"[0-9a-f]{64}")


@suggests_keywords
class OptimizedArtifact(RecipeArtifact):
    """An existing artifact, of another stack or of an account that shares its store. No job runs.

    Declare the recipe of the stack that created the artifact: it defines how the artifact is served, and a key of
    another recipe is refused. The artifact must exist when the stack is deployed; the deployment does not wait for it.
    While the stack refers to it, the store records the reference.
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
        server: ServerSettings | None = None,
        accelerator_partition: str | None = None,
        network: NetworkOptions | None = None,
        role: iam.IRole | None = None,
    ) -> None:
        """Refer to the artifact.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            model: the source model of the artifact.
            techniques: the applied techniques, in order.
            instance_type: the instance type to serve the model on, for instance ``ml.g5.12xlarge``.
            artifact_key: the artifact's key, 64 hexadecimal digits; may be a token. For a recipe with several jobs, it
                is the last job's key.
            artifact_store: the store of the artifact; may be read-only.
            environment: additional environment variables of the model's container. Default: none.
            server: the model server and its settings. Default: vLLM, unless a technique needs another server.
            accelerator_partition: the GPU partition type that a copy of the model occupies. Default: none; a copy uses
                whole GPUs.
            network: the VPC of the model. Default: none.
            role: the role that SageMaker assumes for the model. Default: one role for all models of the stack.

        Raises:
            RecipeError: if the recipe breaks rules; lists all of them.
            ValueError: if the key is malformed or belongs to another recipe.
        """
        STORE.check("artifact_store", artifact_store)
        ROLE.check("role", role)
        network = network or NetworkOptions()
        refuse_isolation(network, "OptimizedArtifact")
        plan = ModelRecipe(
            model,
            techniques,
            instance_type,
            environment=environment,
            server=server,
            accelerator_partition=accelerator_partition,
        ).plan_in(scope)
        _check(artifact_key, plan)
        super().__init__(scope, id, plan=plan, artifact_store=artifact_store, network=network, role=role)
        self._key = artifact_key
        job, store, serving_role = plan.jobs[-1], artifact_store, self.execution_role
        handler = self._service.artifact_handler(store, plan)
        self.log_group_names = (handler.log_group_name,)
        properties = drop_none(
            ServiceToken=handler.arn,
            ServiceTimeout=RESPONSE_SECONDS,
            Description=plan.description,
            JobKind=job.kind if job.kind != "OptimizationJob" else None,
            ArtifactKey=artifact_key,
            RecipeKey=job.recipe_key,
            # The last job of a chain has no source but an artifact key.
            Source=model_source.properties(job.source) if not isinstance(job.source, ArtifactSource) else None,
            Bucket=store.bucket_name,
            KmsKeyArn=store.encryption_key_arn,
        )
        resource = CfnResource(self, "Resource", type="Custom::OptimizedArtifact", properties=properties)
        add_recipe_metadata(resource, plan, artifact_key)
        # Models depend on this resource, so they start after their role has permission to read.
        serving_role.delay(resource)
        artifact = Artifact(
            resource,
            resource.get_att("ModelDataUri").to_string(),
            lambda: resource.get_att("JobName").to_string(),
        )
        # Only the last artifact of a chain is known.
        self.artifacts = {len(plan.jobs) - 1: artifact}


def _check(artifact_key: str, plan: Plan) -> None:
    """Refuse a key that is malformed, or not the key of the served artifact."""
    if not plan.jobs:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and this recipe needs no job, so it has no artifact: leave "
            "artifact_key out"
        )
    if plan.container.artifacts != frozenset({len(plan.jobs) - 1}):
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and this recipe serves the artifacts of several jobs, which a "
            "single key cannot identify: leave artifact_key out, and the jobs find their artifacts in the store"
        )
    if is_token(artifact_key):
        return
    if not isinstance(artifact_key, str) or not _KEY.fullmatch(artifact_key):
        raise ValueError(
            f"artifact_key is {artifact_key!r}, and a key is 64 lowercase hexadecimal digits, the name of the "
            "artifact's folder below artifacts/ in its store: an optimization job has it as artifact_key, and "
            "`constructs-optim plan` prints it"
        )
    own = plan.artifact_key
    if own is not None and own != artifact_key:
        raise ValueError(
            f"artifact_key is {artifact_key}, and this recipe makes {own}: the model and version, techniques and their "
            "settings, accelerator, tensor parallel degree, or the container image that the release of "
            "constructs-optim chooses differ from those of the stack that created the artifact. Declare that stack's "
            f"recipe with the same release, or refer to {own}"
        )
