"""The permissions of deployed roles, compared with those that their stack declares.

Only policies that the stack declares are read, by name: their statements, not what a permissions boundary, another
policy's denial, or an organization's policy takes away. A statement with a value that is known only to CloudFormation
is compared by its effect and its actions.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import code_of
from constructs_optim.templates.json_values import as_array, as_object, is_array
from constructs_optim.templates.resolution import KnownLater, Resolver
from constructs_optim.templates.template import Resource

from .stacks import DeployedStack

ROLE, INLINE_POLICY = "AWS::IAM::Role", "AWS::IAM::Policy"
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Loss:
    """What a role lost; ``command`` puts an inline policy back."""

    text: str
    is_gone: bool = False
    command: str = ""


@dataclass(frozen=True)
class _Permission:
    """A permission of a statement; ``resource`` and ``condition`` are None if only CloudFormation knows them."""

    effect: str
    action: str
    resource: str | None
    condition: str | None

    def __str__(self) -> str:
        return f"{self.effect} {self.action}" + (f" on {self.resource}" if self.resource is not None else "")

    def is_in(self, others: Sequence[_Permission]) -> bool:
        """Return whether one of the actual permissions is the same, or covers it by a wildcard."""
        return any(
            self.effect == other.effect
            and fnmatchcase(self.action.lower(), other.action.lower())
            and (self.resource is None or fnmatchcase(self.resource, str(other.resource)))
            and (self.condition is None or self.condition == other.condition)
            for other in others
        )


class RolePolicies:
    """The policies of a stack's roles."""

    def __init__(self, stack: DeployedStack, client: Callable[[str], Any], resolver: Resolver) -> None:
        self._stack, self._client, self._resolver = stack, client, resolver

    def of_role(self, role: Resource) -> Iterator[str]:
        """Describe what a role lost of its own inline policies, and of the managed policies that are attached to it."""
        name = self._stack.physical_ids[role.logical_id]
        for policy in map(as_object, as_array(role.get("Policies"))):
            policy_name = self._text(policy.get("PolicyName"))
            if policy_name is not None:
                yield from (loss.text for loss in self._losses(name, policy_name, policy.get("PolicyDocument")))
        declared = [arn for value in as_array(role.get("ManagedPolicyArns")) if (arn := self._text(value)) is not None]
        if declared:
            pages = self._client("iam").get_paginator("list_attached_role_policies").paginate(RoleName=name)
            there = {policy["PolicyArn"] for page in pages for policy in page["AttachedPolicies"]}
            if lacking := [arn for arn in declared if arn not in there]:
                yield f"({name}) lacks the managed policy {', '.join(lacking)}"

    def of_policy(self, policy: Resource) -> Iterator[Loss]:
        """Describe what the roles of an ``AWS::IAM::Policy`` lost of it."""
        policy_name = self._text(policy.get("PolicyName"))
        for value in as_array(policy.get("Roles")):
            role = self._text(value)
            if role is not None and policy_name is not None:
                yield from self._losses(role, policy_name, policy.get("PolicyDocument"))

    def _losses(self, role: str, policy: str, declared: Any) -> Iterator[Loss]:
        names = {"RoleName": role, "PolicyName": policy}
        try:
            actual = [*self._permissions(self._client("iam").get_role_policy(**names)["PolicyDocument"])]
            is_gone = False
        except ClientError as error:
            if code_of(error) != "NoSuchEntity":
                raise
            actual, is_gone = [], True
        lost = [str(each) for each in self._permissions(declared) if not each.is_in(actual)]
        if lost:
            gone = f" (the policy {policy} is gone)" if is_gone else f" of the policy {policy}"
            shown = ", ".join(dict.fromkeys(lost[:_MOST_SHOWN])) + (
                f" and {len(lost) - _MOST_SHOWN} more" if len(lost) > _MOST_SHOWN else ""
            )
            text = f"lost permissions of the role {role}{gone}: {shown}"
            yield Loss(text, is_gone, self._command(names, declared))

    def _permissions(self, document: Any) -> Iterator[_Permission]:
        statements = as_object(document).get("Statement")
        for statement in map(as_object, statements if is_array(statements) else [statements]):
            actions = _listed(statement.get("Action"))
            try:
                resources = [str(each) for each in _listed(self._resolver.value(statement.get("Resource")))]
                condition = json.dumps(_texts(self._resolver.value(statement.get("Condition"))), sort_keys=True)
            except KnownLater:
                resources, condition = [None], None
            for action in actions:
                for resource in resources:
                    yield _Permission(str(statement.get("Effect")), str(action), resource, condition)

    def _command(self, names: Mapping[str, str], declared: Any) -> str:
        """Return the AWS CLI's command that puts an inline policy back."""
        try:
            document = shlex.quote(json.dumps(self._resolver.value(declared), separators=(",", ":")))
        except KnownLater:
            document = "file://policy.json"
        return (
            f"aws iam put-role-policy --role-name {names['RoleName']} --policy-name {names['PolicyName']} "
            f"--policy-document {document}"
        )

    def _text(self, value: Any) -> str | None:
        try:
            return str(self._resolver.value(value)) if value is not None else None
        except KnownLater:
            return None


def _listed(value: Any) -> Sequence[Any]:
    return value if is_array(value) else [] if value is None else [value]


def _texts(value: Any) -> Any:
    """Return a condition with texts for booleans and numbers, which mean the same (IAM user guide, "Grammar")."""
    if isinstance(value, Mapping):
        members: Mapping[str, Any] = value
        return {name: _texts(each) for name, each in members.items()}
    if is_array(value):
        return [_texts(each) for each in value]
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value
