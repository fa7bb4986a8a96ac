"""What carries jobs out, once a stack: the custom resource's handler, the watcher and its state machine.

However many endpoints a stack has, there is one of each; a plan only adds permissions to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import IgnoreMode, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from constructs_optim.recipe.plan_data import Plan

from . import model_source
from .artifact_store import IArtifactStore
from .execution_role import ExecutionRole, artifact_statements
from .permissions import NO_RESOURCES, Arn, PolicyBuilder, Statement, sub, trust_policy

_ID = "OptimizationService"
_PACKAGE = Path(__file__).parent.parent
_RUNTIME = "python3.14"
_LOG_RETENTION_DAYS = 365
# Creating, resolving and claiming take seconds; the rest is room for retries over throttling.
_HANDLER_TIMEOUT_SECONDS = 300
_JOB_NAMES = "a job's name follows from its artifact key, which is known only when the stack is deployed"
_JOBS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:optimization-job/optim-*"


class OptimizationService(Construct):
    """Handler, watcher and state machine of a stack. Use :meth:`of`."""

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
        self._code = {"s3Bucket": code.s3_bucket_name, "s3Key": code.s3_object_key}
        self._watcher_policy = PolicyBuilder()
        self._watcher_role, watcher = self._function(
            "Watcher",
            "runtime.job_watcher.handler",
            "Looks at a running optimization job",
            self._watcher_policy,
        )
        self._watcher_policy.add(
            [Statement("WatchJobs", ("sagemaker:DescribeOptimizationJob",), (sub(_JOBS_ARN),), wildcard=_JOB_NAMES)]
        )
        self._state_machine = self._watching(watcher)
        self._handler_policy = PolicyBuilder()
        self._handler_role, handler = self._function(
            "Handler",
            "runtime.job_handler.handler",
            "Starts, shares and stops optimization jobs",
            self._handler_policy,
        )
        self._handler_policy.add(
            [
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
                Statement("WatchJobs", ("states:StartExecution",), (self._state_machine.ref,)),
            ]
        )
        self.service_token = handler.attr_arn
        self.service_timeout_seconds = _HANDLER_TIMEOUT_SECONDS
        self.state_machine_arn = self._state_machine.ref

    @staticmethod
    def of(scope: Construct) -> OptimizationService:
        """The service of ``scope``'s stack, created on first use."""
        stack = Stack.of(scope)
        existing = stack.node.try_find_child(_ID)
        return existing if isinstance(existing, OptimizationService) else OptimizationService(stack, _ID)

    def permit(self, plan: Plan, store: IArtifactStore, *, role_arn: Arn) -> None:
        """Let the handlers carry out ``plan``: look its source up, pass the job its role, use the store."""
        artifacts = artifact_statements(store)
        pass_role = Statement(
            "PassExecutionRole",
            ("iam:PassRole",),
            (role_arn,),
            {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        )
        if self._handler_policy.add([*model_source.lookup_statements(plan.source), *artifacts, pass_role]):
            self._handler_policy.apply(self._handler_role)
        if self._watcher_policy.add(artifacts):
            self._watcher_policy.apply(self._watcher_role)

    def _function(
        self, id: str, handler: str, description: str, policy: PolicyBuilder
    ) -> tuple[iam.CfnRole, lambda_.CfnFunction]:
        scope = Construct(self, id)
        log_group = self._log_group(scope)
        policy.add([Statement("WriteLogs", ("logs:CreateLogStream", "logs:PutLogEvents"), (log_group.attr_arn,))])
        role = iam.CfnRole(
            scope,
            "Role",
            assume_role_policy_document=trust_policy("lambda.amazonaws.com"),
            description=description,
        )
        function = lambda_.CfnFunction(
            scope,
            "Function",
            architectures=["arm64"],
            code=self._code,
            description=description,
            handler=handler,
            logging_config={"logFormat": "Text", "logGroup": log_group.ref},
            memory_size=256,
            role=role.attr_arn,
            runtime=_RUNTIME,
            timeout=_HANDLER_TIMEOUT_SECONDS,
        )
        return role, function

    def _watching(self, watcher: lambda_.CfnFunction) -> stepfunctions.CfnStateMachine:
        scope = Construct(self, "StateMachine")
        log_group = self._log_group(scope)
        policy = PolicyBuilder()
        policy.add(
            [
                Statement("Look", ("lambda:InvokeFunction",), (watcher.attr_arn,)),
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
            definition_substitutions={"WatcherArn": watcher.attr_arn},
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

    def _log_group(self, scope: Construct) -> logs.CfnLogGroup:
        group = logs.CfnLogGroup(scope, "Logs", retention_in_days=_LOG_RETENTION_DAYS)
        group.apply_removal_policy(RemovalPolicy.DESTROY)
        return group


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
