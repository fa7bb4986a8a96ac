"""Removes unreferenced artifacts without a lock, concurrently with deployments.

A deployment writes its reference, then joins the claim, then reads the artifact (handlers/job_handler.py). Pruning
first releases the claim and then reads the references, so that at least one of the two detects the other:

1. An artifact with an owner or a running job, or that was in use recently, is kept.
2. The claim is released by compare-and-swap, only while it has no owners. A deployment that joins it afterwards starts
   the next attempt and ignores earlier manifests.
3. The owner records are read again. If one refers to the artifact, or cannot be read, the release is undone.
4. The manifest is deleted if it belongs to a released attempt, then the files of the attempts up to that one.

The claim stays: it numbers the attempts. The next pruning completes an interrupted one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError, code_of
from constructs_optim.runtime.store.artifact_integrity import attempt_of
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Owner
from constructs_optim.runtime.store.json_records import in_threads
from constructs_optim.runtime.store.owner_records import OwnerRecords, UnreadableRecord

from .artifacts import REQUESTS_AT_ONCE, Artifact, ArtifactInventory
from .stacks import Stacks

# Lambda retries an asynchronous event for at most 6 hours, and an owner's record shows that the event is stale.
_LEAST_RECORD_AGE = dt.timedelta(days=1)
# The longest runtime of a job (API reference, StoppingCondition).
_LONGEST_JOB = dt.timedelta(days=28)
_BATCH = 1000

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True)
class Removal:
    """An unreferenced artifact; ``skipped`` is the reason that it was not removed."""

    artifact: Artifact
    unused_since: dt.datetime
    removed: bool = False
    skipped: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the removal in the form that ``artifacts prune --json`` prints."""
        return {
            **self.artifact.summary(),
            "file_count": len(self.artifact.files),
            "unused_since": self.unused_since,
            "removed": self.removed,
            "skipped": self.skipped,
        }


@dataclass(frozen=True)
class GoneOwner:
    """An owner whose stack is deleted, its artifacts, and the name of its record if that is removed."""

    owner: Owner
    keys: tuple[str, ...]
    record: str | None


