"""Whether an artifact is what its manifest says, and may be deployed: what one can tell without reading its files.

Jobs and other accounts write to a store as well. What a deployment takes from a manifest is therefore checked against
what it can know from elsewhere: where the artifact has to be, which images its recipe can have, and what S3 itself
keeps of each file (size, ETag, checksums).

Source: Amazon S3 user guide, "Checking object integrity": S3 computes a checksum of every object (CRC64NVME unless the
writer chose another algorithm); HeadObject with ChecksumMode returns it, with permission for GetObject.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..documents import object_in
from ..errors import DeploymentError
from .artifact_store import ArtifactStore

_ATTEMPT = re.compile(r"/model/(\d+)/")


class Damage(StrEnum):
    """What can be wrong with a file."""

    missing = "missing"
    changed = "changed"
    extra = "extra"
    unreadable = "unreadable"


@dataclass(frozen=True)
class Finding:
    """One file that is not as it should be, and how that shows."""

    file: str
    damage: Damage
    detail: str


def check_manifest(
    store: ArtifactStore, key: str, manifest: Mapping[str, Any], *, repositories: Collection[str] = ()
) -> None:
    """Refuse to deploy what a manifest says where it does not hold.

    Args:
        store: the store.
        key: the artifact that is wanted.
        manifest: what :meth:`ArtifactStore.manifest` gave: names, sizes and ETags of its files are those of the store.
        repositories: ``host/repository`` of the images that the recipe can be served with. Default: any.

    Raises:
        DeploymentError: naming what does not hold.
    """
    # Names, sizes and ETags were compared already: a request more is only for what has a checksum to compare.
    files = [file for file in manifest["files"] if file.get("checksums")]
    findings = misplaced(store, key, manifest) or [
        *_foreign_image(manifest, repositories),
        *differences(files, store.with_checksums(manifest["model_data_uri"], _as_listed(files))),
    ]
    if findings:
        listed = "; ".join(f"{finding.file} {finding.damage.value} ({finding.detail})" for finding in findings[:3])
        more = f" and {len(findings) - 3} more" if len(findings) > 3 else ""
        raise DeploymentError(
            f"the artifact {key} in the store {store.bucket} is not what its manifest says: {listed}{more}. "
            "Something else than this library's functions wrote it or its files, so it is not deployed. Next: find "
            "out what did (S3 keeps the versions of both), then restore the version of manifest.json before it, or "
            "delete manifest.json and deploy a stack that makes the artifact, which runs another job"
        )


def misplaced(store: ArtifactStore, key: str, manifest: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with the location that a manifest names: it has to be its attempt's, of this artifact."""
    uri, attempt = str(manifest["model_data_uri"]), attempt_of(manifest)
    if uri.startswith(store.model_uri(key, attempt)) and uri.endswith("/"):
        return []
    detail = f"model_data_uri is {uri}, which is not below attempt {attempt} of this artifact"
    return [Finding("manifest.json", Damage.changed, detail)]


def attempt_of(manifest: Mapping[str, Any]) -> int:
    """Which attempt made what the manifest describes; manifests of the first releases say so in their URI alone."""
    if isinstance(manifest.get("attempt"), int):
        return manifest["attempt"]
    found = _ATTEMPT.search(str(manifest["model_data_uri"]))
    return int(found[1]) if found else 1


def repository_of(image: str) -> str:
    """``host/repository`` of an image, without its tag and digest."""
    repository, _, name = image.partition("@")[0].rpartition("/")
    return f"{repository}/{name.partition(':')[0]}"


def _foreign_image(manifest: Mapping[str, Any], repositories: Collection[str]) -> list[Finding]:
    image = manifest["image"]
    # No image at all serves nothing that another one's name would.
    if not image or not repositories or repository_of(image) in repositories:
        return []
    detail = f"image is {image}, and this recipe is served with one of {', '.join(sorted(repositories))}"
    return [Finding("manifest.json", Damage.changed, detail)]


def _as_listed(files: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: file[name] for name in ("name", "size", "etag")} for file in files]


def differences(expected: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Compare a manifest's files with those of the store, without reading them.

    Args:
        expected: ``{"name", "size", "etag"}`` each, and ``"checksums"`` where they were known.
        found: the same of what is there.

    Returns:
        One finding for each file that differs, by name.
    """
    then, now = ({file["name"]: file for file in files} for files in (expected, found))
    findings: list[Finding] = []
    for name in sorted({*then, *now}):
        if name not in now:
            findings.append(Finding(name, Damage.missing, f"{then[name]['size']} bytes are gone"))
        elif name not in then:
            findings.append(Finding(name, Damage.extra, f"{now[name]['size']} bytes that the manifest does not name"))
        elif changes := _changes(then[name], now[name]):
            findings.append(Finding(name, Damage.changed, "; ".join(changes)))
    return findings


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    changes = [f"{what} {now[what]}, was {then[what]}" for what in ("size", "etag") if then[what] != now[what]]
    kept, current = object_in(then.get("checksums")), object_in(now.get("checksums"))
    common = sorted({*kept} & {*current})
    changes += [f"{name} {current[name]}, was {kept[name]}" for name in common if kept[name] != current[name]]
    if changes and then["size"] == now["size"] and any(kept[name] == current[name] for name in common):
        same = next(name for name in common if kept[name] == current[name])
        changes.append(f"{same} is the same: written again with the same content")
    return changes
