"""The headless Chromium of package-lock.json, driven by scripts for Node."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .documents import CHECKOUT
from .made_once import made_once

needs_browser = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the packaged browser is one for Linux on x86-64"
)


def browsed(script: Path, *arguments: str) -> dict[str, Any]:
    """Run a script that opens pages, and return what it prints."""
    # The package takes any file of that name for the browser, also one that another process is still writing.
    unpacked = made_once(CHECKOUT / "node_modules" / ".chromium", _unpack)
    return json.loads(_node(str(script), *arguments, unpacked=unpacked))


def _unpack(folder: Path) -> None:
    folder.mkdir()
    script = "await (await import('@sparticuz/chromium')).default.executablePath()"
    _node("--input-type=module", "--eval", script, unpacked=folder)


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
