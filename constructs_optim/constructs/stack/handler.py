"""Lambda functions with their role, logs, metrics and traces, and the functions and state machines that run jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from aws_cdk import Aws, RemovalPolicy, Token
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from constructs_optim.recipe.catalog import availability

from .container_registry import account_of_region, sub_account
from .custom_resource import RESPONSE_SECONDS
from .permissions import KNOWN_LATER, Arn, ServiceRole, Statement, statements_of, sub
from .stack_context import StackContext, physical_name

LAYER_CONTEXT = "constructs-optim:powertools-layer-arn"
"""Context key: the ARN of a team's own copy of the layer."""
LOG_LEVEL_CONTEXT = "constructs-optim:log-level"
"""Context key: the handlers' log level. Default: INFO."""
NAMESPACE = "ConstructsOptim"
"""The CloudWatch namespace of the handlers' metrics."""

# Lambda developer guide, "Configure Lambda function memory".
_WHOLE_PROCESSOR_MB = 1_769
_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LAYER_ARN = re.compile(
    r"arn:(?:aws[a-z-]*|\$\{AWS::Partition\}):lambda:(?:[a-z0-9-]+|\$\{AWS::Region\}):(?:\d{12}|\$\{AWS::AccountId\})"
    r":layer:[A-Za-z0-9_-]{1,140}:[1-9]\d*"
)


class Handler(Construct):
    """The handler in a module of ``runtime.handlers``. Each plan that it runs adds permissions."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        code: Mapping[str, str],
        module: str,
        description: str,
        responds_to_cloudformation: bool = True,
    ) -> None:
        super().__init__(scope, id)
        log_group = log_group_of(self)
        self.log_group_name: str = log_group.ref
        # Lambda's guide does not say whether it sends the account or ARN when it checks the role of a new function,
        # although AWS publishes such policies (aws/agent-toolkit-for-aws). If it sent neither, a condition would fail
        # every deployment, and Lambda only accepts roles of the function's own account anyway.
        self._role = ServiceRole(
            self,
            "Role",
            "lambda.amazonaws.com",
            source_arn="arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:*",
            description=description,
            statements=statements_of("handler", LogGroup=log_group.attr_arn),
            always_sent=False,
        )
        layer = _powertools_layer(self)
        # Imported here, because it takes 0.2 seconds of CPU time, which an app without handlers does not need.
        from aws_cdk import aws_lambda as lambda_

        # CfnFunction instead of CfnResource, so that tags and aspects for functions reach it.
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
                    # The metrics' only dimension: one value for each handler, regardless of the number of stacks.
                    "POWERTOOLS_SERVICE_NAME": module,
                }
            ),
            handler=f"runtime.handlers.{module}.handler",
            layers=[layer if isinstance(layer, str) else Token.as_string(layer)],
            # Text leaves log lines unchanged: Powertools already writes JSON, and the platform's lines keep their
            # fields in CloudWatch Logs Insights (@duration, @maxMemoryUsed).
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_format="Text", log_group=self.log_group_name),
            memory_size=256,
            role=self._role.arn,
            runtime="python3.14",
            # Creating, resolving and claiming take seconds; the rest is for retries after throttling, and for
            # permissions that take time to propagate.
            timeout=180,
            tracing_config=lambda_.CfnFunction.TracingConfigProperty(mode="Active"),
        )
        if responds_to_cloudformation:
            lambda_.CfnEventInvokeConfig(
                self,
                "Invocations",
                function_name=function.ref,
                # CloudFormation invokes asynchronously. Lambda retries a failed invocation after one minute and again
                # after two, but not for events older than this, so the last attempt ends before CloudFormation's
                # timeout.
                maximum_event_age_in_seconds=600,
                maximum_retry_attempts=2,
                qualifier="$LATEST",
            )
        self.arn: str = function.attr_arn
        self._function = function

    def send_requests(self) -> None:
        """Give the function a whole processor, to send many requests at once."""
        self._function.memory_size = _WHOLE_PROCESSOR_MB

    def permit(self, statements: Sequence[Statement]) -> None:
        """Add permissions."""
        self._role.permit(statements)


def log_group_of(scope: Construct, name: str | None = None) -> logs.CfnLogGroup:
    """Declare a log group that is deleted with its stack. Without ``name``, CloudFormation generates one."""
    group = logs.CfnLogGroup(scope, "Logs", log_group_name=name, retention_in_days=365)
    group.apply_removal_policy(RemovalPolicy.DESTROY)
    return group


def _powertools_layer(scope: Construct) -> Arn:
    """Return the ARN of the Powertools layer version for ``scope``'s Region, or the ARN in the context."""
    context = StackContext.of(scope)
    own = context.given(LAYER_CONTEXT)
    if own is not None:
        if not isinstance(own, str) or not _LAYER_ARN.fullmatch(own):
            raise ValueError(
                f"the context key {LAYER_CONTEXT} is {own!r}, and must be the ARN of a layer version: "
                "arn:aws:lambda:<region>:<account>:layer:<name>:<version>. ${AWS::Partition}, ${AWS::Region} and "
                "${AWS::AccountId} are allowed"
            )
        return sub(own) if "${" in own else own
    layer, stack = availability.powertools(), context.stack
    account = account_of_region(stack, "PowertoolsLayers", layer.accounts)
    if account is None:
        raise ValueError(
            f"AWS does not publish the layer {layer.name} in {stack.region}, which the handlers of {stack.node.path} "
            f"need for logs, metrics and traces: publish a copy there (Powertools {layer.release}), and set the "
            f"context key {LAYER_CONTEXT} to its ARN (https://constructs-optim.dev/observability/)"
        )
    template = f"arn:${{AWS::Partition}}:lambda:${{AWS::Region}}:${{Account}}:layer:{layer.name}:{layer.version}"
    return sub_account(template, account)


