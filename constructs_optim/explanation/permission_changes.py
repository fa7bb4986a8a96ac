"""What changes in who may do what: the statements of roles, users, groups and resource policies, before and after."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from constructs_optim.templates.template import Resource, Template
from constructs_optim.templates.text import text_of

_IDENTITY_POLICIES = frozenset({"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"})
_SINGLE_POLICIES = {
    "AWS::IAM::RolePolicy": "RoleName",
    "AWS::IAM::UserPolicy": "UserName",
    "AWS::IAM::GroupPolicy": "GroupName",
}
# The property that holds the policy, and the one that names what it is about; None where that is the resource itself.
_RESOURCE_POLICIES: dict[str, tuple[str, str | None]] = {
    "AWS::ECR::Repository": ("RepositoryPolicyText", None),
    "AWS::KMS::Key": ("KeyPolicy", None),
    "AWS::S3::BucketPolicy": ("PolicyDocument", "Bucket"),
    "AWS::SNS::TopicPolicy": ("PolicyDocument", "Topics"),
    "AWS::SQS::QueuePolicy": ("PolicyDocument", "Queues"),
    "AWS::SecretsManager::ResourcePolicy": ("ResourcePolicy", "SecretId"),
}


class Kind(StrEnum):
    """Where a statement is."""

    permissions = "permissions"
    trust = "trust policy"
    resource = "resource policy"
    managed = "managed policy"
    boundary = "permissions boundary"


class Direction(StrEnum):
    """How it changes. ``widened``: more is allowed than before, or less is denied."""

    added = "added"
    removed = "removed"
    widened = "widened"
    narrowed = "narrowed"
    changed = "changed"


@dataclass(frozen=True)
class Statement:
    """A statement of a policy, its values as text for readers; lists are sorted."""

    sid: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    principals: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def what(self) -> tuple[object, ...]:
        """All but its name."""
        return self.effect, self.actions, self.resources, self.principals, self.conditions

    def covers(self, other: Statement) -> bool:
        """Whether all that ``other`` says is part of what this one says."""
        return (
            self.effect == other.effect
            and _cover(self.actions, other.actions, ignore_case=True)
            and _cover(self.resources, other.resources)
            and _cover(self.principals, other.principals)
            and (not self.conditions or self.conditions == other.conditions)
        )


@dataclass(frozen=True)
class PermissionChange:
    """A statement that changes.

    ``owner`` is the role, user, group or resource that it is of, ``owner_id`` its logical id, or its name where it is
    not of the template.
    """

    owner: str
    owner_id: str
    kind: Kind
    direction: Direction
    before: Statement | None
    after: Statement | None

    @property
    def statement(self) -> Statement:
        """As it will be, or was where it is removed."""
        found = self.after or self.before
        assert found is not None  # noqa: S101 - a change is of something
        return found

    @property
    def grants_more(self) -> bool:
        """Whether somebody may do what they may not do now. A new denial grants nothing, a removed one does."""
        allows = self.statement.effect != "Deny"
        if self.direction is Direction.added:
            return allows
        if self.direction is Direction.removed:
            return not allows
        return self.direction is not Direction.narrowed


@dataclass(frozen=True)
class _Place:
    owner: str
    label: str
    kind: Kind


def permission_changes(before: Template | None, after: Template | None) -> list[PermissionChange]:
    """The statements that are added, removed or changed, by owner in the order of the templates."""
    old, new = (_statements(template) if template is not None else {} for template in (before, after))
    changes: list[PermissionChange] = []
    for place in dict.fromkeys([*new, *old]):
        for direction, was, will in _matched(old.get(place, []), new.get(place, [])):
            changes.append(PermissionChange(place.label, place.owner, place.kind, direction, was, will))
    return changes


def _statements(template: Template) -> dict[_Place, list[Statement]]:
    found: dict[_Place, list[Statement]] = {}
    for resource in template.resources.values():
        for owner, label, kind, statement in _of_resource(template, resource):
            found.setdefault(_Place(owner, label, kind), []).append(statement)
    return found


def _of_resource(template: Template, resource: Resource) -> Iterator[tuple[str, str, Kind, Statement]]:
    name, label, given = resource.logical_id, resource.label, resource.properties
    if resource.type in ("AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group"):
        for policy in given.get("Policies") or ():
            yield from _each(name, label, Kind.permissions, policy.get("PolicyDocument"))
        yield from _each(name, label, Kind.trust, given.get("AssumeRolePolicyDocument"))
        for arn in given.get("ManagedPolicyArns") or ():
            yield name, label, Kind.managed, Statement("", "Allow", (f"what {text_of(arn)} says",), ())
        if "PermissionsBoundary" in given:
            limit = f"at most what {text_of(given['PermissionsBoundary'])} says"
            yield name, label, Kind.boundary, Statement("", "Limit", (limit,), ())
    elif resource.type in _IDENTITY_POLICIES:
        attached = [each for member in ("Roles", "Users", "Groups") for each in given.get(member) or ()]
        for owner, shown in _owners(template, attached) or [(name, label)]:
            yield from _each(owner, shown, Kind.permissions, given.get("PolicyDocument"))
    elif resource.type in _SINGLE_POLICIES:
        for owner, shown in _owners(template, [given.get(_SINGLE_POLICIES[resource.type])]):
            yield from _each(owner, shown, Kind.permissions, given.get("PolicyDocument"))
    elif resource.type in _RESOURCE_POLICIES:
        member, about = _RESOURCE_POLICIES[resource.type]
        subject = given.get(about) if about is not None else None
        for owner, shown in _owners(template, subject if isinstance(subject, list) else [subject]):
            yield from _each(owner if about else name, shown if about else label, Kind.resource, given.get(member))
    elif resource.type == "AWS::Lambda::Permission":
        conditions = tuple(f"{key} = {text_of(given[key])}" for key in ("SourceAccount", "SourceArn") if key in given)
        for owner, shown in _owners(template, [given.get("FunctionName")]):
            principals, actions = (text_of(given.get("Principal")),), (text_of(given.get("Action")),)
            yield (
                owner,
                shown,
                Kind.resource,
                Statement("", "Allow", actions, ("the function",), principals, conditions),
            )


def _owners(template: Template, attached: Iterable[Any]) -> list[tuple[str, str]]:
    """What a policy is attached to: a resource of the template, or something that is named."""
    found = []
    for each in attached:
        targets = template.referred(each, *{resource.type for resource in template.resources.values()})
        found.append((targets[0].logical_id, targets[0].label) if targets else (text_of(each), text_of(each)))
    return found


def _each(owner: str, label: str, kind: Kind, document: Any) -> Iterator[tuple[str, str, Kind, Statement]]:
    if not isinstance(document, Mapping):
        return
    given = document.get("Statement") or ()
    for statement in [given] if isinstance(given, Mapping) else given:
        yield owner, label, kind, _statement(statement)


def _statement(given: Mapping[str, Any]) -> Statement:
    principals: list[str] = []
    for member, prefix in (("Principal", ""), ("NotPrincipal", "all but ")):
        value = given.get(member)
        parts = value.values() if isinstance(value, Mapping) and _is_principal(value) else [value]
        principals += [prefix + text for part in parts if part is not None for text in _texts(part)]
    return Statement(
        sid=str(given.get("Sid", "")),
        effect=str(given.get("Effect", "Allow")),
        actions=_listed(given, "Action"),
        resources=_listed(given, "Resource"),
        principals=tuple(sorted(principals)),
        conditions=tuple(sorted(_conditions(given.get("Condition") or {}))),
    )


def _is_principal(value: Mapping[str, Any]) -> bool:
    return set(value) <= {"AWS", "Service", "Federated", "CanonicalUser"}


def _listed(given: Mapping[str, Any], member: str) -> tuple[str, ...]:
    texts = _texts(given[member]) if member in given else []
    texts += [f"all but {text}" for text in _texts(given[f"Not{member}"])] if f"Not{member}" in given else []
    return tuple(sorted(set(texts)))


def _texts(value: Any) -> list[str]:
    return [text_of(item) for item in value] if isinstance(value, list | tuple) else [text_of(value)]


def _conditions(given: Mapping[str, Any]) -> Iterator[str]:
    for operator, tests in given.items():
        if not isinstance(tests, Mapping):
            yield f"{operator} {json.dumps(tests, sort_keys=True)}"
            continue
        for key, wanted in tests.items():
            yield f"{key} {operator} {', '.join(sorted(_texts(wanted)))}"


def _matched(
    before: list[Statement], after: list[Statement]
) -> Iterator[tuple[Direction, Statement | None, Statement | None]]:
    """Pairs of what changed; statements that say the same are none, whatever they are called."""
    old, new = list(before), list(after)
    for statement in after:
        same = next((each for each in old if each.what == statement.what), None)
        if same is not None:
            old.remove(same)
            new.remove(statement)
    for statement in new:
        was = next((each for each in old if _is_successor(statement, each)), None)
        if was is None:
            yield Direction.added, None, statement
            continue
        old.remove(was)
        yield _direction(was, statement), was, statement
    for statement in old:
        yield Direction.removed, statement, None


def _is_successor(statement: Statement, was: Statement) -> bool:
    """Whether one is the other, changed: by its id, and without one by all but what it is about, or what it allows."""
    if statement.effect != was.effect:
        return False
    if statement.sid or was.sid:
        return statement.sid == was.sid
    return statement.actions == was.actions or (
        statement.resources == was.resources and bool(set(statement.actions) & set(was.actions))
    )


def _direction(was: Statement, statement: Statement) -> Direction:
    more, less = statement.covers(was), was.covers(statement)
    if more == less:
        return Direction.changed
    # A denial that covers more allows less.
    return Direction.widened if more == (statement.effect != "Deny") else Direction.narrowed


def _cover(patterns: tuple[str, ...], others: tuple[str, ...], *, ignore_case: bool = False) -> bool:
    if not patterns or not others:
        return patterns == others
    given = [pattern.lower() for pattern in patterns] if ignore_case else list(patterns)
    asked = [other.lower() for other in others] if ignore_case else list(others)
    return all(any(one == other or fnmatchcase(other, _pattern(one)) for one in given) for other in asked)


def _pattern(text: str) -> str:
    """IAM's wildcards are ``*`` and ``?`` alone."""
    return text.replace("[", "[[]")
