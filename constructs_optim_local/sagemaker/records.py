"""Storage of SageMaker resources: named records, with tags by ARN."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from constructs_optim_local.api.error import ApiError, validation_error
from constructs_optim_local.clock import Clock

Record = dict[str, Any]


@dataclass
class Scope:
    """An account in a Region, with the state that all its resources share."""

    account: str
    region: str
    tags: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    # The resources registered with Application Auto Scaling, in lower case.
    scaled: set[str] = field(default_factory=set[str])
    clock: Clock = field(default_factory=Clock)

    def now(self) -> dt.datetime:
        """Return the local cloud's time, in UTC."""
        return self.clock.now()

    def arn(self, kind: str, name: str) -> str:
        """Return the ARN of a resource. SageMaker lower-cases the name."""
        return f"arn:aws:sagemaker:{self.region}:{self.account}:{kind}/{name.lower()}"

    def check_training_plans(self, arns: Iterable[str]) -> None:
        """Refuse training plans of other Regions.

        Assumed: the message, and that a plan of this Region always has capacity.

        Raises:
            ApiError: ValidationException if a plan is of another Region.
        """
        if elsewhere := [arn for arn in arns if arn.split(":")[3] != self.region]:
            raise validation_error(f"Could not find training plan {elsewhere[0]}.")

    def tag(self, arn: str, tags: list[dict[str, str]] | None) -> None:
        """Set the tags of a new resource, discarding those of a deleted resource of the same name."""
        self.tags[arn] = {tag["Key"]: tag["Value"] for tag in tags or []}


@dataclass
class Records:
    """The resources of one kind. ``missing`` and ``taken`` create AWS's errors for that kind.

    SageMaker compares names case-insensitively and keeps their original spelling (API reference, CreateEndpoint), so
    that a lower-case ARN finds its resource.
    """

    missing: Callable[[str], ApiError]
    taken: Callable[[str], ApiError]
    by_name: dict[str, Record] = field(default_factory=dict[str, Record])

    def add(self, name: str, record: Record) -> Record:
        """Add a new resource."""
        if name.lower() in self.by_name:
            raise self.taken(name)
        self.by_name[name.lower()] = record
        return record

    def get(self, name: str) -> Record:
        """Return the resource of that name."""
        record = self.find(name)
        if record is None:
            raise self.missing(name)
        return record

    def find(self, name: str) -> Record | None:
        """Return the resource of that name, if there is one."""
        return self.by_name.get(name.lower())

    def remove(self, name: str) -> Record:
        """Remove the resource."""
        record = self.get(name)
        del self.by_name[name.lower()]
        return record

    def page(self, key: str, request: Record, summary: Callable[[Record], Record]) -> Record:
        """Return a page of a List operation: filtered by name, status and time; newest first by default."""
        records = [record for record in self.by_name.values() if _is_of_the_time(record, request)]
        rows = [summary(record) for record in records]
        contains, status = request.get("NameContains"), request.get("StatusEquals")
        if contains:
            rows = [row for row in rows if any(contains in str(v) for k, v in row.items() if k.endswith("Name"))]
        if status:
            rows = [row for row in rows if status in row.values()]
        by = request.get("SortBy", "CreationTime")
        if by in ("Name", "Status"):
            rows.sort(key=lambda row: str(next((v for k, v in row.items() if k.endswith(by)), "")))
        if request.get("SortOrder") != "Ascending":
            rows.reverse()
        start, most = int(request.get("NextToken") or 0), request.get("MaxResults") or 100
        more = {"NextToken": str(start + most)} if start + most < len(rows) else {}
        return {key: rows[start : start + most], **more}


def _is_of_the_time(record: Record, request: Record) -> bool:
    """Return whether a resource was created and changed within the time range of a List operation."""
    for member in ("CreationTime", "LastModifiedTime"):
        at: dt.datetime | None = record.get(member)
        after, before = request.get(f"{member}After"), request.get(f"{member}Before")
        seconds = at.timestamp() if at is not None else 0.0
        if (after is not None and seconds <= after) or (before is not None and seconds >= before):
            return False
    return True
