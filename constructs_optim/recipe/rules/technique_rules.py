"""Rules about techniques: which are techniques, which go together, and which models they work for."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Sequence

from constructs_optim.recipe.errors import Described
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import REGISTRY, Technique
from constructs_optim.recipe.techniques.parsing import UnknownTechniqueError, call_of, in_code, parse

from .registry import Finding, rule


@rule(
    "OPT020",
    title="There is at least one technique",
    reason="an optimized endpoint applies at least one technique to its model",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize.html",
)
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


@rule(
    Technique.rule,
    title="A technique's settings are known and in range",
    reason="the container or job of a technique knows no other settings",
    link=Technique.rule_link,
)
def _technique_settings_are_valid(_: Settings) -> Iterator[Finding]:
    """Enforced when a technique is made (:class:`Settings`)."""
    yield from ()


@rule(
    Settings.rule,
    title="A setting is known, of its type and in range",
    reason="a misspelt setting would be ignored, and one of another type would fail later",
    link=Settings.rule_link,
)
def _settings_are_valid(_: Settings) -> Iterator[Finding]:
    """Enforced when the settings are made (:class:`Settings`)."""
    yield from ()


@rule(
    "OPT022",
    title="A kind of technique is applied once",
    reason="the second would be applied to the output of the first, which no job supports",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize.html",
)
def _a_kind_is_applied_once(recipe: Recipe) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for location, technique in recipe.located_techniques:
        if technique.kind in first:
            fix = f"keep one {technique.kind}: {first[technique.kind]} or this one"
            yield Finding(location, technique.name, fix)
        first.setdefault(technique.kind, location)


@rule(
    "OPT023",
    title="The model supports the technique",
    reason="SageMaker's matrix of supported models says no",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/optimization-supported-models.html",
)
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


@rule(
    "OPT024",
    title="The tensor parallel degree divides the accelerators",
    reason="every copy of the model takes the same number of accelerators, and none is left over",
    link="https://docs.djl.ai/master/docs/serving/serving/docs/lmi/user_guides/lmi-dist_user_guide.html",
)
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


@rule(
    "OPT025",
    title="All techniques agree on the tensor parallel degree",
    reason="the artifact is written for one tensor parallel degree and served with it",
    link="https://docs.djl.ai/master/docs/serving/serving/docs/lmi/user_guides/lmi-dist_user_guide.html",
)
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


@rule(
    "OPT040",
    title="Compilation excludes speculative decoding",
    reason="a compiled model verifies no drafts: the service rejects compilation with speculative decoding",
    link="https://github.com/aws/sagemaker-python-sdk/blob/master/src/sagemaker/serve/builder/model_builder.py",
)
def _compilation_excludes_speculation(recipe: Recipe) -> Iterator[Finding]:
    return _excluded(recipe, "compilation", ("speculative_decoding",), "one of the two")


@rule(
    "OPT041",
    title="Shards are made from weights, quantized or not, and of nothing else",
    reason="the fast model loader loads neither compiled models nor drafts",
    link="https://docs.djl.ai/master/docs/serving/serving/docs/lmi/index.html",
)
def _sharding_excludes_the_rest(recipe: Recipe) -> Iterator[Finding]:
    others = ("compilation", "speculative_decoding")
    return _excluded(recipe, "sharding", others, "Sharding.fast_load() alone or after quantization")


@rule(
    "OPT042",
    title="A model compiled for Neuron is not quantized",
    reason="Inferentia and Trainium jobs compile only",
    link="https://github.com/aws/sagemaker-python-sdk/blob/master/src/sagemaker/serve/builder/model_builder.py",
)
def _neuron_compiles_only(recipe: Recipe) -> Iterator[Finding]:
    return _excluded(recipe, "neuron", ("quantization",), "Compilation.neuron() alone")


@rule(
    "OPT043",
    title="SmoothQuant goes with TensorRT-LLM compilation",
    reason="INT8 kernels for SmoothQuant are TensorRT-LLM's: without compiling there is nothing that runs them",
    link="https://github.com/aws/sagemaker-python-sdk/blob/master/src/sagemaker/serve/builder/model_builder.py",
)
def _smoothquant_is_compiled(recipe: Recipe) -> Iterator[Finding]:
    if not _with(recipe, "tensorrt_llm"):
        for location, technique in _with(recipe, "smoothquant"):
            yield Finding(location, technique.name, "add Compilation.tensorrt_llm()")


@rule(
    "OPT044",
    title="A pre-optimized configuration stands alone",
    reason="its image, environment and files are JumpStart's, and no job changes them",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize.html",
)
def _pre_optimized_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for location, technique in _with(recipe, "pre_optimized") if len(recipe.located_techniques) > 1 else ():
        yield Finding(location, technique.name, "PreOptimized(...) alone, or the other techniques")


@rule(
    "OPT045",
    title="EAGLE heads stand alone",
    reason="heads are trained on the model as it is, and speculate for exactly that model",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize-eagle.html",
)
def _eagle_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for location, technique in _with(recipe, "eagle") if len(recipe.located_techniques) > 1 else ():
        yield Finding(location, technique.name, "SpeculativeDecoding.eagle() alone")


@rule(
    "OPT046",
    title="TensorRT-LLM quantizes with its own group size",
    reason="its AWQ reads none of these settings: they would be ignored without a word",
    link="https://docs.djl.ai/master/docs/serving/serving/docs/lmi/index.html",
)
def _tensorrt_llm_reads_no_settings(recipe: Recipe) -> Iterator[Finding]:
    for location, technique in _with(recipe, "awq", "fp8") if _with(recipe, "tensorrt_llm") else ():
        for name, info in type(technique).model_fields.items():
            if name != "tensor_parallel_degree" and getattr(technique, name) != info.default:
                yield Finding(f"{location}.{name}", getattr(technique, name), "leave the setting out")


@rule(
    "OPT047",
    title="Medusa heads go with fine-tuning and nothing else",
    reason="heads are trained on weights of 16 bits and guess for exactly those, and Text Generation "
    "Inference, which serves them, is given no other form of the model by this library",
    link="https://huggingface.co/docs/text-generation-inference/conceptual/speculation",
)
def _medusa_goes_with_fine_tuning(recipe: Recipe) -> Iterator[Finding]:
    others = tuple(set(REGISTRY) - {"speculative_decoding", "fine_tuning"})
    return _excluded(recipe, "medusa", others, "Medusa(...) alone, or with base=FineTune(...)")
