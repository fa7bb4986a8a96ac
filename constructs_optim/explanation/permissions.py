"""Compares the policies of roles, users, groups and resources before and after a deployment."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import product
from math import prod
from typing import NamedTuple

from constructs_optim.templates.json_values import as_array, as_object, is_array, is_object
from constructs_optim.templates.template import Resource, Template
from constructs_optim.templates.text import text_of

from .report import PermissionChange, PolicyKind

_IDENTITIES = frozenset({"AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group"})
# The kind and property of the policy, and the properties that name its owners, by default the resource itself.
_POLICIES: dict[str, tuple[PolicyKind, str, tuple[str, ...]]] = {
    "AWS::IAM::Role": ("trust policy", "AssumeRolePolicyDocument", ()),
    "AWS::IAM::Policy": ("permissions", "PolicyDocument", ("Roles", "Users", "Groups")),
    "AWS::IAM::ManagedPolicy": ("permissions", "PolicyDocument", ("Roles", "Users", "Groups")),
    "AWS::IAM::RolePolicy": ("permissions", "PolicyDocument", ("RoleName",)),
    "AWS::IAM::UserPolicy": ("permissions", "PolicyDocument", ("UserName",)),
    "AWS::IAM::GroupPolicy": ("permissions", "PolicyDocument", ("GroupName",)),
    "AWS::ECR::Repository": ("resource policy", "RepositoryPolicyText", ()),
    "AWS::KMS::Key": ("resource policy", "KeyPolicy", ()),
    "AWS::S3::BucketPolicy": ("resource policy", "PolicyDocument", ("Bucket",)),
    "AWS::SNS::TopicPolicy": ("resource policy", "PolicyDocument", ("Topics",)),
    "AWS::SQS::QueuePolicy": ("resource policy", "PolicyDocument", ("Queues",)),
    "AWS::SecretsManager::ResourcePolicy": ("resource policy", "ResourcePolicy", ("SecretId",)),
}
_PRINCIPAL_TYPES = frozenset({"AWS", "Service", "Federated", "CanonicalUser"})
_ALL_BUT = "all but "
# Of a statement, and of two policies that are compared. IAM's longest policy has 10,240 characters, that of a bucket
# twice as many.
_MOST_PERMISSIONS, _MOST_COMPARISONS = 10_000, 1_000_000


class Permission(NamedTuple):
    """One action on one resource; ``effect`` is ``Allow``, ``Deny``, or ``Limit`` for a permissions boundary."""

    effect: str
    action: str
    resource: str = ""
    principal: str = ""
    condition: str = ""

    def covers(self, other: Permission) -> bool:
        """Return whether it allows or denies everything that ``other`` does."""
        return (
            self.effect == other.effect
            and _matches(self.action.lower(), other.action.lower())
            and _matches(self.resource, other.resource)
            and _matches(self.principal, other.principal)
            and self.condition in ("", other.condition)
        )


class _Owner(NamedTuple):
    """The owner of a policy, by logical ID or name, and the kind of policy."""

    logical_id: str
    label: str
    kind: PolicyKind


def permission_changes(before: Template, after: Template) -> list[PermissionChange]:
    """Return the permissions that policy owners gain and lose, in the order of the templates."""
    old, new = (_permissions(template) for template in (before, after))
    changes: list[PermissionChange] = []
    for owner in {**new, **old}:
        had, has = (side.get(owner, set[Permission]()) for side in (old, new))
        if had == has:
            continue
        allowed = [permission for permission in has - had if permission.effect == "Allow"]
        # Removing a denial or a boundary allows more.
        restored = [permission for permission in had - has if permission.effect != "Allow"]
        changes.append(
            PermissionChange(
                owner=owner.label,
                owner_id=owner.logical_id,
                kind=owner.kind,
                gained=tuple(_described(has - had)),
                lost=tuple(_described(had - has)),
                grants_more=not (_all_covered(allowed, by=had) and _all_covered(restored, by=has)),
            )
        )
    return changes


def _all_covered(permissions: Collection[Permission], *, by: Collection[Permission]) -> bool:
    """Return whether all permissions are known to be covered."""
    if len(permissions) * len(by) > _MOST_COMPARISONS:
        return False
    return all(any(other.covers(permission) for other in by) for permission in permissions)


def _matches(pattern: str, text: str) -> bool:
    # IAM's only wildcards are * and ?.
    return pattern == text or (not pattern.startswith(_ALL_BUT) and fnmatchcase(text, pattern.replace("[", "[[]")))


def _described(permissions: Iterable[Permission]) -> Iterator[str]:
    """Yield one line for all actions on the same resource."""
    actions: dict[Permission, list[str]] = {}
    for permission in sorted(permissions):
        actions.setdefault(permission._replace(action=""), []).append(permission.action)
    for (effect, _, resource, principal, condition), names in actions.items():
        yield (
            f"{effect} {', '.join(names)}{f' on {resource}' if resource else ''}"
            f"{f' to {principal}' if principal else ''}{f' if {condition}' if condition else ''}"
        )


def _permissions(template: Template) -> dict[_Owner, set[Permission]]:
    permissions: dict[_Owner, set[Permission]] = {}
    for resource in template.resources.values():
        for owner, permission in _of_resource(template, resource):
            permissions.setdefault(owner, set()).add(permission)
    return permissions


def _of_resource(template: Template, resource: Resource) -> Iterator[tuple[_Owner, Permission]]:
    name, label, properties = resource.logical_id, resource.label, resource.properties
    if resource.type in _IDENTITIES:
        for policy in as_array(properties.get("Policies")):
            for permission in _of_document(as_object(policy).get("PolicyDocument")):
                yield _Owner(name, label, "permissions"), permission
        for arn in as_array(properties.get("ManagedPolicyArns")):
            yield _Owner(name, label, "managed policy"), Permission("Allow", f"what {text_of(arn)} allows")
        if "PermissionsBoundary" in properties:
            limit = f"to what {text_of(properties['PermissionsBoundary'])} allows"
            yield _Owner(name, label, "permissions boundary"), Permission("Limit", limit)
    if resource.type in _POLICIES:
        kind, member, naming = _POLICIES[resource.type]
        owners = [owner for names in naming for owner in _owners(template, properties.get(names))]
        for permission in _of_document(properties.get(member)):
            for owner, owner_label in owners or [(name, label)]:
                yield _Owner(owner, owner_label, kind), permission
    elif resource.type == "AWS::Lambda::Permission":
        conditions = [
            f"{key} = {text_of(properties[key])}" for key in ("SourceAccount", "SourceArn") if key in properties
        ]
        principal = text_of(properties.get("Principal"))
        allowed = Permission("Allow", text_of(properties.get("Action")), "", principal, ", ".join(conditions))
        for owner, owner_label in _owners(template, properties.get("FunctionName")):
            yield _Owner(owner, owner_label, "resource policy"), allowed


def _owners(template: Template, names: object) -> Iterator[tuple[str, str]]:
    """Yield the logical IDs and labels of a policy's owners; for an owner outside of the template, its name twice."""
    types = {resource.type for resource in template.resources.values()}
    for value in _items(names):
        targets = template.referred(value, *types)
        yield (targets[0].logical_id, targets[0].label) if targets else (text_of(value), text_of(value))


