"""A recommendation job as a resource: which instances, and which optimizations, SageMaker recommends for a model."""

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

if TYPE_CHECKING:
    from aws_cdk import aws_iam as iam


@suggests_keywords
class ModelRecommendation(Construct):
    """How SageMaker recommends to serve a model, from a recommendation job that runs when the stack is deployed.

    The service benchmarks instance types and optimizations with the workload on its own instances, and ranks them.
    The job runs once for each request: the same request, of this stack or of another with the same store, is served
    from the store, as long as the model's files are the same. While the job runs, resources that use what it recommends
    wait; when it fails, the stack rolls back with the service's own reason.

    What is recommended is not deployed by this: a person reviews it in a file (``constructs-optim jobs
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
            model: files in S3: a Hugging Face checkpoint with safetensors weights.
            role: the role that SageMaker assumes for the job. It gets what the developer guide asks of it ("Get
                generative AI inference deployment recommendations", prerequisites, and "Security in SageMaker AI
                inference optimization"): to read the model and the workload's prompts and secret, to write results,
                logs and metrics, and to run the training jobs, optimization jobs and endpoints of the service's
                benchmarks. Where a job fails for want of something else, its reason names it, and it is yours to grant.
                An imported, immutable role is left as it is.
            workload: the load that is sent. Default: synthetic prompts of 622 tokens, from 1, 8 and 32 users.
            optimize_for: ``cost``, ``latency`` (the time to the first token, the API's ``ttft-ms``) or ``throughput``.
                Default: cost.
            instance_types: those to try, three at most. Default: the service chooses.
            framework: ``LMI`` or ``VLLM``. Default: the service chooses.
            optimize_model: whether the model may be optimized, by speculative decoding or kernel tuning. Default: it
                may.
            artifact_store: the store of the result; it must not be read-only. Default: one store for the whole stack.
            capacity_reservations: what the job's instances are launched into, and only there. Default: on demand.
            timeout: how long the deployment waits, at most 12 hours. Default: 12 hours.
            wait: whether the deployment waits for the result. Default: it does.

        Raises:
            RecipeError: with every rule that is broken.
            ValueError: when ``timeout`` is longer than CloudFormation can wait, or the store is read-only.
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
            instead="for a longer job use ModelRecommendation(wait=False), and look at its result in the store",
        )
        if artifact_store is not None and artifact_store.read_only:
            raise ValueError(
                f"the artifact store {shown(artifact_store.bucket_name)} is read-only, and a recommendation writes its "
                "result there: give another one, or ArtifactStore.from_bucket(..., read_only=False)"
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
                    "Looks at a running recommendation job, and keeps what it recommends",
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
            type="Custom::ModelRecommendation",
            properties={
                **jobs.properties,
                "Request": properties,
                **(self._signal.properties if self._signal is not None else {}),
            },
        )
        # Its role has the permissions when the job starts.
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
        """Where the result is once the job has ended: a JSON document with all that is recommended (a token)."""
        return self._resource.get_att("ResultUri").to_string()

    @property
    def instance_type(self) -> str:
        """The instance type of the first recommendation (a token). Whatever uses it waits for the job.

        Raises:
            ValueError: where the deployment does not wait, and so does not know it; so do those below.
        """
        return Token.as_string(self._first(1))

    @property
    def instance_count(self) -> float:
        """How many instances the first recommendation has (a token)."""
        return Token.as_number(self._first(2))

    @property
    def model_package_arn(self) -> str:
        """The model package of the first recommendation (a token); it has to be approved before it is deployed."""
        return Token.as_string(self._first(3))

    @property
    def inference_specification_name(self) -> str:
        """Which of the package's inference specifications the first recommendation is (a token)."""
        return Token.as_string(self._first(4))

    def _first(self, part: int) -> dict[str, Any]:
        if self._signal is None:
            raise ValueError(
                f"{self.node.path} does not wait for its job, so what it recommends is not known when the stack is "
                "deployed: declare it with wait=True, or read result_uri later"
            )
        # The signal's data is ``|instance type|count|model package|specification|``.
        return self._signal.part(part)
