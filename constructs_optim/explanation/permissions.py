"""Compares who may do what: the statements of roles, users, groups and resource policies, before and after."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from constructs_optim.templates.json_values import as_array, as_object, is_array, is_object
from constructs_optim.templates.template import Resource, Template
from constructs_optim.templates.text import text_of

from .report import Direction, PermissionChange, PolicyKind, Statement

_IDENTITIES = frozenset({"AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group"})
# The properties that name the identities to which a policy is attached.
_ATTACHED = {
    "AWS::IAM::Policy": ("Roles", "Users", "Groups"),
    "AWS::IAM::ManagedPolicy": ("Roles", "Users", "Groups"),
    "AWS::IAM::RolePolicy": ("RoleName",),
    "AWS::IAM::UserPolicy": ("UserName",),
    "AWS::IAM::GroupPolicy": ("GroupName",),
}
# The property that holds the policy, and the one that names the resources it protects; None for the resource itself.
_RESOURCE_POLICIES: dict[str, tuple[str, str | None]] = {
    "AWS::ECR::Repository": ("RepositoryPolicyText", None),
    "AWS::KMS::Key": ("KeyPolicy", None),
    "AWS::S3::BucketPolicy": ("PolicyDocument", "Bucket"),
    "AWS::SNS::TopicPolicy": ("PolicyDocument", "Topics"),
    "AWS::SQS::QueuePolicy": ("PolicyDocument", "Queues"),
    "AWS::SecretsManager::ResourcePolicy": ("ResourcePolicy", "SecretId"),
}
_PRINCIPAL_TYPES = frozenset({"AWS", "Service", "Federated", "CanonicalUser"})

# The logical id (or name) and label of who owns a statement, and the kind of policy it is in.
_Location = tuple[str, str, PolicyKind]


def permission_changes(before: Template | None, after: Template | None) -> list[PermissionChange]:
    """The statements that are added, removed or changed, by owner in the order of the templates."""
    old, new = (_statements(template) if template is not None else {} for template in (before, after))
    return [
        PermissionChange(
            owner=label,
            owner_id=owner,
            kind=kind,
            direction=direction,
            grants_more=_grants_more(direction, statement or previous),
            before=previous,
            after=statement,
        )
        for owner, label, kind in dict.fromkeys([*new, *old])
        for direction, previous, statement in _matched(
            old.get((owner, label, kind), []), new.get((owner, label, kind), [])
        )
    ]


def covers(statement: Statement, other: Statement) -> bool:
    """Whether a statement allows, or denies, everything that another one does."""
    return (
        statement.effect == other.effect
        and _cover([text.lower() for text in statement.actions], [text.lower() for text in other.actions])
        and _cover(statement.resources, other.resources)
        and _cover(statement.principals, other.principals)
        and (not statement.conditions or statement.conditions == other.conditions)
    )


def _grants_more(direction: Direction, statement: Statement | None) -> bool:
    """Whether the change allows more than before. A new denial grants nothing, a removed one does."""
    allows = statement is not None and statement.effect != "Deny"
    match direction:
        case "added":
            return allows
        case "removed":
            return not allows
        case _:
            return direction != "narrowed"


def _statements(template: Template) -> dict[_Location, list[Statement]]:
    statements: dict[_Location, list[Statement]] = {}
    for resource in template.resources.values():
        for location, statement in _of_resource(template, resource):
            statements.setdefault(location, []).append(statement)
    return statements


def _of_resource(template: Template, resource: Resource) -> Iterator[tuple[_Location, Statement]]:
    name, label, properties = resource.logical_id, resource.label, resource.properties
    if resource.type in _IDENTITIES:
        for policy in as_array(properties.get("Policies")):
            yield from _of_document((name, label, "permissions"), as_object(policy).get("PolicyDocument"))
        yield from _of_document((name, label, "trust policy"), properties.get("AssumeRolePolicyDocument"))
        for arn in as_array(properties.get("ManagedPolicyArns")):
            yield (name, label, "managed policy"), Statement(effect="Allow", actions=(f"what {text_of(arn)} says",))
        if "PermissionsBoundary" in properties:
            limit = f"at most what {text_of(properties['PermissionsBoundary'])} says"
            yield (name, label, "permissions boundary"), Statement(effect="Limit", actions=(limit,))
    elif resource.type in _ATTACHED:
        attached = [owner for member in _ATTACHED[resource.type] for owner in _items(properties.get(member))]
        for owner, owner_label in _owners(template, attached) or [(name, label)]:
            yield from _of_document((owner, owner_label, "permissions"), properties.get("PolicyDocument"))
    elif resource.type in _RESOURCE_POLICIES:
        member, subject = _RESOURCE_POLICIES[resource.type]
        owners = _owners(template, _items(properties.get(subject))) if subject is not None else [(name, label)]
        for owner, owner_label in owners:
            yield from _of_document((owner, owner_label, "resource policy"), properties.get(member))
    elif resource.type == "AWS::Lambda::Permission":
        names = [key for key in ("SourceAccount", "SourceArn") if key in properties]
        statement = Statement(
            effect="Allow",
            actions=(text_of(properties.get("Action")),),
            resources=("the function",),
            principals=(text_of(properties.get("Principal")),),
            conditions=tuple(f"{key} = {text_of(properties[key])}" for key in names),
        )
        for owner, owner_label in _owners(template, [properties.get("FunctionName")]):
            yield (owner, owner_label, "resource policy"), statement


def _owners(template: Template, attached: Iterable[object]) -> list[tuple[str, str]]:
    """Logical id and label of what a policy is attached to; its name twice where it is not of the template."""
    types = {resource.type for resource in template.resources.values()}
    owners: list[tuple[str, str]] = []
    for value in attached:
        targets = template.referred(value, *types)
        owners.append((targets[0].logical_id, targets[0].label) if targets else (text_of(value), text_of(value)))
    return owners


def _of_document(location: _Location, document: object) -> Iterator[tuple[_Location, Statement]]:
    for statement in _items(as_object(document).get("Statement")):
        if is_object(statement):
            yield location, _statement(statement)


def _statement(declaration: Mapping[str, object]) -> Statement:
    principals: list[str] = []
    for member, prefix in (("Principal", ""), ("NotPrincipal", "all but ")):
        value = declaration.get(member)
        by_type = is_object(value) and {*value} <= _PRINCIPAL_TYPES
        for part in as_object(value).values() if by_type else [value]:
            principals += [prefix + text_of(item) for item in _items(part)]
    return Statement(
        sid=str(declaration.get("Sid", "")),
        effect=str(declaration.get("Effect", "Allow")),
        actions=_texts(declaration, "Action"),
        resources=_texts(declaration, "Resource"),
        principals=tuple(sorted(principals)),
        conditions=tuple(sorted(_conditions(as_object(declaration.get("Condition"))))),
    )


def _texts(declaration: Mapping[str, object], member: str) -> tuple[str, ...]:
    texts = {text_of(item) for item in _items(declaration.get(member))}
    texts |= {f"all but {text_of(item)}" for item in _items(declaration.get(f"Not{member}"))}
    return tuple(sorted(texts))


def _conditions(condition: Mapping[str, object]) -> Iterator[str]:
    for operator, tests in condition.items():
        if not is_object(tests):
            yield f"{operator} {json.dumps(tests, sort_keys=True)}"
            continue
        for key, value in tests.items():
            yield f"{key} {operator} {', '.join(sorted(text_of(item) for item in _items(value)))}"


def _items(value: object) -> list[object]:
    """The items of a list, or a single value as one; nothing for None."""
    return [*value] if is_array(value) else [value] if value is not None else []


def _matched(
    before: list[Statement], after: list[Statement]
) -> Iterator[tuple[Direction, Statement | None, Statement | None]]:
    """Pairs of statements that differ in more than their names."""
    old, new = list(before), list(after)
    for statement in after:
        same = next((other for other in old if _content(other) == _content(statement)), None)
        if same is not None:
            old.remove(same)
            new.remove(statement)
    for statement in new:
        previous = next((other for other in old if _is_successor(statement, other)), None)
        if previous is None:
            yield "added", None, statement
            continue
        old.remove(previous)
        yield _direction(previous, statement), previous, statement
    for statement in old:
        yield "removed", statement, None


def _content(statement: Statement) -> tuple[object, ...]:
    """All but its name."""
    return (
        statement.effect,
        statement.actions,
        statement.resources,
        statement.principals,
        statement.conditions,
    )


def _is_successor(statement: Statement, previous: Statement) -> bool:
    """Whether one is the other, changed: by its id, and without one by its actions, or by resources and an action."""
    if statement.effect != previous.effect:
        return False
    if statement.sid or previous.sid:
        return statement.sid == previous.sid
    return statement.actions == previous.actions or (
        statement.resources == previous.resources and bool({*statement.actions} & {*previous.actions})
    )


def _direction(previous: Statement, statement: Statement) -> Direction:
    more, less = covers(statement, previous), covers(previous, statement)
    if more == less:
        return "changed"
    # A denial that covers more allows less.
    return "widened" if more == (statement.effect != "Deny") else "narrowed"


def _cover(patterns: Iterable[str], texts: Iterable[str]) -> bool:
    patterns, texts = list(patterns), list(texts)
    if not patterns or not texts:
        return patterns == texts
    # IAM's wildcards are * and ? alone.
    return all(
        any(pattern == text or fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in patterns) for text in texts
    )
