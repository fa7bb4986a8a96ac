from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.store.json_records import JsonRecords

from ..support.s3_clients import BUCKET, Reticent

NAME = "artifacts/abc/claim.json"


def test_a_missing_record_is_none_when_s3_returns_403(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"{NAME}.bak", Body=b"{}")
    assert JsonRecords(Reticent(s3), BUCKET).read(NAME) is None  # type: ignore[arg-type]


def test_the_first_record_is_written_when_s3_returns_403(s3: Any) -> None:
    records = JsonRecords(Reticent(s3), BUCKET)  # type: ignore[arg-type]
    assert records.swap(NAME, lambda _: {"attempt": 1}) == {"attempt": 1}
    assert records.read(NAME) == {"attempt": 1}


def test_a_record_is_encrypted_with_the_key_of_the_store_or_as_its_bucket_is(s3: Any) -> None:
    key = "arn:aws:kms:us-west-2:123456789012:key/1234"
    JsonRecords(s3, BUCKET, key).swap(NAME, lambda _: {})
    found = s3.head_object(Bucket=BUCKET, Key=NAME)
    assert (found["ServerSideEncryption"], found["SSEKMSKeyId"]) == ("aws:kms", key)
    JsonRecords(s3, BUCKET).swap(f"{NAME}.2", lambda _: {})
    assert "SSEKMSKeyId" not in s3.head_object(Bucket=BUCKET, Key=f"{NAME}.2")


@pytest.mark.parametrize("listable", [True, False])
def test_an_unreadable_record_is_not_mistaken_for_a_missing_one(s3: Any, listable: bool) -> None:
    s3.put_object(Bucket=BUCKET, Key=NAME, Body=b"{}")
    with pytest.raises(ClientError, match="AccessDenied"):
        JsonRecords(Reticent(s3, readable=False, listable=listable), BUCKET).read(NAME)  # type: ignore[arg-type]


def test_a_403_without_list_permission_is_not_mistaken_for_a_missing_record(s3: Any) -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        JsonRecords(Reticent(s3, listable=False), BUCKET).read(NAME)  # type: ignore[arg-type]
