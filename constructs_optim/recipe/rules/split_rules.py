"""Rules for tensor parallelism, which splits every layer among the accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from constructs_optim.recipe.memory import arguments_of_engine, estimate
from constructs_optim.recipe.parallelism import ENCODER_MODE, WHOLE_ENCODERS, misfits_of
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
    fixes = [*_modes(recipe), *_degrees(recipe), *_variants(recipe)]
    memory = estimate(recipe)
    smallest = smallest_fit(recipe, memory) if memory is not None else None
    possible = " or ".join(str(number) for number in _GPUS if not misfits_of(recipe, number))
    fixes += [smallest or (f"an instance type with {possible} GPUs" if possible else "other weights")]
    reason = "; ".join(misfit.over(degree) for misfit in found)
    yield Finding("instance_type", recipe.instance_type, ", or ".join(fixes), reason)


def _modes(recipe: Recipe) -> Iterator[str]:
    """Yield the setting with which each accelerator has whole encoders, if these are all that cannot be split."""
    name = recipe.variable(ENCODER_MODE)
    changed = replace(recipe, environment={**recipe.variables, name: WHOLE_ENCODERS})
    if arguments_of_engine(recipe).find(ENCODER_MODE) is not None and not misfits_of(changed):
        yield f'environment={{"{name}": "{WHOLE_ENCODERS}"}}'


def _degrees(recipe: Recipe) -> Iterator[str]:
    """Yield the tensor parallel degrees that split the layers, if a technique of the recipe can set one."""
    possible = [str(degree) for degree in _held(recipe) if not misfits_of(recipe, degree)]
    if recipe.located_techniques and possible:
        yield f"a tensor parallel degree of {' or '.join(possible)} (tensor_parallel_degree=)"


def _held(recipe: Recipe) -> list[int]:
    """Return the degrees that divide the accelerators of the instance type, and whose accelerators hold the weights."""
    instance, memory, planned = recipe.instance, estimate(recipe), recipe.tensor_parallel_degree
    assert instance is not None  # noqa: S101 - there is a misfit
    units = instance.parallel_units
    degrees = [degree for degree in range(1, units + 1) if units % degree == 0]
    if memory is None or planned is None:
        return degrees
    return [degree for degree in degrees if memory.fixed_gb <= memory.available_gb * degree / planned]


def _variants(recipe: Recipe) -> Iterator[str]:
    """Yield a quantization that makes weights that can be split, if the recipe's cannot."""
    instance = recipe.instance
    assert instance is not None  # noqa: S101 - there is a misfit
    for index, technique in enumerate(recipe.techniques):
        made = technique.quantization
        if made is None or technique.ready_made is not None:
            continue
        # At the planned degree, or else at the highest other one.
        for degree in (technique.tensor_parallel_degree, *reversed(_held(recipe))):
            for other in _quantizations(technique):
                chosen = other.model_copy(update={"tensor_parallel_degree": degree})
                techniques = [*recipe.techniques[:index], chosen, *recipe.techniques[index + 1 :]]
                if recipe.runs_on(other, instance) and not misfits_of(replace(recipe, techniques=techniques)):
                    yield _written(chosen, technique)
                    return


def _quantizations(technique: Technique) -> Iterator[Technique]:
    """Yield smaller groups, and then a scale for each output."""
    if isinstance(technique, AwqQuantization):
        yield from (technique.model_copy(update={"group_size": size}) for size in (64, 32))
    yield Fp8DynamicQuantization()


def _written(chosen: Technique, instead: Technique) -> str:
    """Return a technique in Python, with what differs from the one that it replaces."""
    arguments = [f"group_size={chosen.group_size}"] if isinstance(chosen, AwqQuantization) else []
    if chosen.tensor_parallel_degree != instead.tensor_parallel_degree:
        arguments.append(f"tensor_parallel_degree={chosen.tensor_parallel_degree}")
    return f"{chosen.display_name()}({', '.join(arguments)})"
