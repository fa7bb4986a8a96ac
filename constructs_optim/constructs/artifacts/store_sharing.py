"""Who else may use an artifact store: statements in the policies of its bucket and of its KMS key.

A consumer's account still needs permissions of its own, which the roles of the constructs have. Statements name all
consumers of a kind together: a bucket policy has 20 KB, and one more consumer adds its name and no statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import Annotations, Aws, RemovalPolicy, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from constructs_optim.constructs.stack.permissions import JOB_KEY_ACTIONS, KEY_ACTIONS

from .planned_recipe import shown

_ACCOUNT = re.compile(r"\d{12}")
_ORGANIZATION = re.compile(r"o-[a-z0-9]{10,32}")
# An IAM policy variable, filled in for each request: no account sees or writes another one's records.
_OWN_RECORDS = "owners/${aws:PrincipalAccount}/"
# A maker is named by both.
_READERS_KEY_USE = ("UseArtifacts", KEY_ACTIONS)
_MAKERS_KEY_USE = ("MakeArtifacts", tuple(action for action in JOB_KEY_ACTIONS if action not in KEY_ACTIONS))


@dataclass(frozen=True)
class _Grant:
    """Actions on the bucket, or on what is below prefixes of it."""

    name: str
    actions: tuple[str, ...]
    below: tuple[str, ...] = ("",)
    condition: Mapping[str, Any] | None = None


_READ = (
    _Grant(
        "FindArtifacts",
        ("s3:ListBucket",),
        # Not IfExists: a listing without a prefix has no such key, and lists all of the bucket.
        condition={"StringLike": {"s3:prefix": ["artifacts/*", "checkpoints/*", f"{_OWN_RECORDS}*"]}},
    ),
    # GetBucketLocation is about the bucket, GetObject about what is in it: one statement names the consumers once.
    _Grant("ReadArtifacts", ("s3:GetBucketLocation", "s3:GetObject"), ("", "/artifacts/*")),
    _Grant("KeepReferences", ("s3:GetObject", "s3:PutObject"), (f"/{_OWN_RECORDS}*",)),
)
# One statement for both: names of consumers are what fills a bucket policy.
_MAKE = (
    _Grant(
        "MakeArtifacts",
        ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"),
        ("/artifacts/*", "/checkpoints/*"),
    ),
)


@dataclass(frozen=True)
class _Kind:
    """A kind of consumer.

    Attributes:
        sid: what the ids of its statements begin with.
        noun: its name in messages.
        add: lets a statement be about consumers, of which the last one is new.
    """

    sid: str
    noun: str
    add: Callable[[iam.PolicyStatement, list[str]], None]


def _add_account(statement: iam.PolicyStatement, accounts: list[str]) -> None:
    statement.add_aws_account_principal(accounts[-1])


def _add_organization(statement: iam.PolicyStatement, organizations: list[str]) -> None:
    if len(organizations) == 1:
        statement.add_any_principal()
    # The fixed value is what makes a statement for everybody not public, in the eyes of S3's public access block.
    statement.add_condition("StringEquals", {"aws:PrincipalOrgID": list(organizations)})
    # Within its own account such a statement would be enough without any policy of a role.
    statement.add_condition("StringNotEquals", {"aws:PrincipalAccount": Aws.ACCOUNT_ID})


_ACCOUNTS = _Kind("Accounts", "account", _add_account)
_ORGANIZATIONS = _Kind("Organizations", "organization", _add_organization)


class StoreSharing:
    """The statements of one store. Sharing with the same consumer again changes nothing, or adds what it lacks."""

    def __init__(
        self, store: Construct, bucket: s3.Bucket, key: kms.IKey | None, *, removal_policy: RemovalPolicy
    ) -> None:
        self._store, self._bucket, self._key, self._removal_policy = store, bucket, key, removal_policy
        self._statements: dict[str, iam.PolicyStatement] = {}
        self._consumers: dict[str, list[str]] = {}
        self._is_our_key = False

    def with_account(self, account_id: str, *, read_only: bool) -> None:
        """See :meth:`ArtifactStore.share_with_account`."""
        if not Token.is_unresolved(account_id) and not _matches(_ACCOUNT, account_id):
            raise ValueError(
                f"account_id is {account_id!r}, and an account's id is 12 digits, as text: '111122223333', or a token "
                "that comes to one"
            )
        self._share(_ACCOUNTS, account_id, read_only=read_only)

    def with_organization(self, organization_id: str, *, read_only: bool) -> None:
        """See :meth:`ArtifactStore.share_with_organization`."""
        if not Token.is_unresolved(organization_id) and not _matches(_ORGANIZATION, organization_id):
            raise ValueError(
                f"organization_id is {organization_id!r}, and an organization's id is o- and 10 to 32 lower-case "
                "letters and digits, which `aws organizations describe-organization` prints: without one the store "
                "would be open to everybody. For a part of an organization use share_with_account for each account"
            )
        self._share(_ORGANIZATIONS, organization_id, read_only=read_only)

    def _share(self, kind: _Kind, consumer: str, *, read_only: bool) -> None:
        for grant in _READ if read_only else (*_READ, *_MAKE):
            self._name(f"{kind.sid}{grant.name}", kind, consumer, grant)
        if self._bucket.policy is not None:
            # A bucket that is retained goes on serving its consumers: their endpoints read it whenever they scale out.
            self._bucket.policy.apply_removal_policy(self._removal_policy)
        if self._key is not None:
            self._share_key(self._key, kind, consumer, read_only=read_only)

    def _name(self, sid: str, kind: _Kind, consumer: str, grant: _Grant) -> None:
        named = self._consumers.setdefault(sid, [])
        if consumer in named:
            return
        named.append(consumer)
        if sid not in self._statements:
            self._statements[sid] = iam.PolicyStatement(
                sid=sid,
                actions=list(grant.actions),
                resources=[self._bucket.bucket_arn + below for below in grant.below],
                conditions=grant.condition,
            )
            self._bucket.add_to_resource_policy(self._statements[sid])
        kind.add(self._statements[sid], named)

    def _share_key(self, key: kms.IKey, kind: _Kind, consumer: str, *, read_only: bool) -> None:
        added: list[str] = []
        for name, actions in (_READERS_KEY_USE,) if read_only else (_READERS_KEY_USE, _MAKERS_KEY_USE):
            # A key may serve several stores, and the ids of a policy's statements differ.
            sid = f"{kind.sid}{name}{self._store.node.addr[-8:]}"
            named = self._consumers.setdefault(sid, [])
            if consumer in named:
                continue
            named.append(consumer)
            added += actions
            if sid not in self._statements:
                self._statements[sid] = iam.PolicyStatement(
                    sid=sid,
                    actions=list(actions),
                    resources=["*"],
                    # Not the bucket's ARN as the encryption context: key and bucket would each wait for the other.
                    conditions={"StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.amazonaws.com"}},
                )
                self._is_our_key = key.add_to_resource_policy(self._statements[sid]).statement_added
            kind.add(self._statements[sid], named)
        if added and not self._is_our_key:
            Annotations.of(self._store).add_warning_v2(
                "constructs-optim:StoreKeyPolicy",
                f"the artifact store's KMS key {shown(key.key_arn)} is imported, and its policy is not this app's to "
                f"change: its owner must allow {', '.join(added)} to the {kind.noun} {shown(consumer)}, through "
                "S3 (kms:ViaService)",
            )


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
