"""JSON objects in a bucket, changed only by whoever has seen their present state.

A write carries a condition (``If-None-Match`` or ``If-Match``): two that change the same record at once agree on an
order without a lock service. Source: Amazon S3 user guide, "Add preconditions to S3 operations with conditional
requests".

Stacks, teams and accounts share a store and do not upgrade at once. A newer release adds members, which this one keeps
when it writes a record back; where it changes what the members mean, it raises ``schema``, and this release changes
nothing of the record any more. Only a deletion goes on: a stack must not need an upgrade to be deleted.
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

# Far more than any record has; a function's memory is 256 MB or more.
_LARGEST = 32_000_000

SCHEMA = 1
"""The schema of the claims, manifests and owner records that this release writes."""
CALLS_A_THREAD = 8
"""How many items are taken ahead for each thread: enough that none waits for the slowest call, few enough to hold."""

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


class Encryption(TypedDict, total=False):
    """PutObject's arguments about encryption."""

    ServerSideEncryption: Literal["aws:kms"]
    SSEKMSKeyId: str


class _Condition(TypedDict, total=False):
    IfMatch: str
    IfNoneMatch: Literal["*"]


def encryption(kms_key_arn: str | None) -> Encryption:
    """With that key; the bucket's own default where it is None."""
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_arn} if kms_key_arn else {}


def lacks(s3: S3Client, bucket: str, name: str, error: ClientError) -> bool:
    """Whether ``error``, of reading an object, means that there is no such object.

    A GetObject of a missing object returns 403 instead of 404 to whoever may not list the bucket, and roles and
    readers may list prefixes of it only. That S3 takes the name for the prefix then is not documented (ceph/ceph pull
    request 68577); a listing that names its prefix is allowed for certain, where anything is.
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
    """The records of one bucket. Every method may be repeated."""

    def __init__(
        self,
        s3: S3Client,
        bucket: str,
        kms_key_arn: str | None = None,
        *,
        largest: int = _LARGEST,
        any_schema: bool = False,
    ) -> None:
        """Prepare to read and write.

        Args:
            s3: an S3 client.
            bucket: where the records are.
            kms_key_arn: what they are encrypted with. Default: the bucket's own encryption.
            largest: how many bytes of a record are read at most; a larger one is refused.
            any_schema: whether records of a newer release are changed as well, as far as they can be read.
        """
        self._s3 = s3
        self.bucket = bucket
        self._encryption = encryption(kms_key_arn)
        self._largest = largest
        self._any_schema = any_schema

    def read(self, name: str) -> Record | None:
        """The record, or None where there is none.

        Raises:
            DeploymentError: for content that is no JSON object.
        """
        found = self._read(name)
        return found[0] if found else None

    def get(self, name: str, model: type[Stored]) -> Stored | None:
        """The record as a model, or None where there is none.

        Raises:
            NewerRecord: for a record of a newer release.
            DeploymentError: for a record of another form.
        """
        record = self.read(name)
        return self._parsed(name, record, model) if record is not None else None

    def check_schema(self, name: str, record: Mapping[str, Any]) -> None:
        """Make sure that this release knows what the record means, unless any schema will do.

        Raises:
            NewerRecord: for a record of a newer release.
        """
        if not self._any_schema:
            self._refuse_newer(name, record)

    def _refuse_newer(self, name: str, record: Mapping[str, Any]) -> None:
        if schema_of(record) > SCHEMA:
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
            self._refuse_newer(name, record)
            faults = error.errors(include_url=False, include_input=False) if isinstance(error, ValidationError) else ()
            members = ", ".join(".".join(map(str, fault["loc"])) for fault in faults) or str(error)
            raise DeploymentError(self._damaged(name, f"it is a record of another kind (see {members})")) from None

    def uri(self, name: str) -> str:
        """The ``s3://`` URI of a record."""
        return f"s3://{self.bucket}/{name}"

    def write(self, name: str, record: Record) -> None:
        """Write the record, whatever was there."""
        self._put(name, record, {})

    def change(self, name: str, model: type[Stored], change: Callable[[Stored | None], Stored]) -> Stored:
        """:meth:`swap` of a record as a model; one that does not change is not written, whatever its form."""

        def changed(record: Record | None) -> Record:
            before = self._parsed(name, record, model) if record is not None else None
            after = change(before)
            return record if record and after == before else after.to_record()

        return self._parsed(name, self.swap(name, changed), model)

    def swap(self, name: str, change: Callable[[Record | None], Record]) -> Record:
        """Replace the record by the result of ``change``, which may be called more than once.

        Raises:
            DeploymentError: when others keep changing it.
        """
        for attempt in range(_SWAP_ATTEMPTS):
            found = self._read(name)
            before = found[0] if found else None
            after = change(before)
            if after == before:
                return after
            condition: _Condition = {"IfMatch": found[1]} if found else {"IfNoneMatch": "*"}
            try:
                self._put(name, after, condition)
                return after
            except ClientError as error:
                # 404: it was deleted between the read and the write, so read it again.
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                if status not in CHANGED_MEANWHILE or code_of(error) == "NoSuchBucket":
                    raise
            _count_contention()
            time.sleep(random.uniform(0, 0.05 * (attempt + 1)))  # noqa: S311 - jitter, no secret
        raise DeploymentError(f"{self.uri(name)} is being changed by too many deployments at once; deploy again")

    def names(self, prefix: str) -> Iterator[str]:
        """The names of the objects below ``prefix``."""
        return (name for name, _, _ in objects(self._s3, self.bucket, prefix))

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
            raise DeploymentError(self._damaged(name, f"it has more than {self._largest:,} bytes"))
        try:
            record: object = json.loads(content)
        except (ValueError, RecursionError):
            # Not JSON, not UTF-8, or nested more deeply than anything that was written here.
            record = None
        if not is_object(record):
            raise DeploymentError(self._damaged(name, "it is no JSON object"))
        return record, response["ETag"]

    def _damaged(self, name: str, problem: str) -> str:
        return (
            f"{self.uri(name)} is damaged: {problem}. The bucket is versioned: restore the version before it, "
            "then deploy again"
        )

    def _put(self, name: str, record: Record, condition: _Condition) -> None:
        self._s3.put_object(
            Bucket=self.bucket,
            Key=name,
            Body=json.dumps(record, sort_keys=True, indent=1, default=str).encode(),
            ContentType="application/json",
            **self._encryption,
            **condition,
        )


def _count_contention() -> None:
    # Imported here: an operator's shell reads the same records, without Powertools and with nobody to count for.
    with contextlib.suppress(ModuleNotFoundError):
        from ..telemetry import count

        count("ClaimContended")
