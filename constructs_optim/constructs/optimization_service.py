"""What carries jobs out, once a stack: the custom resources' handlers, the watcher and its state machine.

However many endpoints a stack has, there is one of each that it needs; a plan only adds permissions to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import IgnoreMode, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from constructs_optim.recipe.plan_data import ArtifactSource, HubDraftSource, HubSource, Plan, S3Source

from . import model_source
from .artifact_store import IArtifactStore
from .execution_role import ExecutionRole, artifact_statements, owner_statements, reader_statements
from .handler import ANSWER_SECONDS, Handler, log_group_of
from .permissions import NO_RESOURCES, Arn, PolicyBuilder, Statement, sub, trust_policy

_ID = "OptimizationService"
_PACKAGE = Path(__file__).parent.parent
_JOB_NAMES = "a job's name follows from its artifact key, which is known only when the stack is deployed"
_MODELS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:model/optim-*"
_COMPONENTS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:inference-component/*"
_JOBS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:optimization-job/optim-*"


@dataclass(frozen=True)
class _Jobs:
    """The custom resource's handler, the watcher and the state machine that calls it."""

    handler: Handler
    watcher: Handler
    state_machine_arn: str


class OptimizationService(Construct):
    """Handlers, watcher and state machine of a stack. Use :meth:`of`."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.execution_role = ExecutionRole(self, "ExecutionRole")
        code = s3_assets.Asset(
            self,
            "Code",
            path=str(_PACKAGE),
            exclude=["/*", "!/runtime", "__pycache__", "*.pyc"],
            ignore_mode=IgnoreMode.GIT,
        )
        self._code = {"S3Bucket": code.s3_bucket_name, "S3Key": code.s3_object_key}
        self._jobs: _Jobs | None = None
        self._models: Handler | None = None
        self._artifacts: Handler | None = None
        self._capacity: Handler | None = None
        self.service_timeout_seconds = ANSWER_SECONDS

    @property
    def jobs(self) -> _Jobs:
        """What carries out jobs, created on first use: a stack that only refers to artifacts has none of it."""
        if self._jobs is None:
            self._jobs = self._carrying_out_jobs()
        return self._jobs

    def _carrying_out_jobs(self) -> _Jobs:
        watcher = Handler(
            self,
            "Watcher",
            code=self._code,
            entry_point="runtime.job_watcher.handler",
            description="Looks at a running optimization job",
            statements=[
                Statement("WatchJobs", ("sagemaker:DescribeOptimizationJob",), (sub(_JOBS_ARN),), wildcard=_JOB_NAMES)
            ],
        )
        state_machine = self._watching(watcher)
        handler = Handler(
            self,
            "Handler",
            code=self._code,
            entry_point="runtime.job_handler.handler",
            description="Starts, shares and stops optimization jobs",
            answers_cloudformation=True,
            statements=[
                Statement(
                    "ManageJobs",
                    (
                        "sagemaker:AddTags",
                        "sagemaker:CreateOptimizationJob",
                        "sagemaker:DescribeOptimizationJob",
                        "sagemaker:StopOptimizationJob",
                    ),
                    (sub(_JOBS_ARN),),
                    wildcard=_JOB_NAMES,
                ),
                Statement("WatchJobs", ("states:StartExecution",), (state_machine.ref,)),
                Statement(
                    "FindStacks",
                    ("cloudformation:DescribeStacks",),
                    (sub("arn:${AWS::Partition}:cloudformation:${AWS::Region}:${AWS::AccountId}:stack/*"),),
                    wildcard="which stacks share the store is known only when the stack is deployed",
                ),
            ],
        )
        return _Jobs(handler, watcher, state_machine.ref)

    @staticmethod
    def of(scope: Construct) -> OptimizationService:
        """The service of ``scope``'s stack, created on first use."""
        stack = Stack.of(scope)
        existing = stack.node.try_find_child(_ID)
        return existing if isinstance(existing, OptimizationService) else OptimizationService(stack, _ID)

    def log_group_names(self, *, of_references: bool) -> tuple[str, ...]:
        """Where the handlers log that make artifacts, or those that refer to artifacts by key (tokens)."""
        if of_references:
            return (self._artifacts.log_group_name,) if self._artifacts is not None else ()
        return self.jobs.handler.log_group_name, self.jobs.watcher.log_group_name

    def permit(self, plan: Plan, store: IArtifactStore, *, role_arn: Arn) -> None:
        """Let the handlers carry out ``plan``: look its sources up, pass the job its role, use the store."""
        artifacts = artifact_statements(store)
        sources = [job.source for job in plan.jobs if not isinstance(job.source, ArtifactSource)]
        jobs = self.jobs
        jobs.handler.permit([*_lookups(sources), *artifacts, *owner_statements(store), _pass_role(role_arn)])
        jobs.watcher.permit(artifacts)

    def artifact_service_token(self, store: IArtifactStore) -> str:
        """The handler of references to artifacts by key, allowed to look into ``store`` and keep its references."""
        if self._artifacts is None:
            self._artifacts = Handler(
                self,
                "Artifacts",
                code=self._code,
                entry_point="runtime.artifact_handler.handler",
                description="Finds artifacts by their keys and keeps the references to them",
                answers_cloudformation=True,
                statements=[
                    Statement(
                        "DescribeJobs",
                        ("sagemaker:DescribeOptimizationJob",),
                        (sub(_JOBS_ARN),),
                        wildcard=_JOB_NAMES,
                    )
                ],
            )
        self._artifacts.permit([*reader_statements(store), *owner_statements(store)])
        return self._artifacts.arn

    def model_service_token(self, plan: Plan, *, role_arn: Arn) -> str:
        """The handler of models that CloudFormation has no properties for, allowed to make those of ``plan``."""
        if self._models is None:
            self._models = Handler(
                self,
                "Models",
                code=self._code,
                entry_point="runtime.model_handler.handler",
                description="Creates and deletes models with files beside them",
                answers_cloudformation=True,
                statements=[
                    Statement(
                        "ManageModels",
                        (
                            "sagemaker:AddTags",
                            "sagemaker:CreateModel",
                            "sagemaker:DeleteModel",
                            "sagemaker:DeleteTags",
                            "sagemaker:DescribeModel",
                            "sagemaker:ListTags",
                        ),
                        (sub(_MODELS_ARN),),
                        wildcard="a model's name follows from what it serves, known when the stack is deployed",
                    )
                ],
            )
        container = plan.container
        sources = [container.model, *(channel.source for channel in container.channels)]
        named = [source for source in sources if not isinstance(source, ArtifactSource)]
        self._models.permit([*_lookups(named), _pass_role(role_arn)])
        return self._models.arn

    @property
    def capacity_service_token(self) -> str:
        """The handler that looks up how many copies inference components of the stack have."""
        if self._capacity is None:
            self._capacity = Handler(
                self,
                "Capacity",
                code=self._code,
                entry_point="runtime.capacity_handler.handler",
                description="Looks up how many copies inference components have",
                answers_cloudformation=True,
                statements=[],
            )
            self._capacity.permit(
                [
                    Statement("FindComponents", ("cloudformation:DescribeStackResource",), ({"Ref": "AWS::StackId"},)),
                    Statement(
                        "DescribeComponents",
                        ("sagemaker:DescribeInferenceComponent",),
                        (sub(_COMPONENTS_ARN),),
                        wildcard="CloudFormation makes a component's name up when the stack is deployed",
                    ),
                ]
            )
        return self._capacity.arn

    def _watching(self, watcher: Handler) -> stepfunctions.CfnStateMachine:
        scope = Construct(self, "StateMachine")
        log_group = log_group_of(scope)
        policy = PolicyBuilder()
        policy.add(
            [
                Statement("Look", ("lambda:InvokeFunction",), (watcher.arn,)),
                Statement(
                    "DeliverLogs",
                    (
                        "logs:CreateLogDelivery",
                        "logs:DeleteLogDelivery",
                        "logs:DescribeLogGroups",
                        "logs:DescribeResourcePolicies",
                        "logs:GetLogDelivery",
                        "logs:ListLogDeliveries",
                        "logs:PutResourcePolicy",
                        "logs:UpdateLogDelivery",
                    ),
                    ("*",),
                    wildcard=NO_RESOURCES,
                ),
                Statement(
                    "Trace",
                    (
                        "xray:GetSamplingRules",
                        "xray:GetSamplingTargets",
                        "xray:PutTelemetryRecords",
                        "xray:PutTraceSegments",
                    ),
                    ("*",),
                    wildcard=NO_RESOURCES,
                ),
            ]
        )
        role = iam.CfnRole(
            scope,
            "Role",
            assume_role_policy_document=trust_policy(
                "states.amazonaws.com",
                source_arn=sub("arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:stateMachine:*"),
            ),
            description="Watches optimization jobs until they end",
        )
        policy.apply(role)
        return stepfunctions.CfnStateMachine(
            scope,
            "Resource",
            definition=_DEFINITION,
            definition_substitutions={"WatcherArn": watcher.arn},
            logging_configuration={
                "destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": log_group.attr_arn}}],
                # The input carries the wait condition's pre-signed URL.
                "includeExecutionData": False,
                "level": "ALL",
            },
            role_arn=role.attr_arn,
            state_machine_type="STANDARD",
            tracing_configuration={"enabled": True},
        )


