"""Where JumpStart offers what."""

from __future__ import annotations

from .files import load


def draft_model_regions() -> list[str]:
    """The regions in which SageMaker provides draft models."""
    return list(load("jumpstart")["draft_model_regions"])
