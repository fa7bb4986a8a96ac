"""Compares an artifact's files with its manifest.

No bytes are read: names, sizes, ETags and the checksums that S3 computes and keeps with each object are compared.
Sources: Amazon S3 user guide, "Checking object integrity": S3 keeps a checksum of every object (CRC64NVME unless the
writer chose another algorithm), and checks what it stores against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from constructs_optim.runtime.store.artifact_integrity import Damage, Finding, differences, misplaced

if TYPE_CHECKING:
    from constructs_optim.runtime.store.artifact_store import ArtifactStore

    from .artifacts import Artifact


@dataclass(frozen=True)
class Verification:
    """The result for one artifact; ``not_checked`` is the reason where there was nothing to check."""

    artifact_key: str
    file_count: int = 0
    findings: tuple[Finding, ...] = ()
    not_checked: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether it was checked and found without damage."""
        return self.not_checked is None and not self.findings

    def to_json(self) -> dict[str, object]:
        """The artifact as ``artifacts verify --format json`` prints it."""
        return {
            "artifact_key": self.artifact_key,
            "sound": self.is_sound,
            "not_checked": self.not_checked,
            "file_count": self.file_count,
            "findings": [finding.to_json() for finding in self.findings],
        }


def verify(store: ArtifactStore, artifact: Artifact) -> Verification:
    """Compare an artifact's files with its manifest."""
    if artifact.unreadable:
        findings = [Finding(name, Damage.unreadable, "it is no JSON of its kind") for name in artifact.unreadable]
        return Verification(artifact.key, findings=tuple(findings))
    if artifact.manifest is None or artifact.state not in ("ready", "damaged"):
        return Verification(artifact.key, not_checked=f"{artifact.state}: {artifact.detail}")
    if strays := misplaced(store, artifact.key, artifact.manifest):
        return Verification(artifact.key, findings=tuple(strays))
    expected = artifact.manifest["files"]
    findings = differences(expected, store.files(artifact.manifest["model_data_uri"], checksums=True))
    return Verification(artifact.key, len(expected), tuple(findings))
