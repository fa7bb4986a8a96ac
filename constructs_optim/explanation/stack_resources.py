"""What becomes of a stack's resources beside its endpoints, each in a sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from constructs_optim.templates.resource_types import WAITING

from .report import ResourceReport
from .resource_changes import Action, ResourceChange
from .words import listed

_POLICY_PROPERTIES = frozenset(
    {"AssumeRolePolicyDocument", "ManagedPolicyArns", "PermissionsBoundary", "Policies", "PolicyDocument", "KeyPolicy"}
)


def other_resources(changes: Mapping[str, ResourceChange], told: Collection[str]) -> Iterator[ResourceReport]:
    """The resources that change and are not ``told`` of elsewhere; of policies the permissions tell."""
    for name, change in changes.items():
        if name in told or _is_policy_alone(change) or _is_of_a_job(change):
            continue
        yield ResourceReport(
            name=change.resource.label,
            logical_id=name,
            type=change.resource.type,
            action=change.action.value,
            certain=change.is_certain,
            properties=change.properties,
            sentence=_sentence(change),
        )


def _is_policy_alone(change: ResourceChange) -> bool:
    return (
        change.action is Action.update
        and not change.attributes
        and bool(change.properties)
        and set(change.properties) <= _POLICY_PROPERTIES
    )


def _is_of_a_job(change: ResourceChange) -> bool:
    """Whether it is what a job is waited for by, which comes and goes with the job's artifact."""
    return change.resource.type in WAITING and change.action in (Action.create, Action.remove)


def _sentence(change: ResourceChange) -> str:
    names = listed([*change.properties, *change.attributes])
    match change.action:
        case Action.create:
            return "is created"
        case Action.remove:
            return "is deleted"
        case Action.keep:
            return "leaves the stack and stays as it is, by its DeletionPolicy"
        case Action.refuse:
            return f"cannot change so ({names or 'its type'}): CloudFormation refuses the deployment"
        case Action.replace:
            return f"is replaced: {listed(change.replacing)} cannot be changed in place"
        case Action.may_replace:
            return f"may be replaced, for {listed(change.replacing)}"
        case _:
            pass
    if not change.is_known:
        return f"changes ({names}); whether it is replaced is not known here, and `cdk diff` tells"
    return f"is updated in place ({names})" if change.is_certain else f"may be updated in place ({names})"
