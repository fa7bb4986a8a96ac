"""A Lambda function of the stack's own: its role, its log group and what it may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import CfnResource, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from .permissions import PolicyBuilder, Statement, sub, trust_policy
from .telemetry import TRACE, telemetry_properties

# Creating, resolving and claiming take seconds; the rest is room for retries over throttling, and for permissions
# that are on their way.
_TIMEOUT_SECONDS = 180
# CloudFormation invokes asynchronously: Lambda repeats a try that died or ran out of time after one minute and again
# after two, but begins none when the event is older than this. So the last try is over before CloudFormation gives up.
_LARGEST_EVENT_AGE_SECONDS = 600
ANSWER_SECONDS = 900
"""How long CloudFormation waits for a handler's answer."""
_RUNTIME = "python3.14"
_LOG_RETENTION_DAYS = 365
_FUNCTIONS_ARN = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:*"


class Handler(Construct):
    """One function of ``runtime``. Its permissions grow with the plans it carries out."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        code: Mapping[str, str],
        entry_point: str,
        description: str,
        statements: Sequence[Statement],
        answers_cloudformation: bool = False,
    ) -> None:
        super().__init__(scope, id)
        log_group = log_group_of(self)
        self.log_group_name: str = log_group.ref
        self._policy = PolicyBuilder()
        self._policy.add(
            [
                Statement("WriteLogs", ("logs:CreateLogStream", "logs:PutLogEvents"), (log_group.attr_arn,)),
                TRACE,
                *statements,
            ]
        )
        self._role = iam.CfnRole(
            self,
            "Role",
            # No page of Lambda's guide says that it sends account or ARN when it checks the role of a function that is
            # being created; AWS publishes such policies (aws/agent-toolkit-for-aws). A function that could not be
            # created would be the end of every deployment, and a function's role has to be of its own account anyway.
            assume_role_policy_document=trust_policy(
                "lambda.amazonaws.com", source_arn=sub(_FUNCTIONS_ARN), always_sent=False
            ),
            description=description,
        )
        # Not aws_lambda.CfnFunction: importing its module takes a quarter of a second of every synthesis.
        function = CfnResource(
            self,
            "Function",
            type="AWS::Lambda::Function",
            properties={
                "Architectures": ["arm64"],
                "Code": dict(code),
                "Description": description,
                "Handler": entry_point,
                **telemetry_properties(self, entry_point),
                # Text leaves lines as they are: Powertools' are JSON already, and the platform's keep their fields in
                # CloudWatch Logs Insights (@duration, @maxMemoryUsed).
                "LoggingConfig": {"LogFormat": "Text", "LogGroup": log_group.ref},
                "MemorySize": 256,
                "Role": self._role.attr_arn,
                "Runtime": _RUNTIME,
                "Timeout": _TIMEOUT_SECONDS,
            },
        )
        if answers_cloudformation:
            CfnResource(
                self,
                "Invocations",
                type="AWS::Lambda::EventInvokeConfig",
                properties={
                    "FunctionName": function.ref,
                    "MaximumEventAgeInSeconds": _LARGEST_EVENT_AGE_SECONDS,
                    "MaximumRetryAttempts": 2,
                    "Qualifier": "$LATEST",
                },
            )
        self.arn: str = function.get_att("Arn").to_string()

    def permit(self, statements: Sequence[Statement]) -> None:
        """Allow more."""
        if self._policy.add(statements):
            self._policy.apply(self._role)


def log_group_of(scope: Construct, name: str | None = None) -> logs.CfnLogGroup:
    """A log group that ends with its stack. Default of ``name``: CloudFormation makes one up."""
    group = logs.CfnLogGroup(scope, "Logs", log_group_name=name, retention_in_days=_LOG_RETENTION_DAYS)
    group.apply_removal_policy(RemovalPolicy.DESTROY)
    return group
