"""Rules about accelerator memory."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.planning.memory import (
    LEAST_CONTEXT,
    MAX_MODEL_LEN,
    USABLE,
    context,
    estimate,
    smallest_fit,
)
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule

_VLLM = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"
_PARALLEL = "https://docs.vllm.ai/en/latest/serving/parallelism_scaling/"
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


@rule(
    "OPT052",
    title="One request of the longest context fits the KV cache",
    reason="vLLM does not start where the KV cache cannot hold one request of the longest context",
    link=_VLLM,
)
def _context_fits(recipe: Recipe) -> Iterator[Finding]:
    found = context(recipe) if recipe.all_techniques_are_known else None
    stated = recipe.variables.get(MAX_MODEL_LEN)
    if found is None or not _weights_are_held(recipe):
        return
    needed = found.asked if stated is not None else min(found.asked, LEAST_CONTEXT)
    if needed <= found.fits_at_best:
        return
    reason = (
        f"one request of {found.asked} tokens takes {found.request_gb:.1f} GB of KV cache, and {found.left_gb:.1f} GB "
        "are left beside weights and activations: vLLM does not start"
    )
    larger = "an instance type with more accelerator memory, or fewer bits a weight"
    if stated is not None:
        shorter = f"{found.shortened} or less, or " if found.fits_at_best >= LEAST_CONTEXT else ""
        yield Finding(f"environment.{MAX_MODEL_LEN}", stated, shorter + larger, reason)
    else:
        yield Finding("instance_type", recipe.instance_type, larger, reason)


@rule(
    "OPT053",
    title="The longest context fits the KV cache whole",
    reason="the endpoint takes shorter requests than the model could",
    link=_VLLM,
    advisory=True,
)
def _context_is_shortened(recipe: Recipe) -> Iterator[Finding]:
    found = context(recipe)
    if found is None or found.shortened is None:
        return
    takes = f"one request of {found.asked} tokens takes {found.request_gb:.1f} GB of KV cache, and about "
    left = f"{takes}{found.left_gb:.1f} GB are left"
    larger = "choose an instance type with more accelerator memory"
    if MAX_MODEL_LEN in recipe.variables:
        yield Finding(
            f"environment.{MAX_MODEL_LEN}",
            found.asked,
            f"Set {MAX_MODEL_LEN} to {found.shortened} or less, or {larger}",
            reason=f"{left}, so that the server may not start",
        )
    else:
        yield Finding(
            f"environment.{MAX_MODEL_LEN}",
            found.shortened,
            f"Set {MAX_MODEL_LEN} to what your requests need, or {larger}",
            reason=f"{MAX_MODEL_LEN} is set to {found.shortened}, and longer requests are refused: {left}",
        )


@rule(
    "OPT054",
    title="Attention heads are spread evenly",
    reason="vLLM, TensorRT-LLM and Text Generation Inference give each accelerator the same number of attention heads",
    link=_PARALLEL,
)
def _heads_are_divisible(recipe: Recipe) -> Iterator[Finding]:
    # vLLM, ModelConfig.verify_with_parallel_config: "Total number of attention heads (71) must be divisible by tensor
    # parallel size (4)." On Neuron devices, transformers-neuronx pads heads instead.
    row, instance, degree = recipe.model_row, recipe.instance, recipe.tensor_parallel_degree
    if row is None or row.attention_heads is None or instance is None or instance.kind != "gpu":
        return
    if not isinstance(degree, int) or degree < 1 or row.attention_heads % degree == 0:
        return
    if any(technique.hub_configuration for _, technique in recipe.known_techniques):
        return
    heads, units = row.attention_heads, instance.parallel_units
    possible = [str(each) for each in range(1, units + 1) if heads % each == 0 and units % each == 0]
    yield Finding(
        "instance_type",
        recipe.instance_type,
        f"a tensor parallel degree of {' or '.join(possible)} (tensor_parallel_degree=), or another instance type",
        reason=f"{row.attention_heads} attention heads cannot be spread evenly over {degree} accelerators",
    )


def _weights_are_held(recipe: Recipe) -> bool:
    """Whether there is room for a cache at all; OPT050 says where there is not."""
    found = estimate(recipe)
    return found is not None and found.fixed_gb <= found.available_gb
