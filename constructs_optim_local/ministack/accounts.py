"""Cross-account access, which ministack lacks: policies of buckets and keys apply to callers of other accounts.

- Across accounts, both the caller's own policies and the policy of the bucket or key must allow access. ministack looks
  for keys and their policies only in the caller's account, and treats every caller of a bucket as the root of the
  caller's account. Source: IAM user guide, "Cross-account policy evaluation logic".
- Variables in a resource's policy are replaced. Source: IAM user guide, "IAM policy elements: Variables and tags".
- Loopback counts as TLS, which clients of the real service use and bucket policies require.
- S3 gives callers of another account no reason. Source: S3 user guide, "Troubleshoot access denied (403 Forbidden)
  errors in Amazon S3", about accounts of different organizations.
- A request may state the account that it expects to own a bucket. Source: S3 user guide, "Verifying bucket ownership
  with bucket owner condition".
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .patches import replace, table

_BUCKET = "arn:aws:s3:::"
_VARIABLE = re.compile(r"\$\{([A-Za-z0-9-]+:[^}$]+)\}")


def owner_of(bucket: str) -> str | None:
    """Return the account that owns a bucket; None if this cloud does not have the bucket."""
    from ministack.services import s3

    return next((account for account, name in [*s3._buckets._data] if name == bucket), None)


@contextmanager
def as_owner_of(bucket: str) -> Iterator[None]:
    """Let ministack find a bucket's resources in any account within the ``with`` block."""
    from ministack.core.responses import get_account_id, get_region, request_scope

    with request_scope(owner_of(bucket) or get_account_id(), get_region()):
        yield


def share_as_aws() -> None:
    """Change how ministack reads resource policies. Called once, before the first request."""
    _read_policies()
    _find_policies()
    _tell_whose_policy_it_was()
    _expect_owners()


def is_of_another_account(denied: Any) -> bool:
    """Return whether the caller's policies allow access, but the resource's policy does not."""
    return bool(denied.resource_policy_arn) and denied.decision == "ImplicitDeny"


def _read_policies() -> None:
    from ministack.core import iam_evaluator

    evaluate = iam_evaluator.evaluate_resource_policy

    def evaluated(document: str | dict[str, Any] | None, context: Any, *rest: Any, **named: Any) -> Any:
        context = dataclasses.replace(context, secure_transport=True)
        caller = iam_evaluator.caller_arn()
        if context.principal_type == "Root" and caller.split(":")[4] == context.principal_account:
            # S3 identifies the caller by its account, but the bucket's policy may name a role in it.
            context = dataclasses.replace(context, principal_arn=caller)
        if document is not None:
            text = document if isinstance(document, str) else json.dumps(document)
            document = _VARIABLE.sub(lambda found: _filled_in(found, context), text)
        return evaluate(document, context, *rest, **named)

    replace("core.iam_evaluator.evaluate_resource_policy", evaluated)


def _filled_in(variable: re.Match[str], context: Any) -> str:
    from ministack.core import iam_evaluator

    value = iam_evaluator._resolve_condition_key(variable[1], context)
    return json.dumps(value)[1:-1] if isinstance(value, str) else variable[0]


def _find_policies() -> None:
    from ministack.core.responses import get_account_id, request_scope
    from ministack.services import kms, s3

    own_bucket, own_key = s3.bucket_policy_for_arn, kms.key_policy_for_arn

    def bucket_policy_for_arn(arn: str) -> tuple[str, str] | None:
        bucket = arn.removeprefix(_BUCKET).partition("/")[0]
        owner = owner_of(bucket) if arn.startswith(_BUCKET) else None
        if owner in (None, get_account_id()):
            return own_bucket(arn)
        policy = s3._bucket_policies.get_scoped(owner, None, bucket) or ""
        if s3._public_access_blocked(owner, bucket, "RestrictPublicBuckets") and s3._policy_is_public(policy):
            return "", str(owner)
        return policy, str(owner)

    def key_policy_for_arn(arn: str) -> tuple[str, str] | None:
        region, owner = arn.split(":")[3:5]
        if owner == get_account_id():
            return own_key(arn)
        with request_scope(owner, region):
            return own_key(arn) or ("", owner)

    own_record = kms._resolve_key

    def key_record(key: str) -> dict[str, Any] | None:
        region, owner = key.split(":")[3:5] if key.startswith("arn:") else ("", get_account_id())
        if owner == get_account_id():
            return own_record(key)
        with request_scope(owner, region):
            return own_record(key)

    replace("services.kms._resolve_key", key_record)
    replace("services.s3.bucket_policy_for_arn", bucket_policy_for_arn)
    replace("services.kms.key_policy_for_arn", key_policy_for_arn)


def _tell_whose_policy_it_was() -> None:
    from ministack.core import iam_actions, iam_evaluator

    combine, respond = iam_evaluator.combine_resource_policy, iam_actions.access_denied_response

    def combined(identity: Any, context: Any, *rest: Any, **named: Any) -> Any:
        result = combine(identity, context, *rest, **named)
        if identity.decision == "Allow" and result.decision == "ImplicitDeny":
            return dataclasses.replace(result, resource_policy_arn=context.resource_arn)
        return result

    def responded(service: str, *arguments: Any, **named: Any) -> Any:
        if service == "s3" and named.get("resource_policy_arn") and not named.get("explicit_deny"):
            named["message"] = "Access Denied"
        return respond(service, *arguments, **named)

    replace("core.iam_evaluator.combine_resource_policy", combined)
    replace("core.iam_actions.access_denied_response", responded)


def _expect_owners() -> None:
    handlers = table("app.SERVICE_HANDLERS")
    handle = handlers["s3"]

    async def handled(method: str, path: str, headers: dict[str, str], *rest: Any) -> Any:
        from ministack.core.iam_actions import access_denied_response

        expected, owner = headers.get("x-amz-expected-bucket-owner"), owner_of(path.lstrip("/").partition("/")[0])
        if expected is not None and owner not in (None, expected):
            return access_denied_response("s3", "", "", "", message="Access Denied", headers=headers)
        return await handle(method, path, headers, *rest)

    handlers["s3"] = handled
