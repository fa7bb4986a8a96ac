"""The artifacts that each resource of each stack refers to, and its latest request.

::

    owners/<account>/<digest>.json

A handler may be interrupted, run twice, or run late. Every request is therefore recorded before it takes effect, and
every artifact before it is claimed (docs/reliability.md). The claims of artifacts follow their owners' records.
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
from .json_records import JsonRecords, StoredPart, StoredRecord, in_threads, objects

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

PREFIX = "owners/"
_UNKNOWN = "unknown"
# Lambda retries an invocation twice, and CloudFormation sends one request for a resource at a time.
_REMEMBERED_REQUESTS = 20
# The properties of the current request, and those that a rollback restores.
_REMEMBERED_PROPERTIES = 2
# In bytes. Accounts that share the store can write records of any size.
_LARGEST_RECORD = 1_000_000


class Owner(StoredPart):
    """A stack's resource that refers to an artifact."""

    stack_id: str
    logical_id: str

    def __init__(self, stack_id: str, logical_id: str, **unknown: Any) -> None:
        super().__init__(**{**unknown, "stack_id": stack_id, "logical_id": logical_id})

    # Excludes members that a newer release has added in a claim.
    @property
    def _identity(self) -> tuple[str, str]:
        return self.stack_id, self.logical_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owner) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __lt__(self, other: Owner) -> bool:
        return self._identity < other._identity

    @property
    def account(self) -> str:
        """The stack's account; empty if the stack's ID is not an ARN."""
        return "".join(self.stack_id.split(":")[4:5])

    @property
    def record_name(self) -> str:
        """The name of the owner's record."""
        digest = hashlib.sha256("\n".join(self._identity).encode()).hexdigest()[:32]
        return f"{PREFIX}{self.account or _UNKNOWN}/{digest}.json"


# The values are part of the stored format.
BEGUN, APPLIED, CONFIRMED, LEAVING = "begun", "carried out", "answered", "leaving"


class Reference(StoredPart):
    """A reference to one artifact, with the request that wrote it."""

    request: str
    # BEGUN: the request may have been interrupted. APPLIED: its response may have been lost. CONFIRMED: CloudFormation
    # has the response, because a later request has the key as physical ID. LEAVING: the claim may still have the owner.
    state: str = BEGUN


