"""Requests that CloudFormation refuses because of the stack's status, and those with which failed rollbacks continue.

Sources of the messages: https://github.com/aws/aws-dotnet-deploy/issues/689 and
https://github.com/ansible-collections/amazon.aws/pull/1910 (a change set during an update),
https://github.com/rails-lambda/lamby/issues/132 (one of a stack that was rolled back), and
https://github.com/aws-solutions-library-samples/guidance-for-clickstream-analytics-on-aws/issues/573 (both during a
deletion and an update). A stack that is being created can be deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .patches import table

# Ended, but only to be deleted, or rolled back further.
_FAILED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "UPDATE_ROLLBACK_FAILED", "DELETE_FAILED")


def heed_status() -> None:
    """Let CloudFormation refuse new change sets for stacks, and deletions of stacks, whose status forbids them.

    ``cdk rollback`` continues a rollback with an empty list of resources to skip, which is none.
    """
    actions = table("services.cloudformation.handlers._ACTION_HANDLERS")
    # The execution of a change set, or an update, ends the other change sets of the stack.
    for name, problem in {"CreateChangeSet": _not_to_be_updated, "DeleteStack": _not_to_be_deleted}.items():
        actions[name] = _unless(problem, actions[name])
    continue_rollback = actions["ContinueUpdateRollback"]

    def continue_with_what_there_is(params: Any) -> Any:
        skipped = [name for name in params.get("ResourcesToSkip") or () if name]
        rest = {name: value for name, value in params.items() if name != "ResourcesToSkip"}
        return continue_rollback(rest | ({"ResourcesToSkip": skipped} if skipped else {}))

    actions["ContinueUpdateRollback"] = continue_with_what_there_is


def _unless(problem: Callable[[Any], str | None], act: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(params: Any) -> Any:
        from ministack.services.cloudformation.helpers import _error

        found = problem(params)
        return _error("ValidationError", found) if found is not None else act(params)

    return checked


def _not_to_be_updated(params: Any) -> str | None:
    from ministack.services.cloudformation.handlers import _resolve_stack
    from ministack.services.cloudformation.helpers import _p

    stack = _resolve_stack(_p(params, "StackName")) or {}
    status = stack.get("StackStatus", "")
    # In review, it has no resources yet: several change sets may wait for its creation.
    if status == "REVIEW_IN_PROGRESS" or not (status.endswith("_IN_PROGRESS") or status in _FAILED):
        return None
    return f"Stack:{stack['StackId']} is in {status} state and can not be updated."


def _not_to_be_deleted(params: Any) -> str | None:
    from ministack.services.cloudformation.handlers import _resolve_stack
    from ministack.services.cloudformation.helpers import _p

    stack = _resolve_stack(_p(params, "StackName")) or {}
    status = stack.get("StackStatus", "")
    if not (status.startswith("UPDATE_") and status.endswith("_IN_PROGRESS")):
        return None
    return f"Stack [{stack['StackId']}] cannot be deleted while in status {status}"
