"""The public hub: JumpStart's models, from their real documents."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from ..api_error import not_found
from .records import Record, Scope

PUBLIC_HUB = "SageMakerPublicHub"
_BUNDLED = Path(__file__).parent.parent / "data" / "hub"
_PUBLISHED = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)


class Hub:
    """Documents found as ``<folder>/<model id>/<version>.json``; a later folder adds to an earlier one."""

    def __init__(self, *folders: Path) -> None:
        self._documents: dict[str, dict[str, Path]] = {}
        for folder in (_BUNDLED, *folders):
            for path in sorted(folder.glob("*/*.json")):
                self._documents.setdefault(path.parent.name, {})[path.stem] = path

    def describe(self, scope: Scope, request: Record) -> Record:
        """DescribeHubContent."""
        name = request["HubContentName"]
        versions = self._versions(request)
        version = request.get("HubContentVersion") or max(versions, key=_ordered)
        if version not in versions:
            raise not_found(f"Hub content {name} with version {version} does not exist in hub {PUBLIC_HUB}")
        return {
            **self._summary(scope, name, version),
            "HubName": PUBLIC_HUB,
            "HubArn": f"arn:aws:sagemaker:{scope.region}:aws:hub/{PUBLIC_HUB}",
            "HubContentDocument": versions[version].read_text(encoding="utf-8"),
        }

    def versions(self, scope: Scope, request: Record) -> Record:
        """ListHubContentVersions."""
        found = sorted(self._versions(request), key=_ordered, reverse=True)
        return {"HubContentSummaries": [self._summary(scope, request["HubContentName"], version) for version in found]}

    def contents(self, scope: Scope, request: Record) -> Record:
        """ListHubContents."""
        rows = [
            self._summary(scope, name, max(versions, key=_ordered))
            for name, versions in sorted(self._documents.items())
            if request.get("NameContains", "") in name
        ]
        return {"HubContentSummaries": rows}

    def _versions(self, request: Record) -> dict[str, Path]:
        name = request["HubContentName"]
        hub = request["HubName"].rpartition("/")[2]
        if hub != PUBLIC_HUB:
            raise not_found(f"Hub {hub} does not exist")
        if request["HubContentType"] != "Model" or name not in self._documents:
            raise not_found(f"Hub content {name} does not exist in hub {hub}")
        return self._documents[name]

    def _summary(self, scope: Scope, name: str, version: str) -> dict[str, Any]:
        return {
            "HubContentName": name,
            "HubContentArn": f"arn:aws:sagemaker:{scope.region}:aws:hub-content/{PUBLIC_HUB}/Model/{name}/{version}",
            "HubContentVersion": version,
            "HubContentType": "Model",
            "DocumentSchemaVersion": "2.3.0",
            "HubContentDisplayName": json.loads(self._documents[name][version].read_text()).get("ModelName", name),
            "HubContentStatus": "Available",
            "CreationTime": _PUBLISHED,
        }


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
