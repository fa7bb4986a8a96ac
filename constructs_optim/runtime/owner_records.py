"""What each resource of each stack refers to, and which of CloudFormation's requests is its latest.

::

    owners/<account>/<digest>.json

A handler may die at any point, be run twice, or run late: CloudFormation invokes it asynchronously, and Lambda repeats
an invocation that failed. So a request is written down before anything is done for it, and each artifact before it is
claimed. A request that a later one has superseded does nothing any more, and what a request referred to without its
answer ever arriving is found again by the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from .concurrency import in_threads
from .errors import DeploymentError, code_of
from .json_records import JsonRecords, Record

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

PREFIX = "owners/"
_UNKNOWN = "unknown"
# Lambda repeats an invocation twice, and CloudFormation has one request of a resource under way at a time.
_REMEMBERED_REQUESTS = 20
# An owner has a handful of keys. Whoever shares the store writes records of its own account, of any size.
_LARGEST_RECORD = 1_000_000


class Superseded(DeploymentError):
    """CloudFormation has sent a later request for the same resource: this one's time is over."""


@dataclass(frozen=True, order=True)
class Owner:
    """The resource of a stack that refers to an artifact."""

    stack_id: str
    logical_id: str

    @property
    def account(self) -> str:
        """The account of the stack: the fifth part of its ARN; empty where the id is no ARN."""
        parts = self.stack_id.split(":")
        return parts[4] if len(parts) > 4 else ""

    @property
    def record_name(self) -> str:
        """The name of its record."""
        digest = hashlib.sha256(f"{self.stack_id}\n{self.logical_id}".encode()).hexdigest()[:32]
        return f"{PREFIX}{self.account or _UNKNOWN}/{digest}.json"


BEGUN, CARRIED_OUT, ANSWERED = "begun", "carried out", "answered"


@dataclass(frozen=True)
class Reference:
    """One artifact an owner refers to, by which request, and how far that one is known to have come.

    ``begun``: it may have died since. ``carried out``: all was done, but the answer may have been lost.
    ``answered``: CloudFormation has it, for it sent the artifact's key as physical id with a later request.
    """

    request: str
    state: str = BEGUN


@dataclass(frozen=True)
class OwnerRecord:
    """What one owner refers to (artifact keys), its latest request and those before it.

    ``issued`` is when the latest request was sent, in seconds since 1970; 0 where that is not known.
    """

    owner: Owner
    request: str = ""
    issued: int = 0
    superseded: tuple[str, ...] = ()
    keys: Mapping[str, Reference] = field(default_factory=dict[str, Reference])

    def keys_in(self, *states: str) -> set[str]:
        """The keys of references that are in one of ``states``."""
        return {key for key, reference in self.keys.items() if reference.state in states}

    def to_record(self) -> Record:
        """The content of the record."""
        return {
            "schema": 1,
            "stack_id": self.owner.stack_id,
            "logical_id": self.owner.logical_id,
            "request": self.request,
            "issued": self.issued,
            "superseded": list(self.superseded),
            "keys": {key: asdict(reference) for key, reference in sorted(self.keys.items())},
        }

    @staticmethod
    def from_record(record: Record) -> OwnerRecord:
        """Read the content of a record."""
        return OwnerRecord(
            owner=Owner(record["stack_id"], record["logical_id"]),
            request=record["request"],
            issued=record.get("issued", 0),
            superseded=tuple(record["superseded"]),
            keys={key: Reference(**reference) for key, reference in record["keys"].items()},
        )


@dataclass(frozen=True)
class UnreadableRecord:
    """An object below ``owners/`` that is no owner's record; ``problem`` names it and says what is wrong."""

    name: str
    problem: str

    @property
    def account(self) -> str:
        """The account that may write it: the folder it is in."""
        return _account_in(self.name)


