"""Instance types that stand in for each other when one has no capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from constructs_optim.recipe.techniques import Technique


@dataclass(frozen=True)
class Pool:
    """One instance type of an endpoint, and the techniques that make the model ready for it.

    SageMaker launches instances of the first pool that has capacity, in the order they are given. Each pool has a
    recipe of its own: its jobs make its artifact, and its instances serve it.

    Attributes:
        instance_type: for instance ``ml.p5.48xlarge``.
        techniques: what is applied for this type, in order.
        artifact_key: the key of an artifact that is in the store, as of :class:`OptimizedEndpoint`. Default: jobs make
            what is not in the store.
        environment: more variables of the container on this type, over the endpoint's own. Default: none.
    """

    instance_type: str
    techniques: Sequence[Technique]
    artifact_key: str | None = None
    environment: Mapping[str, str] | None = None
