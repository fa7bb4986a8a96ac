"""JSON objects in a bucket, changed only by whoever has seen their present state.

A write carries a condition (``If-None-Match`` or ``If-Match``): two that change the same record at once agree on an
order without a lock service. Source: Amazon S3 user guide, "Add preconditions to S3 operations with conditional
requests".

A newer release may have written a record. Members that it added are kept; where they mean something else, it has raised
``schema``, and the record is not changed any more, except by a deletion: that must not need an upgrade.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar

from botocore.exceptions import ClientError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..documents import is_object
from ..errors import DeploymentError, code_of

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_SWAP_ATTEMPTS = 30
CHANGED_MEANWHILE = (404, 409, 412)
"""HTTP statuses of a conditional write of an object that has changed meanwhile."""

# Bytes: far more than any record has; a function's memory is 256 MB or more.
_LARGEST = 32_000_000

SCHEMA = 1
"""The schema of the claims, manifests and owner records that this release writes."""
CALLS_A_THREAD = 8
"""How many items are taken ahead for each thread."""

Record = dict[str, Any]
In = TypeVar("In")
Out = TypeVar("Out")


class NewerRecord(DeploymentError):
    """A newer release wrote the record, in a way that this one does not know."""


def schema_of(record: Mapping[str, Any]) -> int:
    """The record's schema; :data:`SCHEMA` where it names none."""
    schema = record.get("schema", SCHEMA)
    return schema if isinstance(schema, int) else SCHEMA


class StoredPart(BaseModel):
    """An object in a record. Members that this release does not know are kept."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    def updated(self, **members: Any) -> Self:
        """A copy with other values of some members."""
        return self.model_copy(update=members)


class StoredRecord(StoredPart):
    """The content of a record."""

    # BaseModel has a method ``schema``.
    schema_version: int = Field(default=SCHEMA, alias="schema")

    def to_record(self) -> Record:
        """The content as JSON."""
        return self.model_dump(by_alias=True)


Stored = TypeVar("Stored", bound=StoredRecord)


def in_threads(function: Callable[[In], Out], items: Iterable[In], *, threads: int = 8) -> Generator[Out]:
    """``function`` of each item, in their order. At most ``threads * CALLS_A_THREAD`` results are held."""
    under_way: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                under_way.append(pool.submit(function, item))
                if len(under_way) >= threads * CALLS_A_THREAD:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for call in under_way:
                call.cancel()


class WriteOptions(TypedDict, total=False):
    """PutObject's arguments about encryption and conditions."""

    ServerSideEncryption: Literal["aws:kms"]
    SSEKMSKeyId: str
    IfMatch: str
    IfNoneMatch: Literal["*"]


def encryption(kms_key_arn: str | None) -> WriteOptions:
    """With that key; the bucket's own default where it is None."""
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_arn} if kms_key_arn else {}


def lacks(s3: S3Client, bucket: str, name: str, error: ClientError) -> bool:
    """Whether ``error``, of reading an object, means that there is no such object.

    GetObject returns 403 instead of 404 to those who may not list the bucket, and our roles may list prefixes only.
    Whether S3 takes the name for the prefix then is not documented (ceph/ceph pull request 68577): so it is listed.
    """
    code = code_of(error)
    if code in ("NoSuchKey", "404"):
        return True
    if code not in ("AccessDenied", "403"):
        return False
    try:
        # What begins with the name is listed in order: the name itself comes first.
        found = s3.list_objects_v2(Bucket=bucket, Prefix=name, MaxKeys=1).get("Contents", [])
    except ClientError:
        return False
    return not any(item.get("Key") == name for item in found)


