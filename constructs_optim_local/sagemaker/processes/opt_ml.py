"""The folder that stands for a container's ``/opt/ml``."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

ROOT = PurePosixPath("/opt/ml")
_MENTIONED = re.compile(r"(?<![\w./])/opt/ml(?![\w-])")


def moved(text: str, root: Path) -> str:
    """Return a text of a request with ``/opt/ml`` replaced by ``root``."""
    return _MENTIONED.sub(lambda _: str(root), text)
