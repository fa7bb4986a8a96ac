from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.store import json_records
from constructs_optim.runtime.store.json_records import JsonRecords, NewerRecord, StoredRecord

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


KEY = "arn:aws:kms:us-west-2:123456789012:key/1234"


def test_a_record_is_written_only_if_it_has_not_changed_since_it_was_read(s3: Any) -> None:
    requests: list[dict[str, Any]] = []
    s3.meta.events.register("provide-client-params.s3.PutObject", lambda params, **_: requests.append(dict(params)))
    records = JsonRecords(s3, BUCKET, KEY)
    records.swap(NAME, lambda _: {"b": 1, "a": 2})
    tag = s3.head_object(Bucket=BUCKET, Key=NAME)["ETag"]
    records.swap(NAME, lambda before: {**(before or {}), "b": 3})
    records.swap(NAME, lambda before: before or {})
    request = {
        "Bucket": BUCKET,
        "Key": NAME,
        "ContentType": "application/json",
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": KEY,
    }
    assert requests == [
        {**request, "Body": b'{\n "a": 2,\n "b": 1\n}', "IfNoneMatch": "*"},
        {**request, "Body": b'{\n "a": 2,\n "b": 3\n}', "IfMatch": tag},
    ]


def failing(s3: Any, *errors: ClientError) -> Mock:
    """S3 whose next writes fail, each with the next error."""
    remaining = list(errors)

    def put(**given: Any) -> Any:
        if remaining:
            raise remaining.pop(0)
        return s3.put_object(**given)

    double = Mock(wraps=s3)
    double.put_object = Mock(side_effect=put)
    return double


def refusal(status: int, code: str = "PreconditionFailed") -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")  # type: ignore[typeddict-item]


def test_a_change_is_repeated_while_others_change_the_record(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(json_records.random, "uniform", lambda low, high: waited.append(high) or low)
    conflicts = failing(s3, refusal(412), refusal(409), refusal(404, "NoSuchKey"))
    assert JsonRecords(conflicts, BUCKET).swap(NAME, lambda _: {"x": 1}) == {"x": 1}
    assert waited == pytest.approx([0.05, 0.1, 0.15])
    for error in (refusal(404, "NoSuchBucket"), refusal(403, "AccessDenied"), refusal(500, "InternalError")):
        with pytest.raises(ClientError):
            JsonRecords(failing(s3, error), BUCKET).swap(NAME, lambda _: {"x": 2})


def test_a_change_is_given_up_after_30_attempts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_records.random, "uniform", lambda low, high: 0)
    contended = failing(s3, *[refusal(412)] * 40)
    with pytest.raises(DeploymentError) as raised:
        JsonRecords(contended, BUCKET).swap(NAME, lambda _: {"x": 1})
    assert str(raised.value) == f"too many deployments are changing s3://{BUCKET}/{NAME} at once; deploy again"
    assert contended.put_object.call_count == 30


@pytest.mark.parametrize("of_any_schema", [True, False])
def test_a_record_of_a_newer_schema_is_read_only_where_that_is_asked_for(s3: Any, *, of_any_schema: bool) -> None:
    s3.put_object(Bucket=BUCKET, Key=NAME, Body=b'{"schema": 2}')
    if of_any_schema:
        found = JsonRecords(s3, BUCKET, any_schema=True).get(NAME, StoredRecord)
        assert found is not None
        assert found.to_record() == {"schema": 2}
    else:
        with pytest.raises(NewerRecord) as raised:
            JsonRecords(s3, BUCKET).get(NAME, StoredRecord)
        assert str(raised.value) == (
            f"s3://{BUCKET}/{NAME} has schema 2, but this release of constructs-optim supports schemas up to 1: a "
            "newer release has deployed to the same store. Upgrade constructs-optim, then try again"
        )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"x": "' + b"x" * 93 + b'"}', "it has more than 100 bytes"),
        (b"[]", "it is not a JSON object"),
        (b"{", "it is not a JSON object"),
        (b'{"schema": "x"}', "it is a record of another kind (see schema)"),
    ],
)
def test_a_damaged_record_is_named_with_what_is_wrong_and_with_the_next_step(
    s3: Any, body: bytes, problem: str
) -> None:
    s3.put_object(Bucket=BUCKET, Key=NAME, Body=body)
    with pytest.raises(DeploymentError) as raised:
        JsonRecords(s3, BUCKET, largest=100).get(NAME, StoredRecord)
    assert str(raised.value) == (
        f"s3://{BUCKET}/{NAME} is damaged: {problem}. The bucket is versioned: restore the previous version, or delete "
        "it if there is none, then deploy again"
    )


def test_a_record_of_the_largest_size_is_read(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key=NAME, Body=b'{"x": "' + b"x" * 91 + b'"}')
    assert JsonRecords(s3, BUCKET, largest=100).read(NAME) == {"x": "x" * 91}
