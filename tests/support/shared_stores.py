"""Artifact stores that several stacks share."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from .deployed_stack import DeployedStack
from .waiting import until

BUCKET = "shared-artifacts"
"""The bucket that most stacks of a local cloud share."""


def manifest_of(stack: DeployedStack, key: str) -> dict[str, Any]:
    """The manifest of an artifact, once it is written."""

    def manifest() -> dict[str, Any]:
        try:
            return stack.manifest(key)
        except ClientError:
            return {}

    return until(manifest, bool, 120)
