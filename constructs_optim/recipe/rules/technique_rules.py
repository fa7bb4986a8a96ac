"""Rules about techniques: which are techniques, which go together, and which models they work for."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Sequence

from constructs_optim.recipe.errors import Described
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.techniques import REGISTRY, Technique
from constructs_optim.recipe.techniques.parsing import UnknownTechniqueError, call_of, in_code, parse

from .registry import Finding, rule


@rule("OPT020")
def _there_is_a_technique(recipe: Recipe) -> Iterator[Finding]:
    techniques = recipe.techniques
    if isinstance(techniques, str) or not isinstance(techniques, Sequence):
        named = techniques.called() if isinstance(techniques, Technique) else techniques
        meant = in_code(named) if isinstance(named, str) else None
        fix = f"techniques=[{meant or 'Quantization.awq()'}]"
        yield Finding("techniques", techniques, fix, "techniques are a list")
        return
    if not techniques:
        yield Finding("techniques", Described("none"), "techniques=[Quantization.awq()]")
    for index, technique in enumerate(techniques):
        if not isinstance(technique, Technique):
            reason, fix = _what_is_meant(technique)
            yield Finding(f"techniques[{index}]", technique, fix, reason)


def _what_is_meant(value: object) -> tuple[str, str]:
    """Why a value is no technique, and what to write instead."""
    if isinstance(value, str):
        try:
            parse(value)
        except UnknownTechniqueError as error:
            named = str(error).startswith("in Python ")
            return "this is text, and no technique" if named else "no technique has that name", str(error)
        return "this is text, and no technique", f"in Python {in_code(value)}"
    if isinstance(value, type) and issubclass(value, Technique):
        return "this makes a technique when it is called", call_of(value)
    calls = [
        call_of(technique)
        for technique in _registered()
        if isinstance(value, type) and technique.called().startswith(f"{value.__name__}.")
    ]
    if calls:
        return "this is a group of techniques", f"one of {', '.join(calls)}"
    return "this is not a technique", "techniques=[Quantization.awq()]"


def _registered() -> list[type[Technique]]:
    return [technique for of_kind in REGISTRY.values() for technique in of_kind.values()]


@rule("OPT022")
def _a_kind_is_applied_once(recipe: Recipe) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for location, technique in recipe.located_techniques:
        if technique.kind in first:
            fix = f"keep one {technique.kind}: {first[technique.kind]} or this one"
            yield Finding(location, technique.name, fix)
        first.setdefault(technique.kind, location)


@rule("OPT023")
def _the_model_supports_techniques(recipe: Recipe) -> Iterator[Finding]:
    row = recipe.model_row
    for location, technique in recipe.located_techniques:
        if row is not None and technique.support not in row.supports:
            others = sorted(other.name for other in _registered() if other.support in row.supports)
            yield Finding(
                location,
                technique.name,
                f"for this model there is {', '.join(others) or 'no technique'}; for another kind of model see "
                "`constructs-optim catalog models`",
                f"{row.model_id} and {technique.name}: {technique.support_source} does not say yes",
            )


@rule("OPT024")
def _the_degree_divides_accelerators(recipe: Recipe) -> Iterator[Finding]:
    if recipe.instance is None:
        return
    count = recipe.instance.parallel_units
    unit = "accelerators" if recipe.instance.cores_per_accelerator == 1 else "NeuronCores"
    for location, technique in recipe.located_techniques:
        degree = technique.tensor_parallel_degree
        if degree is not None and count % degree:
            divisors = ", ".join(str(number) for number in range(1, count + 1) if count % number == 0)
            reason = f"{recipe.instance.name} has {count} {unit}, and {degree} does not divide them"
            yield Finding(f"{location}.tensor_parallel_degree", degree, f"one of {divisors}", reason)


@rule("OPT025")
def _degrees_agree(recipe: Recipe) -> Iterator[Finding]:
    degrees = {location: technique.tensor_parallel_degree for location, technique in recipe.located_techniques}
    chosen = {location: degree for location, degree in degrees.items() if degree is not None}
    first = next(iter(chosen.values()), None)
    for location, degree in chosen.items():
        if degree != first:
            yield Finding(f"{location}.tensor_parallel_degree", degree, f"{first} for all, or for one alone")


def _with(recipe: Recipe, *names: str) -> list[tuple[str, Technique]]:
    """The techniques of these names or kinds, with their locations."""
    return [each for each in recipe.located_techniques if each[1].name in names or each[1].kind in names]


def _excluded(recipe: Recipe, technique: str, others: tuple[str, ...], fix: str) -> Iterator[Finding]:
    """The techniques of ``others`` beside a technique that does not go with them."""
    if _with(recipe, technique):
        for location, other in _with(recipe, *others):
            yield Finding(location, other.name, fix)


@rule("OPT040")
def _compilation_excludes_speculation(recipe: Recipe) -> Iterator[Finding]:
    return _excluded(recipe, "compilation", ("speculative_decoding",), "one of the two")


@rule("OPT041")
def _sharding_excludes_the_rest(recipe: Recipe) -> Iterator[Finding]:
    others = ("compilation", "speculative_decoding")
    return _excluded(recipe, "sharding", others, "Sharding.fast_load() alone or after quantization")


@rule("OPT042")
def _neuron_compiles_only(recipe: Recipe) -> Iterator[Finding]:
    return _excluded(recipe, "neuron", ("quantization",), "Compilation.neuron() alone")


@rule("OPT043")
def _smoothquant_is_compiled(recipe: Recipe) -> Iterator[Finding]:
    if not _with(recipe, "tensorrt_llm"):
        for location, technique in _with(recipe, "smoothquant"):
            yield Finding(location, technique.name, "add Compilation.tensorrt_llm()")


@rule("OPT044")
def _pre_optimized_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for location, technique in _with(recipe, "pre_optimized") if len(recipe.located_techniques) > 1 else ():
        yield Finding(location, technique.name, "PreOptimized(...) alone, or the other techniques")


@rule("OPT045")
def _eagle_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for location, technique in _with(recipe, "eagle") if len(recipe.located_techniques) > 1 else ():
        yield Finding(location, technique.name, "SpeculativeDecoding.eagle() alone")


@rule("OPT046")
def _tensorrt_llm_reads_no_settings(recipe: Recipe) -> Iterator[Finding]:
    for location, technique in _with(recipe, "awq", "fp8") if _with(recipe, "tensorrt_llm") else ():
        for name, info in type(technique).model_fields.items():
            if name != "tensor_parallel_degree" and getattr(technique, name) != info.default:
                yield Finding(f"{location}.{name}", getattr(technique, name), "leave the setting out")


@rule("OPT047")
def _medusa_goes_with_fine_tuning(recipe: Recipe) -> Iterator[Finding]:
    others = tuple(set(REGISTRY) - {"speculative_decoding", "fine_tuning"})
    return _excluded(recipe, "medusa", others, "Medusa(...) alone, or with base=FineTune(...)")
