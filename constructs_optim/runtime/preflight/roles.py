"""The trust policies of the roles that SageMaker assumes, and their permissions, by IAM's simulation.

The simulation covers the role's policies, its permissions boundary, and its organization's policies. It excludes the
policies of buckets and keys, VPC endpoint policies, and the role's trust policy (IAM API reference,
SimulatePrincipalPolicy: resource-based policies "for IAM users only"). So a denial that a bucket's policy may override
is only advice. Keys are not simulated, because their own policies decide first. The trust policy of a user's role is
read, because SageMaker refuses a role that it cannot assume (https://github.com/philschmid/llm-sagemaker-sample/issues/2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from botocore.exceptions import ClientError

from ..documents import json_value, list_in, object_in
from ..errors import code_of
from ..requests.preflight_properties import RoleNeed
from .context import Context, is_denied
from .images import IMAGE
from .report import PreflightFinding, advice, problem
from .trust import SAGEMAKER, refusal

_NAME = "role"
_SIGN_IN = ("ecr:GetAuthorizationToken",)
_DENIED, _NOT_ALLOWED, _UNSURE = "explicitDeny", "implicitDeny", "unsure"
_PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
# An object's name below a prefix: simulated objects need not exist.
_OBJECT = "preflight"


def check_role(need: RoleNeed, context: Context) -> Iterator[PreflightFinding]:
    """Check that SageMaker may assume the role, and that the role may read models, write artifacts, and pull images."""
    name = need.role_arn.rpartition("/")[2]
    partition = need.role_arn.split(":")[1]
    refused: dict[str, list[str]] = {}
    uncertain: dict[str, list[str]] = {}
    try:
        if need.is_of_user:
            yield from _untrusted(need, context)
        for action, uris in (("s3:GetObject", need.reads), ("s3:PutObject", need.writes)):
            for uri in uris:
                path = uri.removeprefix("s3://").rstrip("/")
                for decision in _decisions(need, [action], f"arn:{partition}:s3:::{path}/{_OBJECT}", context).values():
                    is_certain = decision == _DENIED or (
                        decision == _NOT_ALLOWED and not _bucket_may_allow(path.partition("/")[0], context)
                    )
                    (refused if is_certain else uncertain).setdefault(action, []).append(uri)
        for image in need.images:
            parts = IMAGE.fullmatch(image)
            if parts is None:
                continue
            arn = f"arn:{partition}:ecr:{parts['region']}:{parts['account']}:repository/{parts['repository']}"
            for action, decision in _decisions(need, _PULL, arn, context).items():
                # Within an account, the repository's policy alone may allow the pull. Across accounts, AWS does not
                # document IAM's decision without that policy.
                (refused if decision == _DENIED else uncertain).setdefault(action, []).append(parts["repository"])
        for action, decision in _decisions(need, _SIGN_IN, "*", context).items() if need.images else ():
            (uncertain if decision == _UNSURE else refused)[action] = ["*"]
    except ClientError as error:
        if code_of(error) != "NoSuchEntity":
            raise
        yield problem(_NAME, f"there is no role {need.role_arn}", "create it, or use another one")
        return
    if refused:
        fix = "allow them in the role's policies; a permissions boundary or an organization's policy may deny them"
        yield problem(_NAME, f"{name} may not call {_listed(refused)}", fix, is_early=True)
    if uncertain:
        fix = "check that the policy of the bucket or repository allows them, or allow them in the role's policies"
        yield advice(_NAME, f"the policies of {name} do not allow {_listed(uncertain)}", fix)


def _untrusted(need: RoleNeed, context: Context) -> Iterator[PreflightFinding]:
    """Yield the problem of a role that SageMaker cannot assume; a trust policy's conditions are not checked."""
    name = need.role_arn.rpartition("/")[2]
    try:
        trust: object = context.client("iam").get_role(RoleName=name)["Role"].get("AssumeRolePolicyDocument")
    except ClientError as error:
        if not is_denied(error):
            raise
        yield advice(_NAME, f"the trust policy of {name} is not checked: GetRole is denied", f"allow {SAGEMAKER} in it")
        return
    if refused := refusal(trust):
        yield problem(_NAME, f"SageMaker cannot assume {name}: {refused.reason}", refused.fix, is_early=True)


def _decisions(need: RoleNeed, actions: Sequence[str], resource: str, context: Context) -> dict[str, str]:
    """Return the actions that are not allowed, with IAM's decision or ``_UNSURE``.

    An action is left out if a condition has no value in the simulation, or if the role's own policies allow it across
    accounts. It is ``_UNSURE`` if the simulation says that the organization's policies deny it, because their
    conditions or the caller's permissions may be the cause: https://github.com/aws/aws-sdk/issues/102.
    """
    answer: dict[str, Any] = context.client("iam").simulate_principal_policy(
        PolicySourceArn=need.role_arn, ActionNames=list(actions), ResourceArns=[resource]
    )
    decisions: dict[str, str] = {}
    for result in answer["EvaluationResults"]:
        parts = [result, *result.get("ResourceSpecificResults", ())]
        missing = any(part.get("MissingContextValues") for part in parts)
        own = "allowed" in {decision for part in parts for decision in part.get("EvalDecisionDetails", {}).values()}
        if result["EvalDecision"] != "allowed" and not missing and not own:
            by_organization = not result.get("OrganizationsDecisionDetail", {}).get("AllowedByOrganizations", True)
            decisions[result["EvalActionName"]] = _UNSURE if by_organization else result["EvalDecision"]
    return decisions


def _bucket_may_allow(bucket: str, context: Context) -> bool:
    """Return whether a bucket's policy may allow what the role's policies do not; True if it cannot be read."""
    try:
        policy = object_in(json_value(context.client("s3").get_bucket_policy(Bucket=bucket)["Policy"]))
    except ClientError as error:
        if code_of(error) == "NoSuchBucketPolicy":
            return False
        if is_denied(error) or code_of(error) == "NoSuchBucket":
            return True
        raise
    statements = policy.get("Statement")
    listed = list_in(statements) or [statements]
    return any(object_in(statement).get("Effect") == "Allow" for statement in listed)


def _listed(actions: dict[str, list[str]]) -> str:
    return ", ".join(f"{action} on {', '.join(dict.fromkeys(on))}" for action, on in actions.items())
