"""Configurations that JumpStart optimized."""

from __future__ import annotations

from .base import Technique


class PreOptimized(Technique):
    """A configuration that JumpStart has optimized, deployed without a job, with its image, environment and files.

    Attributes:
        config: its name in the model's hub document. Default: ``lmi-optimized``.
    """

    kind = "pre_optimized"
    name = "pre_optimized"
    title = "pre-optimized ({config})"
    in_group = False
    hub_configuration = True
    of_hub = True
    # The provider may have quantized it.
    lossless = False

    config: str = "lmi-optimized"
