"""Configurations that JumpStart optimized."""

from __future__ import annotations

from typing import ClassVar

from .base import Technique


class PreOptimized(Technique):
    """A configuration that JumpStart optimized already, deployed without a job: image, environment and files are its.

    Attributes:
        config: its name in the model's hub document. Default: ``lmi-optimized``.
    """

    kind: ClassVar[str] = "pre_optimized"
    name: ClassVar[str] = "pre_optimized"
    title: ClassVar[str] = "pre-optimized ({config})"
    hub_configuration: ClassVar[bool] = True
    # The provider may have quantized it.
    lossless: ClassVar[bool] = False

    config: str = "lmi-optimized"

    @classmethod
    def called(cls) -> str:
        """``PreOptimized``."""
        return cls.__name__
