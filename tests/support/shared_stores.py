"""Shared by tests of ``sharing`` and others."""

from __future__ import annotations

import time
from typing import Any

from botocore.exceptions import ClientError

from ..e2e.stack import DeployedStack


def manifest_of(stack: DeployedStack, key: str) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            return stack.manifest(key)
        except ClientError:
            time.sleep(0.5)
    raise AssertionError(f"no manifest of {key}")
