"""Repositories that pipelines take their source from: folders of this machine that the local cloud is told of."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_GIT_SECONDS = 30


class Repositories:
    """The folders that stand for repositories, by ``<owner>/<name>``."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = dict(folders)

    def copy(self, repository: str, to: Path) -> dict[str, Path]:
        """Copy the files of a repository as they are now; the copies, by their names in it.

        Of a Git working tree those that Git does not ignore, whether they are committed or not; of another folder all.

        Raises:
            LookupError: saying that there is no such folder, and which there are.
        """
        folder = self._folders.get(repository)
        if folder is None:
            told = ", ".join(sorted(self._folders)) or "none"
            raise LookupError(
                f"The local cloud knows no folder for the repository {repository} (it knows {told}): pass "
                f'repositories={{"{repository}": <folder>}} to LocalCloud, or --repository {repository}=<folder>'
            )
        if not folder.is_dir():
            raise LookupError(f"The folder of the repository {repository} is not there: {folder}")
        names = _tracked(folder) if (folder / ".git").exists() else _all(folder)
        copied: dict[str, Path] = {}
        for name in sorted(names):
            path = to / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # What is removed meanwhile, as a tool's lock is, was not to stay.
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                shutil.copy(folder / name, path)
                copied[name] = path
        return copied


def revision(files: Mapping[str, Path]) -> str:
    """What identifies the files as they are: 40 hexadecimal digits, like a commit's."""
    digest = hashlib.sha1(usedforsecurity=False)
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{path.stat().st_mode & 0o111}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _all(folder: Path) -> list[str]:
    return [Path(at, name).relative_to(folder).as_posix() for at, _, names in os.walk(folder) for name in names]


def _tracked(folder: Path) -> list[str]:
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(command, capture_output=True, check=True, timeout=_GIT_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise LookupError(f"Git cannot list the files of {folder}: {error}") from None
    return [name for name in found.stdout.decode().split("\0") if name]
