"""The S3 bucket of optimized artifacts, which stacks and accounts may share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Validations
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from constructs_optim.constructs.stack.arguments import BUCKET, KEY, suggests_keywords
from constructs_optim.constructs.stack.permissions import Statement, statements_of
from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext
from constructs_optim.constructs.validation.refusal import declaring

from .store_sharing import StoreSharing

_DEFAULT_ID = "ArtifactStore"
# As long as a training job may run.
_CHECKPOINT_DAYS = 28


@runtime_checkable
class IArtifactStore(Protocol):
    """A store of artifacts: one of this app, or one that exists already."""

    @property
    def bucket_name(self) -> str:
        """The bucket's name; may be a token."""
        ...

    @property
    def bucket_arn(self) -> str:
        """The bucket's ARN; may be a token."""
        ...

    @property
    def encryption_key_arn(self) -> str | None:
        """The ARN of the KMS key that encrypts the artifacts, or None where S3's own keys do."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether artifacts of this store may only be read and referred to."""
        ...


@suggests_keywords
class ArtifactStore(Construct):
    """An encrypted, versioned, TLS-only bucket without public access, laid out as ``artifacts/<key>/...``.

    The bucket outlives its stack unless ``removal_policy`` says otherwise: artifacts take hours to make, and other
    stacks may refer to them.

    Attributes:
        bucket: the bucket itself.
        bucket_name: the bucket's name.
        bucket_arn: the bucket's ARN.
        encryption_key_arn: the ARN of the KMS key that encrypts the artifacts, or None.
        read_only: False: this app may write to it.
    """

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
            id: its id in that scope.
            bucket_name: default: CloudFormation makes one up.
            encryption_key: a KMS key for the artifacts. Default: S3-managed keys.
            removal_policy: what becomes of the bucket when its stack is deleted. Default: it is retained.
            server_access_logs_bucket: where S3 delivers access logs. Default: none.
            server_access_logs_prefix: prefix of these logs. Default: none.
        """
        KEY.check("encryption_key", encryption_key)
        with declaring(scope, id):
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
                # What a training would go on from: of no use when it has ended.
                s3.LifecycleRule(
                    prefix="checkpoints/",
                    expiration=Duration.days(_CHECKPOINT_DAYS),
                    noncurrent_version_expiration=Duration.days(1),
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
        self._sharing = StoreSharing(self, bucket, encryption_key, removal_policy=removal_policy)

    def share_with_account(self, account_id: str, *, read_only: bool = True) -> None:
        """Let the stacks of another account use the store.

        A consumer reads artifacts and keeps the records of its own references, so that nothing it serves is removed; a
        maker writes artifacts as well. What it may do there, its roles must also be allowed at home, as those of the
        constructs are. Sharing again changes nothing, or makes a consumer a maker; never the reverse.

        Args:
            account_id: 12 digits; may be a token.
            read_only: whether it only consumes. Default: it does.

        Raises:
            ValueError: when ``account_id`` is none.
        """
        self._sharing.share("account", account_id, read_only=read_only)

    def share_with_organization(self, organization_id: str, *, read_only: bool = True) -> None:
        """Let the stacks of every account of an AWS organization use the store, as :meth:`share_with_account` does.

        Args:
            organization_id: for instance ``o-a1b2c3d4e5``; may be a token.
            read_only: whether they only consume. Default: they do.

        Raises:
            ValueError: when ``organization_id`` is none.
        """
        self._sharing.share("organization", organization_id, read_only=read_only)

    @staticmethod
    def from_bucket(
        bucket: s3.IBucket, *, encryption_key: kms.IKey | None = None, read_only: bool = False
    ) -> IArtifactStore:
        """A store in a bucket that exists already, of this app or of another.

        Args:
            bucket: for instance ``s3.Bucket.from_bucket_name(stack, "Artifacts", "ml-artifacts")``.
            encryption_key: the KMS key of its objects. Default: the key the bucket object knows, if any.
            read_only: whether artifacts may only be referred to by their keys, as in another account's store that is
                shared for reading. Default: they may be made as well.
        """
        BUCKET.check("bucket", bucket)
        KEY.check("encryption_key", encryption_key)
        key = encryption_key if encryption_key is not None else bucket.encryption_key
        return _BucketStore(bucket.bucket_name, bucket.bucket_arn, key.key_arn if key is not None else None, read_only)

    @staticmethod
    def default_of(scope: Construct) -> IArtifactStore:
        """The store that ``scope``'s stack gets when none is named: one for the whole stack."""
        context = StackContext.of(scope)

        def declared_or_new() -> ArtifactStore:
            declared = context.stack.node.try_find_child(_DEFAULT_ID)
            return declared if isinstance(declared, ArtifactStore) else ArtifactStore(context.stack, _DEFAULT_ID)

        return context.once(ArtifactStore, declared_or_new)


def store_statements(store: IArtifactStore, group: str) -> list[Statement]:
    """The statements of a group of ``statements.toml`` about a store."""
    return statements_of(group, Store=store.bucket_arn, Key=store.encryption_key_arn, Account=PSEUDO.account)


@dataclass(frozen=True)
class _BucketStore:
    bucket_name: str
    bucket_arn: str
    encryption_key_arn: str | None
    read_only: bool
