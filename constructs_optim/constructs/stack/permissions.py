"""IAM policies of the deployment's own roles, as plain documents.

A role's statements are collected in Python and handed to CloudFormation whole: one endpoint more adds resources to
statements that exist. They are the role's inline policy, and managed policies beside it where that has no room for all.

Source of the limits: AWS Identity and Access Management user guide, "IAM and AWS STS quotas".
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, cast

from aws_cdk import Acknowledgment, Annotations, RemovalPolicy, Validations
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from .stack_context import TOKEN, StackContext, late_value

Arn = str | Mapping[str, Any]

NO_RESOURCES = "the service knows no resource-level permission for it (IAM service authorization reference)"
"""The reason for ``Resource: "*"``."""
KNOWN_LATER = "which is known only when the stack is deployed"
"""The end of the reasons for wildcards in names that a deployment decides."""

INVOKE_ACTIONS = ("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream")
"""The actions of requests to an endpoint, with and without response streaming."""

MOST_INLINE_CHARACTERS = 10_240
"""Of all inline policies of a role together; IAM does not count white space."""
MOST_MANAGED_CHARACTERS = 6_144
"""Of each managed policy."""
MOST_MANAGED_POLICIES = 10
"""Of a role, unless the account's quota was raised."""
INLINE_CHARACTERS = 5_000
"""Of a role's own inline policy: the rest is left to those that grants add to the role, which nothing divides."""
# A token's value is known when the stack is deployed: an ARN, at most about as long as this.
_TOKEN_CHARACTERS = 128
_PSEUDO_CHARACTERS = {
    "AWS::AccountId": len("111122223333"),
    "AWS::Partition": len("aws-us-gov"),
    "AWS::Region": len("ap-southeast-1"),
    "AWS::URLSuffix": len("amazonaws.com.cn"),
}
_SUBSTITUTION = re.compile(r"\$\{([A-Za-z0-9:.]+)\}")


def sub(template: str) -> dict[str, str]:
    """``Fn::Sub`` with CloudFormation's pseudo parameters: reads better in a diff than joined pieces."""
    return {"Fn::Sub": template}


