"""Rules about which techniques go together."""

from __future__ import annotations

from collections.abc import Iterator

from ..recipe import Recipe
from .registry import Finding, rule

_SDK = "https://github.com/aws/sagemaker-python-sdk/blob/master/src/sagemaker/serve/builder/model_builder.py"
_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize.html"
_LMI = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/index.html"


def _places(recipe: Recipe, attribute: str, value: str) -> list[int]:
    return [place for place, technique in recipe.known_techniques if getattr(technique, attribute) == value]


@rule(
    "OPT040",
    title="Compilation excludes speculative decoding",
    reason="a compiled model verifies no drafts: the service rejects compilation with speculative decoding",
    link=_SDK,
)
def _compilation_excludes_speculation(recipe: Recipe) -> Iterator[Finding]:
    if _places(recipe, "kind", "compilation"):
        for place in _places(recipe, "kind", "speculative_decoding"):
            yield Finding(f"techniques[{place}]", recipe.techniques[place].method, "one of the two")


@rule(
    "OPT041",
    title="Shards are made from weights, quantized or not, and of nothing else",
    reason="the fast model loader loads neither compiled models nor drafts",
    link=_LMI,
)
def _sharding_excludes_the_rest(recipe: Recipe) -> Iterator[Finding]:
    if not _places(recipe, "kind", "sharding"):
        return
    for kind in ("compilation", "speculative_decoding"):
        for place in _places(recipe, "kind", kind):
            yield Finding(
                f"techniques[{place}]",
                recipe.techniques[place].method,
                "Sharding.fast_load() alone or after quantization",
            )


@rule(
    "OPT042",
    title="A model compiled for Neuron is not quantized",
    reason="Inferentia and Trainium jobs compile only",
    link=_SDK,
)
def _neuron_compiles_only(recipe: Recipe) -> Iterator[Finding]:
    if _places(recipe, "method", "neuron"):
        for place in _places(recipe, "kind", "quantization"):
            yield Finding(f"techniques[{place}]", recipe.techniques[place].method, "Compilation.neuron() alone")


@rule(
    "OPT043",
    title="SmoothQuant goes with TensorRT-LLM compilation",
    reason="INT8 kernels for SmoothQuant are TensorRT-LLM's: without compiling there is nothing that runs them",
    link=_SDK,
)
def _smoothquant_is_compiled(recipe: Recipe) -> Iterator[Finding]:
    if not _places(recipe, "method", "tensorrt_llm"):
        for place in _places(recipe, "method", "smoothquant"):
            yield Finding(f"techniques[{place}]", "smoothquant", "add Compilation.tensorrt_llm()")


@rule(
    "OPT044",
    title="A pre-optimized configuration stands alone",
    reason="its image, environment and files are JumpStart's, and no job changes them",
    link=_GUIDE,
)
def _pre_optimized_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for place in _places(recipe, "kind", "pre_optimized"):
        if len(recipe.known_techniques) > 1:
            yield Finding(f"techniques[{place}]", "pre_optimized", "PreOptimized(...) alone, or the other techniques")


@rule(
    "OPT045",
    title="EAGLE heads stand alone",
    reason="heads are trained on the model as it is, and speculate for exactly that model",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize-eagle.html",
)
def _eagle_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    for place in _places(recipe, "method", "eagle"):
        if len(recipe.known_techniques) > 1:
            yield Finding(f"techniques[{place}]", "eagle", "SpeculativeDecoding.eagle() alone")


@rule(
    "OPT046",
    title="TensorRT-LLM quantizes with its own group size",
    reason="its AWQ reads none of these settings: they would be ignored without a word",
    link=_LMI,
)
def _tensorrt_llm_reads_no_awq_settings(recipe: Recipe) -> Iterator[Finding]:
    if not _places(recipe, "method", "tensorrt_llm"):
        return
    for place in [*_places(recipe, "method", "awq"), *_places(recipe, "method", "fp8")]:
        technique = recipe.techniques[place]
        for name, info in type(technique).model_fields.items():
            if name != "tensor_parallel_degree" and getattr(technique, name) != info.default:
                yield Finding(f"techniques[{place}].{name}", getattr(technique, name), "leave the setting out")
