"""Artifact stores: their buckets and keys."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ..errors import DeploymentError, code_of
from ..requests.preflight_properties import StoreNeed
from ..store.artifact_store import ArtifactStore
from .context import Context
from .report import PreflightFinding, problem

_DISABLED_FIX = "enable it, or cancel its deletion, then deploy again"


def check_store(store: StoreNeed, context: Context) -> Iterator[PreflightFinding]:
    """Check that the bucket exists in this Region and that the key is enabled."""
    s3 = context.client("s3")
    if store.kms_key_arn is not None:
        yield from _key(store.kms_key_arn, context)
    try:
        # HeadBucket needs permission to list without a prefix.
        s3.list_objects_v2(Bucket=store.bucket, Prefix="artifacts/", MaxKeys=1)
        ArtifactStore(s3, store.bucket).check_region(context.region)
    except DeploymentError as error:
        yield problem("store", str(error).partition(". Use")[0], f"use a store in {context.region}")
    except ClientError as error:
        if code_of(error) != "NoSuchBucket":
            raise
        yield problem("store", f"there is no bucket {store.bucket}", "create it, or use another store")


def _key(arn: str, context: Context) -> Iterator[PreflightFinding]:
    try:
        state = context.client("kms").describe_key(KeyId=arn)["KeyMetadata"]["KeyState"]
    except ClientError as error:
        if code_of(error) != "NotFoundException":
            raise
        yield problem("store", f"there is no KMS key {arn}", "use another key")
        return
    if state not in ("Enabled", "Updating"):
        yield problem("store", f"the KMS key {arn} is {state}", _DISABLED_FIX)
