"""The headless Chromium of package-lock.json, driven by scripts for Node."""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from .documents import CHECKOUT

needs_browser = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the packaged browser is one for Linux on x86-64"
)


def browsed(script: Path, *arguments: str) -> dict[str, Any]:
    """Run a script that opens pages, and return what it prints."""
    return json.loads(_node(str(script), *arguments, unpacked=_unpacked()))


@functools.cache
def _unpacked() -> Path:
    """Return the folder that holds the whole browser.

    The package takes any file of that name for the browser, also one that another test process is still writing:
    ``spawn ETXTBSY``. So each process unpacks into a folder of its own, and the first to finish gives it the name.
    """
    folder = CHECKOUT / "node_modules" / ".chromium"
    if not folder.exists():
        unpack = "await (await import('@sparticuz/chromium')).default.executablePath()"
        own = Path(tempfile.mkdtemp(prefix=".chromium-", dir=folder.parent))
        _node("--input-type=module", "--eval", unpack, unpacked=own)
        try:
            own.rename(folder)
        except OSError:
            shutil.rmtree(own)
            assert folder.exists()
    return folder


def _node(*arguments: str, unpacked: Path) -> str:
    done = subprocess.run(
        [os.environ.get("JSII_NODE") or "node", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": str(unpacked)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
