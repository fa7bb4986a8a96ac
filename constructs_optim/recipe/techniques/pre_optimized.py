"""Configurations that JumpStart optimized already: deployed as they are, without a job."""

from __future__ import annotations

from typing import Any, ClassVar

from constructs_optim.recipe.named_arguments import knows_its_arguments

from .base import Technique


class PreOptimizedConfiguration(Technique):
    """A configuration of the model's hub document: image, environment and files are its."""

    # The provider may have quantized it.
    lossless: ClassVar[bool] = False
    kind: ClassVar[str] = "pre_optimized"
    method: ClassVar[str] = "pre_optimized"
    catalog_column: ClassVar[str] = "pre_optimized"
    tested_families: ClassVar[frozenset[str]] = frozenset({"p4d", "p4de", "p5", "g5", "g6"})
    other_families: ClassVar[frozenset[str]] = frozenset({"g6e", "p5e", "p5en"})
    hub_configuration: ClassVar[bool] = True

    config: str = "lmi-optimized"

    @property
    def label(self) -> str:
        """For instance ``pre-optimized (lmi-optimized)``."""
        return f"pre-optimized ({self.config})"

    def deciding_settings(self) -> dict[str, Any]:
        """No job, so no artifact."""
        return {}


@knows_its_arguments
def PreOptimized(config: str = "lmi-optimized") -> Technique:  # noqa: N802 - reads as the technique that it is
    """A pre-optimized JumpStart configuration, deployed without any job.

    Args:
        config: its name in the model's hub document. Default: ``lmi-optimized``.
    """
    return PreOptimizedConfiguration.model_construct(config=config, tensor_parallel_degree=None)
