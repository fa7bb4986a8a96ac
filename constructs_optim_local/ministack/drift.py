"""Drift detection for the added resource types, and change sets that revert drift.

CloudFormation compares properties that the template sets and that a resource's ``read`` handler returns. A change set
with ``DeploymentMode`` ``REVERT_DRIFT`` compares the template with the actual state: drift alone is a change, and a
rollback restores the actual state. Sources: CloudFormation user guide, "Detect unmanaged configuration changes to
stacks and resources with drift detection" and "Using drift-aware change sets"; API reference, CreateChangeSet. No
source says whether AWS detects drift of an ``AWS::SageMaker::Endpoint`` or imports one (``imports``), but its schema
has the ``read`` handler.

Such a change set also creates again what was deleted outside of the stack (AWS DevOps blog, "Safely Handle
Configuration Drift with CloudFormation Drift-Aware Change Sets", scenario 3). Assumed: it lists a deleted resource as
``Add``, and the resource gets another generated name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from constructs_optim_local.cloudformation.provider import ResourceProvider

from .patches import replace, table


@dataclass(frozen=True)
class _Drift:
    """The drift of a stack.

    ``modified`` has the properties that differ from the template, with their actual values, by logical ID.
    """

    modified: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    deleted: frozenset[str] = frozenset()


_Reader = Callable[[str, Mapping[str, Any]], dict[str, Any] | None]
# The properties of an alarm that a person switches by hand, and those that decide what it does.
_OF_ALARMS = ("ActionsEnabled", "AlarmActions", "AlarmDescription", "OKActions", "Threshold")
_STORED_IN_CLOUDWATCH = {
    "AWS::CloudWatch::CompositeAlarm": "_composite_alarms",
    "AWS::CloudWatch::Dashboard": "_dashboards",
}
_reverted: ContextVar[_Drift] = ContextVar("_reverted", default=_Drift())  # noqa: B039 - it is replaced, never changed


def detect_drift(providers: Mapping[str, ResourceProvider]) -> None:
    """Let CloudFormation detect and revert drift of the types of ``providers``."""
    from ministack.services.cloudformation import changesets

    readers = table("services.cloudformation.drift._DRIFT_READERS")
    for type_name, provider in providers.items():
        readers[type_name] = (provider.current, provider.read_back)
    readers["AWS::CloudWatch::Alarm"] = (_alarm, frozenset(_OF_ALARMS))
    for type_name, store in _STORED_IN_CLOUDWATCH.items():
        readers[type_name] = (_existing_in(store), frozenset[str]())
    role, read = readers["AWS::IAM::Role"]
    readers["AWS::IAM::Role"] = (_with_inline_policies(role), read | {"Policies"})
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
        drift, before = _reverted.get(), old.get("Resources", {})
        for logical_id, properties in drift.modified.items():
            if logical_id in before:
                before[logical_id]["Properties"] |= properties
        for logical_id in drift.deleted:
            before.pop(logical_id, None)
        return diff(old, *more)

    def execute_change_set(params: Any) -> Any:
        from ministack.services.cloudformation import _stacks

        _, change_set = changesets._find_change_set(_value(params, "ChangeSetName"), _value(params, "StackName"))
        if change_set and change_set.get("_reverts_drift"):
            records, drift = _stacks[change_set["StackName"]]["_resources"], _drifted(change_set["StackName"])
            for logical_id, properties in drift.modified.items():
                records[logical_id]["Properties"] = {**records[logical_id]["Properties"], **properties}
            for logical_id in drift.deleted:
                del records[logical_id]
        return execute(params)

    actions["CreateChangeSet"], actions["ExecuteChangeSet"] = create_change_set, execute_change_set
    replace("services.cloudformation.stacks._diff_resources", diff_resources, changesets)


def _alarm(name: str, declared: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what drift detection reads of an alarm; None if it is gone."""
    from ministack.services import cloudwatch

    found = cloudwatch._alarms.get(name)
    if found is None:
        return None
    read = {member: found[member] for member in _OF_ALARMS if member in found}
    # ministack keeps 5 as 5.0.
    is_whole = isinstance(read.get("Threshold"), float) and read["Threshold"].is_integer()
    return {**read, "Threshold": int(read["Threshold"])} if is_whole else read


def _existing_in(store: str) -> _Reader:
    """Return a reader that looks for a resource of CloudWatch by its name, and reads none of its properties."""

    def read(name: str, declared: Mapping[str, Any]) -> dict[str, Any] | None:
        from ministack.services import cloudwatch

        return {} if name in getattr(cloudwatch, store) else None

    return read


def _with_inline_policies(read: _Reader) -> _Reader:
    """Return a reader of roles that also reads the inline policies that the template declares."""

    def read_policies(name: str, declared: Mapping[str, Any]) -> dict[str, Any] | None:
        from ministack.services import iam

        found = read(name, declared)
        if found is None:
            return None
        inline: dict[str, str] = iam._roles[name]["InlinePolicies"]
        own = [policy["PolicyName"] for policy in declared.get("Policies") or []]
        policies = [
            {"PolicyName": policy, "PolicyDocument": json.loads(inline[policy])} for policy in own if policy in inline
        ]
        return {**found, "Policies": policies}

    return read_policies


def _drifted(stack_name: str) -> _Drift:
    """Return the drift of a stack's resources."""
    from ministack.services.cloudformation import drift
    from ministack.services.cloudformation.handlers import _resolve_stack

    modified, deleted = dict[str, dict[str, Any]](), set[str]()
    stack = _resolve_stack(stack_name) or {}
    for logical_id, record in stack.get("_resources", {}).items():
        if not drift.supports_drift(record.get("ResourceType", "")):
            continue
        detected = drift.detect_resource_drift(stack, logical_id, record, "")
        if detected["StackResourceDriftStatus"] == "DELETED":
            deleted.add(logical_id)
        elif detected["StackResourceDriftStatus"] == "MODIFIED":
            expected, actual = (json.loads(detected[f"{name}Properties"]) for name in ("Expected", "Actual"))
            modified[logical_id] = {name: actual.get(name) for name in expected if expected[name] != actual.get(name)}
    return _Drift(modified, frozenset(deleted))


def _value(params: Any, name: str) -> str:
    from ministack.services.cloudformation.helpers import _p

    return _p(params, name)
