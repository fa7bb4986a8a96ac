"""What a release makes of records that a newer one wrote.

Stacks, teams and accounts share a store and do not upgrade at once. A newer release adds members, which this one keeps
when it writes the record back; where it changes what the members mean, it raises ``schema``, and this release changes
nothing of the record any more. Only a deletion goes on: a stack must not need an upgrade to be deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..errors import DeploymentError

SCHEMA = 1
"""The schema of the claims, manifests and owner records that this release writes."""


class NewerRecord(DeploymentError):
    """A newer release wrote the record, in a way that this one does not know."""


def schema_of(record: Mapping[str, Any]) -> int:
    """The record's schema; :data:`SCHEMA` where it names none."""
    schema = record.get("schema", SCHEMA)
    return schema if isinstance(schema, int) else SCHEMA


def check_schema(record: Mapping[str, Any], name: str) -> None:
    """Make sure that this release knows what the record means.

    Args:
        record: its content.
        name: where it is, for the message: an ``s3://`` URI.

    Raises:
        NewerRecord: when a newer release wrote it.
    """
    if schema_of(record) > SCHEMA:
        raise NewerRecord(
            f"{name} has schema {schema_of(record)}, and this release of constructs-optim knows schemas up to "
            f"{SCHEMA}: a newer release has deployed to the same store. Upgrade constructs-optim, then try again"
        )


def unknown_members(record: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The members beside those that are ``known``."""
    return {name: value for name, value in record.items() if name not in known}
