"""Requests about stacks that ministack answers otherwise than CloudFormation.

CloudFormation refuses some that depend on a stack's status.

Sources of the messages: https://github.com/aws/aws-dotnet-deploy/issues/689 and
https://github.com/ansible-collections/amazon.aws/pull/1910 (a change set during an update),
https://github.com/rails-lambda/lamby/issues/132 (one of a stack that was rolled back), and
https://github.com/aws-solutions-library-samples/guidance-for-clickstream-analytics-on-aws/issues/573 (both during a
deletion and an update). A stack that is being created can be deleted.

``DescribeStackResources`` finds a stack by the physical ID of one of its resources (API reference; the message of its
refusal is assumed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .patches import table

# Ended, but only to be deleted, or rolled back further.
_FAILED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "UPDATE_ROLLBACK_FAILED", "DELETE_FAILED")


def check_stack_status() -> None:
    """Let CloudFormation refuse change sets for stacks, and deletions of stacks, whose status forbids them.

    The CDK CLI continues a failed rollback with an empty list of resources to skip, which ministack reads as one
    resource without a name.
    """
    actions = table("services.cloudformation.handlers._ACTION_HANDLERS")
    # The execution of a change set, or an update, ends the other change sets of the stack.
    actions["CreateChangeSet"] = _unless(
        _forbids_updates, "Stack:{id} is in {status} state and can not be updated.", actions["CreateChangeSet"]
    )
    actions["DeleteStack"] = _unless(
        _forbids_deletion, "Stack [{id}] cannot be deleted while in status {status}", actions["DeleteStack"]
    )
    continue_rollback = actions["ContinueUpdateRollback"]

    def continue_without_empty_names(params: Any) -> Any:
        skipped = [name for name in params.get("ResourcesToSkip") or () if name]
        rest = {name: value for name, value in params.items() if name != "ResourcesToSkip"}
        return continue_rollback(rest | ({"ResourcesToSkip": skipped} if skipped else {}))

    actions["ContinueUpdateRollback"] = continue_without_empty_names
    actions["DescribeStackResources"] = _by_physical_id(actions["DescribeStackResources"])


def _by_physical_id(describe: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an action that also describes the resources of the stack that has a resource with a physical ID."""

    def described(params: Any) -> Any:
        from ministack.services.cloudformation import _stacks
        from ministack.services.cloudformation.helpers import _error, _p

        physical_id = _p(params, "PhysicalResourceId")
        if not physical_id:
            return describe(params)
        for stack in _stacks.values():
            if any(each.get("PhysicalResourceId") == physical_id for each in stack.get("_resources", {}).values()):
                return describe({**params, "StackName": stack["StackId"]})
        return _error("ValidationError", f"Stack for {physical_id} does not exist")

    return described


def _unless(forbids: Callable[[str], bool], message: str, act: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an action that is refused with ``message`` if the stack's status forbids it."""

    def checked(params: Any) -> Any:
        from ministack.services.cloudformation.handlers import _resolve_stack
        from ministack.services.cloudformation.helpers import _error, _p

        stack = _resolve_stack(_p(params, "StackName"))
        if stack and forbids(status := stack.get("StackStatus", "")):
            return _error("ValidationError", message.format(id=stack["StackId"], status=status))
        return act(params)

    return checked


def _forbids_updates(status: str) -> bool:
    # In review, a stack has no resources yet: several change sets may wait for its creation.
    return status in _FAILED or (status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS")


def _forbids_deletion(status: str) -> bool:
    return status.startswith("UPDATE_") and status.endswith("_IN_PROGRESS")
