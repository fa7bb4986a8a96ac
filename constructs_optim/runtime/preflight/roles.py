"""What SageMaker may do as a role, as IAM simulates it.

The simulation knows the role's policies, its permissions boundary and its organization's policies without their
conditions; the policies of buckets and keys, endpoint policies of a VPC and the role's trust are not in it (IAM API
reference, SimulatePrincipalPolicy: resource-based policies "for IAM users only"). So what a bucket's policy may allow
besides is no problem for certain. Keys are not simulated: their own policies decide first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from botocore.exceptions import ClientError

from ..documents import list_in, object_in
from ..errors import code_of
from ..requests.preflight_properties import RoleNeed
from .context import Context, is_denied
from .images import IMAGE
from .report import PreflightFinding

_NAME = "role"
_PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
# The name of an object below a prefix: a simulation is of objects that need not exist.
_OBJECT = "preflight"


def check_role(need: RoleNeed, context: Context) -> Iterator[PreflightFinding]:
    """Reads of models, writes of artifacts, and pulls of images."""
    name = need.role_arn.rpartition("/")[2]
    _, partition, _, _, account, _ = need.role_arn.split(":", 5)
    refused: dict[str, list[str]] = {}
    uncertain: dict[str, list[str]] = {}
    try:
        for action, uris in (("s3:GetObject", need.reads), ("s3:PutObject", need.writes)):
            for uri in uris:
                path = uri.removeprefix("s3://").rstrip("/")
                decision = _decision(need.role_arn, [action], f"arn:{partition}:s3:::{path}/{_OBJECT}", context)
                for denied in decision.values():
                    may = denied == "implicitDeny" and _bucket_may_allow(path.partition("/")[0], context)
                    (uncertain if may else refused).setdefault(action, []).append(uri)
        for image in need.images:
            parts = IMAGE.fullmatch(image)
            if parts is None:
                continue
            arn = f"arn:{partition}:ecr:{parts['region']}:{parts['account']}:repository/{parts['repository']}"
            for action, denied in _decision(need.role_arn, _PULL, arn, context).items():
                # Within an account, the repository's policy alone may allow it.
                own = denied == "implicitDeny" and parts["account"] == account
                (uncertain if own else refused).setdefault(action, []).append(parts["repository"])
        if need.images and _decision(need.role_arn, ["ecr:GetAuthorizationToken"], "*", context):
            refused["ecr:GetAuthorizationToken"] = ["*"]
    except ClientError as error:
        if code_of(error) != "NoSuchEntity":
            raise
        yield PreflightFinding(_NAME, "problem", f"there is no role {need.role_arn}", "create it, or name another")
        return
    if refused:
        fix = "allow them in the role's policies; a permissions boundary or an organization's policy may deny them"
        yield PreflightFinding(_NAME, "problem", f"{name} may not {_listed(refused)}", fix, is_early=True)
    if uncertain:
        fix = "see that the policies of bucket or repository do, or allow them in the role's policies"
        yield PreflightFinding(_NAME, "advice", f"{name} is not allowed {_listed(uncertain)} by its own policies", fix)


def _decision(role_arn: str, actions: Iterable[str], resource: str, context: Context) -> dict[str, str]:
    """The actions that are not allowed, with IAM's decision; not those whose conditions the simulation cannot fill."""
    answer: dict[str, Any] = context.client("iam").simulate_principal_policy(
        PolicySourceArn=role_arn, ActionNames=list(actions), ResourceArns=[resource]
    )
    return {
        each["EvalActionName"]: each["EvalDecision"]
        for each in answer["EvaluationResults"]
        if each["EvalDecision"] != "allowed" and not each.get("MissingContextValues")
    }


def _bucket_may_allow(bucket: str, context: Context) -> bool:
    """Whether a bucket's policy may allow what the role's do not; True where it cannot be read."""
    try:
        policy = object_in(json.loads(context.client("s3").get_bucket_policy(Bucket=bucket)["Policy"]))
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
