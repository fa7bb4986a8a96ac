"""What runs recommendation jobs, once a stack: the custom resource's handler, the watcher and a state machine."""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from constructs_optim.constructs.artifacts import model_source
from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.stack.job_runner import JobRunner
from constructs_optim.constructs.stack.permissions import (
    Arn,
    Statement,
    pass_role_statement,
    sub,
)
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe.planning.plan_data import S3Source

_ID = "RecommendationService"
_JOB_NAMES = "a recommendation job's name follows from what is asked, which is known only when the stack is deployed"
_KEYS = "a recommendation's key follows from what is asked, which is known only when the stack is deployed"
_JOBS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:ai-recommendation-job/optim-*"
_PREFIX = "recommendations"


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
                *record_statements(store, ("s3:GetObject", "s3:PutObject")),
                # GetObject of an absent object returns 403 instead of 404 to whoever may not list it.
                _list_statement(store),
            ]
        )
        self._jobs.watcher.permit(record_statements(store, ("s3:PutObject",)))


def record_statements(store: IArtifactStore, actions: tuple[str, ...]) -> Sequence[Statement]:
    """Read or write below ``recommendations/`` of a store."""
    kept = [Statement("Recommendations", actions, (f"{store.bucket_arn}/{_PREFIX}/*",), wildcard=_KEYS)]
    if store.encryption_key_arn is not None:
        encrypt = ("kms:Decrypt", "kms:GenerateDataKey") if "s3:GetObject" in actions else ("kms:GenerateDataKey",)
        kept.append(Statement("EncryptRecommendations", encrypt, (store.encryption_key_arn,)))
    return kept


def _list_statement(store: IArtifactStore) -> Statement:
    return Statement("ListRecommendations", ("s3:ListBucket",), (store.bucket_arn,), prefixes=(f"{_PREFIX}/*",))


def output_statements(store: IArtifactStore) -> list[Statement]:
    """What a job's role does below ``recommendations/`` of a store."""
    return [
        *record_statements(store, ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject")),
        _list_statement(store),
        Statement("LocateStore", ("s3:GetBucketLocation",), (store.bucket_arn,)),
    ]
