"""What carries jobs out, once a stack: the custom resource's handler, the watcher and its state machine.

However many endpoints a stack has, there is one of each; a plan only adds permissions to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import Acknowledgment, CfnResource, IgnoreMode, RemovalPolicy, Stack, Validations
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from constructs_optim.recipe.plan import Plan

from . import model_source
from .artifact_store import IArtifactStore
from .execution_role import ExecutionRole, artifact_statements
from .permissions import Arn, PolicyBuilder, Statement, sub, trust_policy

_ID = "OptimizationService"
_PACKAGE = Path(__file__).parent.parent
_RUNTIME = "python3.14"
_LOG_RETENTION_DAYS = 365
# Creating, resolving and claiming take seconds; the rest is room for retries over throttling.
_HANDLER_TIMEOUT_SECONDS = 300
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
        self._code = {"S3Bucket": code.s3_bucket_name, "S3Key": code.s3_object_key}
        self._watcher_policy = PolicyBuilder()
        self._watcher_role, watcher = self._function(
            "Watcher",
            "runtime.job_watcher.handler",
            "Looks at a running optimization job",
            self._watcher_policy,
        )
        self._watcher_policy.add([Statement("WatchJobs", ("sagemaker:DescribeOptimizationJob",), (sub(_JOBS_ARN),))])
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
                ),
                Statement("WatchJobs", ("states:StartExecution",), (self._state_machine.ref,)),
            ]
        )
        self.service_token = handler.get_att("Arn").to_string()
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
    ) -> tuple[CfnResource, CfnResource]:
        scope = Construct(self, id)
        logs = self._log_group(scope)
        log_group_arn = logs.get_att("Arn").to_string()
        policy.add([Statement("WriteLogs", ("logs:CreateLogStream", "logs:PutLogEvents"), (log_group_arn,))])
        role = CfnResource(
            scope,
            "Role",
            type="AWS::IAM::Role",
            properties={
                "AssumeRolePolicyDocument": trust_policy("lambda.amazonaws.com"),
                "Description": description,
            },
        )
        Validations.of(role).acknowledge(
            Acknowledgment(
                id="AwsSolutions-IAM5",
                reason="Artifact keys and the names of jobs derived from them are known only when the stack is "
                "deployed: the wildcards stand for them, behind a fixed prefix.",
            )
        )
        function = CfnResource(
            scope,
            "Function",
            type="AWS::Lambda::Function",
            properties={
                "Architectures": ["arm64"],
                "Code": self._code,
                "Description": description,
                "Handler": handler,
                "LoggingConfig": {"LogFormat": "Text", "LogGroup": logs.ref},
                "MemorySize": 256,
                "Role": role.get_att("Arn").to_string(),
                "Runtime": _RUNTIME,
                "Timeout": _HANDLER_TIMEOUT_SECONDS,
            },
        )
        return role, function

    def _watching(self, watcher: CfnResource) -> CfnResource:
        scope = Construct(self, "StateMachine")
        logs = self._log_group(scope)
        watcher_arn = watcher.get_att("Arn").to_string()
        policy = PolicyBuilder()
        policy.add(
            [
                Statement("Look", ("lambda:InvokeFunction",), (watcher_arn,)),
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
                ),
            ]
        )
        role = CfnResource(
            scope,
            "Role",
            type="AWS::IAM::Role",
            properties={
                "AssumeRolePolicyDocument": trust_policy(
                    "states.amazonaws.com",
                    source_arn=sub("arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:stateMachine:*"),
                ),
                "Description": "Watches optimization jobs until they end",
                "Policies": policy.to_json(),
            },
        )
        Validations.of(role).acknowledge(
            Acknowledgment(
                id="AwsSolutions-IAM5",
                reason="The log delivery and X-Ray actions have no resource-level permissions "
                "(AWS Step Functions developer guide, logging and tracing policies).",
            )
        )
        return CfnResource(
            scope,
            "Resource",
            type="AWS::StepFunctions::StateMachine",
            properties={
                "Definition": _DEFINITION,
                "DefinitionSubstitutions": {"WatcherArn": watcher_arn},
                "LoggingConfiguration": {
                    "Destinations": [{"CloudWatchLogsLogGroup": {"LogGroupArn": logs.get_att("Arn").to_string()}}],
                    # The input carries the wait condition's pre-signed URL.
                    "IncludeExecutionData": False,
                    "Level": "ALL",
                },
                "RoleArn": role.get_att("Arn").to_string(),
                "StateMachineType": "STANDARD",
                "TracingConfiguration": {"Enabled": True},
            },
        )

    def _log_group(self, scope: Construct) -> CfnResource:
        group = CfnResource(
            scope, "Logs", type="AWS::Logs::LogGroup", properties={"RetentionInDays": _LOG_RETENTION_DAYS}
        )
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
