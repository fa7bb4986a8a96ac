"""Instance types that stand in for each other when one has no capacity, and the recipe of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constructs import Construct

from constructs_optim.constructs.artifacts.planned_recipe import ModelRecipe
from constructs_optim.constructs.stack.arguments import suggests_keywords
from constructs_optim.recipe import Model
from constructs_optim.recipe.errors import shown
from constructs_optim.recipe.hosting import Adapters, Hosting
from constructs_optim.recipe.techniques import Technique


@suggests_keywords
@dataclass(frozen=True)
class Pool:
    """One instance type of an endpoint, and the techniques that prepare the model ready for it.

    SageMaker launches instances of the first pool that has capacity, in their order. Each pool has its
    own recipe: its jobs create its artifact, and its instances serve it.

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


def pools_of(
    model: Model | None,
    techniques: Sequence[Technique] | None,
    instance_type: str | None,
    instance_pools: Sequence[Pool] | None,
    artifact_key: str | None,
) -> tuple[Pool, ...]:
    """The pools of an endpoint: as declared, or the one pool of techniques and instance type."""
    if instance_pools is not None:
        _refuse_beside_pools(techniques=techniques, instance_type=instance_type, artifact_key=artifact_key)
        if not (isinstance(instance_pools, Sequence) and all(isinstance(pool, Pool) for pool in instance_pools)):
            raise ValueError(
                f"instance_pools is {shown(instance_pools)}, and it takes a list of Pools: "
                'instance_pools=[Pool("ml.g5.12xlarge", techniques=[Quantization.awq()])]'
            )
        return tuple(instance_pools)
    if instance_type is None:
        raise ValueError(
            "an endpoint without instance_type and instance_pools runs on nothing: give "
            'instance_type="ml.g5.12xlarge", for instance'
        )
    unused = [name for name, v in (("techniques", techniques), ("artifact_key", artifact_key)) if v is not None]
    if model is None and unused:
        raise ValueError(
            f"{' and '.join(unused)} {'is' if unused == ['artifact_key'] else 'are'} set without a model to apply "
            'to: give model=Model.jumpstart("<model id>") or Model.s3("s3://<bucket>/<prefix>/"), or leave '
            f"{' and '.join(unused)} out"
        )
    return (Pool(instance_type, techniques if techniques is not None else [], artifact_key),)


def pools_of_component(
    hosting: Hosting,
    techniques: Sequence[Technique] | None,
    instance_pools: Sequence[Pool] | None,
    artifact_key: str | None,
) -> tuple[Pool, ...]:
    """The pools of a component: the endpoint's, with techniques of its own."""
    if not hosting.pooled:
        if instance_pools is not None:
            raise ValueError("instance_pools go with an endpoint that has them: give techniques, for its instance type")
        return (Pool(hosting.instance_types[0], techniques if techniques is not None else [], artifact_key),)
    _refuse_beside_pools(techniques=techniques, artifact_key=artifact_key)
    pools = tuple(instance_pools or ())
    if [pool.instance_type for pool in pools] != list(hosting.instance_types):
        raise ValueError(
            f"instance_pools are of {', '.join(pool.instance_type for pool in pools) or 'no type'}, and the endpoint's "
            f"are of {', '.join(hosting.instance_types)}: give one for each, in the same order"
        )
    return pools


def _refuse_beside_pools(**arguments: object) -> None:
    unused = [name for name, value in arguments.items() if value is not None]
    if unused:
        raise ValueError(
            f"{' and '.join(unused)} and instance_pools are set: each Pool has its own, so leave "
            f"{'it' if len(unused) == 1 else 'them'} out"
        )


def recipes_of(
    model: Model | None,
    pools: Sequence[Pool],
    environment: Mapping[str, str] | None,
    adapters: Adapters | None,
    *,
    pooled: bool,
) -> list[ModelRecipe]:
    """One recipe for each pool; none without a model."""
    if model is None:
        return []
    loading = adapters.environment() if adapters is not None else {}
    return [
        ModelRecipe(
            model,
            pool.techniques,
            pool.instance_type,
            pool.artifact_key,
            _joined(loading, environment, pool.environment),
            location=f"instance_pools[{index}]." if pooled else "",
        )
        for index, pool in enumerate(pools)
    ]


def _joined(*environments: Any) -> Any:
    """Environments laid over each other. One that is no mapping is kept for the rules to refuse."""
    wrong = [each for each in environments if each is not None and not isinstance(each, Mapping)]
    return wrong[0] if wrong else {k: v for each in environments for k, v in (each or {}).items()} or None


def pool_scope(scope: Construct, recipe: ModelRecipe) -> Construct:
    """The scope of a recipe's resources: their pool, whose id does not change with its index."""
    if not recipe.location:
        return scope
    return Construct(scope, "".join(part.capitalize() for part in recipe.instance_type.removeprefix("ml.").split(".")))
