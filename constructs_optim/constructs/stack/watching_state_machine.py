"""The state machine that watches a job: look, wait as long as the watcher says, look again."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from .handler import Handler, log_group_of
from .permissions import NO_RESOURCES, PolicyBuilder, Statement, sub, trust_policy
from .physical_names import physical_name

# Step Functions writes each log group of another name into a resource policy of the account, which has room for 5,120
# characters; with some 20 stacks, "The state machine IAM Role is not authorized to access the Log Destination". Source:
# AWS Step Functions developer guide, "Logging using CloudWatch Logs" (log group resource policy size).
_VENDED_LOGS = "/aws/vendedlogs/states/"

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
_STATES: dict[str, Any] = {
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


def watching_state_machine(scope: Construct, watcher: Handler, *, watches: str) -> stepfunctions.CfnStateMachine:
    """Declare, below ``scope``, what has ``watcher`` look at each of what it ``watches`` until that has ended.

    The watcher answers ``{"Done": false, "WaitSeconds": n}``, or ``{"Done": true}``.
    """
    scope = Construct(scope, "StateMachine")
    log_group = log_group_of(scope, f"{_VENDED_LOGS}{physical_name(scope, 'Logs')}")
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
        description=f"Watches {watches}s until they end",
    )
    policy.apply(role)
    return stepfunctions.CfnStateMachine(
        scope,
        "Resource",
        definition={"Comment": f"Watches one {watches} and signals the stack that waits for it", **_STATES},
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
