"""Writes for which schemes of quantization vLLM builds layers: ``python -m tests.conformance.weight_schemes``.

The catalog's ``weight_schemes.json`` has the answers of vLLM in the engines' environment, which ``make conformance``
installs. The sizes of the models that it is asked about are multiples of every group and block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from constructs_optim.recipe.catalog import engine_models
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.catalog.splits import StoredQuantization

from .builds import question, refusals

FILE = Path(__file__).parents[2] / "constructs_optim" / "recipe" / "catalog" / "weight_schemes.json"
RELEASE = engine_models.transformers().vllm
DATE = "2026-12-01"
# vLLM builds these layers, and its kernel refuses the first request during the start: it has no integers on newer GPUs
# (vllm-project/vllm, issue 54311).
IN_INTEGERS, LEAST_WITHOUT = re.compile(r"\bint8\b.*, activations in int8\b"), (10, 0)
# A package that vLLM does not require, and that AWS's containers may have.
OF_PACKAGE = "requires amd-quark package"
SOURCE = (
    "Written by tests/conformance/weight_schemes.py, which asks vLLM to build a Llama and a Mixtral of two layers "
    "whose weights are quantized in this way, in bfloat16. dense and experts: the compute capabilities of the GPUs for "
    "which it does; null where that depends on a package that vLLM does not require. A scheme is named with the "
    "settings of quantization_config that choose it."
)
CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))
LLAMA: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 8192,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32_768,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
MIXTRAL: Mapping[str, Any] = {
    **LLAMA,
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
MODELS: Mapping[str, Mapping[str, Any]] = {"dense": LLAMA, "experts": MIXTRAL}
# ModelOpt's names of its algorithms (modelopt/torch/export/model_config.py).
ALGORITHMS = (
    *("FP8", "FP8_PB_WO", "FP8_PB_REAL", "FP8_PER_CHANNEL_PER_TOKEN", "INT4_AWQ", "INT8_SQ", "INT8_WO", "MXFP4"),
    *("MXFP8", "NVFP4", "NVFP4_AWQ", "NVFP4_SVDQUANT", "W4A16_AWQ", "W4A16_NVFP4", "W4A8_AWQ", "W4A8_MXFP4_FP8"),
    *("W4A8_NVFP4_FP8", "W8A16", "W8A8_SQ_PER_CHANNEL"),
)


def numbers(
    bits: int, kind: str, strategy: str, *, symmetric: bool = True, dynamic: bool | str = False, **more: Any
) -> dict[str, Any]:
    """Numbers in the terms of compressed-tensors."""
    sizes: dict[str, dict[str, Any]] = {
        "group": {"group_size": 128},
        "tensor_group": {"group_size": 16},
        "block": {"block_structure": [128, 128]},
    }
    stated = {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": symmetric, "dynamic": dynamic}
    return {**stated, **sizes.get(strategy, {}), **more}


def compressed(name: str, weights: dict[str, Any], activations: dict[str, Any] | None = None) -> dict[str, Any]:
    """A configuration of compressed-tensors in the format of a name."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {
        "quant_method": "compressed-tensors",
        "format": name,
        "quantization_status": "compressed",
        "ignore": ["lm_head", "re:.*gate$"],
        "config_groups": {"group_0": group},
    }


def of_compressed_tensors() -> Iterator[dict[str, Any]]:
    """Weights in integers and floats, alone or with activations."""
    signs, strategies = (True, False), ("group", "channel", "tensor")
    for bits, strategy, symmetric in product(range(2, 9), strategies, signs):
        yield compressed("pack-quantized", numbers(bits, "int", strategy, symmetric=symmetric))
    for when, strategy, symmetric in (
        *product((True,), ("token", "tensor"), signs),
        *product((False,), ("tensor",), signs),
    ):
        inputs = numbers(8, "int", strategy, symmetric=symmetric, dynamic=when)
        for of_weights, sign in product(("channel", "tensor"), signs):
            yield compressed("int-quantized", numbers(8, "int", of_weights, symmetric=sign), inputs)
        for bits, of_weights in product((4, 8), ("group", "channel")):
            yield compressed("pack-quantized", numbers(bits, "int", of_weights), inputs)
    in_fp8 = [
        numbers(8, "float", strategy, dynamic=when)
        for strategy, when in (("token", True), ("tensor", True), ("tensor", False))
    ]
    for inputs, strategy in product((None, *in_fp8), ("channel", "tensor", "group")):
        yield compressed("float-quantized", numbers(8, "float", strategy), inputs)
    in_groups = numbers(8, "float", "group", dynamic=True)
    for inputs in (None, in_groups):
        yield compressed("float-quantized", numbers(8, "float", "block"), inputs)
    for inputs in in_fp8:
        yield compressed("pack-quantized", numbers(4, "int", "group"), inputs)
        yield compressed("pack-quantized", numbers(4, "int", "channel"), inputs)
    for inputs in (None, numbers(4, "float", "tensor_group", dynamic="local"), in_fp8[0]):
        yield compressed("nvfp4-pack-quantized", numbers(4, "float", "tensor_group"), inputs)
    scaled = {"group_size": 32, "scale_dtype": "torch.uint8"}
    for inputs in (None, numbers(4, "float", "group", dynamic=True, **scaled)):
        yield compressed("mxfp4-pack-quantized", numbers(4, "float", "group", **scaled), inputs)
    for inputs in (None, numbers(8, "float", "group", dynamic=True, **scaled)):
        yield compressed("mxfp8-quantized", numbers(8, "float", "group", **scaled), inputs)
    for name in ("marlin-24", "sparse-24-bitmask"):
        sparse = {"format": name, "sparsity_structure": "2:4"}
        for bits in (4, 8):
            yield {**compressed(name, numbers(bits, "int", "group")), "sparsity_config": sparse}
        dynamic = numbers(8, "float", "token", dynamic=True)
        yield {**compressed("float-quantized", numbers(8, "float", "channel"), dynamic), "sparsity_config": sparse}


