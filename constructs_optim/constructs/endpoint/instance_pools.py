"""Instance pools: instance types in order of preference, used when one has no capacity, and the recipe of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """The pools of an endpoint: those requested, or the one pool of techniques and instance type."""
    options = {"techniques": techniques, "instance_type": instance_type, "artifact_key": artifact_key}
    if instance_pools is not None:
        if names := " and ".join(name for name, value in options.items() if value is not None):
            raise ValueError(f"{names} and instance_pools are set: set them in each Pool instead")
        if not (isinstance(instance_pools, Sequence) and all(isinstance(pool, Pool) for pool in instance_pools)):
            raise ValueError(
                f"instance_pools is {shown(instance_pools)}, and it takes a list of Pools: "
                'instance_pools=[Pool("ml.g5.12xlarge", techniques=[Quantization.awq()])]'
            )
        return tuple(instance_pools)
    if instance_type is None:
        raise ValueError('an endpoint needs instance_type="ml.g5.12xlarge", for instance, or instance_pools')
    for unused, value in (("techniques are", techniques), ("artifact_key is", artifact_key)):
        if model is None and value is not None:
            raise ValueError(
                f'{unused} set without a model: give model=Model.jumpstart("<model id>") or '
                'Model.s3("s3://<bucket>/<prefix>/")'
            )
    return (Pool(instance_type, techniques if techniques is not None else [], artifact_key),)


def pools_of_component(
    hosting: Hosting,
    model: Model,
    techniques: Sequence[Technique] | None,
    instance_pools: Sequence[Pool] | None,
    artifact_key: str | None,
) -> tuple[Pool, ...]:
    """The pools of a component: of the endpoint's instance types, with techniques of its own."""
    if not hosting.pooled and instance_pools is not None:
        raise ValueError("instance_pools go with an endpoint that has them: give techniques, for its instance type")
    if not hosting.pooled:
        return pools_of(model, techniques, hosting.instance_types[0], None, artifact_key)
    pools = pools_of(model, techniques, None, instance_pools or (), artifact_key)
    if tuple(pool.instance_type for pool in pools) != tuple(hosting.instance_types):
        raise ValueError(
            f"instance_pools are of {', '.join(pool.instance_type for pool in pools) or 'no type'}, and the endpoint's "
            f"are of {', '.join(hosting.instance_types)}: give one for each, in the same order"
        )
    return pools


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
            _merged(loading, environment, pool.environment),
            location=f"instance_pools[{index}]." if pooled else "",
        )
        for index, pool in enumerate(pools)
    ]


def _merged(*environments: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The variables of all environments. An environment that is no mapping is kept for the rules to refuse."""
    merged: dict[str, str] = {}
    for environment in environments:
        if environment is not None and not isinstance(environment, Mapping):
            return environment
        merged |= environment or {}
    return merged or None


def pool_scope(scope: Construct, recipe: ModelRecipe) -> Construct:
    """The scope of a recipe's resources: their pool, whose id does not change with its index."""
    if not recipe.location:
        return scope
    return Construct(scope, "".join(part.capitalize() for part in recipe.instance_type.removeprefix("ml.").split(".")))
