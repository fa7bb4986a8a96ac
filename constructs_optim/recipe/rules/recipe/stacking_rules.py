"""Rules about which techniques go together."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.techniques import Technique


def _those(recipe: Recipe, attribute: str, value: str) -> list[tuple[str, Technique]]:
    return [
        (place, technique) for place, technique in recipe.known_techniques if getattr(technique, attribute) == value
    ]


@rule("OPT040")
def _compilation_excludes_speculation(recipe: Recipe) -> Iterator[Finding]:
    if _those(recipe, "kind", "compilation"):
        for place, technique in _those(recipe, "kind", "speculative_decoding"):
            yield Finding(place, technique.name, "one of the two")


@rule("OPT041")
def _sharding_excludes_the_rest(recipe: Recipe) -> Iterator[Finding]:
    if not _those(recipe, "kind", "sharding"):
        return
    for kind in ("compilation", "speculative_decoding"):
        for place, technique in _those(recipe, "kind", kind):
            yield Finding(
                place,
                technique.name,
                "Sharding.fast_load() alone or after quantization",
            )


@rule("OPT042")
def _neuron_compiles_only(recipe: Recipe) -> Iterator[Finding]:
    if _those(recipe, "name", "neuron"):
        for place, technique in _those(recipe, "kind", "quantization"):
            yield Finding(place, technique.name, "Compilation.neuron() alone")


@rule("OPT043")
def _smoothquant_is_compiled(recipe: Recipe) -> Iterator[Finding]:
    if not _those(recipe, "name", "tensorrt_llm"):
        for place, _ in _those(recipe, "name", "smoothquant"):
            yield Finding(place, "smoothquant", "add Compilation.tensorrt_llm()")


@rule("OPT044")
def _pre_optimized_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for place, _ in _those(recipe, "kind", "pre_optimized"):
        if len(recipe.known_techniques) > 1:
            yield Finding(place, "pre_optimized", "PreOptimized(...) alone, or the other techniques")


@rule("OPT045")
def _eagle_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for place, _ in _those(recipe, "name", "eagle"):
        if len(recipe.known_techniques) > 1:
            yield Finding(place, "eagle", "SpeculativeDecoding.eagle() alone")


@rule("OPT046")
def _tensorrt_llm_reads_no_awq_settings(recipe: Recipe) -> Iterator[Finding]:
    if not _those(recipe, "name", "tensorrt_llm"):
        return
    for place, technique in [*_those(recipe, "name", "awq"), *_those(recipe, "name", "fp8")]:
        for name, info in type(technique).model_fields.items():
            if name != "tensor_parallel_degree" and getattr(technique, name) != info.default:
                yield Finding(f"{place}.{name}", getattr(technique, name), "leave the setting out")


@rule("OPT047")
def _medusa_stands_on_fine_tuning(recipe: Recipe) -> Iterator[Finding]:
    if not _those(recipe, "name", "medusa"):
        return
    for place, technique in recipe.known_techniques:
        if technique.kind not in ("speculative_decoding", "fine_tuning"):
            yield Finding(place, technique.name, "Medusa(...) alone, or with base=FineTune(...)")
