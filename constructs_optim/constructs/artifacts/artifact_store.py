"""The S3 bucket of optimized artifacts, which stacks and accounts may share."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from aws_cdk import Acknowledgment, Aws, Duration, RemovalPolicy, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from constructs_optim.constructs.stack.arguments import BUCKET, KEY, suggests_keywords
from constructs_optim.constructs.stack.findings import advise
from constructs_optim.constructs.stack.permissions import Statement, statements_of
from constructs_optim.constructs.stack.property_injection import property_injectable
from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext
from constructs_optim.constructs.validation.template_size import check_template_size
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.tokens import is_token

from .planned_recipe import shown

_DEFAULT_ID = "ArtifactStore"
# IAM fills in this policy variable for each request, so no account can access another account's records.
_OWN_RECORDS = "owners/${aws:PrincipalAccount}/"
# The bucket's ARN as encryption context would make the key and the bucket depend on each other.
_THROUGH_S3 = {"StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.amazonaws.com"}}


@dataclass(frozen=True)
class _Grant:
    """Actions on the bucket, on objects below its prefixes, or, without either, on its KMS key."""

    name: str
    actions: tuple[str, ...]
    below: tuple[str, ...] = ()
    condition: Mapping[str, Any] | None = None


_READ = (
    # Not IfExists: a listing without a prefix does not have this key, and would list the whole bucket.
    _Grant(
        "FindArtifacts",
        ("s3:ListBucket",),
        ("",),
        {"StringLike": {"s3:prefix": ["artifacts/*", "checkpoints/*", f"{_OWN_RECORDS}*"]}},
    ),
    # GetBucketLocation applies to the bucket, GetObject to its objects: one statement names the readers once.
    _Grant("ReadArtifacts", ("s3:GetBucketLocation", "s3:GetObject"), ("", "/artifacts/*")),
    _Grant("KeepReferences", ("s3:GetObject", "s3:PutObject"), (f"/{_OWN_RECORDS}*",)),
    _Grant("UseArtifacts", ("kms:Decrypt", "kms:GenerateDataKey"), condition=_THROUGH_S3),
    # A preflight checks whether the key is enabled.
    _Grant("SeeKey", ("kms:DescribeKey",)),
)
# Results are shared. What an endpoint's functions do next is recorded for each account, and no other may change it.
_RECORDS = (
    "evaluations",
    "recommendations",
    "restarts/${aws:PrincipalAccount}",
    "scaling/${aws:PrincipalAccount}",
    "shadows",
)
# Additional actions of makers. One statement for all folders, because readers' names fill a bucket policy.
_MAKE = (
    _Grant(
        "MakeArtifacts",
        ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"),
        tuple(f"/{folder}/*" for folder in ("artifacts", "checkpoints", *_RECORDS)),
    ),
    _Grant(
        "FindRecords",
        ("s3:ListBucket",),
        ("",),
        {"StringLike": {"s3:prefix": [f"{folder}/*" for folder in _RECORDS]}},
    ),
    _Grant("MakeArtifacts", ("kms:Encrypt",), condition=_THROUGH_S3),
)

# A bucket's or key's policy with fewer readers is far from its limit.
_CHECKED_FROM = 50

_IDS = {"account": re.compile(r"\d{12}"), "organization": re.compile(r"o-[a-z0-9]{10,32}")}
_FIXES = {
    "account": "an account ID is text of 12 digits: '111122223333', or a token of one",
    "organization": "an organization ID is o- and 10 to 32 lowercase letters and digits, as `aws organizations "
    "describe-organization` prints it: without it, the store would be open to everybody. For a part of an "
    "organization, use share_with_account for each account",
}


@runtime_checkable
class IArtifactStore(Protocol):
    """A store of artifacts, of this app or an existing one.

    Attributes:
        bucket_name: the bucket's name; may be a token.
        bucket_arn: the bucket's ARN; may be a token.
        encryption_key_arn: the ARN of the KMS key that encrypts the artifacts, or None for S3-managed keys.
        read_only: whether this app may only read and refer to the store's artifacts.
    """

    bucket_name: str
    bucket_arn: str
    encryption_key_arn: str | None
    read_only: bool


@suggests_keywords
@property_injectable
class ArtifactStore(Construct):
    """An encrypted, versioned, TLS-only bucket without public access, laid out as ``artifacts/<key>/...``.

    By default, the bucket is retained when its stack is deleted, because artifacts take hours to create, and other
    stacks may refer to them.

    Attributes:
        bucket: the bucket itself.
        bucket_name: the bucket's name.
        bucket_arn: the bucket's ARN.
        encryption_key_arn: the ARN of the KMS key that encrypts the artifacts, or None.
        read_only: False, because this app may write to it.
    """

    PROPERTY_INJECTION_ID: ClassVar[str] = "constructs_optim.ArtifactStore"
    """The ``construct_unique_id`` of an ``IPropertyInjector`` for this construct."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        bucket_name: str | None = None,
        encryption_key: kms.IKey | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
        server_access_logs_bucket: s3.IBucket | None = None,
        server_access_logs_prefix: str | None = None,
    ) -> None:
        """Create the store.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            bucket_name: the bucket's name. Default: CloudFormation generates one.
            encryption_key: a KMS key for the artifacts. Default: S3-managed keys.
            removal_policy: whether the bucket is deleted with the stack. Default: it is retained.
            server_access_logs_bucket: the bucket for S3 server access logs. Default: none.
            server_access_logs_prefix: the prefix of these logs. Default: none.
        """
        KEY.check("encryption_key", encryption_key)
        super().__init__(scope, id)
        bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=bucket_name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            bucket_key_enabled=True if encryption_key is not None else None,
            encryption=s3.BucketEncryption.KMS if encryption_key is not None else s3.BucketEncryption.S3_MANAGED,
            encryption_key=encryption_key,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=removal_policy,
            server_access_logs_bucket=server_access_logs_bucket,
            server_access_logs_prefix=server_access_logs_prefix,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=Duration.days(7),
                    noncurrent_version_expiration=Duration.days(90),
                ),
                # Checkpoints are useless after their training, which takes at most 28 days.
                s3.LifecycleRule(
                    prefix="checkpoints/", expiration=Duration.days(28), noncurrent_version_expiration=Duration.days(1)
                ),
            ],
        )
        if server_access_logs_bucket is None:
            Validations.of(bucket).acknowledge(
                Acknowledgment(
                    id="AwsSolutions-S1",
                    reason="Access logs are off unless a bucket is given for them (server_access_logs_bucket): "
                    "the store's readers and writers are roles of the deployment, recorded by CloudTrail.",
                )
            )
        self.bucket: s3.IBucket = bucket
        self.bucket_name: str = bucket.bucket_name
        self.bucket_arn: str = bucket.bucket_arn
        self.encryption_key_arn: str | None = encryption_key.key_arn if encryption_key is not None else None
        self.read_only: bool = False
        self._key, self._removal_policy = encryption_key, removal_policy
        self._shared: dict[str, tuple[iam.PolicyStatement, list[str]]] = {}
        self._is_our_key = False

    def share_with_account(self, account_id: str, *, read_only: bool = True) -> None:
        """Let the stacks of another account use the store.

        A reader can read artifacts and write records of its own references, which protect the artifacts that it serves
        from removal. A maker can also write artifacts. The other account's roles need the same permissions there; the
        constructs grant them to their roles. Sharing again can turn a reader into a maker, but never a maker into a
        reader.

        Args:
            account_id: the account ID, 12 digits; may be a token.
            read_only: whether the account is only a reader. Default: yes.

        Raises:
            ValueError: if ``account_id`` is not twelve digits. A policy that exceeds S3's 20 KB, with more than about a
                hundred accounts, is an error at synthesis.
        """
        self._share("account", account_id, read_only=read_only)

    def share_with_organization(self, organization_id: str, *, read_only: bool = True) -> None:
        """Let the stacks of all accounts of an AWS organization use the store; see ``share_with_account``.

        Args:
            organization_id: the organization ID, for instance ``o-a1b2c3d4e5``; may be a token.
            read_only: whether the accounts are only readers. Default: yes.

        Raises:
            ValueError: if ``organization_id`` does not have the form ``o-...``.
        """
        self._share("organization", organization_id, read_only=read_only)

    @staticmethod
    def from_bucket(
        bucket: s3.IBucket, *, encryption_key: kms.IKey | None = None, read_only: bool = False
    ) -> IArtifactStore:
        """Refer to a store in an existing bucket, of this app or another.

        Args:
            bucket: the bucket of the artifacts.
            encryption_key: the KMS key of its objects. Default: the key of the ``bucket`` object, if any.
            read_only: whether this app may only refer to artifacts by key, for instance in another account's store that
                is shared read-only. Default: it may also create artifacts.
        """
        BUCKET.check("bucket", bucket)
        KEY.check("encryption_key", encryption_key)
        key = encryption_key if encryption_key is not None else bucket.encryption_key
        return _BucketStore(bucket.bucket_name, bucket.bucket_arn, key.key_arn if key is not None else None, read_only)

    @staticmethod
    def default_of(scope: Construct) -> IArtifactStore:
        """Return the default store of ``scope``'s stack: one for the whole stack."""
        context = StackContext.of(scope)

        def declared_or_new() -> ArtifactStore:
            declared = context.stack.node.try_find_child(_DEFAULT_ID)
            return declared if isinstance(declared, ArtifactStore) else ArtifactStore(context.stack, _DEFAULT_ID)

        return context.once(ArtifactStore, declared_or_new)

    @staticmethod
    def writable_of(scope: Construct, stores: Iterable[IArtifactStore]) -> IArtifactStore:
        """Return the first writable one of ``stores``; without one, the default store of ``scope``'s stack."""
        return next((store for store in stores if not store.read_only), None) or ArtifactStore.default_of(scope)

    def _share(self, kind: str, id: str, *, read_only: bool) -> None:
        if not is_token(id) and not (isinstance(id, str) and _IDS[kind].fullmatch(id)):
            raise ValueError(f"{kind}_id is {id!r}, and {_FIXES[kind]}")
        key_actions: list[str] = []
        for grant in _READ if read_only else (*_READ, *_MAKE):
            # A key may serve several stores, and statement IDs must be unique in a policy.
            suffix = "" if grant.below else self.node.addr[-8:]
            sid = f"{kind.title()}s{grant.name}{suffix}"
            if not grant.below and self._key is None:
                continue
            if sid not in self._shared:
                self._shared[sid] = self._add_statement(sid, grant), []
            statement, readers = self._shared[sid]
            if id in readers:
                continue
            readers.append(id)
            if len(readers) == _CHECKED_FROM:
                check_template_size(self)
            if kind == "account":
                statement.add_aws_account_principal(id)
            else:
                if len(readers) == 1:
                    statement.add_any_principal()
                # With this fixed value, S3's public access block does not consider a statement for everybody public.
                statement.add_condition("StringEquals", {"aws:PrincipalOrgID": list(readers)})
                # Without this, the statement alone would permit access within the store's own account.
                statement.add_condition("StringNotEquals", {"aws:PrincipalAccount": Aws.ACCOUNT_ID})
            key_actions += grant.actions if grant.condition == _THROUGH_S3 else ()
        if self.bucket.policy is not None:
            # Readers' endpoints read a retained bucket whenever they scale out.
            self.bucket.policy.apply_removal_policy(self._removal_policy)
        if self._key is not None and key_actions and not self._is_our_key:
            advice = Advice(
                "constructs-optim:StoreKeyPolicy",
                f"the artifact store's KMS key {shown(self._key.key_arn)} is imported, so this app cannot change its "
                f"policy: its owner must allow {', '.join(key_actions)} to the {kind} {shown(id)}, through S3 "
                "(kms:ViaService)",
            )
            advise(self, advice)

    def _add_statement(self, sid: str, grant: _Grant) -> iam.PolicyStatement:
        """Add a statement to the policy of the bucket or the key."""
        resources = [self.bucket.bucket_arn + below for below in grant.below] or ["*"]
        statement = iam.PolicyStatement(
            sid=sid,
            actions=list(grant.actions),
            resources=resources,
            conditions=grant.condition,
        )
        if grant.below:
            self.bucket.add_to_resource_policy(statement)
        elif self._key is not None:
            self._is_our_key = self._key.add_to_resource_policy(statement).statement_added
        return statement


def store_statements(store: IArtifactStore, group: str) -> list[Statement]:
    """Return the statements of a group in ``statements.toml`` for a store."""
    return statements_of(group, Store=store.bucket_arn, Key=store.encryption_key_arn, Account=PSEUDO.account)


@dataclass
class _BucketStore:
    bucket_name: str
    bucket_arn: str
    encryption_key_arn: str | None
    read_only: bool
