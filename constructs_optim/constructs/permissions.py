"""IAM policies of the deployment's own roles, as plain documents.

A role's statements are collected in Python and handed to CloudFormation whole: one endpoint more adds resources to
statements that exist, it does not add policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import CfnResource

Arn = str | Mapping[str, Any]


def sub(template: str) -> dict[str, str]:
    """``Fn::Sub`` with CloudFormation's pseudo parameters: reads better in a diff than joined pieces."""
    return {"Fn::Sub": template}


@dataclass(frozen=True)
class Statement:
    """One Allow statement; statements with the same ``sid`` are merged by adding up their resources."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[Arn, ...]
    condition: Mapping[str, Any] | None = None

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
        return Statement(self.sid, self.actions, self.resources + added, self.condition)


@dataclass
class PolicyBuilder:
    """The statements of one role, kept in the order in which they were first added."""

    statements: dict[str, Statement] = field(default_factory=dict[str, Statement])

    def add(self, statements: Iterable[Statement]) -> bool:
        """Add statements; whether that changed anything."""
        before = dict(self.statements)
        for statement in statements:
            known = self.statements.get(statement.sid)
            self.statements[statement.sid] = known.joined(statement) if known else statement
        return before != self.statements

    def to_json(self) -> list[dict[str, Any]]:
        """The ``Policies`` property of a role."""
        document = {"Version": "2012-10-17", "Statement": [s.to_json() for s in self.statements.values()]}
        return [{"PolicyName": "Permissions", "PolicyDocument": document}]

    def apply(self, role: CfnResource) -> None:
        """Write the statements into ``role``."""
        role.add_property_override("Policies", self.to_json())


def trust_policy(service: str, *, source_arn: Arn | None = None) -> dict[str, Any]:
    """A trust policy for ``service``, which ``source_arn`` protects from being a confused deputy.

    With a source ARN the role can be assumed only on behalf of this account and such a resource. Lambda does not
    send either key when it assumes an execution role, so its roles have none.
    """
    condition = {
        "Condition": {
            "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
            "ArnLike": {"aws:SourceArn": source_arn},
        }
    }
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": "sts:AssumeRole",
                **(condition if source_arn is not None else {}),
            }
        ],
    }
