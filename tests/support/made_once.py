"""What several test processes use, and the first of them to need it makes."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def folder_of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that all processes of a run of pytest have."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def made_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Have ``make`` create a file or folder, unless a process has done so before. Processes wait for each other.

    ``make`` gets another path, which becomes ``path`` when it returns: an interrupted process leaves nothing there.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(path)
    return path
