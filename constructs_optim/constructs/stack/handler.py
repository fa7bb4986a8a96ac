"""A Lambda function with its role, logs, metrics and traces; and the functions and state machine that run jobs."""

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
"""Context key: the lowest level that the handlers log. Default: INFO."""
NAMESPACE = "ConstructsOptim"
"""Of the handlers' metrics in CloudWatch."""

_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LAYER_ARN = re.compile(
    r"arn:(?:aws[a-z-]*|\$\{AWS::Partition\}):lambda:(?:[a-z0-9-]+|\$\{AWS::Region\}):(?:\d{12}|\$\{AWS::AccountId\})"
    r":layer:[A-Za-z0-9_-]{1,140}:[1-9]\d*"
)


class Handler(Construct):
    """The handler of a module of ``runtime.handlers``. Its permissions grow with the plans that it runs."""

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
        # No page of Lambda's guide says that it sends account or ARN when it checks the role of a function that is
        # being created; AWS publishes such policies (aws/agent-toolkit-for-aws). If it sent neither, a condition
        # would fail every deployment, and Lambda accepts only roles of the function's own account anyway.
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
                    "POWERTOOLS_SERVICE_NAME": module,
                }
            ),
            handler=f"runtime.handlers.{module}.handler",
            layers=[layer if isinstance(layer, str) else Token.as_string(layer)],
            # Text leaves lines as they are: Powertools' are JSON already, and the platform's keep their fields in
            # CloudWatch Logs Insights (@duration, @maxMemoryUsed).
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_format="Text", log_group=log_group.ref),
            memory_size=256,
            role=self._role.arn,
            runtime="python3.14",
            # Creating, resolving and claiming take seconds; the rest is room for retries after throttling, and for
            # permissions that take time to propagate.
            timeout=180,
            tracing_config=lambda_.CfnFunction.TracingConfigProperty(mode="Active"),
        )
        if responds_to_cloudformation:
            lambda_.CfnEventInvokeConfig(
                self,
                "Invocations",
                function_name=function.ref,
                # CloudFormation invokes asynchronously: Lambda retries an invocation that failed or timed out after one
                # minute and again after two, but never an event older than this. So the last attempt ends before
                # CloudFormation gives up.
                maximum_event_age_in_seconds=600,
                maximum_retry_attempts=2,
                qualifier="$LATEST",
            )
        self.arn: str = function.attr_arn

    def permit(self, statements: Sequence[Statement]) -> None:
        """Allow more."""
        self._role.permit(statements)


def log_group_of(scope: Construct, name: str | None = None) -> logs.CfnLogGroup:
    """A log group that is deleted with its stack. Default of ``name``: CloudFormation generates one."""
    group = logs.CfnLogGroup(scope, "Logs", log_group_name=name, retention_in_days=365)
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


# Poll, wait as long as the watcher returns, poll again. When polling itself keeps failing, the stack is signalled
# instead of being left to its timeout.
_STATES: dict[str, Any] = json.loads((files("constructs_optim.constructs.stack") / "watching.asl.json").read_bytes())

# The resource type of each kind of job in ARNs, and the source of the jobs' names.
_JOBS = {
    "OptimizationJob": ("optimization-job", "a job's name follows from its artifact key"),
    "TrainingJob": ("training-job", "a job's name follows from its artifact key"),
    "AIBenchmarkJob": ("ai-benchmark-job", "a benchmark job's name follows from what is served"),
    "AIRecommendationJob": ("ai-recommendation-job", "a recommendation job's name follows from what is asked"),
}
MANAGE = ("Create", "Describe", "Stop")


def job_statement(sid: str, kind: str, *verbs: str) -> Statement:
    """Permissions for ``verbs`` on this library's jobs of a kind; ``Create`` includes adding tags."""
    name, reason = _JOBS[kind]
    tags = ("sagemaker:AddTags",) if "Create" in verbs else ()
    arn = sub(f"arn:${{AWS::Partition}}:sagemaker:${{AWS::Region}}:${{AWS::AccountId}}:{name}/optim-*")
    actions = (*tags, *(f"sagemaker:{verb}{kind}" for verb in verbs))
    return Statement(sid, actions, (arn,), wildcard=f"{reason}, {KNOWN_LATER}")


class JobRunner:
    """The handlers of one kind of job, which are called ``<name>_handler`` and ``<name>_watcher`` in ``runtime``."""

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
        reads: bool = False,
    ) -> None:
        """Declare them below ``scope``; handler and watcher have a description and first permissions each.

        ``job`` is the name of a job in descriptions, and ``start_sid`` the id of the statement by which the handler
        starts the state machine. ``supersedes``: it stops the executions of earlier requests; ``reads``: it reads what
        these were started with.
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
        executions = (
            f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:execution:{self.state_machine.attr_name}:*"
        )
        names = f"executions are named after requests, {KNOWN_LATER}"
        starting = [Statement(start_sid, ("states:StartExecution",), (self.state_machine.ref,))]
        if supersedes:
            starting.append(Statement("ListRequests", ("states:ListExecutions",), (self.state_machine.ref,)))
            starting.append(Statement("EndRequests", ("states:StopExecution",), (executions,), wildcard=names))
        if reads:
            starting.append(Statement("ReadRequests", ("states:DescribeExecution",), (executions,), wildcard=names))
        self.starting: Sequence[Statement] = starting
        """What whoever starts an execution is allowed."""
        self.handler.permit([*statements, *starting])
        self.properties: Mapping[str, Any] = {
            "ServiceToken": self.handler.arn,
            "ServiceTimeout": RESPONSE_SECONDS,
            "StateMachineArn": self.state_machine.ref,
        }
        """Properties of every custom resource that runs such a job."""


def watching_machine(scope: Construct, watcher: Handler, job: str) -> stepfunctions.CfnStateMachine:
    """A state machine that calls ``watcher`` until it returns ``{"Done": true}``, not ``{"WaitSeconds": n}``."""
    scope = Construct(scope, "StateMachine")
    # Step Functions writes each log group of another name into a resource policy of the account, which has room for
    # 5,120 characters; with some 20 stacks, "The state machine IAM Role is not authorized to access the Log
    # Destination". Source: AWS Step Functions developer guide, "Logging using CloudWatch Logs".
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
