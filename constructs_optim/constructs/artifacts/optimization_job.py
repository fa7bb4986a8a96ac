"""An optimization job as a resource: it runs only if its artifact does not exist."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from aws_cdk import Duration, Token
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.constructs.stack.arguments import DURATION, ROLE, STORE, suggests_keywords
from constructs_optim.constructs.stack.custom_resource import (
    LONGEST_WAIT_SECONDS,
    SIGNALED_VALUES,
    JobSignal,
    TaggedResource,
    drop_none,
    wait_seconds,
)
from constructs_optim.constructs.stack.handler import JobRunner
from constructs_optim.constructs.stack.network import NetworkOptions, refuse_isolation
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.constructs.validation.network_ways import S3, SECRETS_MANAGER, watch_network
from constructs_optim.recipe import Model
from constructs_optim.recipe.hosting import CapacityReservation
from constructs_optim.recipe.plan_data import CODE_CHANNEL, ArtifactSource, HubSource, JobPlan
from constructs_optim.recipe.planning import data_source
from constructs_optim.recipe.recipe import JobSettings
from constructs_optim.recipe.servers import ServerSettings
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import Technique

from . import model_source
from .artifact_store import IArtifactStore
from .model_source import Artifact
from .planned_recipe import ModelRecipe, add_job_metadata, shown
from .preflight import Preflight
from .recipe_artifact import RecipeArtifact, StartupTimeouts, technique_labels
from .roles import SageMakerRole, UserRole, job_statements


class JobOptions(Settings):
    """How optimization and training jobs run.

    Attributes:
        role: the role that SageMaker assumes for the jobs. Default: a separate role for jobs that copy models with a
            token; for all other jobs, the construct's ``role`` or, without one, a role for all jobs of the stack.
        max_runtime: how long a job may run. Default: 5 days for EAGLE heads; 24 hours for fine-tuning, Medusa heads and
            quantization with llm-compressor; 10 hours for all other jobs.
        max_pending: how long a job may wait for instances, 30 minutes to 28 days. Default: SageMaker's limit.
        capacity_reservation: the training plan; jobs run only on its instances. Default: on demand.
        timeout: how long the deployment waits for the artifact, at most 12 hours. Default: 12 hours.
    """

    role: Annotated[iam.IRole, ROLE] | None = None
    max_runtime: Annotated[Duration, DURATION] | None = None
    max_pending: Annotated[Duration, DURATION] | None = None
    capacity_reservation: CapacityReservation | None = None
    timeout: Annotated[Duration, DURATION] | None = None

    @property
    def settings(self) -> JobSettings:
        """The options that are part of a recipe."""
        runtime, pending, reservation = self.max_runtime, self.max_pending, self.capacity_reservation
        return JobSettings(
            int(runtime.to_seconds()) if runtime is not None else None,
            int(pending.to_seconds()) if pending is not None else None,
            reservation.arn if reservation is not None else None,
        )


@suggests_keywords
class OptimizationJob(RecipeArtifact):
    """A job that creates an artifact, and the wait condition for resources that use the artifact.

    The job only runs if the store has no artifact with the same key. Resources that use ``model_data_uri`` wait for it;
    if it fails, the stack rolls back with SageMaker's reason. Use it alone to create an artifact in one stack and
    deploy it in another.
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
        server: ServerSettings | None = None,
        accelerator_partition: str | None = None,
        jobs: JobOptions | None = None,
        network: NetworkOptions | None = None,
        role: iam.IRole | None = None,
        wait: bool = True,
    ) -> None:
        """Declare the job.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            model: the source of the weights.
            techniques: the techniques to apply, in order.
            instance_type: the instance type to serve the model on, for instance ``ml.g5.12xlarge``.
            artifact_store: the store of the artifact, not a read-only one. Default: one store for the whole stack.
            environment: additional environment variables of the model's container. Default: none.
            server: the model server and its settings. Default: vLLM, unless a technique needs another server.
            accelerator_partition: the GPU partition type that a copy of the model occupies. Default: none; a copy uses
                whole GPUs.
            jobs: the job's role and maximum runtime, and how long the deployment waits for it.
            network: the VPC of the job and the model. Default: none.
            role: the role that SageMaker assumes for the model, and for jobs without a role of their own. Default: one
                role for all models of the stack, without write permissions, and one for all jobs.
            wait: whether the deployment waits for the artifact. Default: yes.

        Raises:
            RecipeError: if the recipe breaks rules; lists all of them.
            ValueError: if ``jobs.timeout`` is longer than CloudFormation can wait, or the store is read-only.
        """
        jobs, network = jobs or JobOptions(), network or NetworkOptions()
        refuse_isolation(network, "OptimizationJob")
        STORE.check("artifact_store", artifact_store)
        ROLE.check("role", role)
        recipe = ModelRecipe(
            model,
            techniques,
            instance_type,
            environment=environment,
            server=server,
            accelerator_partition=accelerator_partition,
        )
        seconds = wait_seconds(
            jobs.timeout,
            LONGEST_WAIT_SECONDS,
            name="jobs.timeout",
            instead="for a longer job, declare an optimization job with wait=False in a separate stack",
        )
        plan = recipe.plan_in(scope, jobs.settings)
        if plan.jobs and artifact_store is not None and artifact_store.read_only:
            raise ValueError(
                f"the artifact store {shown(artifact_store.bucket_name)} is read-only, and {technique_labels(plan)} "
                "runs a job that writes its artifact there: refer to an existing artifact with artifact_key=..., "
                "or make the store writable with artifact_store=ArtifactStore.from_bucket(bucket, read_only=False)"
            )
        if len(plan.jobs) > 1 and not wait:
            raise ValueError(
                "wait=False requires a single job, because the second job of a chain starts from the first one's "
                "artifact. Declare the first as a separate optimization job, and the second on its artifact with "
                "model=Model.s3(...)"
            )
        super().__init__(scope, id, plan=plan, artifact_store=artifact_store, network=network, role=role)
        if plan.jobs:
            job_role = jobs.role if jobs.role is not None else role
            self.job_role = UserRole.of(self, job_role) if job_role is not None else self._service.job_role
            in_vpc = self.network is not None
            # Only the job that copies the model may read a Hugging Face token, not the role that serves the model.
            copying = [job for job in plan.jobs if job.token is not None and jobs.role is None]
            roles = {"PassExecutionRole": (self.job_role, [job for job in plan.jobs if job not in copying])}
            if copying:
                roles["PassCopyRole"] = (self._service.copy_role, copying)
            for used, jobs_of_role in roles.values():
                used.permit(job_statements(jobs_of_role, self.artifact_store, self._registry, in_vpc=in_vpc))
                if any(job.trains for job in jobs_of_role):
                    used.permit(self._service.training_code.statements())
            role_arns = {sid: used.role_arn for sid, (used, its) in roles.items() if its}
            runner = self._service.job_runner(
                plan, self.artifact_store, role_arns=role_arns, reservation=jobs.capacity_reservation
            )
            self.log_group_names = runner.handler.log_group_name, runner.watcher.log_group_name
            for index, job in enumerate(plan.jobs):
                # The first job of a chain has the same IDs as a single job; later jobs have the technique in their IDs.
                # Another kind of job also has its own IDs, because CloudFormation cannot change a resource's type.
                prefix = job.name.title().replace("-", "") if index or job.kind != "OptimizationJob" else ""
                used = self._service.copy_role if job in copying else self.job_role
                artifact = self._run(job, runner, used, prefix, seconds if wait else None)
                self.artifacts = {**self.artifacts, index: artifact}

    def _run(self, job: JobPlan, runner: JobRunner, role: SageMakerRole, prefix: str, seconds: int | None) -> Artifact:
        """Declare a job; with ``seconds``, also the condition that waits for its artifact."""
        signal, store = None, self.artifact_store
        if seconds is not None:
            bucket = json.dumps(StackContext.of(self).resolve(store.bucket_name), sort_keys=True)
            waits = f"\n{seconds}" if seconds != LONGEST_WAIT_SECONDS else ""
            text = f"{job.deployment_hash}\n{bucket}{waits}"
            signal = JobSignal(self, job=text, seconds=seconds, prefix=prefix)
        request = dict(job.request)
        if job.trains:
            code = {"ChannelName": CODE_CHANNEL, "DataSource": data_source(self._service.training_code.uri)}
            request["InputDataConfig"] = [*request.get("InputDataConfig", []), code]
        if self.network is not None:
            request["VpcConfig"] = self.network.to_property("SecurityGroupIds")
        properties = drop_none(
            **runner.properties,
            Description=self.plan.description_of(job),
            JobKind=job.kind if job.kind != "OptimizationJob" else None,
            RecipeKey=job.recipe_key,
            Source=model_source.properties(job.source, self.artifacts),
            ModelChannel=job.model_channel,
            Reads=[model_source.properties(read) for read in job.reads] or None,
            Request=request,
            RoleArn=role.role_arn,
            Bucket=store.bucket_name,
            KmsKeyArn=store.encryption_key_arn,
            **(signal.properties if signal is not None else {}),
        )
        resource = TaggedResource(self, prefix or "Resource", type=f"Custom::{job.kind}", properties=properties)
        add_job_metadata(resource, self.plan, job)
        if isinstance(job.source, ArtifactSource):
            resource.add_metadata("cfn-lint", SIGNALED_VALUES)
        if isinstance(job.source, HubSource):
            self.startup_timeouts = StartupTimeouts.of_hub(resource)
        role.delay(resource)
        services = (S3, SECRETS_MANAGER) if job.token is not None else (S3,)
        watch_network(self, self.network, f"the job {job.name}", services=services, hosts=job.hosts)
        if (preflight := Preflight.of(self)) is not None:
            preflight.add_job(resource, job, store, role, self.network)
        if signal is None:
            uri = resource.get_att("ModelDataUri").to_string()
            return Artifact(resource, uri, lambda: resource.get_att("JobName").to_string())
        # The signal's data is ``|image|model data URI|job name|``.
        signal.await_from(resource)
        return Artifact(resource, Token.as_string(signal.part(2)), lambda: Token.as_string(signal.part(3)))
