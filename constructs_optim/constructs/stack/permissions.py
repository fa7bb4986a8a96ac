"""IAM policies of the deployment's own roles, as plain documents.

Python collects a role's statements: another endpoint adds resources to existing statements. They become the role's
inline policy and, if that is full, managed policies.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, cast

from aws_cdk import Acknowledgment, RemovalPolicy, Validations
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.recipe.tokens import is_token
from constructs_optim.templates.limits import limits

from .stack_context import StackContext, late_value

Arn = str | Mapping[str, Any]

NO_RESOURCES = "the service does not support resource-level permissions for it (IAM service authorization reference)"
"""The default reason for ``Resource: "*"``."""
KNOWN_LATER = "which is known only when the stack is deployed"
"""The end of wildcard reasons for names that are generated at deployment."""

INVOKE_ACTIONS = ("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream")
"""The actions of requests to an endpoint, with and without response streaming."""
BEARER_ACTION = "sagemaker:CallWithBearerToken"
"""The action of requests with a bearer token, which "does not support resource-level restrictions" (developer guide,
"Invoke endpoints with OpenAI-compatible APIs"): a token has its owner's permissions."""

MOST_INLINE_CHARACTERS = limits()["inline policies of a role"].most
"""The limit of all inline policies of a role together; IAM does not count white space."""
INLINE_CHARACTERS = 5_000
"""The limit of a role's own inline policy; the rest is for grants' policies, which cannot be divided."""
_MOST_MANAGED_CHARACTERS = limits()["managed policy"].most
_MOST_ITEMS = 20
"""The limit of resources, or prefixes, in a statement, so that a policy has room for several statements."""
_LATER = re.compile(
    r"\$\{(?:Token\[)?(?:(?P<pseudo>AWS(?:::|\.)(?:AccountId|Partition|Region|URLSuffix))\b)?[\w:.-]*\]?\}"
)
# The length of a pseudo parameter's value, and an upper estimate for other tokens: the length of an ARN.
_PSEUDO_CHARACTERS, _LATER_CHARACTERS = 16, 128


def sub(template: str) -> dict[str, str]:
    """Return an ``Fn::Sub`` with pseudo parameters, which is easier to read in a diff than ``Fn::Join``."""
    return {"Fn::Sub": template}


@dataclass(frozen=True)
class Statement:
    """An Allow statement; statements with the same ``sid`` are merged by combining their resources and prefixes.

    ``prefixes`` apply to ``s3:ListBucket`` on one bucket; ``wildcard`` is the reason for a wildcard in its resources.
    """

    sid: str
    actions: tuple[str, ...]
    resources: tuple[Arn, ...]
    condition: Mapping[str, Any] | None = None
    prefixes: tuple[str, ...] = ()
    wildcard: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the statement as in a policy document."""
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
        """Return this statement with the resources and prefixes of both."""
        arns = tuple(arn for arn in other.resources if arn not in self.resources)
        prefixes = tuple(prefix for prefix in other.prefixes if prefix not in self.prefixes)
        if not arns and not prefixes:
            return self
        return replace(self, resources=self.resources + arns, prefixes=self.prefixes + prefixes)


def _one_or_all(items: tuple[Any, ...]) -> Any:
    (first, *others) = items
    return [first, *others] if others else first


def _characters(value: Any) -> int:
    """Return the maximum length of a value in a policy without white space, after tokens are resolved."""
    match value:
        case str():
            lengths = [_PSEUDO_CHARACTERS if m["pseudo"] else _LATER_CHARACTERS for m in _LATER.finditer(value)]
            return 2 + len(_LATER.sub("", value)) + sum(lengths)
        case {"Fn::Join": [str() as delimiter, [*parts]]}:
            return 2 + sum(_characters(item) - 2 for item in parts) + len(delimiter) * max(0, len(parts) - 1)
        case {"Fn::Sub": str() as template} | {"Fn::Sub": [str() as template, _]}:
            return _characters(template)
        case {"Ref": str() as name}:
            return _characters(f"${{{name}}}")
        case {"Fn::GetAtt": _} | {"Fn::Select": _} | {"Fn::ImportValue": _}:
            return _LATER_CHARACTERS + 2
        case Mapping():
            members = cast("Mapping[str, Any]", value)
            return 1 + sum(len(key) + 4 + _characters(item) for key, item in members.items())
        case list():
            return 1 + sum(_characters(item) + 1 for item in cast("list[Any]", value))
        case _:
            return len(json.dumps(value))


@cache
def _table() -> Mapping[str, list[dict[str, Any]]]:
    return tomllib.loads((files("constructs_optim.constructs.stack") / "statements.toml").read_text(encoding="utf-8"))


def statements_of(group: str, **values: Arn | tuple[Arn, ...] | None) -> list[Statement]:
    """Return the statements of a group in ``statements.toml``, with values for its placeholders.

    A placeholder for a whole resource, such as ``${Key}``, may be several ARNs, or None, which omits the statement.
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
    """Return the policy document of statements."""
    return {"Version": "2012-10-17", "Statement": [statement.to_json() for statement in statements]}