class OwnerRecord(StoredRecord):
    """An owner's references by artifact key, its latest request and earlier ones."""

    stack_id: str
    logical_id: str
    request: str
    # When the latest request was sent, in seconds since 1970; 0 if unknown.
    issued: int = 0
    superseded: tuple[str, ...]
    keys: dict[str, Reference]
    # Digests of the applied properties by key, latest first: a rollback restores both. They are not members of the
    # references, which the first release would not keep.
    properties: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    # The key that each request chose first, for its retries.
    chosen: dict[str, str] = Field(default_factory=dict)

    @staticmethod
    def of(owner: Owner) -> OwnerRecord:
        """Return an empty record."""
        return OwnerRecord(stack_id=owner.stack_id, logical_id=owner.logical_id, request="", superseded=(), keys={})

    @property
    def owner(self) -> Owner:
        """The owner."""
        return Owner(self.stack_id, self.logical_id)

    def keys_in(self, *states: str) -> set[str]:
        """Return the keys of the references in these states."""
        return {key for key, reference in self.keys.items() if reference.state in states}

    def wants(self, key: str) -> bool:
        """Return whether the owner refers to the artifact and is not leaving it."""
        return key in self.keys and self.keys[key].state != LEAVING

    def made_with(self, digest: str) -> set[str]:
        """Return the artifacts that were applied with a digest of properties."""
        return {key for key in self.keys_in(APPLIED, CONFIRMED) if digest in self.properties.get(key, ())}

    def deleted_with(self, physical_id: object) -> set[str]:
        """Return the artifacts that the deletion of ``physical_id`` gives up."""
        leaving = self.keys_in(LEAVING)
        if is_artifact_key(physical_id):
            # An applied artifact is kept, because it may be the replacement for the deleted one.
            return {physical_id} | self.keys_in(BEGUN) | leaving
        # The ID names the request of a failed creation, or the response of the creation was lost.
        request = failed_request(physical_id)
        unconfirmed = self.keys_in(BEGUN, APPLIED)
        return {key for key in unconfirmed if request in (None, self.keys[key].request)} | leaving

    def referring(self, key: str, reference: Reference, *, properties: str = "") -> OwnerRecord:
        """Return a copy with a reference, and with the digest of the properties that were applied with it, if any."""
        updated = self.updated(keys={**self.keys, key: reference})
        if not properties:
            return updated
        earlier = tuple(digest for digest in self.properties.get(key, ()) if digest != properties)
        return updated.updated(properties={**self.properties, key: (properties, *earlier)[:_REMEMBERED_PROPERTIES]})

    def giving_up(self, keys: Collection[str], request: str) -> OwnerRecord:
        """Return a copy that marks the references with these keys as given up by ``request``."""
        leaving = {key: self.keys[key].updated(request=request, state=LEAVING) for key in self.keys if key in keys}
        return self.updated(keys={**self.keys, **leaving})

    def without(self, key: str) -> OwnerRecord:
        """Return a copy without the reference to ``key``."""
        return self.updated(
            keys={name: reference for name, reference in self.keys.items() if name != key},
            properties={name: digests for name, digests in self.properties.items() if name != key},
        )

    def is_from(self, request: str, key: str, state: str) -> bool:
        """Return whether ``request`` last wrote the reference, with this state."""
        return key in self.keys and (self.keys[key].request, self.keys[key].state) == (request, state)

    def check_latest(self, request: str) -> None:
        """Raise ``Superseded`` if ``request`` is not the latest."""
        if self.request != request:
            raise Superseded(f"request {request} was superseded by {self.request}")


@dataclass(frozen=True)
class UnreadableRecord:
    """An object below ``owners/`` that is not an owner record; ``account`` is the account that may write it."""

    name: str
    account: str
    problem: str


