"""An optimization job as a resource: reused where its artifact exists, waited for where it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

from aws_cdk import Annotations, Duration, Token
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.constructs.stack.container_registry import ContainerRegistry
from constructs_optim.constructs.stack.custom_resource import (
    LONGEST_WAIT_SECONDS,
    RESPONSE_SECONDS,
    SIGNALLED_VALUES,
    JobSignal,
    TaggedResource,
    drop_none,
    wait_seconds,
)
from constructs_optim.constructs.stack.keywords import suggests_keywords
from constructs_optim.constructs.stack.kinds import DURATION, ROLE, STORE
from constructs_optim.constructs.stack.network import Network, NetworkOptions, refuse_isolation
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.constructs.validation.refusal import declaring
from constructs_optim.constructs.validation.template_size import watch_template_size
from constructs_optim.recipe import Model, Plan
from constructs_optim.recipe.plan_data import ArtifactSource, HubSource, JobPlan
from constructs_optim.recipe.planning import data_source
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import Technique

from . import model_source
from .artifact_store import ArtifactStore, IArtifactStore
from .execution_role import GrantedRole, granted_role, job_statements, serving_statements
from .model_source import Artifact, StartupTimeouts
from .optimization_service import OptimizationService
from .planned_recipe import add_job_metadata, plan_for, shown


class JobOptions(Settings):
    """How optimization and training jobs run.

    Attributes:
        role: what SageMaker assumes for the jobs. Default: the ``role`` of the construct, and without one a role for
            all jobs of the stack.
        max_runtime: how long a job may run. Default: 10 hours; longer for training.
        timeout: how long the deployment waits for the artifact, at most 12 hours. Default: 12 hours.
    """

    role: Annotated[iam.IRole, ROLE] | None = None
    max_runtime: Annotated[Duration, DURATION] | None = None
    timeout: Annotated[Duration, DURATION] | None = None


@suggests_keywords
class OptimizationJob(Construct):
    """One artifact: the job that makes it, and the condition that holds back what needs it.

    The job runs only when no artifact of the same key is in the store. While it runs, resources that use
    ``model_data_uri`` or ``image_uri`` wait; when it fails, the stack rolls back with the service's own reason.
    Usable alone, to make an artifact in one stack that another one deploys.
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
        environment: Mapping[str, str] | None = None,
        jobs: JobOptions | None = None,
        network: NetworkOptions | None = None,
        role: iam.IRole | None = None,
        wait: bool = True,
    ) -> None:
        """Declare the job.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            model: where the weights come from.
            techniques: what to do with them, in order.
            instance_type: what the model will be served on, for instance ``ml.g5.12xlarge``.
            artifact_store: where the artifact is kept; it must not be read-only. Default: one store for the whole
                stack.
            environment: more environment variables for the model's container. Default: none.
            jobs: how the job runs: its role, the time it may take, and how long the deployment waits for it.
            network: the VPC that job and model reach the network through. Default: none.
            role: what SageMaker assumes for the model, and for the job unless that has a role of its own. Default: a
                role for all models of the stack, which writes nothing, and one for all jobs.
            wait: whether the deployment waits for the artifact. Default: it does.

        Raises:
            RecipeError: with every rule the recipe breaks.
            ValueError: when ``jobs.timeout`` is longer than CloudFormation can wait, or the store is read-only.
        """
        self._context = context = StackContext.of(scope)
        stack = context.stack
        jobs, network = jobs or JobOptions(), network or NetworkOptions()
        refuse_isolation(network, "OptimizationJob")
        STORE.check("artifact_store", artifact_store)
        ROLE.check("role", role)
        seconds = wait_seconds(
            jobs.timeout,
            LONGEST_WAIT_SECONDS,
            name="jobs.timeout",
            instead="for a longer job use OptimizationJob(wait=False) in a stack of its own",
        )
        registry = ContainerRegistry.of(stack)
        self.plan: Plan = plan_for(
            scope,
            model=model,
            techniques=techniques,
            instance_type=instance_type,
            environment=environment,
            max_runtime=jobs.max_runtime,
        )
        if self.plan.jobs and artifact_store is not None and artifact_store.read_only:
            raise ValueError(
                f"the artifact store {shown(artifact_store.bucket_name)} is read-only, and {_described(self.plan)} "
                "runs a job that writes its artifact there: refer to one that is there by artifact_key=... "
                "(OptimizedEndpoint, OptimizedArtifact), or write with ArtifactStore.from_bucket(..., read_only=False)"
            )
        if len(self.plan.jobs) > 1 and not wait:
            raise ValueError(
                "wait=False goes with one job: the second of a chain starts from the artifact of the first. Declare "
                "the first as an OptimizationJob of its own, and the second on its artifact with Model.s3(...)"
            )
        with declaring(scope, id):
            super().__init__(scope, id)
        watch_template_size(self)
        for advice in self.plan.warnings:
            Annotations.of(self).add_warning_v2(advice.id, advice.message)

        self.artifact_store: IArtifactStore = artifact_store or ArtifactStore.default_of(stack)
        self.network: Network | None = Network.of(self, network)
        service = OptimizationService.of(scope)
        self._service, self._registry, self._role = service, registry, role
        self.job_role: GrantedRole | None = None
        if self.plan.jobs:
            self.job_role = self._permitted_job_role(jobs.role if jobs.role is not None else role)
        self._artifacts: list[Artifact] = []
        self.startup_timeouts: StartupTimeouts = StartupTimeouts.of(self.plan.container)
        for index, job in enumerate(self.plan.jobs):
            # A chain's later jobs have the technique in their ids; the first has the ids of one that is alone.
            # CloudFormation never changes a resource's type: another kind of job has ids of its own.
            prefix = job.name.title().replace("-", "") if index or job.kind != "OptimizationJob" else ""
            self._artifacts.append(self._run(job, prefix, seconds if wait else None))

    def _permitted_job_role(self, role: iam.IRole | None) -> GrantedRole:
        granted = granted_role(self, role, lambda: self._service.job_role)
        in_vpc = self.network is not None
        granted.permit(job_statements(self.plan, self.artifact_store, self._registry, in_vpc=in_vpc))
        if any(job.code_channel is not None for job in self.plan.jobs):
            granted.permit(self._service.training_code.statements())
        self._service.permit(self.plan, self.artifact_store, role_arn=granted.role_arn)
        return granted

    @cached_property
    def execution_role(self) -> GrantedRole:
        """What SageMaker assumes for the model, allowed to read what is served."""
        granted = granted_role(self, self._role, lambda: self._service.execution_role)
        in_vpc = self.network is not None
        granted.permit(serving_statements(self.plan, self.artifact_store, self._registry, in_vpc=in_vpc))
        return granted

    @property
    def role_arn(self) -> str:
        """The ARN of the model's role."""
        return self.execution_role.role_arn

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What the plan's jobs yield, in their order. Whatever uses a part of one waits for it."""
        return tuple(self._artifacts)

    @property
    def artifact_key(self) -> str:
        """The artifact's key in the store (64 hexadecimal characters); a token where the source is not pinned."""
        return self.plan.artifact_key or self._last.key

    @property
    def job_name(self) -> str:
        """The name of the SageMaker job that makes or made the artifact (a token)."""
        return self._last.job_name

    @property
    def model_data_uri(self) -> str:
        """The artifact's S3 prefix (a token). Whatever uses it waits for the artifact."""
        return self._last.uri

    @property
    def image_uri(self) -> str:
        """The container image the service recommends for the artifact (a token), or the job's own without a wait."""
        return self._last.image

    @property
    def _last(self) -> Artifact:
        if not self._artifacts:
            raise ValueError(f"{_described(self.plan)}: this recipe needs no job, so it has no artifact")
        return self._artifacts[-1]

    def _run(self, job: JobPlan, prefix: str, seconds: int | None) -> Artifact:
        """Declare one job; with ``seconds``, the condition that is met when its artifact is there."""
        signal = None
        if seconds is not None:
            signal = JobSignal(self, job=self._job_text(job, seconds), seconds=seconds, prefix=prefix)
        resource = TaggedResource(
            self,
            prefix or "Resource",
            type=f"Custom::{job.kind}",
            properties=self._properties(job) | (signal.properties if signal is not None else {}),
        )
        add_job_metadata(resource, self.plan, job)
        if isinstance(job.source, ArtifactSource):
            resource.add_metadata("cfn-lint", SIGNALLED_VALUES)
        if isinstance(job.source, HubSource):
            self.startup_timeouts = StartupTimeouts.of_hub(resource)
        if self.job_role is not None and self.job_role.policy is not None:
            resource.node.add_dependency(self.job_role.policy)
        if signal is None:
            return Artifact(
                resource,
                uri=resource.get_att("ModelDataUri").to_string(),
                image=str(self.plan.container.image),
                job_name=lambda: resource.get_att("JobName").to_string(),
            )
        # The signal's data is ``|image|model data URI|job name|``.
        signal.await_from(resource)
        return Artifact(
            resource,
            uri=Token.as_string(signal.part(2)),
            image=Token.as_string(signal.part(1)) if job.recommends_image else str(self.plan.container.image),
            job_name=lambda: Token.as_string(signal.part(3)),
        )

    def _job_text(self, job: JobPlan, seconds: int) -> str:
        """Text that changes with the job's plan, with the store and with how long the deployment waits."""
        bucket = json.dumps(self._context.resolve(self.artifact_store.bucket_name), sort_keys=True)
        waits = f"\n{seconds}" if seconds != LONGEST_WAIT_SECONDS else ""
        return f"{job.deployment_hash}\n{bucket}{waits}"

    def _properties(self, job: JobPlan) -> dict[str, Any]:
        assert self.job_role is not None  # noqa: S101 - there is one where there are jobs
        service, store = self._service, self.artifact_store
        request = dict(job.request)
        if job.code_channel is not None:
            code = {"ChannelName": job.code_channel, "DataSource": data_source(service.training_code.uri)}
            request["InputDataConfig"] = [*request["InputDataConfig"], code]
        if self.network is not None:
            request["VpcConfig"] = self.network.to_property("SecurityGroupIds")
        return drop_none(
            ServiceToken=service.jobs.handler.arn,
            ServiceTimeout=RESPONSE_SECONDS,
            Description=self.plan.description,
            JobKind=job.kind if job.kind != "OptimizationJob" else None,
            RecipeKey=job.recipe_key,
            Source=model_source.properties(job.source, self._artifacts),
            ModelChannel=job.model_channel,
            Reads=[model_source.properties(read) for read in job.reads] or None,
            Request=request,
            RoleArn=self.job_role.role_arn,
            Bucket=store.bucket_name,
            KmsKeyArn=store.encryption_key_arn,
            StateMachineArn=service.jobs.state_machine_arn,
            ServingRepositories=self._registry.serving_repositories(self.plan) if job.recommends_image else None,
        )


def _described(plan: Plan) -> str:
    return " + ".join(technique.label for technique in plan.techniques)