def _lookups(sources: Sequence[HubSource | HubDraftSource | S3Source]) -> list[Statement]:
    return [statement for source in sources for statement in model_source.lookup_statements(source)]


def _pass_role(role_arn: Arn) -> Statement:
    return Statement(
        "PassExecutionRole",
        ("iam:PassRole",),
        (role_arn,),
        {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    )


_RETRY = [
    {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 2,
        "MaxAttempts": 8,
        "BackoffRate": 2,
        "MaxDelaySeconds": 120,
        "JitterStrategy": "FULL",
    }
]

# Intrinsic to the state machine, not to a technique: look, wait as long as the watcher says, look again. When looking
# itself keeps failing, the stack is told so instead of being left to its timeout.
_DEFINITION: dict[str, Any] = {
    "Comment": "Watches one optimization job and signals the stack that waits for it",
    "StartAt": "Look",
    "States": {
        "Look": {
            "Type": "Task",
            "Resource": "${WatcherArn}",
            "ResultPath": "$.Look",
            "Retry": _RETRY,
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.Error", "Next": "GiveUp"}],
            "Next": "HasEnded",
        },
        "HasEnded": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.Look.Done", "BooleanEquals": True, "Next": "Ended"}],
            "Default": "Sleep",
        },
        "Sleep": {"Type": "Wait", "SecondsPath": "$.Look.WaitSeconds", "Next": "Look"},
        "GiveUp": {"Type": "Task", "Resource": "${WatcherArn}", "Retry": _RETRY, "End": True},
        "Ended": {"Type": "Succeed"},
    },
}
