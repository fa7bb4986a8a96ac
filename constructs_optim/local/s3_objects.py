"""Objects in this cloud's own S3, for the jobs that SageMaker runs."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

_ABSENT = ("404", "NoSuchKey", "NoSuchBucket")


class S3Objects:
    """An implementation of ``sagemaker.objects.Objects``; the environment says where S3 is."""

    def __init__(self) -> None:
        config = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1})
        self._client: Any = boto3.client("s3", config=config)

    def put(self, job: str, objects: dict[str, bytes]) -> None:
        """Write the output of a job."""
        for uri, content in objects.items():
            bucket, key = _parts(uri)
            self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def read(self, uri: str) -> bytes | None:
        """The content of an object; None where there is none."""
        bucket, key = _parts(uri)
        try:
            return self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"].get("Code") in _ABSENT:
                return None
            raise


def _parts(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key
