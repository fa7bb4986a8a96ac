"""A large artifact store in memory with the latency of a network on each call.

S3's part is what the store's code uses of it: listings in pages of a thousand, conditional writes, batches of
deletions.
"""

# ruff: noqa: N803 - as boto3 calls its arguments

from __future__ import annotations

import bisect
import datetime as dt
import hashlib
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from constructs_optim.runtime.store.artifact_store import Claim, Owner
from constructs_optim.runtime.store.owner_records import CONFIRMED, OwnerRecord, Reference

BUCKET, ACCOUNT = "artifacts", "111122223333"
FILES = 12
_PAGE = 1000

Answer = TypeVar("Answer")
_MADE = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)
_DESCRIPTION = {"Model": "meta-textgeneration-llama-2-70b 4.0.0", "Techniques": ["AWQ INT4 (group size 128)"]}


@dataclass(slots=True)
class _Object:
    body: bytes | None
    size: int
    etag: str


class MemoryS3:
    """One bucket. ``seconds`` is what each call takes; ``calls`` counts them, by operation."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.calls: Counter[str] = Counter()
        self.most_at_once = 0
        self._at_once = 0
        self._objects: dict[str, _Object] = {}
        self._names: list[str] = []
        self._lock = threading.Lock()

    def put(self, name: str, body: bytes | None, size: int | None = None) -> None:
        """Store an object; one without a body has only a size."""
        etag = hashlib.md5(body or name.encode(), usedforsecurity=False).hexdigest()
        if name not in self._objects:
            bisect.insort(self._names, name)
        self._objects[name] = _Object(body, len(body or b"") if size is None else size, f'"{etag}"')

    def names(self) -> list[str]:
        return [name for name in self._names if name in self._objects]

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        found = self._call("GetObject", lambda: self._found("GetObject", Key))
        return {"Body": io.BytesIO(found.body or b""), "ETag": found.etag, "ContentLength": found.size}

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        found = self._call("HeadObject", lambda: self._found("HeadObject", Key))
        return {"ETag": found.etag, "ContentLength": found.size}

    def put_object(
        self, *, Key: str, Body: bytes, IfMatch: str | None = None, IfNoneMatch: str | None = None, **_: Any
    ) -> None:
        def put() -> None:
            found = self._objects.get(Key)
            if (IfNoneMatch and found) or (IfMatch and (found is None or found.etag != IfMatch)):
                raise _error("PutObject", "PreconditionFailed", 412)
            self.put(Key, Body)

        self._call("PutObject", put)

    def delete_object(self, *, Bucket: str, Key: str, IfMatch: str | None = None) -> None:
        def delete() -> None:
            if IfMatch is not None and self._found("DeleteObject", Key).etag != IfMatch:
                raise _error("DeleteObject", "PreconditionFailed", 412)
            self._objects.pop(Key, None)

        self._call("DeleteObject", delete)

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:
        def delete() -> None:
            for each in Delete["Objects"]:
                self._objects.pop(each["Key"], None)

        self._call("DeleteObjects", delete)
        return {}

    def get_paginator(self, operation: str) -> MemoryS3:
        assert operation == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> Iterator[dict[str, Any]]:
        after = bisect.bisect_left(self._names, Prefix)
        while True:
            page, after = self._call("ListObjectsV2", lambda: self._page(Prefix, after))  # noqa: B023 - called at once
            yield {"Contents": page} if page else {}
            if len(page) < _PAGE:
                return

    def _page(self, prefix: str, place: int) -> tuple[list[dict[str, Any]], int]:
        page: list[dict[str, Any]] = []
        while place < len(self._names) and len(page) < _PAGE and self._names[place].startswith(prefix):
            name = self._names[place]
            if found := self._objects.get(name):
                page.append({"Key": name, "Size": found.size, "ETag": found.etag, "LastModified": _MADE})
            place += 1
        return page, place

    def _found(self, operation: str, name: str) -> _Object:
        if name not in self._objects:
            raise _error(operation, "404" if operation == "HeadObject" else "NoSuchKey", 404)
        return self._objects[name]

    def _call(self, operation: str, act: Callable[[], Answer]) -> Answer:
        with self._lock:
            self.calls[operation] += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            time.sleep(self.seconds)
            with self._lock:
                return act()
        finally:
            with self._lock:
                self._at_once -= 1


class MemoryStacks:
    """CloudFormation, in which every stack is there."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:
        time.sleep(self._seconds)
        return {"Stacks": [{"StackId": StackName, "StackStatus": "CREATE_COMPLETE"}]}


def fill(s3: MemoryS3, artifacts: int, unused: int, stacks: int) -> None:
    """Put artifacts of 12 files, each with an owner record except for the first ``unused`` by key."""
    keys = sorted(hashlib.sha256(str(number).encode()).hexdigest() for number in range(artifacts))
    for number, key in enumerate(keys):
        stack = f"arn:aws:cloudformation:us-west-2:{ACCOUNT}:stack/Chat{number % stacks}/1234"
        owner = Owner(stack, f"Llama{number}Job")
        is_used = number >= unused
        claim = Claim(
            artifact_key=key,
            owners=(owner,) if is_used else (),
            maker=ACCOUNT,
            source={"identity": "hub:SageMakerPublicHub/llama@1"},
            description=_DESCRIPTION,
        )
        references = {key: Reference(request="request", state=CONFIRMED)} if is_used else {}
        record = OwnerRecord.of(owner).updated(request="request", keys=references)
        prefix = f"artifacts/{key}/"
        names = [f"model-{place:05}-of-{FILES:05}.safetensors" for place in range(FILES)]
        for name in names:
            s3.put(f"{prefix}model/1/{name}", None, 4_000_000_000)
        files = [
            {
                "name": name,
                "size": 4_000_000_000,
                "etag": s3._objects[f"{prefix}model/1/{name}"].etag.strip('"'),
                "checksums": {"CRC64NVME": "AAAAAAAAAAA="},
            }
            for name in names
        ]
        manifest = {
            "schema": 1,
            "artifact_key": key,
            "attempt": 1,
            "image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.36.0-lmi25.0.0-cu129",
            "model_data_uri": f"s3://{BUCKET}/{prefix}model/1/",
            "job_name": f"optim-{key[:40]}-1",
            "source": claim.source,
            "description": _DESCRIPTION,
            "ended_at": "2026-09-01T00:00:00+00:00",
            "files": files,
        }
        s3.put(f"{prefix}manifest.json", _json(manifest))
        s3.put(f"{prefix}claim.json", _json(claim.to_record()))
        s3.put(owner.record_name, _json(record.to_record()))


def _json(record: Any) -> bytes:
    return json.dumps(record, sort_keys=True, indent=1).encode()


def _error(operation: str, code: str, status: int) -> ClientError:
    said = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(said, operation)  # type: ignore[arg-type]