@dataclass(frozen=True)
class Pruning:
    """The artifacts and owners to remove, and the reasons to keep artifacts by their keys.

    ``complete`` are the keys of complete artifacts that were not released. ``notes`` report stacks that could not be
    described, and ``warnings`` records of other accounts that could not be read.
    """

    removals: tuple[Removal, ...] = ()
    gone_owners: tuple[GoneOwner, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    complete: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def freed_bytes(self) -> int:
        """The size of the files that are, or were, removed."""
        return sum(removal.artifact.size_bytes for removal in self.removals if not removal.skipped)

    def to_json(self) -> dict[str, Any]:
        """Return the pruning in the form that ``artifacts prune --json`` prints."""
        return {
            "artifacts": [removal.to_json() for removal in self.removals],
            "freed_bytes": self.freed_bytes,
            "gone_owners": [
                {
                    "stack_id": gone.owner.stack_id,
                    "logical_id": gone.owner.logical_id,
                    "artifact_keys": gone.keys,
                    "record_removed": gone.record is not None,
                }
                for gone in self.gone_owners
            ],
            "kept": [{"artifact_key": key, "reason": reason} for key, reason in self.kept.items()],
            "notes": self.notes,
            "warnings": self.warnings,
        }


class Pruner:
    """Removes unreferenced artifacts from a store."""

    def __init__(
        self, s3: Any, inventory: ArtifactInventory, stacks: Stacks, *, older_than: dt.timedelta, now: dt.datetime
    ) -> None:
        """Create a pruner of artifacts that have been unreferenced for ``older_than`` at the time ``now``."""
        self._s3, self._inventory, self._stacks = s3, inventory, stacks
        self._older_than, self._now = older_than, now

    def survey(self) -> Pruning:
        """List what can be removed, without removing it. Raises an error if some references are not readable."""
        records = self._inventory.owner_records
        if records.is_partial:
            bucket, account = self._inventory.bucket, self._inventory.account
            raise DeploymentError(
                f"account {account} cannot list all references to the artifacts of {bucket}, so nothing is removed: "
                "prune with credentials of the bucket's account that can list owners/"
            )
        removals: list[Removal] = []
        kept: dict[str, str] = {}
        # The claims of these artifacts, and the references to them, stay.
        fixed: set[str] = set()
        complete: set[str] = set()
        self._stacks.look_up(record.owner for record in records.records)
        # Includes artifacts that are no longer in the store.
        references = {record.owner: {*record.keys} for record in records.records}
        for artifact in self._inventory.all():
            if artifact.is_complete and not (artifact.claim and artifact.claim.released):
                complete.add(artifact.key)
            for owner in artifact.owners:
                references.setdefault(owner, set()).add(artifact.key)
            if self._runs(artifact) or artifact.is_newer or "claim.json" in artifact.unreadable:
                fixed.add(artifact.key)
            if reason := self._reason_to_keep(artifact):
                kept[artifact.key] = reason
            elif records.unreadable:
                kept[artifact.key] = _may_refer(records.unreadable)
            elif artifact.files or artifact.manifest or artifact.unreadable:
                removals.append(Removal(artifact, self._unused_since(artifact)))
        written = {item["Key"]: item["LastModified"] for item in self._inventory.objects("owners/")}
        gone = [
            GoneOwner(owner, tuple(sorted(keys)), self._old_record(owner, written))
            for owner, keys in sorted(references.items())
            if self._stacks.state(owner).gone and not keys & fixed
        ]
        notes = filter(None, {self._stacks.state(owner).unknown for owner in references})
        return Pruning(
            removals=tuple(removals),
            gone_owners=tuple(owner for owner in gone if owner.keys or owner.record),
            kept=kept,
            complete=frozenset(complete),
            notes=tuple(sorted(notes)),
            warnings=self._inventory.warnings,
        )

    def remove(self, surveyed: Pruning) -> Pruning:
        """Remove the results of a survey, unless something refers to them now."""
        encryption = self._encryption(surveyed)
        store = ArtifactStore(self._s3, self._inventory.bucket, encryption)
        records = OwnerRecords(self._s3, self._inventory.bucket, encryption)

        owners: dict[str, list[Owner]] = {}
        for gone in surveyed.gone_owners:
            for key in gone.keys:
                owners.setdefault(key, []).append(gone.owner)

        def leave(key: str) -> None:
            # All owners of a claim in one write, to avoid contention.
            first, *rest = owners[key]
            store.leave(key, first, finished=key in surveyed.complete, gone=rest)

        # Every step is completed for all artifacts before the next: the records are read once, after all releases, so
        # that they show every stack that may still refer to a released artifact.
        _for_all(leave, sorted(owners))
        _for_all(lambda gone: [records.forget(gone.owner, key) for key in gone.keys], surveyed.gone_owners)
        released = _for_all(lambda removal: self._release(removal, store), surveyed.removals)
        current = self._inventory.read_owner_records()
        alive = [record for record in current.records if not self._stacks.state(record.owner).gone]
        referred = {key for record in alive for key in record.keys}
        unclear = _may_refer(current.unreadable) if current.unreadable else None
        removed = _for_all(lambda removal: self._remove(removal, store, referred, unclear), released)
        names = [gone.record for gone in surveyed.gone_owners if gone.record is not None]
        _for_all(lambda name: self._s3.delete_object(Bucket=self._inventory.bucket, Key=name), names)
        return replace(surveyed, removals=tuple(removed))

    def _reason_to_keep(self, artifact: Artifact) -> str | None:
        alive = [owner for owner in artifact.owners if not self._stacks.state(owner).gone]
        if artifact.is_newer:
            return "a newer release of constructs-optim wrote its records: upgrade, then prune"
        if artifact.claim is None:
            return "its claim is missing or cannot be read: repair it by hand"
        if alive:
            return f"{len(alive)} owner{'s' if len(alive) > 1 else ''}"
        if self._runs(artifact):
            return f"its job might still run: {artifact.detail}"
        unused = self._now - self._unused_since(artifact)
        if unused < self._older_than:
            return f"unused for only {unused.days} days"
        return None

    def _runs(self, artifact: Artifact) -> bool:
        """Return whether a job for the artifact might be running."""
        claim = artifact.claim
        if claim is None or artifact.is_complete:
            return False
        if artifact.job is not None:
            return not artifact.job.ended
        if claim.failure:
            return False
        # The job is in another account, not created yet, or deleted.
        due = dt.datetime.fromtimestamp(claim.due, dt.UTC) if claim.due else artifact.changed_at + _LONGEST_JOB
        return self._now < due

    def _unused_since(self, artifact: Artifact) -> dt.datetime:
        """Return when any of its objects was last written, or its last owner's stack was deleted."""
        if artifact.claim is not None and artifact.claim.released:
            # No owner uses these files again; the claim was last written at its release.
            return max((file.modified_at for file in artifact.files), default=artifact.changed_at)
        ends = [self._stacks.state(owner).deleted_at for owner in artifact.owners]
        return max([artifact.changed_at, *filter(None, ends)])

    def _old_record(self, owner: Owner, written: Mapping[str, dt.datetime]) -> str | None:
        if (written_at := written.get(owner.record_name)) is None:
            return None
        age = self._now - max(written_at, self._stacks.state(owner).deleted_at or written_at)
        return owner.record_name if age >= max(self._older_than, _LEAST_RECORD_AGE) else None

    def _encryption(self, surveyed: Pruning) -> str | None:
        """Return the KMS key of the store's records, to write them again."""
        names = [f"artifacts/{removal.artifact.key}/claim.json" for removal in surveyed.removals]
        for name in (*names, *(gone.owner.record_name for gone in surveyed.gone_owners)):
            try:
                return self._s3.head_object(Bucket=self._inventory.bucket, Key=name).get("SSEKMSKeyId")
            except ClientError as error:
                if code_of(error) != "404":
                    raise
        return None

    def _release(self, removal: Removal, store: ArtifactStore) -> Removal:
        before = removal.artifact
        now = self._inventory.get(before.key)
        if now is None or now.claim is None or before.claim is None or now.claim.attempt != before.claim.attempt:
            return replace(removal, skipped="it changed in the meantime")
        if self._runs(now):
            return replace(removal, skipped="a job started to build it")
        if not store.release(before.key):
            return replace(removal, skipped="a stack now refers to it")
        return removal

    def _remove(
        self, removal: Removal, store: ArtifactStore, referred: Collection[str], unclear: str | None
    ) -> Removal:
        claim, key = removal.artifact.claim, removal.artifact.key
        if removal.skipped or claim is None:
            return removal
        if key in referred or unclear is not None:
            if not claim.released:
                store.restore(key)
            return replace(removal, skipped=unclear or "a stack is about to refer to it")
        self._delete_manifest(key, claim.attempt)
        files = [file for file in removal.artifact.files if file.attempt <= claim.attempt]
        folders = {file.attempt: f"model/{file.attempt}" if file.attempt else "tensorboard" for file in files}
        self._delete([f"artifacts/{key}/{folders[file.attempt]}/{file.name}" for file in files])
        return replace(removal, removed=True)

    def _delete_manifest(self, key: str, attempt: int) -> None:
        """Delete the manifest, unless it belongs, or changes, to a later attempt."""
        location = {"Bucket": self._inventory.bucket, "Key": f"artifacts/{key}/manifest.json"}
        try:
            etag = self._s3.head_object(**location)["ETag"]
            written = self._inventory.store.written_manifest(key)
            if written is None or attempt_of(written) <= attempt:
                self._s3.delete_object(**location, IfMatch=etag)
        except ClientError as error:
            if code_of(error) not in ("404", "NoSuchKey", "412", "PreconditionFailed"):
                raise

    def _delete(self, names: list[str]) -> None:
        for start in range(0, len(names), _BATCH):
            batch = [{"Key": name} for name in names[start : start + _BATCH]]
            response = self._s3.delete_objects(Bucket=self._inventory.bucket, Delete={"Objects": batch, "Quiet": True})
            if errors := response.get("Errors"):
                first = errors[0]
                raise DeploymentError(
                    f"{len(errors)} files could not be deleted. The first is {first.get('Key')}: "
                    f"{first.get('Code')} {first.get('Message')}. Nothing refers to them: fix the cause and prune again"
                )


def _for_all(step: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
    return list(in_threads(step, items, threads=REQUESTS_AT_ONCE))


def _may_refer(unreadable: Collection[UnreadableRecord]) -> str:
    names = sorted(record.name for record in unreadable)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} cannot be read, and might refer to it"
