"""OTel enrichment, the account setting with which CloudWatch's metrics of endpoints can be queried with PromQL.

It is stopped in a new account. Sources: CloudWatch API reference, StartOTelEnrichment, GetOTelEnrichment,
UpdateOTelEnrichment, and StopOTelEnrichment (also in botocore 1.44.5); SageMaker developer guide, "Getting started with
detailed observability", which requires it "to query metrics via PromQL"; CloudWatch user guide, "Troubleshooting
SageMaker AI Insights" (without it, there is no data).

Resource tags on telemetry is a second setting, which AWS asks for first: CloudWatch Observability Admin API reference,
StartTelemetryEnrichment, StopTelemetryEnrichment, GetTelemetryEnrichmentStatus.

Assumed, without a source: filters do not affect the metrics of serving engines, and metrics that were collected before
enrichment started can be queried afterwards. The operations do not require resource tags on telemetry first,
because their error for that case is not documented. A Region without
PromQL (``data/promql_regions.json``) answers as to an unknown operation.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constructs_optim_local.clock import Clock

OPERATIONS = frozenset({"GetOTelEnrichment", "StartOTelEnrichment", "StopOTelEnrichment", "UpdateOTelEnrichment"})
TAG_OPERATIONS = {
    "/StartTelemetryEnrichment": (202, "Running"),
    "/StopTelemetryEnrichment": (202, "Stopped"),
    "/GetTelemetryEnrichmentStatus": (200, None),
}
"""The paths of operations on resource tags, with the HTTP status and the new state."""
_FILTERS = ("IncludeFilters", "ExcludeFilters")
_MOST_FILTERS = 100
_REGIONS = Path(__file__).parent.parent / "data" / "promql_regions.json"
_Location = tuple[str, str]


class EnrichmentError(Exception):
    """A refused operation: the error's code, and its message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class _Running:
    filters: Mapping[str, Any]
    created: float
    updated: float

    def described(self) -> dict[str, Any]:
        return {**self.filters, "CreatedAt": self.created, "UpdatedAt": self.updated}


class Enrichment:
    """The setting of each account and Region; ``everywhere`` is what accounts start with."""

    def __init__(self, clock: Clock, *, everywhere: bool = False) -> None:
        self._clock, self._lock = clock, threading.Lock()
        start = clock.now().timestamp()
        self._initial = _Running({}, start, start) if everywhere else None
        self._set: dict[_Location, _Running | None] = {}
        self._tags: dict[_Location, str] = {}

    def is_running(self, *, account: str, region: str) -> bool:
        """Return whether metrics of endpoints can be queried with PromQL."""
        return region in regions() and self._set.get((account, region), self._initial) is not None

    def tags(self, path: str, *, account: str, region: str) -> tuple[int, dict[str, str]]:
        """Run one of ``TAG_OPERATIONS``, and return the HTTP status and the response."""
        status, state = TAG_OPERATIONS[path]
        with self._lock:
            if state is not None:
                self._tags[account, region] = state
            return status, {"Status": self._tags.get((account, region), "Stopped")}

    def invoke(self, operation: str, request: Mapping[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Run one of ``OPERATIONS``; times in the response are in seconds since 1970.

        Raises:
            EnrichmentError: if CloudWatch refuses the operation.
        """
        if region not in regions():
            raise EnrichmentError("InvalidAction", f"Could not find operation {operation} for version 2010-08-01")
        location, now = (account, region), self._clock.now().timestamp()
        filters = {name: list(request[name]) for name in _FILTERS if request.get(name)}
        if sum(map(len, filters.values())) > _MOST_FILTERS:
            raise EnrichmentError("ValidationException", f"at most {_MOST_FILTERS} filters are allowed")
        with self._lock:
            running = self._set.get(location, self._initial)
            if operation == "StopOTelEnrichment":
                self._set[location] = None
                return {}
            if operation == "GetOTelEnrichment":
                return {"Status": "Running", **running.described()} if running is not None else {"Status": "Stopped"}
            if operation == "UpdateOTelEnrichment":
                if running is None:
                    raise EnrichmentError("ResourceNotFoundException", "OTel enrichment is not running")
                running = self._set[location] = _Running(filters, running.created, now)
            # Starting it again changes nothing, and keeps the filters.
            elif running is None:
                running = self._set[location] = _Running(filters, now, now)
            return running.described()


@functools.cache
def regions() -> frozenset[str]:
    """Return the Regions with PromQL."""
    return frozenset(json.loads(_REGIONS.read_text(encoding="utf-8"))["regions"])
