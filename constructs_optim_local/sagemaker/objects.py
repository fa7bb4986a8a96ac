"""The S3 objects that jobs read and write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from constructs_optim_local.access.credentials import OwnClients


class Objects(Protocol):
    """Objects of any bucket, by URI, with one account's permissions."""

    def put(self, job: str, objects: dict[str, bytes]) -> None:
        """Write the output of a job."""
        ...

    def read(self, uri: str) -> bytes | None:
        """Return the content of an object; None if it does not exist."""
        ...

    def etag(self, uri: str) -> str | None:
        """Return the ETag of an object, without quotation marks; None if it does not exist."""
        ...

    def uris(self, uri: str) -> list[str]:
        """Return the URIs of all objects that begin with ``uri``, in order; empty if there is no such bucket."""
        ...

    def download(self, uri: str, path: Path) -> None:
        """Copy an object into a file."""
        ...

    def upload(self, path: Path, uri: str, key_id: str | None) -> None:
        """Copy a file into an object, encrypted with a KMS key or the bucket's default."""
        ...


ObjectsOf = Callable[[str, str], Objects]
"""Returns the objects as the jobs of an account and Region see them."""


_ABSENT = ("404", "NoSuchKey", "NoSuchBucket")
# Each job has its own thread and needs no more.
_ONE_AT_A_TIME = TransferConfig(use_threads=False)


class S3Objects:
    """An implementation of ``Objects`` for one account.

    Another account's bucket must allow the access, even if IAM is not enforced.
    """

    def __init__(self, clients: OwnClients, account: str, region: str) -> None:
        self._clients, self._account, self._region = clients, account, region

    @property
    def _client(self) -> Any:
        return self._clients.client("s3", self._account, self._region)

    def put(self, job: str, objects: dict[str, bytes]) -> None:
        """Write the output of a job."""
        for uri, content in objects.items():
            bucket, key = _parts(uri)
            self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def read(self, uri: str) -> bytes | None:
        """Return the content of an object; None if it does not exist."""
        bucket, key = _parts(uri)
        try:
            return self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                return None
            raise

    def etag(self, uri: str) -> str | None:
        """Return the ETag of an object, without quotation marks; None if it does not exist."""
        bucket, key = _parts(uri)
        try:
            return self._client.head_object(Bucket=bucket, Key=key)["ETag"].strip('"')
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                return None
            raise

    def uris(self, uri: str) -> list[str]:
        """Return the URIs of all objects that begin with ``uri``, in order; empty if there is no such bucket."""
        bucket, prefix = _parts(uri)
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        try:
            return [f"s3://{bucket}/{item['Key']}" for page in pages for item in page.get("Contents", [])]
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                return []
            raise

    def download(self, uri: str, path: Path) -> None:
        """Copy an object into a file."""
        bucket, key = _parts(uri)
        self._client.download_file(bucket, key, str(path), Config=_ONE_AT_A_TIME)

    def upload(self, path: Path, uri: str, key_id: str | None) -> None:
        """Copy a file into an object, encrypted with a KMS key or the bucket's default."""
        bucket, key = _parts(uri)
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key_id} if key_id else {}
        self._client.upload_file(str(path), bucket, key, ExtraArgs=encryption, Config=_ONE_AT_A_TIME)


def _parts(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key