class OwnerRecords:
    """The owner records of one bucket. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None = None) -> None:
        self._records = JsonRecords(s3, bucket, kms_key_arn, largest=_LARGEST_RECORD)

    def all(self, account: str | None = None, *, threads: int = 8) -> Iterator[OwnerRecord | UnreadableRecord]:
        """Every owner's record, or those of one account, which is all that another account's store shows it.

        Each account writes its own: what cannot be read of one, or is said in the name of another, hides none of the
        rest.
        """
        names = self._records.names(f"{PREFIX}{account}/" if account else PREFIX)
        return filter(None, in_threads(self._any, names, threads=threads))

    def _any(self, name: str) -> OwnerRecord | UnreadableRecord | None:
        try:
            record = self._read(name)
        except DeploymentError as error:
            return UnreadableRecord(name, str(error))
        if record is not None and (record.owner.account or _UNKNOWN) != _account_in(name):
            problem = f"s3://{self._records.bucket}/{name} speaks for account {record.owner.account}, and is not its"
            return UnreadableRecord(name, problem)
        return record

    def _read(self, name: str) -> OwnerRecord | None:
        record = self._records.read(name)
        return self._records.parsed(name, record, OwnerRecord.from_record) if record is not None else None

    def get(self, owner: Owner) -> OwnerRecord:
        """An owner's record as it stands; empty where there is none."""
        return self._read(owner.record_name) or OwnerRecord(owner)

    def may_refer(self, owner: Owner) -> bool:
        """Whether an owner refers to anything; in a store that is not shared with its account it does not."""
        try:
            return bool(self.get(owner).keys)
        except ClientError as error:
            if code_of(error) != "AccessDenied":
                raise
            return False

    def begin(self, owner: Owner, request: str, *, issued: int = 0, physical_id: str | None = None) -> OwnerRecord:
        """Make ``request`` the owner's latest. Done first: whatever is still at work for an earlier one stops.

        Args:
            owner: whose request it is.
            request: its id.
            issued: when it was sent, in seconds since 1970. Default: not known.
            physical_id: what the request gives as the resource's physical id: CloudFormation has got that answer.

        Raises:
            Superseded: when a later request was there before.
        """

        def begun(record: OwnerRecord) -> OwnerRecord:
            if request in record.superseded or 0 < issued < record.issued:
                raise Superseded(f"request {request} was superseded by {record.request}")
            if request == record.request:
                return record
            earlier = (*record.superseded, record.request) if record.request else record.superseded
            keys = {
                key: replace(reference, state=ANSWERED) if key == physical_id else reference
                for key, reference in record.keys.items()
            }
            superseded = earlier[-_REMEMBERED_REQUESTS:]
            return replace(record, request=request, issued=issued, superseded=superseded, keys=keys)

        return self._change(owner, begun)

    def refer(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Write down that ``request`` is about to use the artifact ``key``, before it does.

        Raises:
            Superseded: when a later request has begun.
        """

        def referred(record: OwnerRecord) -> OwnerRecord:
            _check_latest(record, request)
            # A reference that stands from an earlier request stays: failing to renew it must not take it away.
            return replace(record, keys={key: Reference(request), **record.keys})

        return self._change(owner, referred)

    def settle(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Write down that ``request`` was carried out with ``key``.

        Raises:
            Superseded: when a later request has begun.
        """

        def settled(record: OwnerRecord) -> OwnerRecord:
            _check_latest(record, request)
            state = record.keys[key].state if key in record.keys else BEGUN
            settled = Reference(request, ANSWERED if state == ANSWERED else CARRIED_OUT)
            return replace(record, keys={**record.keys, key: settled})

        return self._change(owner, settled)

    def forget(self, owner: Owner, key: str) -> OwnerRecord:
        """Take the reference to ``key`` out, once it was given up. The record stays: it knows the past requests."""

        def forgotten(record: OwnerRecord) -> OwnerRecord:
            return replace(record, keys={other: ref for other, ref in record.keys.items() if other != key})

        return self._change(owner, forgotten)

    def _change(self, owner: Owner, change: Callable[[OwnerRecord], OwnerRecord]) -> OwnerRecord:
        def changed(record: Record | None) -> Record:
            parsed = (
                self._records.parsed(owner.record_name, record, OwnerRecord.from_record) if record is not None else None
            )
            return change(parsed or OwnerRecord(owner)).to_record()

        return OwnerRecord.from_record(self._records.swap(owner.record_name, changed))


def _account_in(name: str) -> str:
    return name.removeprefix(PREFIX).partition("/")[0]


def _check_latest(record: OwnerRecord, request: str) -> None:
    if record.request != request:
        raise Superseded(f"request {request} was superseded by {record.request}")
