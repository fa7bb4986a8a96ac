"""A model that is served: the artifact of its recipe, and the SageMaker model made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.constructs.stack.lock_file import recorded_containers
from constructs_optim.constructs.stack.network import NetworkOptions
from constructs_optim.recipe import Model, Plan, Violation, violations
from constructs_optim.recipe.techniques import Technique

from .artifact_store import IArtifactStore
from .optimization_job import JobOptions, OptimizationJob
from .optimized_artifact import OptimizedArtifact
from .optimized_model import DeclaredModel, optimized_model
from .stack_plan import region_of, shown


@dataclass(frozen=True)
class Surroundings:
    """What all models of an endpoint share: store, role, network, and how their jobs run."""

    artifact_store: IArtifactStore | None = None
    role: iam.IRole | None = None
    jobs: JobOptions = field(default_factory=JobOptions)
    network: NetworkOptions = field(default_factory=NetworkOptions)


@dataclass(frozen=True)
class ModelRecipe:
    """A recipe as a user gave it; nothing in it is checked yet."""

    model: Model
    techniques: Sequence[Technique]
    instance_type: str
    artifact_key: str | None = None
    environment: Mapping[str, str] | None = None
    place: str = ""
    """Where it was given, as violations name it: ``instance_pools[0].``, or nothing."""
    fields: tuple[str, ...] = field(default=("techniques", "instance_type", "environment"))
    """What was given at that place."""

    def violations(self, scope: Construct, max_runtime: Duration | None) -> list[Violation]:
        """All rules it breaks in the region of ``scope``, with jobs that may run so long."""
        found = violations(
            model=self.model,
            techniques=self.techniques,
            instance_type=self.instance_type,
            region=region_of(scope),
            environment=self.environment,
            max_runtime_seconds=int(max_runtime.to_seconds()) if isinstance(max_runtime, Duration) else None,
            containers=recorded_containers(scope),
        )
        return [
            violation.model_copy(update={"location": self.place + violation.location})
            if violation.location.startswith(self.fields)
            else violation
            for violation in found
        ]


@dataclass(frozen=True)
class HostedModel:
    """The artifact, and the SageMaker model that serves it."""

    artifact: OptimizationJob | OptimizedArtifact
    model: DeclaredModel

    @property
    def model_name(self) -> str:
        """The model's name (a token)."""
        return self.model.name

    @property
    def plan(self) -> Plan:
        """What the recipe came to."""
        return self.artifact.plan

    @property
    def artifact_key(self) -> str | None:
        """The artifact's key (it may be a token); None where the recipe makes none."""
        return self.artifact.artifact_key if self.plan.jobs else None

    @property
    def evaluation_key(self) -> str:
        """What evaluations of it are published under: the artifact's key, or that of how the model is served."""
        return self.artifact_key or self.plan.container_key

    @property
    def runs_jobs(self) -> bool:
        """Whether jobs of this stack may fail."""
        return isinstance(self.artifact, OptimizationJob) and bool(self.plan.jobs)

    @property
    def instance_type(self) -> str:
        """What it is served on."""
        return self.plan.instance_type


def host(scope: Construct, recipe: ModelRecipe, around: Surroundings) -> HostedModel:
    """Declare what makes the artifact, or refers to it, and the model.

    Raises:
        RecipeError: with every rule the recipe breaks.
        ValueError: when what is given does not go together.
    """
    given: dict[str, Any] = {
        "model": recipe.model,
        "techniques": recipe.techniques,
        "instance_type": recipe.instance_type,
        "environment": recipe.environment,
        "network": replace(around.network, isolation=None),
        "role": around.role,
    }
    artifact: OptimizationJob | OptimizedArtifact
    if recipe.artifact_key is None:
        artifact = OptimizationJob(
            scope,
            "Optimization",
            artifact_store=around.artifact_store,
            jobs=around.jobs,
            **given,
        )
    else:
        store = _store_of_reference(recipe.artifact_key, around)
        # Not under the job's id: CloudFormation does not change the type of a resource.
        artifact = OptimizedArtifact(scope, "Artifact", artifact_key=recipe.artifact_key, artifact_store=store, **given)
    model = optimized_model(scope, artifact, network_isolation=around.network.isolation)
    return HostedModel(artifact, model)


def _store_of_reference(artifact_key: str, around: Surroundings) -> IArtifactStore:
    """The store of an artifact that no job makes; what only a job could use is refused."""
    unused = [f"jobs.{name}" for name, value in vars(around.jobs).items() if value is not None]
    if unused:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and with it no job runs and nothing is waited for: leave "
            f"{' and '.join(unused)} out"
        )
    if around.artifact_store is None:
        raise ValueError(
            f"artifact_key is {shown(artifact_key)}, and a store that this stack makes for itself has no artifacts: "
            "name the one that has it with artifact_store=..., for instance ArtifactStore.from_bucket(bucket, "
            "read_only=True)"
        )
    return around.artifact_store
