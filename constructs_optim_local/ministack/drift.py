"""Drift detection for the added resource types, and change sets that revert drift.

CloudFormation compares properties that the template sets and that a resource's ``read`` handler returns. A change set
with ``DeploymentMode`` ``REVERT_DRIFT`` compares the template with the actual state: drift alone is a change, and a
rollback restores the actual state. Sources: CloudFormation user guide, "Detect unmanaged configuration changes to
stacks and resources with drift detection" and "Using drift-aware change sets"; API reference, CreateChangeSet. No
source says whether AWS detects drift of an ``AWS::SageMaker::Endpoint`` or imports one (``imports``), but its schema
has the ``read`` handler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from constructs_optim_local.cloudformation.provider import ResourceProvider

from .patches import replace, table

# The properties that differ from the template, with their actual values, by logical ID.
_Drifted = dict[str, dict[str, Any]]
_reverted: ContextVar[_Drifted] = ContextVar("_reverted", default={})  # noqa: B039 - it is replaced, never changed


def detect_drift(providers: Mapping[str, ResourceProvider]) -> None:
    """Let CloudFormation detect and revert drift of the types of ``providers``."""
    from ministack.services.cloudformation import changesets

    readers = table("services.cloudformation.drift._DRIFT_READERS")
    for type_name, provider in providers.items():
        readers[type_name] = (provider.current, provider.read_back)
    actions = table("services.cloudformation.handlers._ACTION_HANDLERS")
    create, execute, diff = actions["CreateChangeSet"], actions["ExecuteChangeSet"], changesets._diff_resources

    def create_change_set(params: Any) -> Any:
        if _value(params, "DeploymentMode") != "REVERT_DRIFT":
            return create(params)
        token = _reverted.set(_drifted(_value(params, "StackName")))
        try:
            answer = create(params)
        finally:
            _reverted.reset(token)
        _, change_set = changesets._find_change_set(_value(params, "ChangeSetName"), _value(params, "StackName"))
        if change_set:
            change_set["_reverts_drift"] = True
        return answer

    def diff_resources(old: dict[str, Any], *more: Any) -> Any:
        for logical_id, properties in _reverted.get().items():
            if logical_id in old.get("Resources", {}):
                old["Resources"][logical_id]["Properties"] |= properties
        return diff(old, *more)

    def execute_change_set(params: Any) -> Any:
        from ministack.services.cloudformation import _stacks

        _, change_set = changesets._find_change_set(_value(params, "ChangeSetName"), _value(params, "StackName"))
        if change_set and change_set.get("_reverts_drift"):
            records = _stacks[change_set["StackName"]]["_resources"]
            for logical_id, properties in _drifted(change_set["StackName"]).items():
                records[logical_id]["Properties"] = {**records[logical_id]["Properties"], **properties}
        return execute(params)

    actions["CreateChangeSet"], actions["ExecuteChangeSet"] = create_change_set, execute_change_set
    replace("services.cloudformation.stacks._diff_resources", diff_resources, changesets)


def _drifted(stack_name: str) -> _Drifted:
    """Return the drifted properties of a stack's resources."""
    from ministack.services.cloudformation import drift
    from ministack.services.cloudformation.handlers import _resolve_stack

    found: _Drifted = {}
    stack = _resolve_stack(stack_name) or {}
    for logical_id, record in stack.get("_resources", {}).items():
        if not drift.supports_drift(record.get("ResourceType", "")):
            continue
        detected = drift.detect_resource_drift(stack, logical_id, record, "")
        if detected["StackResourceDriftStatus"] == "MODIFIED":
            expected, actual = (json.loads(detected[f"{name}Properties"]) for name in ("Expected", "Actual"))
            found[logical_id] = {name: actual.get(name) for name in expected if expected[name] != actual.get(name)}
    return found


def _value(params: Any, name: str) -> str:
    from ministack.services.cloudformation.helpers import _p

    return _p(params, name)
