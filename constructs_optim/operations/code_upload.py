"""Uploads files that a template references in a bucket, before the template is deployed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DENIED, DeploymentError, code_of

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


def upload(
    client: Callable[[str], S3Client], bucket: str, files: Mapping[str, bytes], *, region: str, owner: str
) -> list[str]:
    """Upload files to a bucket, with the bucket's default encryption, and return the keys of new files.

    Keys contain the hashes of their contents. Existing files are compared, and never overwritten.

    Args:
        client: the S3 client of a Region.
        bucket: the bucket's name; ``${AWS::Region}`` in it stands for ``region``.
        files: contents by key.
        region: the Region of the deployment.
        owner: the account that owns the bucket. Files are not uploaded to a stranger's bucket with this name, because a
            deployment would run the stranger's code.

    Raises:
        DeploymentError: if the bucket does not exist, is in another Region or does not belong to the owner, before
            anything is uploaded; or if a key has other content.
        ClientError: if AWS denies a request.
    """
    bucket = bucket.replace("${AWS::Region}", region)
    s3 = client(region)
    try:
        of_bucket = s3.head_bucket(Bucket=bucket, ExpectedBucketOwner=owner)["BucketRegion"]
    except ClientError as error:
        if code_of(error) in DENIED:
            raise DeploymentError(
                f"account {owner} has no access to the code bucket {bucket}: another account owns it, or "
                f"s3:ListBucket is not allowed. Use a bucket of {owner}, or credentials of the bucket's account"
            ) from None
        if code_of(error) != "404":
            raise
        raise DeploymentError(
            f"the code bucket {bucket} does not exist: create it in {region}, or use another bucket"
        ) from None
    if of_bucket != region:
        raise DeploymentError(
            f"the code bucket {bucket} is in {of_bucket}, but the template is deployed to {region}, and Lambda reads "
            f"code only from buckets in its own Region: use a bucket in {region}. Nothing was uploaded"
        )
    return [key for key, content in files.items() if _put(s3, bucket, key, content, owner)]


def _put(s3: S3Client, bucket: str, key: str, content: bytes, owner: str) -> bool:
    """Upload a file, and return whether it is new."""
    if _is_there(s3, bucket, key, content, owner):
        return False
    try:
        s3.put_object(
            Bucket=bucket,
            Key=key,
            Body=content,
            ChecksumSHA256=base64.b64encode(hashlib.sha256(content).digest()).decode(),
            IfNoneMatch="*",
            ExpectedBucketOwner=owner,
        )
    except ClientError as error:
        # Another upload of this key finished first, or is in progress. Its content must be the same.
        if code_of(error) not in ("PreconditionFailed", "ConditionalRequestConflict"):
            raise
        if not _is_there(s3, bucket, key, content, owner):
            raise
        return False
    return True


def _is_there(s3: S3Client, bucket: str, key: str, content: bytes, owner: str) -> bool:
    try:
        there = s3.get_object(Bucket=bucket, Key=key, ExpectedBucketOwner=owner)["Body"].read()
    except ClientError as error:
        if code_of(error) in ("NoSuchKey", "404"):
            return False
        raise
    if there != content:
        raise DeploymentError(
            f"the content of s3://{bucket}/{key} does not match its name, and a deployment would run it: find out who "
            "wrote it, delete it, and upload again"
        )
    return True
