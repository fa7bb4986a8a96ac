"""The upload of files that a template names in a bucket, before the template is deployed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError, code_of
from constructs_optim.runtime.store.artifact_store import region_of

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


def upload(client: Callable[[str], S3Client], bucket: str, files: Mapping[str, bytes], *, region: str) -> list[str]:
    """Put files into a bucket, encrypted as the bucket encrypts, and return the keys of those that were not there.

    Keys have the hashes of their contents: what is there is compared and never written again.

    Args:
        client: the S3 client of a region.
        bucket: its name; ``${AWS::Region}`` in it stands for ``region``.
        files: contents by key.
        region: the region that the template is deployed to.

    Raises:
        DeploymentError: for a bucket that does not exist or is in another region, before anything is uploaded; and for
            a key that has other content.
        ClientError: for a request that AWS denies.
    """
    bucket = bucket.replace("${AWS::Region}", region)
    s3 = client(region)
    try:
        of_bucket = region_of(s3, bucket)
    except ClientError as error:
        if code_of(error) != "NoSuchBucket":
            raise
        raise DeploymentError(
            f"the code bucket {bucket} does not exist: create it in {region}, or name another one"
        ) from None
    if of_bucket != region:
        raise DeploymentError(
            f"the code bucket {bucket} is in {of_bucket}, and the template is deployed to {region}, where Lambda reads "
            f"code from buckets of its own region alone: name a bucket in {region}. Nothing was uploaded"
        )
    return [key for key, content in files.items() if _put(s3, bucket, key, content)]


def _put(s3: S3Client, bucket: str, key: str, content: bytes) -> bool:
    """Whether the file had to be uploaded."""
    if _is_there(s3, bucket, key, content):
        return False
    try:
        s3.put_object(
            Bucket=bucket,
            Key=key,
            Body=content,
            ChecksumSHA256=base64.b64encode(hashlib.sha256(content).digest()).decode(),
            IfNoneMatch="*",
        )
    except ClientError as error:
        # Another upload was faster, or is under way: of the same file, or its content is refused.
        if code_of(error) not in ("PreconditionFailed", "ConditionalRequestConflict"):
            raise
        if not _is_there(s3, bucket, key, content):
            raise
        return False
    return True


def _is_there(s3: S3Client, bucket: str, key: str, content: bytes) -> bool:
    try:
        there = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
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