def objects(s3: S3Client, bucket: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    """Name, size in bytes and ETag of each object below ``prefix``, by name."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", ()):
            # Every object has all three; the API's model requires none.
            yield item.get("Key", ""), item.get("Size", 0), item.get("ETag", "")


class JsonRecords:
    """The records of one bucket. Every method may be repeated.

    Larger records than ``largest`` bytes are refused, and those of a newer schema, unless ``any_schema``.
    """

    def __init__(
        self,
        s3: S3Client,
        bucket: str,
        kms_key_arn: str | None = None,
        *,
        largest: int = _LARGEST,
        any_schema: bool = False,
    ) -> None:
        self._s3 = s3
        self.bucket = bucket
        self._encryption = encryption(kms_key_arn)
        self._largest = largest
        self._any_schema = any_schema

    def read(self, name: str) -> Record | None:
        """The record, or None where there is none."""
        found = self._read(name)
        return found[0] if found else None

    def get(self, name: str, model: type[Stored]) -> Stored | None:
        """The record as a model, or None where there is none."""
        record = self.read(name)
        return self._parsed(name, record, model) if record is not None else None

    def check_schema(self, name: str, record: Mapping[str, Any], *, any_schema: bool | None = None) -> None:
        """Raise :class:`NewerRecord` for a record of a newer schema."""
        if schema_of(record) > SCHEMA and not (self._any_schema if any_schema is None else any_schema):
            raise NewerRecord(
                f"{self.uri(name)} has schema {schema_of(record)}, and this release of constructs-optim knows schemas "
                f"up to {SCHEMA}: a newer release has deployed to the same store. Upgrade constructs-optim, then try "
                "again"
            )

    def _parsed(self, name: str, record: Record, model: type[Stored]) -> Stored:
        self.check_schema(name, record)
        try:
            return model.model_validate(record)
        except (TypeError, ValidationError) as error:
            self.check_schema(name, record, any_schema=False)
            faults = error.errors(include_url=False, include_input=False) if isinstance(error, ValidationError) else ()
            members = ", ".join(".".join(map(str, fault["loc"])) for fault in faults) or str(error)
            raise self._damaged(name, f"it is a record of another kind (see {members})") from None

    def uri(self, name: str) -> str:
        """The ``s3://`` URI of a record."""
        return f"s3://{self.bucket}/{name}"

    def write(self, name: str, record: Record, condition: WriteOptions | None = None) -> None:
        """Write the record, whatever was there, unless there is a condition."""
        options: WriteOptions = {**self._encryption, **(condition or {})}
        self._s3.put_object(
            Bucket=self.bucket,
            Key=name,
            Body=json.dumps(record, sort_keys=True, indent=1, default=str).encode(),
            ContentType="application/json",
            **options,
        )

    def change(self, name: str, model: type[Stored], change: Callable[[Stored | None], Stored]) -> Stored:
        """:meth:`swap` of a record as a model; one that does not change is not written, whatever its form."""

        def changed(record: Record | None) -> Record:
            before = self._parsed(name, record, model) if record is not None else None
            after = change(before)
            return record if record and after == before else after.to_record()

        return self._parsed(name, self.swap(name, changed), model)

    def swap(self, name: str, change: Callable[[Record | None], Record]) -> Record:
        """Replace the record by the result of ``change``, which may be called more than once."""
        for attempt in range(_SWAP_ATTEMPTS):
            found = self._read(name)
            before = found[0] if found else None
            after = change(before)
            if after == before:
                return after
            try:
                self.write(name, after, {"IfMatch": found[1]} if found else {"IfNoneMatch": "*"})
                return after
            except ClientError as error:
                # 404: it was deleted between the read and the write, so read it again.
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                if status not in CHANGED_MEANWHILE or code_of(error) == "NoSuchBucket":
                    raise
            _count_contention()
            time.sleep(random.uniform(0, 0.05 * (attempt + 1)))  # noqa: S311 - jitter, no secret
        raise DeploymentError(f"{self.uri(name)} is being changed by too many deployments at once; deploy again")

    def _read(self, name: str) -> tuple[Record, str] | None:
        try:
            response = self._s3.get_object(Bucket=self.bucket, Key=name)
        except ClientError as error:
            if lacks(self._s3, self.bucket, name, error):
                return None
            raise
        content = response["Body"].read(self._largest + 1)
        if len(content) > self._largest:
            response["Body"].close()
            raise self._damaged(name, f"it has more than {self._largest:,} bytes")
        try:
            record: object = json.loads(content)
        except (ValueError, RecursionError):
            # Not JSON, not UTF-8, or nested more deeply than anything that was written here.
            record = None
        if not is_object(record):
            raise self._damaged(name, "it is no JSON object")
        return record, response["ETag"]

    def _damaged(self, name: str, problem: str) -> DeploymentError:
        return DeploymentError(
            f"{self.uri(name)} is damaged: {problem}. The bucket is versioned: restore the version before it, "
            "then deploy again"
        )


def _count_contention() -> None:
    # Imported here: an operator's shell reads the same records, without Powertools and with nobody to count for.
    with contextlib.suppress(ModuleNotFoundError):
        from ..telemetry import count

        count("ClaimContended")