@dataclass(frozen=True)
class Statement:
    """One Allow statement; statements with the same ``sid`` are merged by adding up their resources and prefixes.

    ``prefixes`` are those that ``s3:ListBucket`` may list of one bucket. ``wildcard`` is the reason for a wildcard in
    its resources: none goes without one.
    """

    sid: str
    actions: tuple[str, ...]
    resources: tuple[Arn, ...]
    condition: Mapping[str, Any] | None = None
    prefixes: tuple[str, ...] = ()
    wildcard: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The statement as a policy document has it."""
        prefixes = {"StringLike": {"s3:prefix": _one_or_all(self.prefixes)}} if self.prefixes else {}
        conditions = {**(self.condition or {}), **prefixes}
        return {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": _one_or_all(self.resources),
            **({"Condition": conditions} if conditions else {}),
        }

    def joined(self, other: Statement) -> Statement:
        """Both statements' resources and prefixes under this one's actions."""
        arns = tuple(arn for arn in other.resources if arn not in self.resources)
        prefixes = tuple(prefix for prefix in other.prefixes if prefix not in self.prefixes)
        if not arns and not prefixes:
            return self
        return replace(self, resources=self.resources + arns, prefixes=self.prefixes + prefixes)

    @property
    def characters(self) -> int:
        """How many characters it takes of a policy, at most."""
        return _characters(self.to_json()) + 1

    def parts(self, most: int) -> tuple[Statement | None, Statement | None]:
        """A part of at most ``most`` characters, and the rest: it is divided by resources, or by prefixes."""
        if self.characters <= most:
            return self, None
        name = "resources" if len(self.resources) > 1 else "prefixes"
        items: tuple[Any, ...] = getattr(self, name)
        free = most - replace(self, **{name: items[:1]}).characters
        if free < 0:
            return None, self
        taken = 1
        # One is left for the rest at least: without items it would be no statement. A comma each, and brackets of two.
        while taken < len(items) - 1 and (free := free - _characters(items[taken]) - (3 if taken == 1 else 1)) >= 0:
            taken += 1
        return replace(self, **{name: items[:taken]}), replace(self, **{name: items[taken:]})


def _one_or_all(items: tuple[Any, ...]) -> Any:
    (first, *others) = items
    return [first, *others] if others else first


def _characters(value: Any) -> int:
    """How long a value is at most in a policy, written without white space, when its tokens are known."""
    match value:
        case str():
            tokens = sum(_token_characters(token) for token in TOKEN.findall(value))
            return len(TOKEN.sub("", value)) + 2 + tokens
        case {"Fn::Join": [str() as delimiter, list(items)]}:
            parts: list[Any] = items
            return 2 + sum(_characters(item) - 2 for item in parts) + len(delimiter) * max(0, len(parts) - 1)
        case {"Fn::Sub": str() as template}:
            names: list[str] = _SUBSTITUTION.findall(template)
            known = sum(_PSEUDO_CHARACTERS.get(name, _TOKEN_CHARACTERS) for name in names)
            return len(_SUBSTITUTION.sub("", template)) + 2 + known
        case {"Ref": str() as name}:
            return _PSEUDO_CHARACTERS.get(name, _TOKEN_CHARACTERS) + 2
        case {"Fn::GetAtt": _} | {"Fn::Select": _} | {"Fn::ImportValue": _}:
            return _TOKEN_CHARACTERS + 2
        case Mapping():
            members = cast("Mapping[str, Any]", value)
            return 1 + sum(len(key) + 4 + _characters(item) for key, item in members.items())
        case list():
            return 1 + sum(_characters(item) + 1 for item in cast("list[Any]", value))
        case _:
            return len(json.dumps(value))


def _token_characters(token: str) -> int:
    # A pseudo parameter's token has its name: ${Token[AWS.Region.12]}.
    name = token.removeprefix("${Token[").rpartition(".")[0].replace(".", "::")
    return _PSEUDO_CHARACTERS.get(name, _TOKEN_CHARACTERS)


@cache
def _table() -> Mapping[str, list[dict[str, Any]]]:
    return tomllib.loads((files("constructs_optim.constructs.stack") / "statements.toml").read_text(encoding="utf-8"))


def statements_of(group: str, **values: Arn | tuple[Arn, ...] | None) -> list[Statement]:
    """The statements of a group of ``statements.toml``, with values for the names in it.

    What stands alone, such as ``${Key}``, may be several ARNs, or None: then the statement is left out.
    """

    def filled(template: str) -> tuple[Arn, ...]:
        value = values.get(template[2:-1], template)
        if value is not template:
            return value if isinstance(value, tuple) else (value,) if value is not None else ()
        for name, value in values.items():
            template = template.replace(f"${{{name}}}", value) if isinstance(value, str) else template
        return (sub(template) if "${AWS::" in template else template,)

    result: list[Statement] = []
    for row in _table()[group]:
        resources = tuple(arn for template in row["resources"] for arn in filled(template))
        prefixes = tuple(str(prefix) for template in row.get("prefixes", ()) for prefix in filled(template))
        wildcard = row.get("wildcard", NO_RESOURCES if resources == ("*",) else None)
        if resources:
            condition = row.get("condition")
            result.append(Statement(row["sid"], tuple(row["actions"]), resources, condition, prefixes, wildcard))
    return result


def document(statements: Iterable[Statement]) -> dict[str, Any]:
    """The policy document of statements."""
    return {"Version": "2012-10-17", "Statement": [statement.to_json() for statement in statements]}


_EMPTY_DOCUMENT = _characters(document(()))


def characters_of(statements: Iterable[Statement]) -> int:
    """How many characters the policy of statements has at most, as IAM counts them."""
    return _EMPTY_DOCUMENT + sum(statement.characters for statement in statements)


def pass_role_statement(sid: str, role_arn: Arn) -> Statement:
    """Let a role be passed to SageMaker, and to no other service."""
    condition = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    return Statement(sid, ("iam:PassRole",), (role_arn,), condition)


class StatementList:
    """The statements of one role, kept in the order in which they were first added."""

    def __init__(self) -> None:
        self.statements: dict[str, Statement] = {}
        self._to_acknowledge: list[tuple[Arn, str]] = []
        self._acknowledged: list[tuple[Arn, str]] = []

    def add(self, statements: Iterable[Statement]) -> bool:
        """Add statements; whether that changed anything."""
        changed = False
        for statement in statements:
            # Prefixes are about one bucket: of another one they are another statement.
            key = f"{statement.sid} {statement.resources}" if statement.prefixes else statement.sid
            known = self.statements.get(key)
            joined = known.joined(statement) if known else replace(statement, sid=self._free(statement.sid))
            if joined is not known:
                self.statements[key] = joined
                added = joined.resources[len(known.resources) if known else 0 :]
                self._to_acknowledge += _wildcards(joined, added)
                changed = True
        return changed

    def _free(self, sid: str) -> str:
        # IAM refuses a policy in which two statements have one id.
        named = {statement.sid for statement in self.statements.values()}
        return next(free for free in (sid, *(f"{sid}{n}" for n in range(2, len(named) + 3))) if free not in named)

    def acknowledge(self, *policies: IConstruct) -> None:
        """Give cdk-nag the reasons for the wildcards in what was added, for the resources that have it."""
        for policy in policies:
            _acknowledge(policy, self._to_acknowledge)
        self._acknowledged += self._to_acknowledge
        self._to_acknowledge = []


class ServiceRole(StatementList):
    """A role of the stack's own, which a service assumes.

    What is too long for its inline policy goes on in managed policies, which the role names: they are there before it
    is.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        service: str,
        *,
        source_arn: str,
        description: str,
        statements: Iterable[Statement] = (),
        always_sent: bool = True,
    ) -> None:
        """Declare it, assumed only on behalf of this account and of a resource like ``source_arn``.

        So the service cannot be a confused deputy. Where it is not documented that the service names both each time it
        assumes the role, they count only if they are sent.
        """
        super().__init__()
        if_sent = "" if always_sent else "IfExists"
        self.resource: iam.CfnRole = iam.CfnRole(
            scope,
            id,
            assume_role_policy_document={
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": service},
                        "Action": "sts:AssumeRole",
                        "Condition": {
                            f"StringEquals{if_sent}": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
                            f"ArnLike{if_sent}": {"aws:SourceArn": sub(source_arn)},
                        },
                    }
                ],
            },
            description=description,
        )
        self.arn: str = self.resource.attr_arn
        self._managed: list[iam.CfnManagedPolicy] = []
        self._removal_policy: RemovalPolicy | None = None
        self.permit(statements)

    def permit(self, statements: Iterable[Statement]) -> None:
        """Add statements, and acknowledge the reasons for their wildcards."""
        is_first = not self.statements
        if not self.add(statements):
            return
        if is_first:
            self.resource.policies = late_value(
                lambda: [{"policyName": "Permissions", "policyDocument": document(self._documents()[0])}]
            )
        self.acknowledge(self.resource, *self._managed)
        while len(self._managed) < len(self._documents()) - 1:
            self._continue(len(self._managed) + 1)

    def apply_removal_policy(self, policy: RemovalPolicy) -> None:
        """What becomes of the role, and of its policies, when it is removed from the stack."""
        self._removal_policy = policy
        for removed in (self.resource, *self._managed):
            removed.apply_removal_policy(policy)

    def _continue(self, index: int) -> None:
        role = self.resource
        managed = iam.CfnManagedPolicy(
            cast("Construct", role.node.scope),
            f"Permissions{index + 1}",
            policy_document=late_value(lambda: document(self._documents()[index])),
        )
        _acknowledge(managed, self._acknowledged)
        if self._removal_policy is not None:
            managed.apply_removal_policy(self._removal_policy)
        self._managed.append(managed)
        role.managed_policy_arns = [policy.ref for policy in self._managed]
        if index == MOST_MANAGED_POLICIES + 1:
            Annotations.of(role).add_error(
                f"{role.node.path} needs policies of about {characters_of(self.statements.values())} characters, and a "
                f"role has {MOST_INLINE_CHARACTERS} of its own and {MOST_MANAGED_POLICIES} managed policies of "
                f"{MOST_MANAGED_CHARACTERS}: declare some of the stack's endpoints in another stack"
            )

    def _documents(self) -> list[list[Statement]]:
        """The statements in the order in which they were added, divided into what each policy has room for."""
        documents: list[list[Statement]] = [[]]
        free = INLINE_CHARACTERS - _EMPTY_DOCUMENT
        for statement in self.statements.values():
            rest: Statement | None = statement
            while rest is not None:
                fits, rest = rest.parts(free)
                if fits is not None:
                    documents[-1].append(fits)
                    free -= fits.characters
                elif not documents[-1]:
                    # Nothing is as long as a whole policy but a statement of one resource, which IAM itself refuses.
                    documents[-1].append(cast("Statement", rest))
                    rest = None
                if rest is not None:
                    documents.append([])
                    free = MOST_MANAGED_CHARACTERS - _EMPTY_DOCUMENT
        return documents


