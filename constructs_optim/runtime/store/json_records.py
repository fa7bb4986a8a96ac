"""JSON records in a bucket, changed by compare-and-swap.

Conditional writes (``If-None-Match`` or ``If-Match``) order concurrent changes of a record without a lock service.
Source: Amazon S3 user guide, "Add preconditions to S3 operations with conditional requests".

Members that a newer release added to a record are kept. A newer release that changes their meaning raises ``schema``.
This release changes such a record only in a deletion, which must not need an upgrade.
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

from ..documents import is_object, json_value
from ..errors import DeploymentError, code_of

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

_SWAP_ATTEMPTS = 30
CHANGED_MEANWHILE = (404, 409, 412)
"""HTTP statuses of a conditional write to an object that has changed since it was read."""

# In bytes. A function has at least 256 MB of memory.
_LARGEST = 32_000_000

SCHEMA = 1
"""The schema of the claims, manifests, and owner records that this release writes."""
CALLS_A_THREAD = 8
"""The number of items submitted in advance for each thread."""

Record = dict[str, Any]
In = TypeVar("In")
Out = TypeVar("Out")


class NewerRecord(DeploymentError):
    """A newer release wrote the record in a form that this release does not know."""


def schema_of(record: Mapping[str, Any]) -> int:
    """Return the record's schema, by default ``SCHEMA``."""
    schema = record.get("schema", SCHEMA)
    return schema if isinstance(schema, int) else SCHEMA


class StoredPart(BaseModel):
    """An object in a record. Unknown members are kept."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    def updated(self, **members: Any) -> Self:
        """Return a copy with other values for some members."""
        return self.model_copy(update=members)


class StoredRecord(StoredPart):
    """The content of a record."""

    # Not ``schema``, because BaseModel has a method with that name.
    schema_version: int = Field(default=SCHEMA, alias="schema")

    def to_record(self) -> Record:
        """Return the content as JSON."""
        return self.model_dump(by_alias=True)


Stored = TypeVar("Stored", bound=StoredRecord)
Model = TypeVar("Model", bound=BaseModel)


def in_threads(function: Callable[[In], Out], items: Iterable[In], *, threads: int = 8) -> Generator[Out]:
    """Map ``function`` over the items, in order, with at most ``threads * CALLS_A_THREAD`` results in memory."""
    pending: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) >= threads * CALLS_A_THREAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for call in pending:
                call.cancel()


class WriteOptions(TypedDict, total=False):
    """PutObject's arguments for encryption and conditions."""

    ServerSideEncryption: Literal["aws:kms"]
    SSEKMSKeyId: str
    IfMatch: str
    IfNoneMatch: Literal["*"]


def encryption(kms_key_arn: str | None) -> WriteOptions:
    """Return the options to encrypt with a KMS key; None stands for the bucket's default encryption."""
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_arn} if kms_key_arn else {}


def lacks(s3: S3Client, bucket: str, name: str, error: ClientError) -> bool:
    """Return whether ``error``, from reading an object, means that the object does not exist.

    GetObject returns 403 instead of 404 to callers who may not list the bucket, and this library's roles may list only
    prefixes. AWS does not document whether S3 then checks the name as the prefix (ceph/ceph pull request 68577), so
    this lists the name.
    """
    code = code_of(error)
    if code in ("NoSuchKey", "404"):
        return True
    if code not in ("AccessDenied", "403"):
        return False
    try:
        # Listings are sorted, so the name itself precedes longer names.
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=name, MaxKeys=1).get("Contents", [])
    except ClientError:
        return False
    return not any(item.get("Key") == name for item in listed)


def get_object(s3: S3Client, bucket: str, name: str) -> GetObjectOutputTypeDef | None:
    """Return GetObject's response; None if the object does not exist."""
    try:
        return s3.get_object(Bucket=bucket, Key=name)
    except ClientError as error:
        if lacks(s3, bucket, name, error):
            return None
        raise


