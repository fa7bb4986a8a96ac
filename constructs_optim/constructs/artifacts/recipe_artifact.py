"""The artifacts that a recipe serves, the role that reads them, and the startup timeouts of their models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from aws_cdk import CfnResource, Token
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.constructs.stack.container_registry import ContainerRegistry
from constructs_optim.constructs.stack.findings import advise
from constructs_optim.constructs.stack.network import Network, NetworkOptions
from constructs_optim.constructs.validation.template_size import watch_template_size
from constructs_optim.recipe import Plan
from constructs_optim.recipe.settings import methods_suggest_keywords

from .artifact_store import ArtifactStore, IArtifactStore
from .model_source import Artifact
from .optimization_service import OptimizationService
from .planned_recipe import record_containers
from .roles import SageMakerRole, UserRole, serving_statements


@dataclass(frozen=True)
class StartupTimeouts:
    """The timeouts for downloading and loading a model, in seconds; tokens for a model of the hub."""

    download: float
    startup: float

    @staticmethod
    def of_hub(resource: CfnResource) -> StartupTimeouts:
        """Return the timeouts that the custom resource read from the model's hub document."""
        names, of = ("ModelDataDownloadTimeout", "ContainerStartupTimeout"), resource.logical_id
        return StartupTimeouts(*(Token.as_number({"Fn::GetAtt": [of, name]}) for name in names))

    def within(self, longest: int | None) -> StartupTimeouts:
        """Return the timeouts, at most ``longest``; tokens stay, because their values are only known at deployment."""
        # A token is not a Python int, and asking the CDK is a call to Node.
        if longest is None or not isinstance(self.download, int):
            return self
        return StartupTimeouts(min(self.download, longest), min(self.startup, longest))


@methods_suggest_keywords
class RecipeArtifact(Construct):
    """The artifacts of a recipe, written by its jobs or already in the store.

    Attributes:
        plan: the plan of the recipe.
        artifact_store: the store of the artifact.
        network: the network of jobs and the model; None without a VPC.
        startup_timeouts: how long the model may take to start.
        artifacts: the artifacts by the index of their jobs in the plan. A resource that uses one waits for it.
        job_role: the role that SageMaker assumes for the jobs; None if no job of this stack creates the artifact.
        log_group_names: the log groups of the handlers that run its jobs or look it up (tokens).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        plan: Plan,
        artifact_store: IArtifactStore | None,
        network: NetworkOptions,
        role: iam.IRole | None,
    ) -> None:
        """Declare the artifact; SageMaker assumes ``role`` for the model."""
        super().__init__(scope, id)
        record_containers(self, plan.containers)
        watch_template_size(self)
        advise(self, *plan.warnings)
        container = plan.container
        self.plan: Plan = plan
        self.artifact_store: IArtifactStore = artifact_store or ArtifactStore.default_of(self)
        self.network: Network | None = Network.of(self, network)
        self.startup_timeouts: StartupTimeouts = StartupTimeouts(
            container.model_data_download_timeout_seconds, container.container_startup_timeout_seconds
        )
        self.artifacts: Mapping[int, Artifact] = {}
        self.job_role: SageMakerRole | None = None
        self.log_group_names: tuple[str, ...] = ()
        self._key: str | None = plan.artifact_key
        self._registry = ContainerRegistry.of(self)
        self._service = OptimizationService.of(self)
        self._role = role

    @cached_property
    def execution_role(self) -> SageMakerRole:
        """The role that SageMaker assumes for the model, which may read the artifacts."""
        role = UserRole.of(self, self._role) if self._role is not None else self._service.execution_role
        in_vpc = self.network is not None
        role.permit(serving_statements(self.plan, self.artifact_store, self._registry, in_vpc=in_vpc))
        return role

    @property
    def artifact_key(self) -> str:
        """The artifact's key in the store (64 hexadecimal digits); a token if the source is not pinned."""
        return self._key or self._last.key

    @property
    def job_name(self) -> str:
        """The name of the SageMaker job that creates or created the artifact (a token)."""
        return self._last.job_name()

    @property
    def model_data_uri(self) -> str:
        """The artifact's S3 prefix (a token). Resources that use it wait for the artifact."""
        return self._last.uri

    @property
    def image_uri(self) -> str:
        """The container image that serves the artifact; may contain tokens."""
        return str(self.plan.container.image)

    @property
    def _last(self) -> Artifact:
        if not self.artifacts:
            raise ValueError(f"{technique_labels(self.plan)}: this recipe needs no job, so it has no artifact")
        return self.artifacts[len(self.plan.jobs) - 1]


def technique_labels(plan: Plan) -> str:
    """Return the techniques of a plan, for messages."""
    return " + ".join(technique.label for technique in plan.techniques)
