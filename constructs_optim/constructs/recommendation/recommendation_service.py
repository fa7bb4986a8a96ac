"""What carries recommendations out, once a stack: the custom resource's handler, the watcher and a state machine."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from constructs import Construct

from constructs_optim.constructs.artifacts import model_source
from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.stack.handler import Handler
from constructs_optim.constructs.stack.permissions import (
    Arn,
    Statement,
    pass_role_statement,
    sub,
)
from constructs_optim.constructs.stack.watching_state_machine import watching_state_machine
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
        service = OptimizationService.of(scope)
        self.service_timeout_seconds: int = service.service_timeout_seconds
        self._watcher = Handler(
            self,
            "Watcher",
            code=service.code,
            entry_point="runtime.handlers.recommendation_watcher.handler",
            description="Looks at a running recommendation job, and keeps what it recommends",
            statements=[
                Statement(
                    "WatchJobs", ("sagemaker:DescribeAIRecommendationJob",), (sub(_JOBS_ARN),), wildcard=_JOB_NAMES
                )
            ],
        )
        self.state_machine_arn: str = watching_state_machine(self, self._watcher, watches="recommendation job").ref
        self._handler = Handler(
            self,
            "Handler",
            code=service.code,
            entry_point="runtime.handlers.recommendation_handler.handler",
            description="Starts and stops recommendation jobs",
            answers_cloudformation=True,
            statements=[
                Statement(
                    "ManageJobs",
                    (
                        "sagemaker:AddTags",
                        "sagemaker:CreateAIRecommendationJob",
                        "sagemaker:DescribeAIRecommendationJob",
                        "sagemaker:StopAIRecommendationJob",
                    ),
                    (sub(_JOBS_ARN),),
                    wildcard=_JOB_NAMES,
                ),
                Statement("StartWatching", ("states:StartExecution",), (self.state_machine_arn,)),
            ],
        )
        self.service_token: str = self._handler.arn

    @staticmethod
    def of(scope: Construct) -> RecommendationService:
        """The service of ``scope``'s stack, created on first use."""
        stack = Stack.of(scope)
        existing = stack.node.try_find_child(_ID)
        return existing if isinstance(existing, RecommendationService) else RecommendationService(stack, _ID)

    def permit(self, *, source: S3Source, workload_config_arn: Arn, store: IArtifactStore, role_arn: Arn) -> None:
        """Let jobs of ``role_arn`` be started for a model and a workload, and keep what comes of them."""
        self._handler.permit(
            [
                Statement("UseWorkloads", ("sagemaker:CreateAIRecommendationJob",), (workload_config_arn,)),
                pass_role_statement("PassRole", role_arn),
                *model_source.lookup_statements(source),
                *record_statements(store, ("s3:GetObject", "s3:PutObject")),
                # A GetObject of what is not there answers 403 instead of 404 to whoever may not list it.
                _list_statement(store),
            ]
        )
        self._watcher.permit(record_statements(store, ("s3:PutObject",)))


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