def _of_document(document: object) -> Iterator[Permission]:
    for statement in _items(as_object(document).get("Statement")):
        if not is_object(statement):
            continue
        condition = " and ".join(sorted(_conditions(as_object(statement.get("Condition")))))
        texts = [_texts(statement, member) for member in ("Action", "Resource", "Principal")]
        if prod(map(len, texts)) > _MOST_PERMISSIONS:
            texts = [[", ".join(each)] for each in texts]
        for action, resource, principal in product(*texts):
            yield Permission(str(statement.get("Effect", "Allow")), action, resource, principal, condition)


def _texts(statement: Mapping[str, object], member: str) -> list[str]:
    """Return the values of ``Action``, ``Resource`` or ``Principal``; ``NotAction`` and the like become one text."""
    texts = _values(statement.get(member))
    if excluded := _values(statement.get(f"Not{member}")):
        texts.append(_ALL_BUT + ", ".join(sorted(excluded)))
    return texts or [""]


def _values(value: object) -> list[str]:
    by_type = is_object(value) and {*value} <= _PRINCIPAL_TYPES
    return [text_of(item) for part in (as_object(value).values() if by_type else [value]) for item in _items(part)]


def _conditions(condition: Mapping[str, object]) -> Iterator[str]:
    for operator, tests in condition.items():
        if not is_object(tests):
            yield f"{operator} {json.dumps(tests, sort_keys=True)}"
            continue
        for key, value in tests.items():
            yield f"{key} {operator} {', '.join(sorted(text_of(item) for item in _items(value)))}"


def _items(value: object) -> list[object]:
    """Return the items of a list, or a single value as a list; empty for None."""
    return [*value] if is_array(value) else [value] if value is not None else []
