"""Sharding: the weights stored as each accelerator will load them, for the fast model loader.

Source: ``sm_neo_shard.py`` of djl-serving; Amazon SageMaker developer guide, "Fast model loading".
"""

from __future__ import annotations

from typing import ClassVar

from constructs_optim.recipe.named_arguments import NamesItsFactories, knows_its_arguments

from .base import Stage, Technique


class FastLoadSharding(Technique):
    """Shards that are streamed from S3 straight into accelerator memory."""

    kind: ClassVar[str] = "sharding"
    method: ClassVar[str] = "fast_load"
    catalog_column: ClassVar[str] = "fast_load"
    capabilities: ClassVar[frozenset[str]] = frozenset({"fast_load"})
    tested_families: ClassVar[frozenset[str]] = frozenset({"p4d", "p4de", "p5", "g5", "g6"})
    other_families: ClassVar[frozenset[str]] = frozenset({"g6e", "p5e", "p5en"})
    stage: ClassVar[Stage] = Stage.SHARD
    job_member: ClassVar[str] = "ModelShardingConfig"
    # The loader reads S3 itself, and the service deploys its output to inference components only.
    network_isolation: ClassVar[bool] = False
    inference_component: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """For instance ``fast load shards``."""
        return "fast load shards"


class Sharding(metaclass=NamesItsFactories):
    """The weights cut up as the accelerators will load them: instances that start in less time."""

    @staticmethod
    @knows_its_arguments
    def fast_load(*, tensor_parallel_degree: int | None = None) -> Technique:
        """Shards for the fast model loader, served by an inference component. For GPUs.

        Args:
            tensor_parallel_degree: accelerators one copy is spread over, and so the number of shards. Default: all of
                the instance.
        """
        return FastLoadSharding.model_construct(tensor_parallel_degree=tensor_parallel_degree)
