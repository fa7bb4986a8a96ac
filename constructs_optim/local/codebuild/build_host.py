"""What a build finds where it runs: the source, its variables and the programs.

Source: CodeBuild user guide, "Environment variables in build environments".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..supervised_process import SYSTEM_PATH
from . import npm_stand_in
from .buildspec import Output


class NothingToPack(ValueError):
    """An artifact for which the build left no file."""


@dataclass(frozen=True)
class BuildHost:
    """The folders of one build, below a folder of this machine."""

    folder: Path

    @property
    def source(self) -> Path:
        """Where the primary source is, and where commands start."""
        return self.folder / "src"

    @property
    def progress(self) -> Path:
        """What the script writes down."""
        return self.folder / "progress"

    @property
    def exported(self) -> Path:
        """The variables that the build hands on."""
        return self.folder / "exported"

    @property
    def _programs(self) -> Path:
        return self.folder / "bin"

    def secondary(self, artifact: str) -> Path:
        """Where a further source is."""
        return self.folder / "secondary" / artifact

    def prepare(self) -> None:
        """Make the folders, and the programs that are not this machine's."""
        for folder in (self.source, self.folder / "home", self.folder / "tmp", self._programs):
            folder.mkdir(parents=True)
        npm = self._programs / "npm"
        npm.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{npm_stand_in.__file__}" "{self._programs}" "$@"\n')
        npm.chmod(0o755)

    def environment(self, path: Sequence[Path], cloud: Mapping[str, str]) -> dict[str, str]:
        """The variables that the build's image would set.

        Args:
            path: the folders whose programs stand for those of the image.
            cloud: what points tools at this cloud.
        """
        return {
            "PATH": ":".join([str(self._programs), *map(str, path), SYSTEM_PATH]),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "CI": "true",
            "PYTHONUNBUFFERED": "1",
            "PYTHONNOUSERSITE": "1",
            # The programs are those of an environment of this machine, to which a build must not add.
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_INPUT": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            "npm_config_audit": "false",
            "npm_config_fund": "false",
            "npm_config_offline": "true",
            "npm_config_update_notifier": "false",
            "npm_config_userconfig": os.devnull,
            **_caches(),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "1",
            **cloud,
            "CODEBUILD_SRC_DIR": str(self.source),
        }

    def files(self, output: Output) -> dict[str, Path]:
        """The files of an artifact, by their names in it.

        Raises:
            NothingToPack: there are none.
        """
        base = self.source / output.folder
        found = _matching(base, output.files)
        left_out = set(_matching(base, output.excluded).values())
        kept = {name: path for name, path in found.items() if path not in left_out}
        if not kept:
            where = f" below {output.folder}" if output.folder else ""
            raise NothingToPack(f"no matching artifact paths found: {', '.join(output.files)}{where}")
        return {path.name: path for path in kept.values()} if output.discards_paths else kept


def _caches() -> dict[str, str]:
    """What tools keep of packages, by their contents: without it, each build of an app would unpack the CDK anew.

    Where it is by default: npm's documents, "cache"; jsii's, "Runtime Package Cache".
    """
    home = Path.home()
    jsii = home / "Library/Caches/com.amazonaws.jsii" if sys.platform == "darwin" else home / ".cache/aws/jsii"
    known = {"JSII_RUNTIME_PACKAGE_CACHE_ROOT": jsii / "package-cache", "npm_config_cache": home / ".npm"}
    return {name: os.environ.get(name, str(place)) for name, place in known.items()}


def _matching(base: Path, patterns: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for pattern in patterns:
        # A pattern that leads out of the folder is none of CodeBuild's.
        relative = pattern.removeprefix("./").lstrip("/")
        paths = base.glob(relative) if relative and ".." not in relative.split("/") else ()
        found |= {path.relative_to(base).as_posix(): path for path in paths if path.is_file()}
    return found
