"""Who else may use an artifact store: statements in the policies of its bucket and of its KMS key.

A consumer's account still needs permissions of its own, which the roles of the constructs have. Statements name all
consumers of a kind together: a bucket policy has 20 KB, and one more consumer adds its name and no statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aws_cdk import Annotations, Aws, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from constructs_optim.constructs.stack.stack_context import is_token

from .planned_recipe import shown

# An IAM policy variable, filled in for each request: no account sees or writes another one's records.
_OWN_RECORDS = "owners/${aws:PrincipalAccount}/"


@dataclass(frozen=True)
class _Grant:
    """Actions on the bucket, or on what is below prefixes of it; on the key that encrypts it where there is none."""

    name: str
    actions: tuple[str, ...]
    below: tuple[str, ...] = ()
    condition: Mapping[str, Any] | None = None


_READ = (
    # Not IfExists: a listing without a prefix has no such key, and lists all of the bucket.
    _Grant(
        "FindArtifacts",
        ("s3:ListBucket",),
        ("",),
        {"StringLike": {"s3:prefix": ["artifacts/*", "checkpoints/*", f"{_OWN_RECORDS}*"]}},
    ),
    # GetBucketLocation is about the bucket, GetObject about what is in it: one statement names the consumers once.
    _Grant("ReadArtifacts", ("s3:GetBucketLocation", "s3:GetObject"), ("", "/artifacts/*")),
    _Grant("KeepReferences", ("s3:GetObject", "s3:PutObject"), (f"/{_OWN_RECORDS}*",)),
    _Grant("UseArtifacts", ("kms:Decrypt", "kms:GenerateDataKey")),
)
# What a maker may do besides. One statement for both folders: names of consumers are what fills a bucket policy.
_MAKE = (
    _Grant(
        "MakeArtifacts",
        ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"),
        ("/artifacts/*", "/checkpoints/*"),
    ),
    _Grant("MakeArtifacts", ("kms:Encrypt",)),
)

Consumer = Literal["account", "organization"]
_IDS = {"account": re.compile(r"\d{12}"), "organization": re.compile(r"o-[a-z0-9]{10,32}")}
_FIXES = {
    "account": "an account's id is 12 digits, as text: '111122223333', or a token that comes to one",
    "organization": "an organization's id is o- and 10 to 32 lower-case letters and digits, which `aws organizations "
    "describe-organization` prints: without one the store would be open to everybody. For a part of an organization "
    "use share_with_account for each account",
}


class StoreSharing:
    """The statements of one store. Sharing with the same consumer again changes nothing, or adds what it lacks."""

    def __init__(
        self, store: Construct, bucket: s3.Bucket, key: kms.IKey | None, *, removal_policy: RemovalPolicy
    ) -> None:
        self._store, self._bucket, self._key, self._removal_policy = store, bucket, key, removal_policy
        self._statements: dict[str, iam.PolicyStatement] = {}
        self._consumers: dict[str, list[str]] = {}
        self._is_our_key = False

    def share(self, kind: Consumer, id: str, *, read_only: bool) -> None:
        """See :meth:`ArtifactStore.share_with_account` and :meth:`ArtifactStore.share_with_organization`."""
        if not is_token(id) and not (isinstance(id, str) and _IDS[kind].fullmatch(id)):
            raise ValueError(f"{kind}_id is {id!r}, and {_FIXES[kind]}")
        key_actions: list[str] = []
        for grant in _READ if read_only else (*_READ, *_MAKE):
            # A key may serve several stores, and the ids of a policy's statements differ.
            suffix = "" if grant.below else self._store.node.addr[-8:]
            sid = f"{kind.title()}s{grant.name}{suffix}"
            consumers = self._consumers.setdefault(sid, [])
            if id in consumers or not (grant.below or self._key):
                continue
            consumers.append(id)
            if sid not in self._statements:
                self._statements[sid] = self._added(sid, grant)
            _name(self._statements[sid], kind, consumers)
            key_actions += grant.actions if not grant.below else ()
        if self._bucket.policy is not None:
            # A bucket that is retained goes on serving its consumers: their endpoints read it whenever they scale out.
            self._bucket.policy.apply_removal_policy(self._removal_policy)
        if self._key is not None and key_actions and not self._is_our_key:
            Annotations.of(self._store).add_warning_v2(
                "constructs-optim:StoreKeyPolicy",
                f"the artifact store's KMS key {shown(self._key.key_arn)} is imported, and its policy is not this "
                f"app's to change: its owner must allow {', '.join(key_actions)} to the {kind} {shown(id)}, through "
                "S3 (kms:ViaService)",
            )

    def _added(self, sid: str, grant: _Grant) -> iam.PolicyStatement:
        """A new statement in the policy of the bucket, or of the key."""
        resources = [self._bucket.bucket_arn + below for below in grant.below] or ["*"]
        # Not the bucket's ARN as the encryption context: key and bucket would each wait for the other.
        through_s3 = {"StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.amazonaws.com"}}
        statement = iam.PolicyStatement(
            sid=sid,
            actions=list(grant.actions),
            resources=resources,
            conditions=grant.condition if grant.below else through_s3,
        )
        if grant.below:
            self._bucket.add_to_resource_policy(statement)
        elif self._key is not None:
            self._is_our_key = self._key.add_to_resource_policy(statement).statement_added
        return statement


def _name(statement: iam.PolicyStatement, kind: Consumer, ids: list[str]) -> None:
    """Let a statement be about consumers, of which the last one is new."""
    if kind == "account":
        statement.add_aws_account_principal(ids[-1])
        return
    if len(ids) == 1:
        statement.add_any_principal()
    # The fixed value is what makes a statement for everybody not public, in the eyes of S3's public access block.
    statement.add_condition("StringEquals", {"aws:PrincipalOrgID": list(ids)})
    # Within its own account such a statement would be enough without any policy of a role.
    statement.add_condition("StringNotEquals", {"aws:PrincipalAccount": Aws.ACCOUNT_ID})
