"""Rules for tensor parallelism, which splits every layer among the accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from constructs_optim.recipe.memory import estimate
from constructs_optim.recipe.parallelism import misfits_of
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.techniques import Technique
from constructs_optim.recipe.techniques.quantization import AwqQuantization, Fp8DynamicQuantization

from .instance_rules import smallest_fit
from .registry import Finding, rule

# The numbers of GPUs that instance types have.
_GPUS = (1, 2, 4, 8)


@rule("OPT054", "https://docs.vllm.ai/en/latest/serving/parallelism_scaling/")
def _layers_are_split_evenly(recipe: Recipe) -> Iterator[Finding]:
    """The tensor parallel degree splits every layer: every accelerator holds the same number of heads, and whole groups
    of quantized weights.
    """
    degree, instance = recipe.tensor_parallel_degree, recipe.instance
    found = misfits_of(recipe)
    if not found or instance is None or degree is None:
        return
    fixes = [*_degrees(recipe), *_variants(recipe)]
    memory = estimate(recipe)
    smallest = smallest_fit(recipe, memory) if memory is not None else None
    possible = " or ".join(str(number) for number in _GPUS if not misfits_of(recipe, number))
    fixes += [smallest or (f"an instance type with {possible} GPUs" if possible else "other weights")]
    reason = "; ".join(misfit.over(degree) for misfit in found)
    yield Finding("instance_type", recipe.instance_type, ", or ".join(fixes), reason)


def _degrees(recipe: Recipe) -> Iterator[str]:
    """Yield the tensor parallel degrees that split the layers, if a technique of the recipe can set one."""
    instance = recipe.instance
    assert instance is not None  # noqa: S101 - there is a misfit
    units = instance.parallel_units
    possible = [
        str(n) for n in range(1, units + 1) if units % n == 0 and _holds(recipe, n) and not misfits_of(recipe, n)
    ]
    if recipe.located_techniques and possible:
        yield f"a tensor parallel degree of {' or '.join(possible)} (tensor_parallel_degree=)"


def _holds(recipe: Recipe, degree: int) -> bool:
    memory = estimate(recipe)
    if memory is None or recipe.tensor_parallel_degree is None:
        return True
    return memory.fixed_gb <= memory.available_gb * degree / recipe.tensor_parallel_degree


def _variants(recipe: Recipe) -> Iterator[str]:
    """Yield a quantization that makes weights that can be split, if the recipe's cannot."""
    instance = recipe.instance
    assert instance is not None  # noqa: S101 - there is a misfit
    for index, technique in enumerate(recipe.techniques):
        made = technique.quantization
        if made is None or technique.ready_made is not None:
            continue
        for other in _quantizations(technique):
            changed = replace(recipe, techniques=[*recipe.techniques[:index], other, *recipe.techniques[index + 1 :]])
            if recipe.runs_on(other, instance) and not misfits_of(changed):
                yield _written(other)
                return


def _quantizations(technique: Technique) -> Iterator[Technique]:
    """Yield smaller groups, and then a scale for each output."""
    if isinstance(technique, AwqQuantization):
        yield from (technique.model_copy(update={"group_size": size}) for size in (64, 32))
    yield Fp8DynamicQuantization(tensor_parallel_degree=technique.tensor_parallel_degree)


def _written(technique: Technique) -> str:
    size = f"group_size={technique.group_size}" if isinstance(technique, AwqQuantization) else ""
    return f"{technique.display_name()}({size})"
