"""Pre-optimized configurations from JumpStart."""

from __future__ import annotations

from .base import Technique


class PreOptimized(Technique):
    """A configuration that JumpStart optimized, with its own image, environment and files. Needs no job.

    Attributes:
        config: the configuration's name in the model's hub document. Default: ``lmi-optimized``.
        accept_draft_eula: whether you have read and accept the license of the draft model that the configuration
            serves, if that draft is gated. Default: no.
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
    accept_draft_eula: bool = False
