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

needs_browser = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the packaged browser is one for Linux on x86-64"
)


def browsed(script: Path, *arguments: str) -> dict[str, Any]:
    """Run a script that opens pages, and return what it prints."""
    unpacked = CHECKOUT / "node_modules" / ".chromium"
    unpacked.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [os.environ.get("JSII_NODE") or "node", str(script), *arguments],
        env={**os.environ, "TMPDIR": str(unpacked)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
