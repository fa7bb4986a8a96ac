"""Rules about accelerator memory."""

from __future__ import annotations

from collections.abc import Iterator

from ..memory import USABLE, estimate, smallest_fit
from ..recipe import Recipe
from .registry import Finding, rule

_LMI = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/deployment_guide/instance-type-selection.html"


@rule(
    "OPT050",
    title="The weights fit the accelerators",
    reason="the weights alone take more memory than the accelerators have",
    link=_LMI,
)
def _weights_fit(recipe: Recipe) -> Iterator[Finding]:
    # A technique that cannot be read may be what makes the weights small.
    found = estimate(recipe) if recipe.all_techniques_are_known else None
    if found is None or recipe.instance is None or found.fixed_gb <= found.available_gb:
        return
    smallest = smallest_fit(recipe, found)
    degree = recipe.tensor_parallel_degree
    spread = "its one accelerator or core" if degree == 1 else f"the {degree} accelerators or cores it is spread over"
    yield Finding(
        "instance_type",
        recipe.instance_type,
        f"{smallest}, the smallest that would do" if smallest else "fewer bits a weight, or a smaller model",
        reason=f"the weights take {found.fixed_gb:.0f} GB; {found.available_gb:.0f} GB ({USABLE:.0%}) of the memory "
        f"of {spread} can be used",
    )


@rule(
    "OPT051",
    title="Memory is left for the KV cache",
    reason="requests will wait for each other's KV cache, or be refused",
    link=_LMI,
    advisory=True,
)
def _cache_fits(recipe: Recipe) -> Iterator[Finding]:
    found = estimate(recipe)
    if found is None or not found.fixed_gb <= found.available_gb < found.total_gb:
        return
    smallest = smallest_fit(recipe, found)
    yield Finding(
        "instance_type",
        recipe.instance_type,
        f"{smallest} would do" if smallest else "Choose fewer or shorter requests",
        reason=f"weights ({found.fixed_gb:.0f} GB) and KV cache ({found.kv_cache_gb:.0f} GB for {found.batch_size} "
        f"requests of {found.sequence_length} tokens) take more than the usable {found.available_gb:.0f} GB",
    )