def characters_of(statements: Iterable[Statement]) -> int:
    """Return the maximum length of the statements' policy in characters, as IAM counts them."""
    return _characters(document(statements))


def pass_role_statement(sid: str, role_arn: Arn) -> Statement:
    """Return the permission to pass a role to SageMaker, and to no other service."""
    condition = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    return Statement(sid, ("iam:PassRole",), (role_arn,), condition)


def give_reasons(scope: Construct, statements: Iterable[Statement]) -> None:
    """Record the reasons for wildcards in statements whose policies are below ``scope``."""
    wildcards = [
        (arn, statement.wildcard)
        for statement in statements
        for arn in statement.resources
        if statement.wildcard is not None and "*" in json.dumps(arn)
    ]
    if wildcards:
        arns = [arn for arn, _ in wildcards]
        # A call to Node takes longer than the rest.
        resolved = StackContext.of(scope).stack.resolve(arns) if is_token(json.dumps(arns)) else arns
        Validations.of(scope).acknowledge(
            *(
                Acknowledgment(id=f"AwsSolutions-IAM5[Resource::{_as_nag_writes(arn)}]", reason=reason)
                for arn, (_, reason) in zip(resolved, wildcards, strict=True)
            )
        )


class StatementList:
    """The statements of one role, in the order of their addition."""

    def __init__(self, scope: Construct) -> None:
        """Create an empty list for policies below ``scope``, where the reasons for wildcards are recorded."""
        self._scope = scope
        self._merged: dict[str, Statement] = {}

    def add(self, statements: Iterable[Statement]) -> bool:
        """Add statements, and return whether the list has changed."""
        added: list[Statement] = []
        changed = False
        for statement in statements:
            # Prefixes apply to one bucket, so another bucket gets another statement.
            key = f"{statement.sid} {statement.resources}" if statement.prefixes else statement.sid
            known = self._merged.get(key)
            self._merged[key] = joined = known.joined(statement) if known else statement
            if joined is not known:
                changed = True
                added.append(replace(joined, resources=joined.resources[len(known.resources) if known else 0 :]))
        give_reasons(self._scope, added)
        return changed

    @property
    def statements(self) -> list[Statement]:
        """The statements, divided so that each fits into a policy; each ``Sid`` is unique, as IAM requires."""
        numbers: Counter[str] = Counter()
        statements: list[Statement] = []
        for statement in self._merged.values():
            name, sid = "prefixes" if statement.prefixes else "resources", statement.sid
            items: tuple[Any, ...] = getattr(statement, name)
            for start in range(0, len(items), _MOST_ITEMS):
                numbers[sid] += 1
                unique = sid if numbers[sid] == 1 else f"{sid}{numbers[sid]}"
                statements.append(replace(statement, **{"sid": unique, name: items[start : start + _MOST_ITEMS]}))
        return statements


class ServiceRole(StatementList):
    """A service role; statements that exceed its inline policy go to managed policies."""

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
        """Create the role, with conditions on account and ``source_arn`` against the confused deputy problem.

        Without ``always_sent``, the conditions only apply if the service sends the keys.
        """
        super().__init__(scope)
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
        """Add statements, and managed policies for those that exceed the inline policy."""
        is_first = not self._merged
        if not self.add(statements):
            return
        if is_first:
            self.resource.policies = late_value(
                lambda: [{"policyName": "Permissions", "policyDocument": document(self._divided()[0])}]
            )
        for index in range(len(self._managed) + 1, len(self._divided())):
            written = late_value(lambda index=index: document(self._divided()[index]))
            managed = iam.CfnManagedPolicy(self._scope, f"Permissions{index + 1}", policy_document=written)
            if self._removal_policy is not None:
                managed.apply_removal_policy(self._removal_policy)
            self._managed.append(managed)
            self.resource.managed_policy_arns = [policy.ref for policy in self._managed]

    def apply_removal_policy(self, policy: RemovalPolicy) -> None:
        """Set the removal policy of the role and its policies."""
        self._removal_policy = policy
        for removed in (self.resource, *self._managed):
            removed.apply_removal_policy(policy)

    def _divided(self) -> list[list[Statement]]:
        """Return the statements of each policy, in the order of their addition."""
        divided: list[list[Statement]] = [[]]
        empty = characters_of(())
        free = INLINE_CHARACTERS - empty
        for statement in self.statements:
            length = _characters(statement.to_json()) + 1
            if divided[-1] and length > free:
                divided.append([])
                free = _MOST_MANAGED_CHARACTERS - empty
            divided[-1].append(statement)
            free -= length
        return divided


def _as_nag_writes(arn: Any) -> str:
    """Return an ARN as cdk-nag writes it in findings, with references in angle brackets."""
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
