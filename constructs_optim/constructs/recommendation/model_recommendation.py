"""A recommendation job: the instances and optimizations that SageMaker recommends for a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from aws_cdk import Duration, Token
from constructs import Construct

from constructs_optim.constructs.artifacts import model_source
from constructs_optim.constructs.artifacts.artifact_store import ArtifactStore, IArtifactStore, store_statements
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.artifacts.planned_recipe import shown
from constructs_optim.constructs.artifacts.roles import UserRole, running_statements
from constructs_optim.constructs.evaluation.evaluation_service import (
    workload_config,
    workload_config_name,
    workload_statements,
)
from constructs_optim.constructs.stack.arguments import ROLE, STORE, WORKLOAD, refuse, suggests_keywords
from constructs_optim.constructs.stack.custom_resource import (
    LONGEST_WAIT_SECONDS,
    JobSignal,
    TaggedResource,
    drop_none,
    wait_seconds,
)
from constructs_optim.constructs.stack.handler import MANAGE, JobRunner, job_statement
from constructs_optim.constructs.stack.permissions import Statement, pass_role_statement, statements_of
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe import Model
from constructs_optim.recipe.evaluation import Benchmark, RecommendationRequest, Workload
from constructs_optim.recipe.hosting import CapacityReservation
from constructs_optim.recipe.plan_data import S3Source
from constructs_optim.recipe.rules import check
from constructs_optim.templates.resource_types import MODEL_RECOMMENDATION

if TYPE_CHECKING:
    from aws_cdk import aws_iam as iam


@suggests_keywords
class ModelRecommendation(Construct):
    """SageMaker's recommendation for serving a model, from a job that runs when the stack is deployed.

    SageMaker benchmarks instance types and optimizations with the workload on its own instances, and ranks them. The
    job runs once for each request: if the model's files have not changed, the store serves a repeated request, also to
    other stacks with the same store. Resources that use the recommendation wait for the job; if it fails, the stack
    rolls back with SageMaker's reason.

    This construct does not deploy the recommendation: a person reviews it in a file (``constructs-optim jobs
    recommendation``) and approves the model package, and a ``RecommendedEndpoint`` serves it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        role: iam.IRole,
        workload: Workload | None = None,
        optimize_for: Literal["cost", "latency", "throughput"] = "cost",
        instance_types: Sequence[str] | None = None,
        framework: Literal["LMI", "VLLM"] | None = None,
        optimize_model: bool = True,
        artifact_store: IArtifactStore | None = None,
        capacity_reservations: Sequence[CapacityReservation] = (),
        timeout: Duration | None = None,
        wait: bool = True,
    ) -> None:
        """Declare the recommendation.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            model: the model's files in S3: a Hugging Face checkpoint with safetensors weights.
            role: the role that SageMaker assumes for the job. It gets the permissions in the developer guide ("Get
                generative AI inference deployment recommendations", prerequisites, and "Security in SageMaker AI
                inference optimization"): to read the model and the workload's prompts and secret, to write results,
                logs and metrics, and to run the training jobs, optimization jobs and endpoints of the service's
                benchmarks. If a job fails for another missing permission, its failure reason names it: grant it
                yourself. An imported, immutable role is not changed.
            workload: the load to send. Default: synthetic prompts of 622 tokens, from 1, 8 and 32 users.
            optimize_for: ``cost``, ``latency`` (the time to the first token, the API's ``ttft-ms``) or ``throughput``.
                Default: cost.
            instance_types: at most three instance types to try. Default: SageMaker chooses.
            framework: ``LMI`` or ``VLLM``. Default: SageMaker chooses.
            optimize_model: whether SageMaker may optimize the model, by speculative decoding or kernel tuning. Default:
                yes.
            artifact_store: the store of the result, not a read-only one. Default: one store for the whole stack.
            capacity_reservations: the only capacity reservations for the job's instances. Default: on demand.
            timeout: the maximum wait of the deployment, up to 12 hours. Default: 12 hours.
            wait: whether the deployment waits for the result. Default: yes.

        Raises:
            RecipeError: if rules are broken; lists all of them.
            ValueError: if ``timeout`` is longer than CloudFormation can wait, or the store is read-only.
        """
        context = StackContext.of(scope)
        stack = context.stack
        WORKLOAD.check("workload", workload)
        workload = workload if workload is not None else Workload()
        request = RecommendationRequest(
            model, optimize_for, instance_types, framework, tuple(capacity_reservations), context.known_region
        )
        STORE.check("artifact_store", artifact_store)
        ROLE.check("role", role)
        refuse([*check(request), *check(Benchmark(workload))])
        seconds = wait_seconds(
            timeout,
            LONGEST_WAIT_SECONDS,
            instead="for a longer job, use ModelRecommendation(wait=False), and read its result in the store",
        )
        if artifact_store is not None and artifact_store.read_only:
            raise ValueError(
                f"the artifact store {shown(artifact_store.bucket_name)} is read-only, and a recommendation writes its "
                "result there: use another store, or ArtifactStore.from_bucket(..., read_only=False)"
            )
        super().__init__(scope, id)
        self.artifact_store: IArtifactStore = artifact_store or ArtifactStore.default_of(stack)
        self.workload: Workload = workload
        self.role: iam.IRole = role
        jobs = context.once(
            ModelRecommendation,
            lambda: JobRunner(
                Construct(stack, "RecommendationService"),
                "recommendation",
                code=OptimizationService.of(self).code,
                job="recommendation job",
                handler=(
                    "Starts and stops recommendation jobs",
                    [job_statement("ManageJobs", "AIRecommendationJob", *MANAGE)],
                ),
                watcher=(
                    "Checks a running recommendation job, and stores its result",
                    [job_statement("WatchJobs", "AIRecommendationJob", "Describe")],
                ),
            ),
        )
        config = workload_config(self, workload)
        source = S3Source(uri=model.uri, encryption_key_arn=model.encryption_key_arn)
        jobs.handler.permit(
            [
                Statement(
                    "UseWorkloads", ("sagemaker:CreateAIRecommendationJob",), (config.attr_ai_workload_config_arn,)
                ),
                pass_role_statement("PassRole", role.role_arn),
                *model_source.lookup_statements(source),
                *store_statements(self.artifact_store, "keep recommendations"),
            ]
        )
        jobs.watcher.permit(store_statements(self.artifact_store, "write recommendations"))
        user_role = UserRole.of(self, role)
        user_role.permit(
            [
                *model_source.read_statements(source),
                *workload_statements(workload),
                *store_statements(self.artifact_store, "upload recommendations"),
                *statements_of("try models"),
                *statements_of("run benchmarks"),
                pass_role_statement("PassItself", role.role_arn),
                *running_statements(in_vpc=False),
            ]
        )
        properties = drop_none(
            **request.properties,
            OptimizeModel=optimize_model,
            WorkloadConfigName=workload_config_name(config),
            Workload=workload.spec,
            Prompts=workload.prompts,
            RoleArn=role.role_arn,
            Bucket=self.artifact_store.bucket_name,
            KmsKeyArn=self.artifact_store.encryption_key_arn,
        )
        waits = f"\n{seconds}" if seconds != LONGEST_WAIT_SECONDS else ""
        job = json.dumps(stack.resolve(properties), sort_keys=True) + waits
        self._signal = JobSignal(self, job=job, seconds=seconds) if wait else None
        self._resource = TaggedResource(
            self,
            "Resource",
            type=MODEL_RECOMMENDATION,
            properties={
                **jobs.properties,
                "Request": properties,
                **(self._signal.properties if self._signal is not None else {}),
            },
        )
        # The job must not start before its role has the permissions.
        user_role.delay(self._resource)
        if self._signal is not None:
            self._signal.await_from(self._resource)

    @property
    def recommendation_key(self) -> str:
        """The recommendation's key in the store, ``recommendations/<key>/`` (a token)."""
        return self._resource.ref

    @property
    def job_name(self) -> str:
        """The name of the SageMaker recommendation job (a token)."""
        return self._resource.get_att("JobName").to_string()

    @property
    def result_uri(self) -> str:
        """The S3 URI of the result: a JSON document with all recommendations (a token)."""
        return self._resource.get_att("ResultUri").to_string()

    @property
    def instance_type(self) -> str:
        """The instance type of the first recommendation (a token). Resources that use it wait for the job.

        Raises:
            ValueError: if the deployment does not wait for the result.
        """
        return Token.as_string(self._first(1))

    @property
    def instance_count(self) -> float:
        """The number of instances in the first recommendation (a token)."""
        return Token.as_number(self._first(2))

    @property
    def model_package_arn(self) -> str:
        """The model package of the first recommendation (a token); approve it before you deploy it."""
        return Token.as_string(self._first(3))

    @property
    def inference_specification_name(self) -> str:
        """The name of the first recommendation's inference specification in the package (a token)."""
        return Token.as_string(self._first(4))

    def _first(self, part: int) -> dict[str, Any]:
        if self._signal is None:
            raise ValueError(
                f"{self.node.path} does not wait for its job, so the recommendation is not known when the stack is "
                "deployed: set wait=True, or read result_uri later"
            )
        # The signal's data is ``|instance type|count|model package|specification|``.
        return self._signal.part(part)
