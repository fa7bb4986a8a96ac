"""A stack that is deleted while it is being created: waiting resources are cancelled, existing ones are deleted.

Sources: https://github.com/aws/aws-cdk/issues/13782, https://github.com/aws/aws-cdk/issues/26139
"""

from __future__ import annotations

import json
import textwrap
from typing import Any

from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack
from ..support.local_cloud import ROLE
from ..support.waiting import until

TOPIC: dict[str, Any] = {"Type": "AWS::SNS::Topic"}
RESPONDS_TO_DELETE_ONLY = textwrap.dedent(
    """
    import json
    import urllib.request

    def handler(event, context):
        if event["RequestType"] == "Create":
            return
        response = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId")}
        response["Status"] = "SUCCESS"
        request = urllib.request.Request(event["ResponseURL"], json.dumps(response).encode(), method="PUT")
        urllib.request.urlopen(request)
    """
)
WAITING_CUSTOM_RESOURCE: dict[str, Any] = {
    "Function": {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"ZipFile": RESPONDS_TO_DELETE_ONLY},
            "Handler": "index.handler",
            "Role": ROLE,
            "Runtime": "python3.12",
        },
    },
    "Waiting": {
        "Type": "Custom::Waiting",
        "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, "ServiceTimeout": 600},
    },
}
WAITING_CONDITION: dict[str, Any] = {
    "Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
    "Waiting": {
        "Type": "AWS::CloudFormation::WaitCondition",
        "Properties": {"Handle": {"Ref": "Handle"}, "Timeout": "600"},
    },
}


def deleted_while_waiting(cloud: LocalCloud, name: str, resources: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Deletes a stack while its resource Waiting is created: logical id, status and reason of each event, in order."""
    stack = Stack(cloud, name)
    template = {"Resources": {**resources, "After": {**TOPIC, "DependsOn": "Waiting"}}}
    stack_id = stack.cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template))["StackId"]

    def events() -> list[tuple[str, str, str]]:
        events = stack.cloudformation.describe_stack_events(StackName=stack_id)["StackEvents"]
        return [
            (event["LogicalResourceId"], event["ResourceStatus"], event.get("ResourceStatusReason", ""))
            for event in reversed(events)
        ]

    until(events, lambda events: ("Waiting", "CREATE_IN_PROGRESS", "") in events)
    stack.delete()
    return events()


def test_deleting_a_stack_cancels_and_deletes_a_custom_resource_in_creation(cloud: LocalCloud) -> None:
    events = deleted_while_waiting(cloud, "cancelled-custom-resource", WAITING_CUSTOM_RESOURCE)
    assert [event for event in events if event[0] == "Waiting"] == [
        ("Waiting", "CREATE_IN_PROGRESS", ""),
        ("Waiting", "CREATE_FAILED", "Resource creation cancelled"),
        ("Waiting", "DELETE_IN_PROGRESS", ""),
        ("Waiting", "DELETE_COMPLETE", ""),
    ]
    deletions = [logical_id for logical_id, status, _ in events if status == "DELETE_COMPLETE"]
    assert deletions[:2] == ["Waiting", "Function"]


def test_deleting_a_stack_cancels_its_wait_condition(cloud: LocalCloud) -> None:
    events = deleted_while_waiting(cloud, "cancelled-wait-condition", WAITING_CONDITION)
    assert "Resource creation cancelled" in next(
        reason for logical_id, status, reason in events if (logical_id, status) == ("Waiting", "CREATE_FAILED")
    )


def test_no_further_resource_is_created_once_the_stack_is_being_deleted(cloud: LocalCloud) -> None:
    events = deleted_while_waiting(cloud, "cancelled-deployment", WAITING_CONDITION)
    assert "After" not in {logical_id for logical_id, _, _ in events}
    assert events[-1][:2] == ("cancelled-deployment", "DELETE_COMPLETE")