def objects(s3: S3Client, bucket: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    """Yield the name, size in bytes, and ETag of each object below ``prefix``, sorted by name."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", ()):
            # Every object has all three, although the API's model does not require them.
            yield item.get("Key", ""), item.get("Size", 0), item.get("ETag", "")


class JsonRecords:
    """A bucket's records, of at most ``largest`` bytes each and, unless ``any_schema``, of a known schema."""

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
        """Return the record; None if it does not exist."""
        stored = self._read(name)
        return stored[0] if stored else None

    def get(self, name: str, model: type[Model]) -> Model | None:
        """Return the record as a model; None if it does not exist."""
        record = self.read(name)
        return self._parsed(name, record, model) if record is not None else None

    def check_schema(self, name: str, record: Mapping[str, Any], *, any_schema: bool | None = None) -> None:
        """Raise ``NewerRecord`` for a record with a newer schema."""
        if schema_of(record) > SCHEMA and not (self._any_schema if any_schema is None else any_schema):
            raise NewerRecord(
                f"{self.uri(name)} has schema {schema_of(record)}, but this release of constructs-optim supports "
                f"schemas up to {SCHEMA}: a newer release has deployed to the same store. Upgrade constructs-optim, "
                "then try again"
            )

    def _parsed(self, name: str, record: Record, model: type[Model]) -> Model:
        self.check_schema(name, record)
        try:
            return model.model_validate(record)
        except (TypeError, ValidationError) as error:
            self.check_schema(name, record, any_schema=False)
            faults = error.errors(include_url=False, include_input=False) if isinstance(error, ValidationError) else ()
            members = ", ".join(".".join(map(str, fault["loc"])) for fault in faults) or str(error)
            raise self._damaged(name, f"it is a record of another kind (see {members})") from None

    def uri(self, name: str) -> str:
        """Return the ``s3://`` URI of a record."""
        return f"s3://{self.bucket}/{name}"

    def write(self, name: str, record: Record, condition: WriteOptions | None = None) -> None:
        """Write the record, by default unconditionally."""
        options: WriteOptions = {**self._encryption, **(condition or {})}
        self._s3.put_object(
            Bucket=self.bucket,
            Key=name,
            Body=json.dumps(record, sort_keys=True, indent=1, default=str).encode(),
            ContentType="application/json",
            **options,
        )

    def change(self, name: str, model: type[Stored], change: Callable[[Stored | None], Stored]) -> Stored:
        """``swap`` a record as a model, without writing an unchanged record."""

        def changed(record: Record | None) -> Record:
            before = self._parsed(name, record, model) if record is not None else None
            after = change(before)
            return record if record and after == before else after.to_record()

        return self._parsed(name, self.swap(name, changed), model)

    def swap(self, name: str, change: Callable[[Record | None], Record]) -> Record:
        """Replace the record with the result of ``change``, which may be called more than once."""
        for attempt in range(_SWAP_ATTEMPTS):
            stored = self._read(name)
            before = stored[0] if stored else None
            after = change(before)
            if after == before:
                return after
            try:
                self.write(name, after, {"IfMatch": stored[1]} if stored else {"IfNoneMatch": "*"})
                return after
            except ClientError as error:
                # 404: the record was deleted after it was read.
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                if status not in CHANGED_MEANWHILE or code_of(error) == "NoSuchBucket":
                    raise
            _count_contention()
            time.sleep(random.uniform(0, 0.05 * (attempt + 1)))  # noqa: S311 - jitter, no secret
        raise DeploymentError(f"too many deployments are changing {self.uri(name)} at once; deploy again")

    def _read(self, name: str) -> tuple[Record, str] | None:
        response = get_object(self._s3, self.bucket, name)
        if response is None:
            return None
        content = response["Body"].read(self._largest + 1)
        if len(content) > self._largest:
            response["Body"].close()
            raise self._damaged(name, f"it has more than {self._largest:,} bytes")
        try:
            record = json_value(content, most=self._largest)
        except ValueError:
            record = None
        if not is_object(record):
            raise self._damaged(name, "it is not a JSON object")
        return record, response["ETag"]

    def _damaged(self, name: str, problem: str) -> DeploymentError:
        return DeploymentError(
            f"{self.uri(name)} is damaged: {problem}. The bucket is versioned: restore the previous version, or delete "
            "it if there is none, then deploy again"
        )


def _count_contention() -> None:
    # Imported here because the CLI changes the same records without Powertools.
    with contextlib.suppress(ModuleNotFoundError):
        from ..telemetry import count

        count("ClaimContended")