def of_quark() -> Iterator[dict[str, Any]]:
    """Weights and activations in FP8, integers and MXFP4."""

    def side(name: str, scheme: str, *, dynamic: bool = False, group: int | None = None) -> dict[str, Any]:
        return {
            "dtype": name,
            "qscheme": scheme,
            "is_dynamic": dynamic,
            "group_size": group,
            "symmetric": True,
            "ch_axis": 0,
        }

    fp8, int8 = side("fp8_e4m3", "per_tensor"), side("int8", "per_tensor")
    mx = side("fp4", "per_group", group=32) | {"scale_format": "e8m0"}
    for weights, inputs in (
        (fp8, fp8),
        (fp8, {**fp8, "is_dynamic": True}),
        (side("fp8_e4m3", "per_channel"), side("fp8_e4m3", "per_channel", dynamic=True)),
        (fp8, None),
        (int8, int8),
        (side("int8", "per_channel"), side("int8", "per_channel", dynamic=True)),
        (mx, {**mx, "is_dynamic": True}),
        (mx, {**fp8, "is_dynamic": False}),
        (side("int4", "per_group", group=128), None),
        (side("uint4", "per_group", group=128), None),
    ):
        everywhere = {"weight": weights, "input_tensors": inputs, "output_tensors": None, "bias": None}
        export = {"pack_method": "reorder", "kv_cache_group": []}
        more = {"exclude": ["lm_head"], "layer_quant_config": {}, "layer_type_quant_config": {}}
        yield {"quant_method": "quark", "global_quant_config": everywhere, "export": export, **more}


def configurations() -> Iterator[dict[str, Any]]:
    """The ``quantization_config`` of every scheme."""
    yield from of_compressed_tensors()
    yield from of_quark()
    for name in ALGORITHMS:
        yield {"quant_method": "modelopt", "quant_algo": name, "group_size": 16, "exclude_modules": ["lm_head"]}
    for bits, symmetric, is_ordered in product((*range(2, 9), 16), (True, False), (False, True)):
        settings = {"bits": bits, "group_size": 128, "sym": symmetric, "desc_act": is_ordered}
        yield {"quant_method": "gptq", **settings}
    for scheme, blocks in product(("static", "dynamic"), (None, [128, 128])):
        stated = {"weight_block_size": blocks} if blocks is not None else {}
        yield {"quant_method": "fp8", "activation_scheme": scheme, **stated}
    yield {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32], "scale_fmt": "ue8m0"}
    yield {"quant_method": "online", "quantization": "fp8"}
    rounded = [
        *(("int", bits, 128, name) for bits, name in product((2, 3, 4, 8), ("auto_gptq", "auto_awq"))),
        *(("mx_fp", bits, 32, "llm_compressor") for bits in (4, 8)),
        ("nv_fp", 4, 16, "llm_compressor"),
        ("fp", 8, [128, 128], "fp8"),
        ("fp", 8, -1, "fp8_static"),
    ]
    for (kind, bits, size, name), symmetric in product(rounded, (True, False)):
        stated = {"bits": bits, "group_size": size, "sym": symmetric, "data_type": kind}
        yield {"quant_method": "auto-round", **stated, "packing_format": f"auto_round:{name}"}


def stored(quantization: Mapping[str, Any]) -> StoredQuantization:
    """How the library reads a configuration."""
    found = ModelConfig.model_validate({**LLAMA, "quantization_config": quantization}).columns["quantization"]
    assert len(found.schemes) == 1, quantization
    return found


def rows() -> Iterator[dict[str, Any]]:
    """The rows of the file, with vLLM's answers of today."""
    schemes = {(each.method, each.schemes[0]): given for given in configurations() for each in [stored(given)]}
    questions = {
        (key, model, capability): question({**MODELS[model], "quantization_config": given}, 1, capability)
        for key, given in schemes.items()
        for model, capability in product(MODELS, CAPABILITIES)
    }
    refused = refusals(questions.values())
    for key in schemes:
        answers = {
            model: {capability: refused.get(questions[key, model, capability]) for capability in CAPABILITIES}
            for model in MODELS
        }
        yield {
            "method": key[0],
            "scheme": key[1],
            **{model: built(key[1], of_model) for model, of_model in answers.items()},
        }


def built(scheme: str, reasons: Mapping[tuple[int, int], str | None]) -> list[float] | None:
    """The compute capabilities for which a model runs, by the reasons why vLLM does not build it; None if unknown."""
    if any(OF_PACKAGE in (reason or "") for reason in reasons.values()):
        return None
    in_integers = IN_INTEGERS.search(scheme) is not None
    running = (
        each for each, reason in reasons.items() if reason is None and not (in_integers and each >= LEAST_WITHOUT)
    )
    return [float(f"{major}.{minor}") for major, minor in running]


def main() -> None:
    """Write the file."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows())
    head = {"date": DATE, "source": SOURCE, "release": RELEASE}
    capabilities = [float(f"{major}.{minor}") for major, minor in CAPABILITIES]
    stated = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
    FILE.write_text(f'{{\n{stated} "capabilities": {capabilities},\n "schemes": [\n{lines}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
