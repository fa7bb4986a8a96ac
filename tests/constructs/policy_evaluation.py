"""IAM policy evaluation, as far as the policies of the templates use it.

Source: IAM user guide, "Policy evaluation logic", "IAM JSON policy elements: Condition operators" and "IAM policy
elements: Variables and tags". An unsupported operator raises an error instead of a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

_FIXED = {
    "AWS::Partition": "aws",
    "AWS::Region": "us-west-2",
    "AWS::StackId": "arn:aws:cloudformation:us-west-2:111122223333:stack/PlatformTeamProduction/"
    "5aaf8cb0-13b2-11f1-9d7f-0a5d9d5f1c2b",
    "AWS::StackName": "PlatformTeamProduction",
    "AWS::URLSuffix": "amazonaws.com",
}
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


@dataclass(frozen=True)
class Call:
    """A call of ``action`` on ``resource`` by a role of ``account``."""

    account: str
    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> dict[str, str]:
        secure = {"aws:SecureTransport": "true", "s3:TlsVersion": "1.3"}
        return {"aws:PrincipalAccount": self.account, **secure, **self.context}


def resolved(value: Any, account: str, names: Mapping[str, str]) -> Any:
    """The value as CloudFormation would deploy it in ``account``; ``names`` are resources' ARNs by logical id."""
    match value:
        case {"Ref": name}:
            return {**_FIXED, "AWS::AccountId": account, **names}[name]
        case {"Fn::GetAtt": [name, "Arn"]}:
            return names.get(name, f"arn:aws:unknown:::{name}")
        case {"Fn::Join": [delimiter, parts]}:
            return delimiter.join(resolved(part, account, names) for part in parts)
        case {"Fn::FindInMap": [_, _, "Account"]}:
            # AWS's own accounts differ by Region, and no policy here depends on them.
            return account
        case {"Fn::Sub": str() as text}:
            known = {**_FIXED, "AWS::AccountId": account}
            return _VARIABLE.sub(lambda found: known[found[1]], text)
        case dict():
            return {key: resolved(item, account, names) for key, item in value.items()}
        case list():
            return [resolved(item, account, names) for item in value]
        case _:
            return value


def allows(statements: list[dict[str, Any]], call: Call) -> bool | None:
    """True: allowed. False: denied explicitly. None: neither, which denies as well unless another policy allows."""
    effects = {statement["Effect"] for statement in statements if _matches(statement, call)}
    return False if "Deny" in effects else True if "Allow" in effects else None


def allowed_across_accounts(identity: list[dict[str, Any]], resource: list[dict[str, Any]], call: Call) -> bool:
    """Across accounts both the identity-based and the resource-based policy must allow the call."""
    return allows(identity, call) is True and allows(resource, call) is True


def is_public(statement: dict[str, Any]) -> bool:
    """Whether S3 Block Public Access treats a statement as public: any principal, without a condition on a fixed value.

    Source: Amazon S3 user guide, "The meaning of 'public'".
    """
    if statement["Effect"] != "Allow" or _principals(statement) != ["*"]:
        return False
    fixed = _listed(statement.get("Condition", {}).get("StringEquals", {}).get("aws:PrincipalOrgID", "*"))
    return any("*" in value or "${" in value for value in fixed)


def _matches(statement: dict[str, Any], call: Call) -> bool:
    return (
        ("Principal" not in statement or _is_principal(statement, call.account))
        and any(fnmatchcase(call.action, pattern) for pattern in _listed(statement["Action"]))
        and any(_is_like(call.resource, pattern, call) for pattern in _listed(statement["Resource"]))
        and all(
            _holds(operator, key, _listed(wanted), call)
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def _is_principal(statement: dict[str, Any], account: str) -> bool:
    return any(principal in ("*", f"arn:aws:iam::{account}:root") for principal in _principals(statement))


def _principals(statement: dict[str, Any]) -> list[str]:
    principal = statement["Principal"]
    return [principal] if isinstance(principal, str) else _listed(principal["AWS"])


def _is_like(text: str, pattern: str, call: Call) -> bool:
    """Whether the pattern, with its variables filled in, matches; a variable without a value matches nothing."""
    if any(name not in call.keys for name in _VARIABLE.findall(pattern)):
        return False
    return fnmatchcase(text, _VARIABLE.sub(lambda found: call.keys[found[1]], pattern))


def _holds(operator: str, key: str, wanted: list[Any], call: Call) -> bool:
    found = call.keys.get(key)
    if operator.endswith("IfExists"):
        return found is None or _holds(operator.removesuffix("IfExists"), key, wanted, call)
    if operator == "StringNotEquals":
        return found not in wanted
    if found is None:
        return False
    match operator:
        case "StringEquals" | "Bool":
            return found in wanted
        case "StringLike":
            return any(_is_like(found, pattern, call) for pattern in wanted)
        case "NumericLessThan":
            return float(found) < float(wanted[0])
        case _:
            raise NotImplementedError(f"{operator} in {json.dumps(wanted)}")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
