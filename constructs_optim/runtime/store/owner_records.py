"""What each resource of each stack refers to, and which of CloudFormation's requests is its latest.

::

    owners/<account>/<digest>.json

A handler may die at any point, be run twice, or run late: CloudFormation invokes it asynchronously, and Lambda repeats
an invocation that failed. So a request is written down before anything is done for it, and each artifact before it is
claimed. A request that a later one has superseded does nothing any more, and what a request referred to without its
response ever arriving is found again by the next one.

The record says which artifacts its owner wants; the claims of those artifacts follow it. Whoever changes a claim reads
the record again afterwards, because a later request may have changed its mind (job_handler.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..documents import failed_request, is_artifact_key
from ..errors import DeploymentError, Superseded, code_of
from .json_records import SCHEMA, JsonRecords, Record, check_schema, in_threads, schema_of, unknown_members

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

PREFIX = "owners/"
_UNKNOWN = "unknown"
# Lambda repeats an invocation twice, and CloudFormation has one request of a resource under way at a time.
_REMEMBERED_REQUESTS = 20
# Those of the request that is under way, and those that a rollback brings back.
_REMEMBERED_PROPERTIES = 2
# An owner has a handful of keys. Whoever shares the store writes records of its own account, of any size.
_LARGEST_RECORD = 1_000_000


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]} is no text")
    return value


def _whole_number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{str(value)[:40]} is no whole number")
    return value


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

    @staticmethod
    def from_record(record: Record) -> Owner:
        """Read the owner that a record names."""
        return Owner(_text(record["stack_id"]), _text(record["logical_id"]))


# The values are those of the records of every release.
BEGUN, APPLIED, CONFIRMED, LEAVING = "begun", "carried out", "answered", "leaving"


@dataclass(frozen=True)
class Reference:
    """One artifact an owner refers to, by which request, and how far that one is known to have come.

    ``begun``: it may have died since. ``carried out``: all was done, but the response may have been lost.
    ``answered``: CloudFormation has it, for it sent the artifact's key as physical id with a later request.
    ``leaving``: the request gives the artifact up, and its owner may still be in the claim.

    ``properties`` are the digests of the properties that it was carried out with, the latest first: a rollback brings
    them back, and with them the artifact, whatever a model's files have become since.
    """

    request: str
    state: str = BEGUN
    properties: tuple[str, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def with_properties(self, digest: str) -> Reference:
        """The same, carried out with these properties as well."""
        if not digest:
            return self
        earlier = tuple(other for other in self.properties if other != digest)
        return replace(self, properties=(digest, *earlier)[:_REMEMBERED_PROPERTIES])


@dataclass(frozen=True)
class OwnerRecord:
    """What one owner refers to (artifact keys), its latest request and those before it.

    ``issued`` is when the latest request was sent, in seconds since 1970; 0 where that is not known. ``chosen`` has the
    key that each request chose when it began: its repetitions keep it.
    """

    owner: Owner
    request: str = ""
    issued: int = 0
    superseded: tuple[str, ...] = ()
    keys: Mapping[str, Reference] = field(default_factory=dict[str, Reference])
    chosen: Mapping[str, str] = field(default_factory=dict[str, str])
    schema: int = SCHEMA
    unknown: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def keys_in(self, *states: str) -> set[str]:
        """The keys of references that are in one of ``states``."""
        return {key for key, reference in self.keys.items() if reference.state in states}

    def wants(self, key: str) -> bool:
        """Whether the owner refers to the artifact and is not about to give it up."""
        return key in self.keys and self.keys[key].state != LEAVING

    def made_with(self, digest: str) -> set[str]:
        """The keys of the artifacts that a request with these properties was carried out with."""
        return {key for key in self.keys_in(APPLIED, CONFIRMED) if digest in self.keys[key].properties}

    def deleted_with(self, physical_id: object) -> set[str]:
        """The artifacts that the deletion of ``physical_id`` gives up.

        With a key for an id these are that one and what is left from requests that died; the key of a request that was
        carried out stays, for it may be the replacement of the one that is deleted. Any other id is that of a creation:
        one that failed, whose request the id names, or one whose response never arrived. What an earlier request was
        giving up goes in any case.
        """
        leaving = self.keys_in(LEAVING)
        if is_artifact_key(physical_id):
            return {physical_id} | self.keys_in(BEGUN) | leaving
        request = failed_request(physical_id)
        unanswered = self.keys_in(BEGUN, APPLIED)
        return {key for key in unanswered if request in (None, self.keys[key].request)} | leaving

    def giving_up(self, keys: Collection[str], request: str) -> OwnerRecord:
        """The same where ``request`` gives up those of its references that are among ``keys``."""
        return replace(
            self,
            keys={
                key: replace(reference, request=request, state=LEAVING) if key in keys else reference
                for key, reference in self.keys.items()
            },
        )

    def to_record(self) -> Record:
        """The content of the record."""
        return {
            **self.unknown,
            "schema": self.schema,
            "stack_id": self.owner.stack_id,
            "logical_id": self.owner.logical_id,
            "request": self.request,
            "issued": self.issued,
            "superseded": list(self.superseded),
            "keys": {
                key: {**reference.unknown, "request": reference.request, "state": reference.state}
                for key, reference in sorted(self.keys.items())
            },
            # Beside the references: the first release knows no other members of theirs, and ignores these.
            "properties": {
                key: list(reference.properties) for key, reference in sorted(self.keys.items()) if reference.properties
            },
            "chosen": dict(sorted(self.chosen.items())),
        }

    @staticmethod
    def from_record(record: Record) -> OwnerRecord:
        """Read the content of a record.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: when it has another form: any account that shares the store
                may have written it.
        """
        properties = record.get("properties", {})
        return OwnerRecord(
            owner=Owner.from_record(record),
            request=_text(record["request"]),
            issued=_whole_number(record.get("issued", 0)),
            superseded=tuple(map(_text, record["superseded"])),
            keys={
                key: Reference(
                    _text(reference["request"]),
                    _text(reference.get("state", BEGUN)),
                    tuple(map(_text, properties.get(key, ()))),
                    unknown_members(reference, ("request", "state")),
                )
                for key, reference in record["keys"].items()
            },
            chosen={request: _text(key) for request, key in record.get("chosen", {}).items()},
            schema=schema_of(record),
            unknown=unknown_members(record, _MEMBERS),
        )


_MEMBERS = frozenset(OwnerRecord(Owner("", "")).to_record())


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

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None = None, *, any_schema: bool = False) -> None:
        """Prepare to read and write.

        Args:
            s3: an S3 client.
            bucket: the store's bucket.
            kms_key_arn: what records are encrypted with. Default: as the bucket has it.
            any_schema: whether records of a newer release are changed as well, as far as they can be read.
        """
        self._records = JsonRecords(s3, bucket, kms_key_arn, largest=_LARGEST_RECORD)
        self._any_schema = any_schema

    def all(self, account: str | None = None, *, threads: int = 8) -> Iterator[OwnerRecord | UnreadableRecord]:
        """Every owner's record, or those of one account, which is all that another account's store shows it.

        Each account writes its own: what cannot be read of one, or is written in the name of another, hides none of the
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
        return self._parsed(record, name) if record is not None else None

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

    def begin(
        self,
        owner: Owner,
        request: str,
        *,
        issued: int = 0,
        physical_id: str | None = None,
        properties: str = "",
        gives_up: Callable[[OwnerRecord], Collection[str]] | None = None,
    ) -> OwnerRecord:
        """Make ``request`` the owner's latest. Done first: whatever is still at work for an earlier one stops.

        Args:
            owner: whose request it is.
            request: its id.
            issued: when it was sent, in seconds since 1970. Default: not known.
            physical_id: the resource's physical id in the request: CloudFormation has received that response.
            properties: a digest of what the resource was carried out with before, for references of the first release,
                which did not write it down. Default: not known.
            gives_up: which references a deletion gives up. Default: none.

        Raises:
            Superseded: when a later request was there before.
        """

        def begun(record: OwnerRecord) -> OwnerRecord:
            if request in record.superseded or 0 < issued < record.issued:
                raise Superseded(f"request {request} was superseded by {record.request}")
            if request == record.request:
                return record
            known_requests = (*record.superseded, record.request) if record.request else record.superseded
            superseded = known_requests[-_REMEMBERED_REQUESTS:]
            keys = dict(record.keys)
            if physical_id in keys:
                known = replace(keys[physical_id], state=CONFIRMED)
                keys[physical_id] = known if known.properties else known.with_properties(properties)
            latest = replace(
                record,
                request=request,
                issued=issued,
                superseded=superseded,
                keys=keys,
                chosen={earlier: key for earlier, key in record.chosen.items() if earlier in superseded},
            )
            return latest.giving_up(gives_up(latest), request) if gives_up is not None else latest

        return self._change(owner, begun)

    def refer(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Write down that ``request`` is about to use the artifact ``key``, before it does.

        Where an earlier try of the request chose another key, that one stands: it is in ``chosen``.

        Raises:
            Superseded: when a later request has begun.
        """

        def referred(record: OwnerRecord) -> OwnerRecord:
            _check_latest(record, request)
            chosen = record.chosen.get(request, key)
            # A reference that stands from an earlier request stays: failing to renew it must not take it away. One of
            # a request that may have died is this request's from now on.
            reference = record.keys.get(chosen, Reference(request))
            if reference.state not in (APPLIED, CONFIRMED):
                reference = replace(reference, request=request, state=BEGUN)
            return replace(record, keys={**record.keys, chosen: reference}, chosen={**record.chosen, request: chosen})

        return self._change(owner, referred)

    def check_latest(self, owner: Owner, request: str) -> None:
        """Make sure that no later request has begun.

        Raises:
            Superseded: when one has.
        """
        _check_latest(self.get(owner), request)

    def settle(
        self, owner: Owner, request: str, key: str, *, properties: str = "", before: object = None
    ) -> OwnerRecord:
        """Write down that ``request`` was carried out with ``key``, and gives up all else but what was there before.

        Args:
            owner: whose request it is.
            request: its id.
            key: the artifact that the resource has now.
            properties: a digest of the properties that it was carried out with. Default: not known.
            before: the physical id that the resource had; where it is another one, CloudFormation asks for its
                deletion when the update is complete. Default: none.

        Raises:
            Superseded: when a later request has begun.
            DeploymentError: when another try of this request has given the artifact up.
        """

        def settled(record: OwnerRecord) -> OwnerRecord:
            _check_latest(record, request)
            known = record.keys.get(key, Reference(request))
            # Another try of the request failed beside this one, and may have taken the owner off the claim since.
            if known.state == LEAVING or (key not in record.keys and record.chosen.get(request) == key):
                raise DeploymentError("another try of this request failed and gave the artifact up; deploy again")
            state = CONFIRMED if known.state == CONFIRMED else APPLIED
            settled = replace(known, request=request, state=state).with_properties(properties)
            now = replace(record, keys={**record.keys, key: settled})
            return now.giving_up(set(now.keys) - {key, before}, request)

        return self._change(owner, settled)

    def withdraw(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Give up the reference of a request that failed, unless another request has made it its own."""

        def withdrawn(record: OwnerRecord) -> OwnerRecord:
            known = record.keys.get(key)
            is_its_own = known is not None and known.request == request and known.state == BEGUN
            return record.giving_up({key}, request) if is_its_own else record

        return self._change(owner, withdrawn)

    def left(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Take out a reference that ``request`` gave up, once the claim was left; a later request's stays.

        The record stays: it knows the past requests.
        """

        def without(record: OwnerRecord) -> OwnerRecord:
            known = record.keys.get(key)
            if known is None or known.state != LEAVING or known.request != request:
                return record
            return _without(record, key)

        return self._change(owner, without)

    def forget(self, owner: Owner, key: str) -> OwnerRecord:
        """Take the reference to ``key`` out, whoever made it: the owner's stack is gone."""
        return self._change(owner, lambda record: _without(record, key))

    def _change(self, owner: Owner, change: Callable[[OwnerRecord], OwnerRecord]) -> OwnerRecord:
        def changed(record: Record | None) -> Record:
            before = self._parsed(record, owner.record_name) if record is not None else OwnerRecord(owner)
            after = change(before)
            # Records of an earlier release that stay as they are must not be written for their form's sake.
            return record if record and after == before else after.to_record()

        return self._parsed(self._records.swap(owner.record_name, changed), owner.record_name)

    def _parsed(self, record: Record, name: str) -> OwnerRecord:
        if not self._any_schema:
            check_schema(record, self._records.uri(name))
        return self._records.parsed(name, record, OwnerRecord.from_record)


def _without(record: OwnerRecord, key: str) -> OwnerRecord:
    return replace(record, keys={other: reference for other, reference in record.keys.items() if other != key})


def _account_in(name: str) -> str:
    return name.removeprefix(PREFIX).partition("/")[0]


def _check_latest(record: OwnerRecord, request: str) -> None:
    if record.request != request:
        raise Superseded(f"request {request} was superseded by {record.request}")
