"""The artifacts that each resource of each stack refers to, and its latest request.

::

    owners/<account>/<digest>.json

A handler may die at any point, be run twice, or run late: CloudFormation invokes it asynchronously, and Lambda repeats
an invocation that failed. So a request is written down before anything is done for it, and each artifact before it is
claimed. A superseded request does nothing any more, and what it referred to without its response ever arriving is
found again by the next one.

The record says which artifacts its owner wants; the claims of those artifacts follow it. Whoever changes a claim reads
the record again afterwards, because a later request may have changed it (job_handler.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from pydantic import Field

from ..documents import failed_request, is_artifact_key
from ..errors import DeploymentError, Superseded, code_of
from .json_records import JsonRecords, StoredPart, StoredRecord, in_threads

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


class Owner(StoredPart):
    """The resource of a stack that refers to an artifact."""

    stack_id: str
    logical_id: str

    def __init__(self, stack_id: str, logical_id: str, **unknown: Any) -> None:
        super().__init__(**{**unknown, "stack_id": stack_id, "logical_id": logical_id})

    # The owner is the same whatever a newer release has added to it in a claim.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owner) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __lt__(self, other: Owner) -> bool:
        return self._identity < other._identity

    @property
    def _identity(self) -> tuple[str, str]:
        return self.stack_id, self.logical_id

    @property
    def account(self) -> str:
        """The account of the stack: the fifth part of its ARN; empty where the id is no ARN."""
        parts = self.stack_id.split(":")
        return parts[4] if len(parts) > 4 else ""

    @property
    def record_name(self) -> str:
        """The name of its record."""
        digest = hashlib.sha256("\n".join(self._identity).encode()).hexdigest()[:32]
        return f"{PREFIX}{self.account or _UNKNOWN}/{digest}.json"


# The values are those of the records of every release.
BEGUN, APPLIED, CONFIRMED, LEAVING = "begun", "carried out", "answered", "leaving"


class Reference(StoredPart):
    """A reference to one artifact: the request that made it, and its state.

    ``BEGUN``: the request may have died since. ``APPLIED``: all was done, but the response may have been lost.
    ``CONFIRMED``: CloudFormation has the response, for it sent the artifact's key as physical id with a later request.
    ``LEAVING``: the request gives the artifact up, and its owner may still be in the claim.
    """

    request: str
    state: str = BEGUN


class OwnerRecord(StoredRecord):
    """An owner's references by artifact key, its latest request and those before it.

    ``issued`` is when the latest request was sent, in seconds since 1970; 0 where that is not known. ``chosen`` has the
    key that each request chose when it began: its repetitions keep it. ``properties`` has, by artifact key, the digests
    of the properties that the reference was applied with, the latest first: a rollback brings them back, and with them
    the artifact, whatever a model's files have become since. They are beside the references, because the first release
    knows no other members of those.
    """

    stack_id: str
    logical_id: str
    request: str
    issued: int = 0
    superseded: tuple[str, ...]
    keys: dict[str, Reference]
    properties: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    chosen: dict[str, str] = Field(default_factory=dict)

    @staticmethod
    def of(owner: Owner, *, request: str = "", keys: dict[str, Reference] | None = None) -> OwnerRecord:
        """A new record."""
        of_owner: dict[str, Any] = {"stack_id": owner.stack_id, "logical_id": owner.logical_id}
        return OwnerRecord(**of_owner, request=request, superseded=(), keys=keys or {})

    @property
    def owner(self) -> Owner:
        """The owner."""
        return Owner(self.stack_id, self.logical_id)

    def keys_in(self, *states: str) -> set[str]:
        """The keys of references that are in one of ``states``."""
        return {key for key, reference in self.keys.items() if reference.state in states}

    def wants(self, key: str) -> bool:
        """Whether the owner refers to the artifact and is not about to give it up."""
        return key in self.keys and self.keys[key].state != LEAVING

    def made_with(self, digest: str) -> set[str]:
        """The keys of the artifacts that a request with these properties was applied with."""
        return {key for key in self.keys_in(APPLIED, CONFIRMED) if digest in self.properties.get(key, ())}

    def deleted_with(self, physical_id: object) -> set[str]:
        """The artifacts that the deletion of ``physical_id`` gives up.

        With a key for an id these are that one and what is left from requests that died; the key of a request that was
        applied stays, for it may be the replacement of the one that is deleted. Any other id is that of a creation:
        one that failed, whose request the id names, or one whose response never arrived. What an earlier request was
        giving up goes in any case.
        """
        leaving = self.keys_in(LEAVING)
        if is_artifact_key(physical_id):
            return {physical_id} | self.keys_in(BEGUN) | leaving
        request = failed_request(physical_id)
        unconfirmed = self.keys_in(BEGUN, APPLIED)
        return {key for key in unconfirmed if request in (None, self.keys[key].request)} | leaving

    def referring(self, key: str, reference: Reference, *, properties: str = "") -> OwnerRecord:
        """A copy with a reference; with ``properties``, applied with those as well."""
        now = self.updated(keys={**self.keys, key: reference})
        if not properties:
            return now
        earlier = tuple(other for other in self.properties.get(key, ()) if other != properties)
        return now.updated(properties={**self.properties, key: (properties, *earlier)[:_REMEMBERED_PROPERTIES]})

    def giving_up(self, keys: Collection[str], request: str) -> OwnerRecord:
        """A copy in which ``request`` gives up those of the references that are among ``keys``."""
        leaving = {key: self.keys[key].updated(request=request, state=LEAVING) for key in self.keys if key in keys}
        return self.updated(keys={**self.keys, **leaving})

    def without(self, key: str) -> OwnerRecord:
        """A copy without a reference."""
        kept: dict[str, dict[str, Any]] = {"keys": self.keys, "properties": self.properties}
        return self.updated(
            **{name: {other: of for other, of in by_key.items() if other != key} for name, by_key in kept.items()}
        )

    def check_latest(self, request: str) -> None:
        """Raise :class:`Superseded` where ``request`` is not the latest."""
        if self.request != request:
            raise Superseded(f"request {request} was superseded by {self.request}")


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
    """The owner records of one bucket, by :class:`JsonRecords`. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None = None, *, any_schema: bool = False) -> None:
        self._records = JsonRecords(s3, bucket, kms_key_arn, largest=_LARGEST_RECORD, any_schema=any_schema)

    def all(self, account: str | None = None, *, threads: int = 8) -> Iterator[OwnerRecord | UnreadableRecord]:
        """Every owner's record, or those of one account, which is all that another account's store shows it.

        Each account writes its own: what cannot be read of one, or is written in the name of another, hides none of the
        rest.
        """
        names = self._records.names(f"{PREFIX}{account}/" if account else PREFIX)
        return filter(None, in_threads(self._any, names, threads=threads))

    def _any(self, name: str) -> OwnerRecord | UnreadableRecord | None:
        try:
            record = self._records.get(name, OwnerRecord)
        except DeploymentError as error:
            return UnreadableRecord(name, str(error))
        if record is not None and (record.owner.account or _UNKNOWN) != _account_in(name):
            problem = f"{self._records.uri(name)} speaks for account {record.owner.account}, and is not its"
            return UnreadableRecord(name, problem)
        return record

    def get(self, owner: Owner) -> OwnerRecord:
        """An owner's record as it stands; empty where there is none."""
        return self._records.get(owner.record_name, OwnerRecord) or OwnerRecord.of(owner)

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
            properties: a digest of what the resource was applied with before, for references of the first release,
                which did not write it down. Default: not known.
            gives_up: the references that a deletion gives up. Default: none.

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
            chosen = {earlier: key for earlier, key in record.chosen.items() if earlier in superseded}
            latest = record.updated(request=request, issued=issued, superseded=superseded, chosen=chosen)
            if physical_id in latest.keys:
                confirmed = latest.keys[physical_id].updated(state=CONFIRMED)
                unknown = not latest.properties.get(physical_id)
                latest = latest.referring(physical_id, confirmed, properties=properties if unknown else "")
            return latest.giving_up(gives_up(latest), request) if gives_up is not None else latest

        return self._change(owner, begun)

    def refer(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Write down that ``request`` is about to use the artifact ``key``, before it does.

        Where an earlier try of the request chose another key, that one stands: it is in ``chosen``.

        Raises:
            Superseded: when a later request has begun.
        """

        def referred(record: OwnerRecord) -> OwnerRecord:
            record.check_latest(request)
            chosen = record.chosen.get(request, key)
            # A reference that stands from an earlier request stays: failing to renew it must not take it away. One of
            # a request that may have died is this request's from now on.
            reference = record.keys.get(chosen, Reference(request=request))
            if reference.state not in (APPLIED, CONFIRMED):
                reference = reference.updated(request=request, state=BEGUN)
            return record.referring(chosen, reference).updated(chosen={**record.chosen, request: chosen})

        return self._change(owner, referred)

    def check_latest(self, owner: Owner, request: str) -> None:
        """Raise :class:`Superseded` where a request later than ``request`` has begun."""
        self.get(owner).check_latest(request)

    def settle(
        self, owner: Owner, request: str, key: str, *, properties: str = "", before: object = None
    ) -> OwnerRecord:
        """Write down that ``request`` was applied with ``key``, and gives up all else but what was there before.

        Args:
            owner: whose request it is.
            request: its id.
            key: the artifact that the resource has now.
            properties: a digest of the properties that it was applied with. Default: not known.
            before: the physical id that the resource had; where it is another one, CloudFormation asks for its
                deletion when the update is complete. Default: none.

        Raises:
            Superseded: when a later request has begun.
            DeploymentError: when another try of this request has given the artifact up.
        """

        def settled(record: OwnerRecord) -> OwnerRecord:
            record.check_latest(request)
            known = record.keys.get(key, Reference(request=request))
            # Another try of the request failed beside this one, and may have taken the owner off the claim since.
            if known.state == LEAVING or (key not in record.keys and record.chosen.get(request) == key):
                raise DeploymentError("another try of this request failed and gave the artifact up; deploy again")
            state = CONFIRMED if known.state == CONFIRMED else APPLIED
            now = record.referring(key, known.updated(request=request, state=state), properties=properties)
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

        def removed(record: OwnerRecord) -> OwnerRecord:
            known = record.keys.get(key)
            is_its_own = known is not None and known.request == request and known.state == LEAVING
            return record.without(key) if is_its_own else record

        return self._change(owner, removed)

    def forget(self, owner: Owner, key: str) -> OwnerRecord:
        """Take the reference to ``key`` out, whoever made it: the owner's stack is gone."""
        return self._change(owner, lambda record: record.without(key))

    def _change(self, owner: Owner, change: Callable[[OwnerRecord], OwnerRecord]) -> OwnerRecord:
        return self._records.change(
            owner.record_name, OwnerRecord, lambda record: change(record or OwnerRecord.of(owner))
        )


def _account_in(name: str) -> str:
    return name.removeprefix(PREFIX).partition("/")[0]
