"""Folders as zip archives and back: what pipelines hand from one action to the next."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

# Time matters here, not size.
_LEVEL = 1


def pack(files: Mapping[str, Path], archive: Path) -> None:
    """Write files into an archive under the names they are to have there, with their permissions."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL, strict_timestamps=False) as packed:
        for name, path in sorted(files.items()):
            packed.write(path, name)


def unpack(archive: Path, folder: Path) -> None:
    """Lay an archive's files out in a folder, with their permissions.

    Raises:
        zipfile.BadZipFile: the archive is none.
    """
    with zipfile.ZipFile(archive) as packed:
        for item in packed.infolist():
            # zipfile keeps what it extracts within the folder, and drops permissions.
            path = Path(packed.extract(item, folder))
            if mode := item.external_attr >> 16 & 0o777:
                path.chmod(mode | 0o600)


def read_member(archive: Path, name: str) -> bytes | None:
    """A file of an archive; None where it has none of that name.

    Raises:
        zipfile.BadZipFile: the archive is none.
    """
    with zipfile.ZipFile(archive) as packed:
        try:
            return packed.read(str(PurePosixPath(name)))
        except KeyError:
            return None
