"""What runs one kind of job in a stack: the handler that starts it, the watcher that polls it, and a state machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from .custom_resource import RESPONSE_SECONDS
from .handler import Handler, log_group_of
from .permissions import KNOWN_LATER, ServiceRole, Statement, statements_of, sub
from .stack_context import physical_name

# Poll, wait as long as the watcher says, poll again. When polling itself keeps failing, the stack is signalled instead
# of being left to its timeout.
_STATES: dict[str, Any] = json.loads((files("constructs_optim.constructs.stack") / "watching.asl.json").read_bytes())

# How IAM names the jobs of an API's kind, and what their names follow from.
_JOBS = {
    "OptimizationJob": ("optimization-job", "a job's name follows from its artifact key"),
    "TrainingJob": ("training-job", "a job's name follows from its artifact key"),
    "AIBenchmarkJob": ("ai-benchmark-job", "a benchmark job's name follows from what is served"),
    "AIRecommendationJob": ("ai-recommendation-job", "a recommendation job's name follows from what is asked"),
}
MANAGE = ("Create", "Describe", "Stop")


def job_statement(sid: str, kind: str, *verbs: str) -> Statement:
    """Do that with the jobs of a kind which this library names; whoever creates them adds tags."""
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
    ) -> None:
        """Declare them below ``scope``; handler and watcher have a description and first permissions each.

        ``job`` is the name of a job in descriptions, and ``start_sid`` the id of the statement by which the handler
        starts the state machine.
        """
        description, statements = watcher
        self.watcher: Handler = Handler(
            scope, "Watcher", code=code, module=f"{name}_watcher", description=description, statements=statements
        )
        self.state_machine: stepfunctions.CfnStateMachine = _state_machine(scope, self.watcher, job)
        description, statements = handler
        self.handler: Handler = Handler(
            scope,
            "Handler",
            code=code,
            module=f"{name}_handler",
            description=description,
            responds_to_cloudformation=True,
            statements=[*statements, Statement(start_sid, ("states:StartExecution",), (self.state_machine.ref,))],
        )
        self.properties: Mapping[str, Any] = {
            "ServiceToken": self.handler.arn,
            "ServiceTimeout": RESPONSE_SECONDS,
            "StateMachineArn": self.state_machine.ref,
        }
        """What the custom resource of each of its jobs has."""


def _state_machine(scope: Construct, watcher: Handler, job: str) -> stepfunctions.CfnStateMachine:
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
