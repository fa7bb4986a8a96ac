"""Whether rules and vLLM say the same of weights of which only some are quantized (``make conformance``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from .builds import refusals
from .real_configurations import Configuration
from .weight_schemes import MIXTRAL, compressed, numbers

pytestmark = pytest.mark.engine

LLAMA: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    # 86 groups of 128, which four GPUs cannot share.
    "intermediate_size": 11_008,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32_768,
    "max_position_embeddings": 4096,
    "torch_dtype": "float16",
}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "dense": LLAMA,
    "mixtral": {**MIXTRAL, "num_hidden_layers": 4},
    "experts": {
        **LLAMA,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "head_dim": 128,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 1536,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
}
HOSTS = ("ml.g6e.2xlarge", "ml.g5.12xlarge", "ml.p5.48xlarge")
LAYERS = [f"model.layers.{number}" for number in range(4)]
PROJECTIONS = ("gate", "up", "down")
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
ROUNDED = {
    "quant_method": "auto-round",
    "bits": 4,
    "group_size": 128,
    "sym": True,
    "data_type": "int",
    "packing_format": "auto_round:auto_awq",
}
INT4, INT8, FLOAT8 = numbers(4, "int", "group"), numbers(8, "int", "channel"), numbers(8, "float", "channel")
PACKED = "pack-quantized"


def each(module: str, layers: int = 4) -> list[str]:
    """The names of an MLP's matrices, or of those of experts, in the first layers."""
    return [f"{layer}.{module}.{name}_proj" for layer in LAYERS[:layers] for name in PROJECTIONS]


def ignoring(*names: str) -> dict[str, Any]:
    """Integers of four bits in all modules without these names."""
    return {**compressed(PACKED, INT4), "ignore": ["lm_head", "re:.*gate$", *names]}


def of_targets(*groups: tuple[list[str], dict[str, Any]]) -> dict[str, Any]:
    """Groups of modules that are quantized in different ways."""
    config = compressed(PACKED, INT4)
    stated = [
        {"targets": targets, "weights": weights, "format": PACKED if weights["type"] == "int" else "float-quantized"}
        for targets, weights in groups
    ]
    return {**config, "config_groups": {f"group_{number}": group for number, group in enumerate(stated)}}


CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "targets: attention": of_targets((["re:.*self_attn.*"], INT4)),
    "targets: names": of_targets(([f"{layer}.self_attn.{name}_proj" for layer in LAYERS for name in "qkvo"], INT4)),
    "targets: two groups": of_targets((["re:.*self_attn.*"], INT4), (["re:.*mlp.*"], INT8)),
    "targets: two groups, reversed": of_targets((["re:.*mlp.*"], INT4), (["re:.*self_attn.*"], INT8)),
    "targets: a class": of_targets((["re:.*down_proj"], INT8), (["Linear"], INT4)),
    "targets: floats": of_targets((["re:.*self_attn.*"], FLOAT8), (["re:.*mlp.*"], INT4)),
    "ignore: last matrices": ignoring("re:.*down_proj$"),
    "ignore: MLPs": ignoring("re:.*mlp.*"),
    "ignore: matrices of MLPs": ignoring("re:.*mlp\\.(gate|up|down)_proj"),
    "ignore: names": ignoring(*each("mlp")),
    "ignore: names in three of four layers": ignoring(*each("mlp", layers=3)),
    "ignore: some merged matrices": ignoring("re:.*gate_proj"),
    "AWQ: last matrices": {**AWQ, "modules_to_not_convert": ["down_proj"]},
    "AWQ: MLPs": {**AWQ, "modules_to_not_convert": ["mlp"]},
    "AWQ: attention": {**AWQ, "modules_to_not_convert": ["self_attn"]},
    "AWQ: layers": {**AWQ, "modules_to_not_convert": [f"{layer}.mlp" for layer in LAYERS]},
    "AWQ: experts": {**AWQ, "modules_to_not_convert": ["experts"]},
    "AWQ: some merged matrices": {**AWQ, "modules_to_not_convert": ["k_proj"]},
    "GPTQ: dynamic, MLPs": {**GPTQ, "dynamic": {r"-:.*\.mlp\..*": {}}},
    "GPTQ: dynamic, last matrices": {**GPTQ, "dynamic": {"-:.*down_proj.*": {}}},
    "GPTQ: dynamic, layers": {**GPTQ, "dynamic": {r"-:model\.layers\.[0-3]\.mlp\..*": {}}},
    "GPTQ: dynamic, smaller groups": {**GPTQ, "dynamic": {r"+:.*\.mlp\..*": {"bits": 4, "group_size": 32}}},
    "GPTQ: only attention": {
        **GPTQ,
        "modules_in_block_to_quantize": [[f"self_attn.{name}_proj" for name in "qkv"], ["self_attn.o_proj"]],
    },
    "GPTQ: only some merged matrices": {**GPTQ, "modules_in_block_to_quantize": [["self_attn.q_proj"]]},
    "FP8: no whole name": {**FP8, "modules_to_not_convert": ["mlp"]},
    "FP8: names": {**FP8, "modules_to_not_convert": each("mlp")},
    "FP8: ignored layers": {**FP8, "ignored_layers": each("mlp")},
    "FP8: last matrices": {**FP8, "modules_to_not_convert": [f"{layer}.mlp.down_proj" for layer in LAYERS]},
    "FP8: experts": {
        **FP8,
        "modules_to_not_convert": [name for number in range(8) for name in each(f"mlp.experts.{number}")],
    },
    "ModelOpt: MLPs": {**MODELOPT, "exclude_modules": ["lm_head", "*mlp*"]},
    "ModelOpt: attention": {**MODELOPT, "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]},
    "AutoRound: names": {**ROUNDED, "extra_config": {f"{layer}.mlp.down_proj": {"bits": 16} for layer in LAYERS}},
    "AutoRound: expressions": {**ROUNDED, "extra_config": {".*mlp.*": {"bits": 16, "data_type": "float"}}},
    "AutoRound: smaller groups": {**ROUNDED, "extra_config": {r".*mlp\..*": {"group_size": 32}}},
    "AutoRound: blocks": {**ROUNDED, "block_name_to_quantize": "model.layers"},
}


def cases() -> Iterator[tuple[Configuration, str]]:
    """Every model with every configuration, on every instance type."""
    for (kind, model), (name, quantization) in product(MODELS.items(), CONFIGURATIONS.items()):
        config = {**model, "quantization_config": dict(quantization)}
        yield from ((Configuration(name=f"{kind}, {name}", kind="", source="", config=config), host) for host in HOSTS)


@pytest.mark.timeout(1800)
def test_rules_refuse_partly_quantized_weights_where_vllm_does(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [(configuration, host, configuration.question(host)) for configuration, host in cases()]
    refused = refusals(question for *_, question in asked)
    differ = [
        (configuration.name, host, configuration.refusing(host), refused.get(question))
        for configuration, host, question in asked
        if bool(configuration.refusing(host)) != (question in refused)
    ]
    with capsys.disabled():
        sys.stdout.write(f"\nvLLM builds {len(asked) - len(refused)} of {len(asked)} partly quantized models\n")
    assert differ == []
    assert len(refused) > len(asked) / 20
