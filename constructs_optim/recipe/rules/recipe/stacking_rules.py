"""Rules about which techniques go together."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.techniques import Technique

_SDK = "https://github.com/aws/sagemaker-python-sdk/blob/master/src/sagemaker/serve/builder/model_builder.py"
_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize.html"
_LMI = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/index.html"


def _those(recipe: Recipe, attribute: str, value: str) -> list[tuple[str, Technique]]:
    return [
        (place, technique) for place, technique in recipe.known_techniques if getattr(technique, attribute) == value
    ]


@rule(
    "OPT040",
    title="Compilation excludes speculative decoding",
    reason="a compiled model verifies no drafts: the service rejects compilation with speculative decoding",
    link=_SDK,
)
def _compilation_excludes_speculation(recipe: Recipe) -> Iterator[Finding]:
    if _those(recipe, "kind", "compilation"):
        for place, technique in _those(recipe, "kind", "speculative_decoding"):
            yield Finding(place, technique.name, "one of the two")


@rule(
    "OPT041",
    title="Shards are made from weights, quantized or not, and of nothing else",
    reason="the fast model loader loads neither compiled models nor drafts",
    link=_LMI,
)
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


@rule(
    "OPT042",
    title="A model compiled for Neuron is not quantized",
    reason="Inferentia and Trainium jobs compile only",
    link=_SDK,
)
def _neuron_compiles_only(recipe: Recipe) -> Iterator[Finding]:
    if _those(recipe, "name", "neuron"):
        for place, technique in _those(recipe, "kind", "quantization"):
            yield Finding(place, technique.name, "Compilation.neuron() alone")


@rule(
    "OPT043",
    title="SmoothQuant goes with TensorRT-LLM compilation",
    reason="INT8 kernels for SmoothQuant are TensorRT-LLM's: without compiling there is nothing that runs them",
    link=_SDK,
)
def _smoothquant_is_compiled(recipe: Recipe) -> Iterator[Finding]:
    if not _those(recipe, "name", "tensorrt_llm"):
        for place, _ in _those(recipe, "name", "smoothquant"):
            yield Finding(place, "smoothquant", "add Compilation.tensorrt_llm()")


@rule(
    "OPT044",
    title="A pre-optimized configuration stands alone",
    reason="its image, environment and files are JumpStart's, and no job changes them",
    link=_GUIDE,
)
def _pre_optimized_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for place, _ in _those(recipe, "kind", "pre_optimized"):
        if len(recipe.known_techniques) > 1:
            yield Finding(place, "pre_optimized", "PreOptimized(...) alone, or the other techniques")


@rule(
    "OPT045",
    title="EAGLE heads stand alone",
    reason="heads are trained on the model as it is, and speculate for exactly that model",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize-eagle.html",
)
def _eagle_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for place, _ in _those(recipe, "name", "eagle"):
        if len(recipe.known_techniques) > 1:
            yield Finding(place, "eagle", "SpeculativeDecoding.eagle() alone")


@rule(
    "OPT046",
    title="TensorRT-LLM quantizes with its own group size",
    reason="its AWQ reads none of these settings: they would be ignored without a word",
    link=_LMI,
)
def _tensorrt_llm_reads_no_awq_settings(recipe: Recipe) -> Iterator[Finding]:
    if not _those(recipe, "name", "tensorrt_llm"):
        return
    for place, technique in [*_those(recipe, "name", "awq"), *_those(recipe, "name", "fp8")]:
        for name, info in type(technique).model_fields.items():
            if name != "tensor_parallel_degree" and getattr(technique, name) != info.default:
                yield Finding(f"{place}.{name}", getattr(technique, name), "leave the setting out")


@rule(
    "OPT047",
    title="Medusa heads go with fine-tuning and nothing else",
    reason="heads are trained on weights of 16 bits and guess for exactly those, and Text Generation Inference, which "
    "serves them, is given no other form of the model by this library",
    link="https://huggingface.co/docs/text-generation-inference/conceptual/speculation",
)
def _medusa_stands_on_fine_tuning(recipe: Recipe) -> Iterator[Finding]:
    if not _those(recipe, "name", "medusa"):
        return
    for place, technique in recipe.known_techniques:
        if technique.kind not in ("speculative_decoding", "fine_tuning"):
            yield Finding(place, technique.name, "Medusa(...) alone, or with base=FineTune(...)")
