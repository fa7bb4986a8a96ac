"""The upload of files that a template names in a bucket, before the template is deployed."""

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
    """Put files into a bucket, encrypted as the bucket encrypts, and return the keys of those that were not there.

    Keys have the hashes of their contents: what is there is compared and never written again.

    Args:
        client: the S3 client of a Region.
        bucket: its name; ``${AWS::Region}`` in it stands for ``region``.
        files: contents by key.
        region: the Region that the template is deployed to.
        owner: the account that has the bucket. A name that a stranger has registered is not uploaded to, as a
            deployment would run what they put there.

    Raises:
        DeploymentError: for a bucket that does not exist, is in another Region or is not the owner's, before anything
            is uploaded; and for a key that has other content.
        ClientError: for a request that AWS denies.
    """
    bucket = bucket.replace("${AWS::Region}", region)
    s3 = client(region)
    try:
        of_bucket = s3.head_bucket(Bucket=bucket, ExpectedBucketOwner=owner)["BucketRegion"]
    except ClientError as error:
        if code_of(error) in DENIED:
            raise DeploymentError(
                f"account {owner} is denied the code bucket {bucket}: the bucket is another account's, or "
                f"s3:ListBucket is not allowed. Name a bucket of {owner}, or use credentials of the bucket's account"
            ) from None
        if code_of(error) != "404":
            raise
        raise DeploymentError(
            f"the code bucket {bucket} does not exist: create it in {region}, or name another one"
        ) from None
    if of_bucket != region:
        raise DeploymentError(
            f"the code bucket {bucket} is in {of_bucket}, and the template is deployed to {region}, where Lambda reads "
            f"code from buckets of its own region alone: name a bucket in {region}. Nothing was uploaded"
        )
    return [key for key, content in files.items() if _put(s3, bucket, key, content, owner)]


def _put(s3: S3Client, bucket: str, key: str, content: bytes, owner: str) -> bool:
    """Whether the file had to be uploaded."""
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
        # Another upload was faster, or is under way: of the same file, or its content is refused.
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
            f"s3://{bucket}/{key} has other content than its name says, and a deployment would run it: find out who "
            "wrote it, delete it, and upload again"
        )
    return True