def _wildcards(statement: Statement, arns: Iterable[Arn]) -> list[tuple[Arn, str]]:
    reason = statement.wildcard
    return [(arn, reason) for arn in arns if reason and "*" in (arn if isinstance(arn, str) else json.dumps(arn))]


def _acknowledge(construct: IConstruct, reasons: list[tuple[Arn, str]]) -> None:
    if reasons:
        resolved = StackContext.of(construct).stack.resolve([arn for arn, _ in reasons])
        Validations.of(construct).acknowledge(
            *(
                Acknowledgment(id=f"AwsSolutions-IAM5[Resource::{_as_nag_writes(arn)}]", reason=reason)
                for arn, (_, reason) in zip(resolved, reasons, strict=True)
            )
        )


def _as_nag_writes(arn: Any) -> str:
    """An ARN in the form in which cdk-nag names its findings: references in angle brackets."""
    match arn:
        case str():
            return arn.replace("${", "<").replace("}", ">")
        case {"Fn::Join": [delimiter, items]}:
            return delimiter.join(_as_nag_writes(item) for item in items)
        case {"Fn::Sub": str() as template}:
            return _as_nag_writes(template)
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::ImportValue": name}:
            return _as_nag_writes(name)
        case _:
            return json.dumps(arn, separators=(",", ":"))
