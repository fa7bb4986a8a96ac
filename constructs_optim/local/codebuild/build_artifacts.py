"""What a build reads from S3 and writes there, under its project's service role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..zip_archives import pack, unpack
from .build_host import BuildHost
from .buildspec import Buildspec, Output

PRIMARY = ""
"""The name of the source in which commands start."""


@dataclass(frozen=True)
class S3Object:
    """An object, and the KMS key that it is written with, if one is asked for."""

    bucket: str
    key: str
    kms_key: str = ""

    def get(self, s3: Any, path: Path) -> None:
        """Copy it into a file."""
        path.write_bytes(s3.get_object(Bucket=self.bucket, Key=self.key)["Body"].read())

    def put(self, s3: Any, path: Path) -> None:
        """Copy a file into it."""
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.kms_key} if self.kms_key else {}
        s3.put_object(Bucket=self.bucket, Key=self.key, Body=path.read_bytes(), **encryption)


@dataclass(frozen=True)
class BuildArtifacts:
    """Where a build's sources are, by name, and where its artifacts go."""

    sources: Mapping[str, S3Object] = field(default_factory=dict[str, S3Object])
    outputs: Mapping[str, S3Object] = field(default_factory=dict[str, S3Object])

    def download(self, s3: Any, host: BuildHost) -> dict[str, str]:
        """Lay the sources out; the variables that name the folders of those that are not the primary one."""
        variables: dict[str, str] = {}
        for name, source in self.sources.items():
            archive, folder = host.folder / "source.zip", host.source if name == PRIMARY else host.secondary(name)
            source.get(s3, archive)
            folder.mkdir(parents=True, exist_ok=True)
            unpack(archive, folder)
            archive.unlink()
            if name != PRIMARY:
                variables[f"CODEBUILD_SRC_DIR_{name}"] = str(folder)
        return variables

    def upload(self, s3: Any, host: BuildHost, spec: Buildspec) -> None:
        """Pack the artifacts.

        Raises:
            KeyError: the buildspec has no artifact of a name that is asked for.
            NothingToPack: the build left nothing for one of them.
        """
        for name, output in self.outputs.items():
            archive = host.folder / "artifact.zip"
            pack(host.files(self._described(name, spec)), archive)
            output.put(s3, archive)
            archive.unlink()

    def _described(self, name: str, spec: Buildspec) -> Output:
        """A single artifact is the buildspec's; several are its secondary ones (CodePipeline user guide, CodeBuild)."""
        found = dict(spec.secondary).get(name) or (spec.output if len(self.outputs) == 1 else None)
        if found is None:
            raise KeyError(f"the buildspec says nothing of the artifact {name}")
        return found