def _log_level(scope: Construct) -> str:
    level = StackContext.of(scope).given(LOG_LEVEL_CONTEXT)
    if level is None:
        return "INFO"
    if level not in _LOG_LEVELS:
        raise ValueError(f"the context key {LOG_LEVEL_CONTEXT} is {level!r}: use one of {', '.join(_LOG_LEVELS)}")
    return level


# Poll, wait as long as the watcher returns, poll again. If polling itself keeps failing, the watcher gets the error: it
# answers for good if it can, so that a stack does not wait for its timeout. If that fails too, it is asked again after
# half an hour, and then less often, down to every 6 hours. A failed attempt has 3 of the execution's 25,000 events, so
# that it lasts its year (AWS Step Functions developer guide, "Service quotas").
_STATES: dict[str, Any] = json.loads((files("constructs_optim.constructs.stack") / "watching.asl.json").read_bytes())

# For each kind of job, the resource type in ARNs, and the reason for a wildcard.
_JOBS = {
    "OptimizationJob": ("optimization-job", "a job's name depends on its artifact key"),
    "TrainingJob": ("training-job", "a job's name depends on its artifact key"),
    "AIBenchmarkJob": ("ai-benchmark-job", "a benchmark job's name depends on the served model"),
    "AIRecommendationJob": ("ai-recommendation-job", "a recommendation job's name depends on the request"),
}
MANAGE = ("Create", "Describe", "Stop")


def job_statement(sid: str, kind: str, *verbs: str) -> Statement:
    """Return permissions for ``verbs`` on this library's jobs of a kind; ``Create`` includes adding tags."""
    name, reason = _JOBS[kind]
    tags = ("sagemaker:AddTags",) if "Create" in verbs else ()
    arn = sub(f"arn:${{AWS::Partition}}:sagemaker:${{AWS::Region}}:${{AWS::AccountId}}:{name}/optim-*")
    actions = (*tags, *(f"sagemaker:{verb}{kind}" for verb in verbs))
    return Statement(sid, actions, (arn,), wildcard=f"{reason}, {KNOWN_LATER}")


class JobRunner:
    """The handlers of one kind of job: ``<name>_handler`` and ``<name>_watcher`` in ``runtime``."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        code: Mapping[str, str],
        job: str,
        handler: tuple[str, Sequence[Statement]],
        watcher: tuple[str, Sequence[Statement]],
        start_sid: str = "StartWatching",
        supersedes: bool = False,
    ) -> None:
        """Declare the handlers below ``scope``; handler and watcher each have a description and initial permissions.

        ``job`` is the name of a job in descriptions, and ``start_sid`` the ID of the statement that lets the handler
        start the state machine. ``supersedes``: the handler stops executions of earlier requests.
        """
        description, statements = watcher
        self.watcher: Handler = Handler(
            scope,
            "Watcher",
            code=code,
            module=f"{name}_watcher",
            description=description,
            responds_to_cloudformation=False,
        )
        self.watcher.permit(statements)
        self.state_machine: stepfunctions.CfnStateMachine = watching_machine(scope, self.watcher, job)
        description, statements = handler
        self.handler: Handler = Handler(scope, "Handler", code=code, module=f"{name}_handler", description=description)
        starting = [Statement(start_sid, ("states:StartExecution",), (self.state_machine.ref,))]
        if supersedes:
            executions = (
                f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:execution:{self.state_machine.attr_name}:*"
            )
            names = f"executions are named after requests, {KNOWN_LATER}"
            starting.append(Statement("ListRequests", ("states:ListExecutions",), (self.state_machine.ref,)))
            starting.append(Statement("EndRequests", ("states:StopExecution",), (executions,), wildcard=names))
        self.starting: Sequence[Statement] = starting
        """The permissions to start an execution."""
        self.handler.permit([*statements, *starting])
        self.properties: Mapping[str, Any] = {
            "ServiceToken": self.handler.arn,
            "ServiceTimeout": RESPONSE_SECONDS,
            "StateMachineArn": self.state_machine.ref,
        }
        """The common properties of custom resources that run these jobs."""


def watching_machine(scope: Construct, watcher: Handler, job: str) -> stepfunctions.CfnStateMachine:
    """Declare a state machine that calls ``watcher`` until it returns ``Done`` instead of ``WaitSeconds``."""
    scope = Construct(scope, "StateMachine")
    # Step Functions writes each log group with another name prefix into an account's resource policy, which is limited
    # to 5,120 characters; with about 20 stacks, it fails with "The state machine IAM Role is not authorized to access
    # the Log Destination". Source: AWS Step Functions developer guide, "Logging using CloudWatch Logs".
    log_group = log_group_of(scope, f"/aws/vendedlogs/states/{physical_name(scope, 'Logs')}")
    role = ServiceRole(
        scope,
        "Role",
        "states.amazonaws.com",
        source_arn="arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:stateMachine:*",
        description=f"Watches {job}s until they end",
        statements=statements_of("state machine", Watcher=watcher.arn),
    )
    return stepfunctions.CfnStateMachine(
        scope,
        "Resource",
        definition={"Comment": f"Watches one {job} and signals the stack that waits for it", **_STATES},
        definition_substitutions={"WatcherArn": watcher.arn},
        logging_configuration={
            "destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": log_group.attr_arn}}],
            # The input carries the wait condition's pre-signed URL.
            "includeExecutionData": False,
            "level": "ALL",
        },
        role_arn=role.arn,
        state_machine_type="STANDARD",
        tracing_configuration={"enabled": True},
    )
