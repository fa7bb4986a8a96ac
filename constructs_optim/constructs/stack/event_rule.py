"""EventBridge rules that start a state machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import CfnResource
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from .permissions import ServiceRole, Statement
from .stack_context import StackContext


def rule_role(
    scope: Construct, state_machine: stepfunctions.CfnStateMachine, *, sid: str, description: str
) -> ServiceRole:
    """Return the role of a stack's rules that start ``state_machine``."""
    return ServiceRole(
        scope,
        "RuleRole",
        "events.amazonaws.com",
        source_arn="arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/*",
        description=description,
        statements=[Statement(sid, ("states:StartExecution",), (state_machine.ref,))],
    )


def start_on_event(
    scope: Construct,
    *,
    description: str,
    pattern: Mapping[str, Any],
    state_machine: stepfunctions.CfnStateMachine,
    role: ServiceRole,
    target: str,
    document: Mapping[str, Any],
) -> CfnResource:
    """Declare a rule that starts ``state_machine`` with ``document``, and the event's ID as ``Run``."""
    return CfnResource(
        scope,
        "Rule",
        type="AWS::Events::Rule",
        properties={
            "Description": description,
            "EventPattern": pattern,
            "State": "ENABLED",
            "Targets": [
                {
                    "Arn": state_machine.ref,
                    "Id": target,
                    "InputTransformer": {
                        "InputPathsMap": {"run": "$.id"},
                        "InputTemplate": StackContext.of(scope).stack.to_json_string({**document, "Run": "<run>"}),
                    },
                    "RoleArn": role.arn,
                }
            ],
        },
    )
