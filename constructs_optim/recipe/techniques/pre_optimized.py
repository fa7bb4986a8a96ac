"""Pre-optimized configurations from JumpStart."""

from __future__ import annotations

from .base import Technique


class PreOptimized(Technique):
    """A configuration that JumpStart optimized, with its own image, environment and files. Needs no job.

    Attributes:
        config: the configuration's name in the model's hub document. Default: ``lmi-optimized``.
    """

    kind = "pre_optimized"
    name = "pre_optimized"
    title = "pre-optimized ({config})"
    in_group = False
    hub_configuration = True
    of_hub = True
    # The provider might have quantized it.
    lossless = False

    config: str = "lmi-optimized"
