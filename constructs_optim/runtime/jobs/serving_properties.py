"""``serving.properties``, by which a model server is configured: one ``name=value`` a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..errors import DeploymentError
from ..store.json_records import CHANGED_MEANWHILE, encryption, lacks

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

FILE = "serving.properties"
_ATTEMPTS = 5


def remove_setting(s3: S3Client, bucket: str, prefix: str, name: str, kms_key_arn: str | None = None) -> None:
    """Take the setting ``name`` out of the file below ``prefix``; nothing happens where there is none.

    May be repeated, and by several at once: of those that see the file with the setting, one writes.

    Raises:
        DeploymentError: when others keep changing the file.
    """
    key = f"{prefix}{FILE}"
    for _ in range(_ATTEMPTS):
        try:
            found = s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if lacks(s3, bucket, key, error):
                return
            raise
        lines = found["Body"].read().splitlines(keepends=True)
        kept = [line for line in lines if line.partition(b"=")[0].strip() != name.encode()]
        if kept == lines:
            return
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=b"".join(kept), IfMatch=found["ETag"], **encryption(kms_key_arn))
            return
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") not in CHANGED_MEANWHILE:
                raise
    raise DeploymentError(f"s3://{bucket}/{key} is being changed by others; deploy again")
