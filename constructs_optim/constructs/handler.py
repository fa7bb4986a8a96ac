"""A Lambda function of the stack's own: its role, its log group and what it may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import CfnResource, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from .permissions import PolicyBuilder, Statement, trust_policy

# Creating, resolving and claiming take seconds; the rest is room for retries over throttling.
HANDLER_TIMEOUT_SECONDS = 300
_RUNTIME = "python3.14"
_LOG_RETENTION_DAYS = 365


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
    ) -> None:
        super().__init__(scope, id)
        log_group = log_group_of(self)
        self._policy = PolicyBuilder()
        self._policy.add(
            [Statement("WriteLogs", ("logs:CreateLogStream", "logs:PutLogEvents"), (log_group.attr_arn,)), *statements]
        )
        self._role = iam.CfnRole(
            self,
            "Role",
            assume_role_policy_document=trust_policy("lambda.amazonaws.com"),
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
                "LoggingConfig": {"LogFormat": "Text", "LogGroup": log_group.ref},
                "MemorySize": 256,
                "Role": self._role.attr_arn,
                "Runtime": _RUNTIME,
                "Timeout": HANDLER_TIMEOUT_SECONDS,
            },
        )
        self.arn = function.get_att("Arn").to_string()

    def permit(self, statements: Sequence[Statement]) -> None:
        """Allow more."""
        if self._policy.add(statements):
            self._policy.apply(self._role)


def log_group_of(scope: Construct) -> logs.CfnLogGroup:
    """A log group that ends with its stack."""
    group = logs.CfnLogGroup(scope, "Logs", retention_in_days=_LOG_RETENTION_DAYS)
    group.apply_removal_policy(RemovalPolicy.DESTROY)
    return group