class OwnerRecords:
    """The owner records of a bucket. Every method may be repeated."""

    def __init__(self, s3: S3Client, bucket: str, kms_key_arn: str | None = None, *, any_schema: bool = False) -> None:
        self._s3 = s3
        self._records = JsonRecords(s3, bucket, kms_key_arn, largest=_LARGEST_RECORD, any_schema=any_schema)

    def all(self, account: str | None = None, *, threads: int = 8) -> Iterator[OwnerRecord | UnreadableRecord]:
        """Yield the records of all owners or of one account, which may read only its own in another account's store."""
        listed = objects(self._s3, self._records.bucket, f"{PREFIX}{account}/" if account else PREFIX)
        return filter(None, in_threads(self._any, (name for name, _, _ in listed), threads=threads))

    def _any(self, name: str) -> OwnerRecord | UnreadableRecord | None:
        account = name.split("/")[1]
        try:
            record = self._records.get(name, OwnerRecord)
        except DeploymentError as error:
            return UnreadableRecord(name, account, str(error))
        if record is not None and (record.owner.account or _UNKNOWN) != account:
            problem = f"{self._records.uri(name)} names an owner of another account, {record.owner.account}"
            return UnreadableRecord(name, account, problem)
        return record

    def get(self, owner: Owner) -> OwnerRecord:
        """Return an owner's record, by default an empty one."""
        return self._records.get(owner.record_name, OwnerRecord) or OwnerRecord.of(owner)

    def may_refer(self, owner: Owner) -> bool:
        """Return whether an owner may have references; it has none in a store that its account cannot access."""
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
        """Make ``request`` the owner's latest request.

        This is a request's first step: invocations that still work for an earlier request stop at their next step.

        ``physical_id`` shows that CloudFormation has received an earlier response. ``properties`` is the digest of the
        earlier properties, for records of the first release. ``gives_up`` returns the references of a deletion.

        Raises:
            Superseded: if a later request has begun.
        """

        def begun(record: OwnerRecord) -> OwnerRecord:
            if request in record.superseded or 0 < issued < record.issued:
                raise Superseded(f"request {request} was superseded by {record.request}")
            if request == record.request:
                return record
            requests = (*record.superseded, record.request) if record.request else record.superseded
            superseded = requests[-_REMEMBERED_REQUESTS:]
            chosen = {earlier: key for earlier, key in record.chosen.items() if earlier in superseded}
            latest = record.updated(request=request, issued=issued, superseded=superseded, chosen=chosen)
            if physical_id in latest.keys:
                confirmed = latest.keys[physical_id].updated(state=CONFIRMED)
                unknown = not latest.properties.get(physical_id)
                latest = latest.referring(physical_id, confirmed, properties=properties if unknown else "")
            return latest.giving_up(gives_up(latest), request) if gives_up is not None else latest

        return self._change(owner, begun)

    def refer(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Record that ``request`` uses an artifact: ``key``, or the key that an earlier attempt at it chose."""

        def referred(record: OwnerRecord) -> OwnerRecord:
            record.check_latest(request)
            chosen = record.chosen.get(request, key)
            # An earlier request's applied reference stays, so that it survives a failure of this request. This request
            # takes over the reference of an interrupted one.
            reference = record.keys.get(chosen, Reference(request=request))
            if reference.state not in (APPLIED, CONFIRMED):
                reference = reference.updated(request=request, state=BEGUN)
            return record.referring(chosen, reference).updated(chosen={**record.chosen, request: chosen})

        return self._change(owner, referred)

    def check_latest(self, owner: Owner, request: str) -> None:
        """Raise ``Superseded`` if a later request has begun."""
        self.get(owner).check_latest(request)

    def settle(
        self, owner: Owner, request: str, key: str, *, properties: str = "", before: object = None
    ) -> OwnerRecord:
        """Record that ``request`` was applied with ``key`` and a digest of properties, and give up all other artifacts.

        ``before``, the earlier physical ID, stays: CloudFormation requests its deletion after the update.
        """

        def settled(record: OwnerRecord) -> OwnerRecord:
            record.check_latest(request)
            known = record.keys.get(key, Reference(request=request))
            # A concurrent attempt of the request has failed, and may have removed the owner from the claim.
            if known.state == LEAVING or (key not in record.keys and record.chosen.get(request) == key):
                raise DeploymentError("another attempt at this request failed and released the artifact; deploy again")
            state = CONFIRMED if known.state == CONFIRMED else APPLIED
            applied = record.referring(key, known.updated(request=request, state=state), properties=properties)
            return applied.giving_up(set(applied.keys) - {key, before}, request)

        return self._change(owner, settled)

    def withdraw(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Give up a failed request's reference, unless another request has taken it over."""

        def withdrawn(record: OwnerRecord) -> OwnerRecord:
            return record.giving_up({key}, request) if record.is_from(request, key, BEGUN) else record

        return self._change(owner, withdrawn)

    def left(self, owner: Owner, request: str, key: str) -> OwnerRecord:
        """Remove a reference that ``request`` gave up, after the owner left the claim; keep a later request's."""

        def removed(record: OwnerRecord) -> OwnerRecord:
            return record.without(key) if record.is_from(request, key, LEAVING) else record

        return self._change(owner, removed)

    def forget(self, owner: Owner, key: str) -> OwnerRecord:
        """Remove a reference of an owner whose stack was deleted."""
        return self._change(owner, lambda record: record.without(key))

    def _change(self, owner: Owner, change: Callable[[OwnerRecord], OwnerRecord]) -> OwnerRecord:
        return self._records.change(
            owner.record_name, OwnerRecord, lambda record: change(record or OwnerRecord.of(owner))
        )
