"""Sharding: weights split into shards for the fast model loader.

Sources: ``sm_neo_shard.py`` of djl-serving; Amazon SageMaker developer guide, "Fast model loading".
"""

from __future__ import annotations

from constructs_optim.recipe.settings import Group

from .base import Stage, Technique


class FastLoadSharding(Technique):
    """Shards that the fast model loader streams from S3 directly into accelerator memory. For GPUs.

    An inference component serves them. Each accelerator of ``tensor_parallel_degree`` has one shard.
    """

    kind = "sharding"
    name = "fast_load"
    title = "fast load shards"
    makes = frozenset({"fast_load"})
    served_by_job_image = True
    stage = Stage(3)
    job_member = "ModelShardingConfig"
    # The loader reads S3 itself, and SageMaker deploys its output only to inference components.
    network_isolation = False
    inference_component = True


class Sharding(metaclass=Group):
    """The weights are split for the accelerators in advance: instances start faster."""

    fast_load = FastLoadSharding
