"""IAM policies of the deployment's own roles, as plain documents.

A role's statements are collected in Python and handed to CloudFormation whole: one endpoint more adds resources to
statements that exist, it does not add policies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from .late_value import late_value
from .stack_facts import facts_of

Arn = str | Mapping[str, Any]

NO_RESOURCES = "the service knows no resource-level permission for it (IAM service authorization reference)"
"""The reason for ``Resource: "*"``."""


def sub(template: str) -> dict[str, str]:
    """``Fn::Sub`` with CloudFormation's pseudo parameters: reads better in a diff than joined pieces."""
    return {"Fn::Sub": template}


@dataclass(frozen=True)
class Statement:
    """One Allow statement; statements with the same ``sid`` are merged by adding up their resources.

    ``wildcard`` is the reason for a wildcard in its resources: none goes without one.
    """

    sid: str
    actions: tuple[str, ...]
    resources: tuple[Arn, ...]
    condition: Mapping[str, Any] | None = None
    wildcard: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The statement as a policy document has it."""
        resources: list[Arn] = list(self.resources)
        return {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": resources if len(resources) > 1 else resources[0],
            **({"Condition": self.condition} if self.condition else {}),
        }

    def joined(self, other: Statement) -> Statement:
        """Both statements' resources under this one's actions."""
        added = tuple(arn for arn in other.resources if arn not in self.resources)
        return replace(self, resources=self.resources + added) if added else self


@dataclass
class PolicyBuilder:
    """The statements of one role, kept in the order in which they were first added."""

    statements: dict[str, Statement] = field(default_factory=dict[str, Statement])
    _applied_to: list[iam.CfnRole] = field(default_factory=list[iam.CfnRole])
    _to_acknowledge: list[tuple[Arn, str]] = field(default_factory=list[tuple[Arn, str]])

    def add(self, statements: Iterable[Statement]) -> bool:
        """Add statements; whether that changed anything."""
        changed = False
        for statement in statements:
            known = self.statements.get(statement.sid)
            joined = known.joined(statement) if known else statement
            if joined is not known:
                self.statements[statement.sid] = joined
                added = joined.resources[len(known.resources) if known else 0 :]
                self._to_acknowledge += _wildcards(joined, added)
                changed = True
        return changed

    def to_property(self) -> list[dict[str, Any]]:
        """The ``policies`` property of a role."""
        document = {"Version": "2012-10-17", "Statement": [s.to_json() for s in self.statements.values()]}
        return [{"policyName": "Permissions", "policyDocument": document}]

    def apply(self, role: iam.CfnRole) -> None:
        """Have the statements, and those that are added later, in ``role``; give the reasons for their wildcards."""
        if not any(role is known for known in self._applied_to):
            role.policies = late_value(self.to_property)
            self._applied_to.append(role)
        _acknowledge(role, self._to_acknowledge)
        self._to_acknowledge = []


def acknowledge_wildcards(construct: IConstruct, statements: Iterable[Statement]) -> None:
    """Tell cdk-nag why the resources of an identity's policy have wildcards."""
    _acknowledge(construct, [found for statement in statements for found in _wildcards(statement, statement.resources)])


def _wildcards(statement: Statement, arns: Iterable[Arn]) -> list[tuple[Arn, str]]:
    reason = statement.wildcard
    return [(arn, reason) for arn in arns if reason and "*" in (arn if isinstance(arn, str) else json.dumps(arn))]


def _acknowledge(construct: IConstruct, reasons: list[tuple[Arn, str]]) -> None:
    if reasons:
        resolved = facts_of(construct).stack.resolve([arn for arn, _ in reasons])
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


def trust_policy(service: str, *, source_arn: Arn, always_sent: bool = True) -> dict[str, Any]:
    """A trust policy for ``service`` that keeps it from being a confused deputy.

    The role can be assumed only on behalf of this account and of a resource like ``source_arn``.

    Args:
        service: the service's principal.
        source_arn: the resources it may act for.
        always_sent: whether the service names the resource each time it assumes the role. Where that is not documented,
            the ARN counts only if it is sent; the account counts always. Default: it does.
    """
    operator = "ArnLike" if always_sent else "ArnLikeIfExists"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": "sts:AssumeRole",
                "Condition": {
                    "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
                    operator: {"aws:SourceArn": source_arn},
                },
            }
        ],
    }
