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
DEEPSEEK: Mapping[str, Any] = {
    **LLAMA,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "intermediate_size": 12_288,
    "first_k_dense_replace": 2,
    "moe_intermediate_size": 1536,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "torch_dtype": "bfloat16",
}
LINEAR: Mapping[str, Any] = {
    **LLAMA,
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "head_dim": 256,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "intermediate_size": 12_288,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "torch_dtype": "bfloat16",
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
DOWN = ("mlp.down_proj",)
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
    "ignore: an expression that names merged matrices too": ignoring("re:.*up_proj"),
    "ignore: the name of merged matrices": ignoring("re:.*qkv_proj"),
    "ignore: lookahead, no experts": ignoring(r"re:^(?!.*experts).*$"),
    "ignore: lookahead, no attention": ignoring("re:^(?!.*self_attn).*"),
    "ignore: lookahead within a name": ignoring(r"re:model\.layers\.(?!0\.)\d+\.mlp.*"),
    "ignore: lookbehind": ignoring("re:.*(?<!q|k|v|o)_proj"),
    "ignore: experts together": ignoring("re:.*mlp.experts$"),
    "ignore: a layer of one digit": ignoring(r"re:.*layers\.[0-2]\.mlp.*"),
    "AWQ: last matrices": {**AWQ, "modules_to_not_convert": ["down_proj"]},
    "AWQ: MLPs": {**AWQ, "modules_to_not_convert": ["mlp"]},
    "AWQ: attention": {**AWQ, "modules_to_not_convert": ["self_attn"]},
    "AWQ: layers": {**AWQ, "modules_to_not_convert": [f"{layer}.mlp" for layer in LAYERS]},
    "AWQ: experts": {**AWQ, "modules_to_not_convert": ["experts"]},
    "AWQ: a part of the name of merged matrices": {**AWQ, "modules_to_not_convert": ["v_proj", "up_proj"]},
    "AWQ: a layer": {**AWQ, "modules_to_not_convert": ["layers.1"]},
    "AWQ: some merged matrices": {**AWQ, "modules_to_not_convert": ["k_proj"]},
    "GPTQ: dynamic, MLPs": {**GPTQ, "dynamic": {r"-:.*\.mlp\..*": {}}},
    "GPTQ: dynamic, last matrices": {**GPTQ, "dynamic": {"-:.*down_proj.*": {}}},
    "GPTQ: dynamic, layers": {**GPTQ, "dynamic": {r"-:model\.layers\.[0-3]\.mlp\..*": {}}},
    "GPTQ: dynamic, smaller groups": {**GPTQ, "dynamic": {r"+:.*\.mlp\..*": {"bits": 4, "group_size": 32}}},
    "GPTQ: dynamic, some merged matrices": {**GPTQ, "dynamic": {"-:.*k_proj": {}, r"-:.*\.mlp\..*": {}}},
    "GPTQ: dynamic, 16 bits": {**GPTQ, "dynamic": {r"+:.*\.(mlp|block_sparse_moe)\..*": {"bits": 16}}},
    "GPTQ: dynamic, 16 bits of attention": {**GPTQ, "dynamic": {"+:.*self_attn.*": {"bits": 16}}},
    "GPTQ: dynamic, zero points": {**GPTQ, "dynamic": {"+:.*self_attn.*": {"sym": False}}},
    "GPTQ: dynamic, order": {**GPTQ, "dynamic": {"+:.*self_attn.*": {"desc_act": True}}},
    "GPTQ: dynamic, 8 bits": {**GPTQ, "dynamic": {"+:.*self_attn.*": {"bits": 8}, "-:.*mlp.*": None}},
    "GPTQ: only attention": {
        **GPTQ,
        "modules_in_block_to_quantize": [[f"self_attn.{name}_proj" for name in "qkv"], ["self_attn.o_proj"]],
    },
    "GPTQ: only some merged matrices": {**GPTQ, "modules_in_block_to_quantize": [["self_attn.q_proj"]]},
    "FP8: no whole name": {**FP8, "modules_to_not_convert": ["mlp"]},
    "FP8: names": {**FP8, "modules_to_not_convert": each("mlp")},
    "FP8: ignored layers": {**FP8, "ignored_layers": each("mlp")},
    "FP8: last matrices": {**FP8, "modules_to_not_convert": [f"{layer}.mlp.down_proj" for layer in LAYERS]},
    "FP8: the names of merged matrices": {
        **FP8,
        "modules_to_not_convert": [f"{layer}.{name}" for layer in LAYERS for name in ("mlp.gate_up_proj", *DOWN)],
    },
    "FP8: two lists": {**FP8, "ignored_layers": ["lm_head"], "modules_to_not_convert": each("mlp")},
    "FP8: experts": {
        **FP8,
        "modules_to_not_convert": [name for number in range(8) for name in each(f"mlp.experts.{number}")],
    },
    "ModelOpt: MLPs": {**MODELOPT, "exclude_modules": ["lm_head", "*mlp*"]},
    "ModelOpt: attention": {**MODELOPT, "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]},
    "AutoRound: names": {**ROUNDED, "extra_config": {f"{layer}.mlp.down_proj": {"bits": 16} for layer in LAYERS}},
    "AutoRound: expressions": {**ROUNDED, "extra_config": {".*mlp.*": {"bits": 16, "data_type": "float"}}},
    "AutoRound: smaller groups": {**ROUNDED, "extra_config": {r".*mlp\..*": {"group_size": 32}}},
    "AutoRound: merged matrices of other numbers": {**ROUNDED, "extra_config": {".*k_proj": {"bits": 8}}},
    "AutoRound: eight bits": {**ROUNDED, "extra_config": {".*self_attn.*": {"bits": 8}}},
    "AutoRound: blocks": {**ROUNDED, "block_name_to_quantize": "model.layers"},
}


# Models whose engine merges other matrices, with lists of their names.
OTHERS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]] = {
    "latent attention": (
        {**DEEPSEEK, "q_lora_rank": 1536},
        {
            "one of the merged": ignoring("re:.*kv_a_proj_with_mqa", "re:.*experts.*"),
            "the other": ignoring("re:.*q_a_proj", "re:.*experts.*"),
            "both": ignoring("re:.*(q_a_proj|kv_a_proj_with_mqa)", "re:.*experts.*"),
            "the name of the merged": ignoring("re:.*fused_qkv_a_proj", "re:.*experts.*"),
            "FP8, one": {**FP8, "modules_to_not_convert": [f"{layer}.self_attn.q_a_proj" for layer in LAYERS]},
        },
    ),
    "latent attention with whole queries": (
        {**DEEPSEEK, "q_lora_rank": None},
        {
            "keys and values": ignoring("re:.*kv_a_proj_with_mqa", "re:.*experts.*"),
            "queries": ignoring("re:.*q_proj", "re:.*experts.*"),
        },
    ),
    "linear attention": (
        LINEAR,
        {
            "one of the merged": ignoring("re:.*in_proj_z"),
            "both": ignoring("re:.*in_proj_(qkv|z)"),
            "one of the small ones": ignoring("re:.*in_proj_a"),
            "both of the small ones": ignoring("re:.*in_proj_[ab]"),
            "FP8, one": {**FP8, "modules_to_not_convert": [f"{layer}.linear_attn.in_proj_z" for layer in LAYERS]},
        },
    ),
}


def cases() -> Iterator[tuple[Configuration, str]]:
    """Every model with every configuration, on every instance type."""
    for (kind, model), (name, quantization) in product(MODELS.items(), CONFIGURATIONS.items()):
        config = {**model, "quantization_config": dict(quantization)}
        yield from ((Configuration(name=f"{kind}, {name}", kind="", source="", config=config), host) for host in HOSTS)
    for kind, (model, configurations) in OTHERS.items():
        for name, quantization in configurations.items():
            config = {**model, "quantization_config": dict(quantization)}
            yield from (
                (Configuration(name=f"{kind}, {name}", kind="", source="", config=config), host) for host in HOSTS
            )


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
