from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

BUCKET = "artifacts-of-the-team"
"""The bucket of the fixture ``s3``."""


class Reticent:
    """S3 for a caller that may list by prefix only: a missing object is AccessDenied."""

    def __init__(self, s3: Any, *, readable: bool = True, listable: bool = True) -> None:
        self._s3, self._readable, self._listable = s3, readable, listable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s3, name)

    def get_object(self, **given: Any) -> Any:
        try:
            found = self._s3.get_object(**given)
        except ClientError:
            raise denied("GetObject") from None
        if not self._readable:
            raise denied("GetObject")
        return found

    def list_objects_v2(self, **given: Any) -> Any:
        if not self._listable or not given.get("Prefix"):
            raise denied("ListObjectsV2")
        return self._s3.list_objects_v2(**given)


def denied(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, operation)
