"""A Lambda function of the stack's own, with its role, its log group, and its metrics and traces.

The Powertools layer is AWS's own, in an account that differs by region. A stack with a region gets its ARN as plain
text; an environment-agnostic stack gets a CloudFormation mapping, so that one template can be deployed anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import RemovalPolicy, Token
from aws_cdk import aws_logs as logs
from constructs import Construct

from constructs_optim.recipe.catalog import availability

from .container_registry import account_of_region, sub_account
from .permissions import Arn, ServiceRole, Statement, statements_of, sub
from .stack_context import StackContext

LAYER_CONTEXT = "constructs-optim:powertools-layer-arn"
"""Context key: the ARN of a team's own copy of the layer."""
LOG_LEVEL_CONTEXT = "constructs-optim:log-level"
"""Context key: the least level that the handlers log. Default: INFO."""
NAMESPACE = "ConstructsOptim"
"""Of the handlers' metrics in CloudWatch."""

_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LAYER_ARN = re.compile(
    r"arn:(?:aws[a-z-]*|\$\{AWS::Partition\}):lambda:(?:[a-z0-9-]+|\$\{AWS::Region\}):(?:\d{12}|\$\{AWS::AccountId\})"
    r":layer:[A-Za-z0-9_-]{1,140}:[1-9]\d*"
)
# Creating, resolving and claiming take seconds; the rest is room for retries over throttling, and for permissions
# that are on their way.
_TIMEOUT_SECONDS = 180
# CloudFormation invokes asynchronously: Lambda repeats a try that died or ran out of time after one minute and again
# after two, but begins none when the event is older than this. So the last try is over before CloudFormation gives up.
_LARGEST_EVENT_AGE_SECONDS = 600
_RUNTIME = "python3.14"
_LOG_RETENTION_DAYS = 365


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
        # No page of Lambda's guide says that it sends account or ARN when it checks the role of a function that is
        # being created; AWS publishes such policies (aws/agent-toolkit-for-aws). A function that could not be
        # created would be the end of every deployment, and a function's role has to be of its own account anyway.
        self._role = ServiceRole(
            self,
            "Role",
            "lambda.amazonaws.com",
            source_arn="arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:*",
            description=description,
            statements=[*statements_of("handler", LogGroup=log_group.attr_arn), *statements],
            always_sent=False,
        )
        layer = _powertools_layer(self)
        # Imported here: it takes 0.2 seconds of processor time, which an app without handlers need not spend.
        from aws_cdk import aws_lambda as lambda_

        # Of its own type, so that tags and aspects for functions reach it.
        function = lambda_.CfnFunction(
            self,
            "Function",
            architectures=["arm64"],
            code=lambda_.CfnFunction.CodeProperty(s3_bucket=code["S3Bucket"], s3_key=code["S3Key"]),
            description=description,
            environment=lambda_.CfnFunction.EnvironmentProperty(
                variables={
                    "POWERTOOLS_LOG_LEVEL": _log_level(self),
                    "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
                    # The metrics' only dimension: one value a handler, however many stacks there are.
                    "POWERTOOLS_SERVICE_NAME": entry_point.split(".")[-2],
                }
            ),
            handler=entry_point,
            layers=[layer if isinstance(layer, str) else Token.as_string(layer)],
            # Text leaves lines as they are: Powertools' are JSON already, and the platform's keep their fields in
            # CloudWatch Logs Insights (@duration, @maxMemoryUsed).
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_format="Text", log_group=log_group.ref),
            memory_size=256,
            role=self._role.arn,
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
        self._role.permit(statements)


def log_group_of(scope: Construct, name: str | None = None) -> logs.CfnLogGroup:
    """A log group that ends with its stack. Default of ``name``: CloudFormation makes one up."""
    group = logs.CfnLogGroup(scope, "Logs", log_group_name=name, retention_in_days=_LOG_RETENTION_DAYS)
    group.apply_removal_policy(RemovalPolicy.DESTROY)
    return group


def _powertools_layer(scope: Construct) -> Arn:
    """The ARN of the Powertools layer's version for ``scope``'s region, or of the one that the context names."""
    own: Any = scope.node.try_get_context(LAYER_CONTEXT)
    if own is not None:
        if not isinstance(own, str) or not _LAYER_ARN.fullmatch(own):
            raise ValueError(
                f"the context key {LAYER_CONTEXT} is {own!r}, and it has to be the ARN of a layer's version: "
                "arn:aws:lambda:<region>:<account>:layer:<name>:<version>. ${AWS::Partition}, ${AWS::Region} and "
                "${AWS::AccountId} may stand for their parts"
            )
        return sub(own) if "${" in own else own
    layer, stack = availability.powertools(), StackContext.of(scope).stack
    account = account_of_region(stack, "PowertoolsLayers", layer.accounts)
    if account is None:
        raise ValueError(
            f"{stack.node.path}: AWS publishes no layer {layer.name} in {stack.region}, and the handlers need it for "
            f"their logs, metrics and traces. Publish a copy there (Powertools {layer.release}) and name its ARN in "
            f"the context key {LAYER_CONTEXT}; docs/observability.md says how"
        )
    template = f"arn:${{AWS::Partition}}:lambda:${{AWS::Region}}:${{Account}}:layer:{layer.name}:{layer.version}"
    return sub_account(template, account)


def _log_level(scope: Construct) -> str:
    level = scope.node.try_get_context(LOG_LEVEL_CONTEXT)
    if level is None:
        return "INFO"
    if level not in _LOG_LEVELS:
        raise ValueError(f"the context key {LOG_LEVEL_CONTEXT} is {level!r}: use one of {', '.join(_LOG_LEVELS)}")
    return level
