"""The store's record of a variant's scaling while an operation of its stack suspends it.

::

    scaling/<account>/<region>/<endpoint>.json

The resources of ``variant_scaling`` write it before they deregister a variant. Only the watcher empties it, when a
scalable target exists again. An execution may be lost; the record remains, and every later request reads it.
"""

from __future__ import annotations

from ..aws import client
from ..requests.hosting_properties import Registration, ScalingProperties, ScalingWatch
from ..store.json_records import JsonRecords, StoredRecord


class SuspendedScaling(StoredRecord):
    """The registrations before an operation removed them; none if nothing is suspended.

    ``variants`` are the instance types of the endpoint's variants at that time, ``since`` in seconds since 1970, and
    ``request`` the digest of the request that wrote it.
    """

    stack_id: str
    variants: dict[str, list[str]]
    registrations: list[Registration]
    since: int
    request: str


class SuspendedScalingRecord:
    """The record of a stack's endpoint."""

    def __init__(self, stack_id: str, of: ScalingProperties | ScalingWatch) -> None:
        region, account = stack_id.split(":")[3:5]
        self._stack_id = stack_id
        self._name = f"scaling/{account}/{region}/{of.endpoint_name}.json"
        self._records = JsonRecords(client("s3"), of.bucket, of.kms_key_arn)

    def get(self) -> SuspendedScaling | None:
        """Return the content; None if nothing is suspended, or if it is of another stack with the same endpoint name.

        Raises:
            DeploymentError: if the record cannot be read.
        """
        found = self._records.get(self._name, SuspendedScaling)
        return found if found is not None and self._is_suspended(found) else None

    def write(self, suspended: SuspendedScaling) -> SuspendedScaling:
        """Write the content, or keep what an earlier attempt at the same request wrote; return it."""

        def written(before: SuspendedScaling | None) -> SuspendedScaling:
            is_same = before is not None and self._is_suspended(before) and before.request == suspended.request
            return before if before is not None and is_same else suspended

        return self._records.change(self._name, SuspendedScaling, written)

    def empty(self, known: SuspendedScaling) -> bool:
        """Empty the record if it is still ``known``; return whether it is empty."""

        def emptied(before: SuspendedScaling | None) -> SuspendedScaling:
            return known.updated(registrations=[]) if before is None or before == known else before

        return not self._is_suspended(self._records.change(self._name, SuspendedScaling, emptied))

    def _is_suspended(self, found: SuspendedScaling) -> bool:
        return bool(found.registrations) and found.stack_id == self._stack_id
