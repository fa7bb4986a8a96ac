"""Sharding: weights cut into the shards that the fast model loader streams.

Sources: ``sm_neo_shard.py`` of djl-serving; Amazon SageMaker developer guide, "Fast model loading".
"""

from __future__ import annotations

from constructs_optim.recipe.settings import Group

from .base import Stage, Technique


class FastLoadSharding(Technique):
    """Shards for the fast model loader, streamed from S3 straight into accelerator memory. For GPUs.

    They are served by an inference component; there is a shard for each accelerator of ``tensor_parallel_degree``.
    """

    kind = "sharding"
    name = "fast_load"
    title = "fast load shards"
    makes = frozenset({"fast_load"})
    served_by_job_image = True
    stage = Stage(3)
    job_member = "ModelShardingConfig"
    # The loader reads S3 itself, and the service deploys its output to inference components only.
    network_isolation = False
    inference_component = True


class Sharding(metaclass=Group):
    """The weights cut up as the accelerators will load them: instances that start in less time."""

    fast_load = FastLoadSharding
