"""A Lambda function of the stack's own, with its role and its log group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import RemovalPolicy, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from .permissions import PolicyBuilder, Statement, sub, trust_policy
from .permissions import statements as statements_of
from .telemetry import powertools_layer, telemetry_variables

# Creating, resolving and claiming take seconds; the rest is room for retries over throttling, and for permissions
# that are on their way.
_TIMEOUT_SECONDS = 180
# CloudFormation invokes asynchronously: Lambda repeats a try that died or ran out of time after one minute and again
# after two, but begins none when the event is older than this. So the last try is over before CloudFormation gives up.
_LARGEST_EVENT_AGE_SECONDS = 600
_RUNTIME = "python3.14"
_LOG_RETENTION_DAYS = 365
_FUNCTIONS_ARN = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:*"


class Handler(Construct):
    """One function of ``runtime``. Its permissions grow with the plans that it runs."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        code: Mapping[str, str],
        entry_point: str,
        description: str,
        statements: Sequence[Statement],
        responds_to_cloudformation: bool = False,
    ) -> None:
        super().__init__(scope, id)
        log_group = log_group_of(self)
        self.log_group_name: str = log_group.ref
        self._policy = PolicyBuilder()
        self._policy.add([*statements_of("handler", LogGroup=log_group.attr_arn), *statements])
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
        layer = powertools_layer(self)
        # Imported here: it takes 0.2 seconds of processor time, which an app without handlers need not spend.
        from aws_cdk import aws_lambda as lambda_

        # Of its own type, so that tags and aspects for functions reach it.
        function = lambda_.CfnFunction(
            self,
            "Function",
            architectures=["arm64"],
            code=lambda_.CfnFunction.CodeProperty(s3_bucket=code["S3Bucket"], s3_key=code["S3Key"]),
            description=description,
            environment=lambda_.CfnFunction.EnvironmentProperty(variables=telemetry_variables(self, entry_point)),
            handler=entry_point,
            layers=[layer if isinstance(layer, str) else Token.as_string(layer)],
            # Text leaves lines as they are: Powertools' are JSON already, and the platform's keep their fields in
            # CloudWatch Logs Insights (@duration, @maxMemoryUsed).
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_format="Text", log_group=log_group.ref),
            memory_size=256,
            role=self._role.attr_arn,
            runtime=_RUNTIME,
            timeout=_TIMEOUT_SECONDS,
            tracing_config=lambda_.CfnFunction.TracingConfigProperty(mode="Active"),
        )
        if responds_to_cloudformation:
            lambda_.CfnEventInvokeConfig(
                self,
                "Invocations",
                function_name=function.ref,
                maximum_event_age_in_seconds=_LARGEST_EVENT_AGE_SECONDS,
                maximum_retry_attempts=2,
                qualifier="$LATEST",
            )
        self.arn: str = function.attr_arn

    def permit(self, statements: Sequence[Statement]) -> None:
        """Allow more."""
        if self._policy.add(statements):
            self._policy.apply(self._role)


def log_group_of(scope: Construct, name: str | None = None) -> logs.CfnLogGroup:
    """A log group that ends with its stack. Default of ``name``: CloudFormation makes one up."""
    group = logs.CfnLogGroup(scope, "Logs", log_group_name=name, retention_in_days=_LOG_RETENTION_DAYS)
    group.apply_removal_policy(RemovalPolicy.DESTROY)
    return group
