"""What runs recommendation jobs, once a stack: the custom resource's handler, the watcher and a state machine."""

from __future__ import annotations

from constructs import Construct

from constructs_optim.constructs.artifacts import model_source
from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore
from constructs_optim.constructs.artifacts.execution_role import (
    READ_WRITE,
    folder_statements,
    list_statement,
    locate_statement,
)
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.stack.job_runner import JobRunner
from constructs_optim.constructs.stack.permissions import (
    Arn,
    Statement,
    pass_role_statement,
    sub,
)
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe.plan_data import S3Source

_ID = "RecommendationService"
_JOB_NAMES = "a recommendation job's name follows from what is asked, which is known only when the stack is deployed"
_KEYS = "a recommendation's key follows from what is asked, which is known only when the stack is deployed"
_JOBS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:ai-recommendation-job/optim-*"
_FOLDER = "recommendations"


class RecommendationService(Construct):
    """Handler, watcher and state machine of a stack's recommendations. Use :meth:`of`."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        watch = Statement(
            "WatchJobs", ("sagemaker:DescribeAIRecommendationJob",), (sub(_JOBS_ARN),), wildcard=_JOB_NAMES
        )
        manage = Statement(
            "ManageJobs",
            (
                "sagemaker:AddTags",
                "sagemaker:CreateAIRecommendationJob",
                "sagemaker:DescribeAIRecommendationJob",
                "sagemaker:StopAIRecommendationJob",
            ),
            (sub(_JOBS_ARN),),
            wildcard=_JOB_NAMES,
        )
        self._jobs = JobRunner(
            self,
            "recommendation",
            code=OptimizationService.of(scope).code,
            job="recommendation job",
            handler=("Starts and stops recommendation jobs", [manage]),
            watcher=("Looks at a running recommendation job, and keeps what it recommends", [watch]),
        )
        self.state_machine_arn: str = self._jobs.state_machine_arn
        self.service_token: str = self._jobs.handler.arn

    @staticmethod
    def of(scope: Construct) -> RecommendationService:
        """The service of ``scope``'s stack, created on first use."""
        return StackContext.of(scope).singleton(RecommendationService, lambda stack: RecommendationService(stack, _ID))

    def permit(self, *, source: S3Source, workload_config_arn: Arn, store: IArtifactStore, role_arn: Arn) -> None:
        """Let jobs of ``role_arn`` be started for a model and a workload, and keep what comes of them."""
        self._jobs.handler.permit(
            [
                Statement("UseWorkloads", ("sagemaker:CreateAIRecommendationJob",), (workload_config_arn,)),
                pass_role_statement("PassRole", role_arn),
                *model_source.lookup_statements(source),
                *result_statements(store, READ_WRITE),
                # GetObject of an absent object returns 403 instead of 404 to whoever may not list it.
                list_statement(store, "ListRecommendations", _FOLDER),
            ]
        )
        self._jobs.watcher.permit(result_statements(store, ("s3:PutObject",)))


def result_statements(store: IArtifactStore, actions: tuple[str, ...]) -> list[Statement]:
    """Read or write below ``recommendations/`` of a store."""
    sid, key_sid = "Recommendations", "EncryptRecommendations"
    return folder_statements(store, sid, _FOLDER, actions, wildcard=_KEYS, key_sid=key_sid)


def output_statements(store: IArtifactStore) -> list[Statement]:
    """What a job's role does below ``recommendations/`` of a store."""
    return [
        *result_statements(store, ("s3:AbortMultipartUpload", *READ_WRITE)),
        list_statement(store, "ListRecommendations", _FOLDER),
        locate_statement(store),
    ]
