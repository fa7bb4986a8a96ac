"""Who may assume a role, by its trust policy.

Source: IAM user guide, "IAM JSON policy elements reference" (Principal, NotPrincipal, Action, Condition) and "How to
use trust policies with IAM roles". The constructs also read the trust policies of an app's own roles with this module,
so it uses the standard library alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from ..documents import is_list, is_object, nested

SAGEMAKER = "sagemaker.amazonaws.com"
_ASSUME = "sts:assumerole"
_ELEMENTS = frozenset({"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Condition"})


def may_assume(policy: object, service: str = SAGEMAKER) -> bool | None:
    """Return whether a trust policy lets a service assume its role.

    None if that is not decided here: a condition, ``NotPrincipal``, a principal for everybody, or a policy with parts
    that are known only at deployment, such as ``Fn::If``.
    """
    statements = _readable_statements(policy)
    if statements is None:
        return None
    allowed: set[bool | None] = set()
    denied: set[bool | None] = set()
    for statement in statements:
        match = _matches(statement, service)
        if match is False:
            continue
        certain = match and not statement.get("Condition")
        (denied if statement["Effect"] == "Deny" else allowed).add(certain or None)
    if True in denied or not allowed:
        return False
    return None if denied or True not in allowed else True


class Refusal(NamedTuple):
    """Why a service cannot assume a role, and what lets it."""

    reason: str
    fix: str


def refusal(policy: object, text: Callable[[object], str] = str, service: str = SAGEMAKER) -> Refusal | None:
    """Return why a trust policy does not let a service assume its role; None if it does, or if that is not decided.

    ``text`` writes a principal or an action that the policy names.
    """
    if may_assume(policy, service) is not False:
        return None
    found: list[Refusal] = []
    named: dict[str, None] = {}
    other_actions: dict[str, None] = {}
    is_allowed, is_shared = False, False
    for statement in _statements(policy):
        match = _matches(statement, service)
        if statement["Effect"] == "Deny":
            if match and not statement.get("Condition") and not found:
                fix = f"take {service} out of the Deny statement"
                found.append(Refusal(f"has a Deny statement for {service}", fix))
        elif match is not False:
            is_allowed = True
        elif _names_service(statement, service) is not False:
            other_actions |= dict.fromkeys(map(text, _listed(statement.get("Action"))))
            is_shared |= statement.get("Principal") not in ({"Service": service}, {"Service": [service]})
        else:
            principal = statement.get("Principal")
            kinds = principal.items() if is_object(principal) else [("", principal)]
            # An identity provider may have the service's name.
            named |= dict.fromkeys(
                f"the identity provider {text(each)}" if kind == "Federated" else text(each)
                for kind, value in kinds
                for each in _listed(value)
            )
    fix = f'allow "sts:AssumeRole" for the service principal "{service}" in the role\'s trust policy'
    if other_actions and not is_allowed:
        reason = f"allows {service} only {', '.join(other_actions)}, not sts:AssumeRole"
        # With that action, a statement with further principals would let them assume the role too.
        fix = (
            f"{fix}, in a statement of its own" if is_shared else "add sts:AssumeRole to the actions of that statement"
        )
        found.append(Refusal(reason, fix))
    elif not is_allowed:
        own = f'iam.ServicePrincipal("{service}")'
        code = f"in the CDK, assumed_by={own}, or with others assumed_by=iam.CompositePrincipal({own}, ...)"
        found.append(Refusal(f"names {', '.join(named) or 'nobody'}, not the service {service}", f"{fix}: {code}"))
    reasons, fixes = (" and ".join(texts) for texts in zip(*found, strict=True))
    return Refusal(f"its trust policy {reasons}", fixes)


def _readable_statements(policy: object) -> list[Mapping[str, object]] | None:
    """Return a policy's statements; None if a part of it is not one of a policy, such as an intrinsic function."""
    if not is_object(policy) or not policy.keys() <= {"Version", "Id", "Statement"}:
        return None
    given = policy.get("Statement")
    statements: list[Mapping[str, object]] = [each for each in _listed(given) if is_object(each)]
    are_known = (each.keys() <= _ELEMENTS and each.get("Effect") in ("Allow", "Deny") for each in statements)
    return statements if given is not None and len(statements) == len(_listed(given)) and all(are_known) else None


def _statements(policy: object) -> Iterator[Mapping[str, object]]:
    return (statement for statement in _listed(nested(policy, "Statement")) if is_object(statement))


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return value if is_list(value) else [value]


def _matches(statement: Mapping[str, object], service: str) -> bool | None:
    """Return whether a statement is about the service and AssumeRole; None if that is not decided."""
    about_action = _names_action(statement)
    about_service = _names_service(statement, service)
    if about_action is False or about_service is False:
        return False
    return True if about_action and about_service else None


def _names_action(statement: Mapping[str, object]) -> bool | None:
    if "Action" not in statement:
        # NotAction.
        return None
    actions = _listed(statement["Action"])
    if any(isinstance(each, str) and fnmatchcase(_ASSUME, each.lower()) for each in actions):
        return True
    return None if any(not isinstance(each, str) for each in actions) else False


def _names_service(statement: Mapping[str, object], service: str) -> bool | None:
    principal = statement.get("Principal")
    if not is_object(principal):
        # Everybody ("*"), NotPrincipal, or a value that is known only at deployment.
        return None if principal == "*" or principal is None else False
    if not principal.keys() <= {"AWS", "CanonicalUser", "Federated", "Service"}:
        return None
    services = _listed(principal.get("Service"))
    if service in services:
        return True
    accounts = _listed(principal.get("AWS"))
    return None if any(map(_may_be_anybody, accounts)) or any(_may_be(each, service) for each in services) else False


def _may_be_anybody(named: object) -> bool:
    """Return whether an ``AWS`` principal is or may become ``*``: a parameter or ``Fn::If``, and not a written ARN."""
    if not is_object(named):
        return named == "*"
    if str(named.get("Ref")).startswith("AWS::"):
        return False
    written = json.dumps(named)
    is_composed = not named.keys().isdisjoint({"Fn::Join", "Fn::Sub"})
    return not (is_composed and "arn:" in written) and not ("Fn::GetAtt" in named and written.endswith('Arn"]}'))


def _may_be(named: object, service: str) -> bool:
    """Return whether a principal that is not the service's own name may still be the service."""
    if not isinstance(named, str) or "${" in named or "*" in named:
        return True
    # Names of a Region or partition, such as sagemaker.us-west-2.amazonaws.com.
    return (
        re.fullmatch(rf"{re.escape(service.partition('.')[0])}(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?", named)
        is not None
    )
