"""Compares an artifact with its manifest, without reading its files.

Source: Amazon S3 user guide, "Checking object integrity": S3 computes a checksum of every object (CRC64NVME unless the
writer chose another algorithm); HeadObject with ChecksumMode returns it, with permission for GetObject.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..documents import object_in
from ..errors import DeploymentError
from .artifact_store import ArtifactStore

_ATTEMPT = re.compile(r"/model/(\d+)/")


@dataclass(frozen=True)
class Finding:
    """A file that differs from the manifest, and the difference."""

    file: str
    damage: Literal["missing", "changed", "extra", "unreadable"]
    detail: str


def check_manifest(store: ArtifactStore, key: str, manifest: Mapping[str, Any]) -> None:
    """Raise ``DeploymentError`` if an artifact differs from its manifest."""
    findings = misplaced(store, key, manifest)
    if not findings:
        # ArtifactStore.manifest has compared names, sizes, and ETags; files without a checksum need no request.
        files = [file for file in manifest["files"] if file.get("checksums")]
        listed = [{name: file[name] for name in ("name", "size", "etag")} for file in files]
        findings = differences(files, store.with_checksums(manifest["model_data_uri"], listed))
    if findings:
        listing = "; ".join(f"{finding.file} {finding.damage} ({finding.detail})" for finding in findings[:3])
        more = f" and {len(findings) - 3} more" if len(findings) > 3 else ""
        raise DeploymentError(
            f"the artifact {key} in the store {store.bucket} differs from its manifest: {listing}{more}. Something "
            "other than this library's functions wrote the manifest or the files, so the artifact is not deployed. "
            "Next: find out what wrote them (S3 keeps the versions of both), then restore the previous version of "
            "manifest.json, or delete manifest.json and deploy a stack that makes the artifact, which runs another job"
        )


def misplaced(store: ArtifactStore, key: str, manifest: Mapping[str, Any]) -> list[Finding]:
    """Return a finding if the manifest's location does not belong to its attempt at this artifact."""
    uri, attempt = str(manifest["model_data_uri"]), attempt_of(manifest)
    if uri.startswith(store.model_uri(key, attempt)) and uri.endswith("/"):
        return []
    detail = f"model_data_uri is {uri}, which is not below attempt {attempt} of this artifact"
    return [Finding("manifest.json", "changed", detail)]


def attempt_of(manifest: Mapping[str, Any]) -> int:
    """Return a manifest's attempt, which the first releases wrote only in the URI."""
    if isinstance(manifest.get("attempt"), int):
        return manifest["attempt"]
    matched = _ATTEMPT.search(str(manifest["model_data_uri"]))
    return int(matched[1]) if matched else 1


def differences(expected: Iterable[Mapping[str, Any]], present: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return a finding for every file whose size, ETag, or checksums differ between manifest and store."""
    before, after = ({file["name"]: file for file in files} for files in (expected, present))
    findings: list[Finding] = []
    for name in sorted({*before, *after}):
        if name not in after:
            findings.append(Finding(name, "missing", f"it had {before[name]['size']} bytes"))
        elif name not in before:
            findings.append(Finding(name, "extra", f"{after[name]['size']} bytes that the manifest does not list"))
        elif changes := _changes(before[name], after[name]):
            findings.append(Finding(name, "changed", "; ".join(changes)))
    return findings


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    earlier, current = object_in(then.get("checksums")), object_in(now.get("checksums"))
    compared = [(name, then[name], now[name]) for name in ("size", "etag")]
    compared += [(name, earlier[name], current[name]) for name in sorted({*earlier} & {*current})]
    changes = [f"{name} {after}, was {before}" for name, before, after in compared if before != after]
    same = next((name for name, before, after in compared[2:] if before == after), None)
    if changes and then["size"] == now["size"] and same is not None:
        changes.append(f"{same} is the same: written again with the same content")
    return changes
