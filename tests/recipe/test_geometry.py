"""What the geometry of a ``config.json`` gives: parameters, files and the KV cache, against published figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.catalog.lock import RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.catalog.quantization_config import bits_with_scales
from constructs_optim.recipe.catalog.splits import Split

CONFIGS: dict[str, Any] = {
    name: each["config"]
    for name, each in json.loads(Path(__file__).with_name("memory_facts.json").read_text(encoding="utf-8"))[
        "configs"
    ].items()
}
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "vocab_size": 128_256,
}
QWEN = "Qwen/Qwen3-Next-80B-A3B-Instruct"
# Configurations with older names of fields, and the layers, heads of keys and values, hidden size, words, and width of
# an MLP or an expert that they have.
OLDER: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    (
        {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "vocab_size": 50_257},
        (12, 12, 768, 50_257, 3072),
    ),
    (
        {
            "model_type": "gpt_bigcode",
            "n_layer": 40,
            "n_head": 48,
            "n_embd": 6144,
            "n_inner": 24_576,
            "multi_query": True,
        },
        (40, 1, 6144, 0, 24_576),
    ),
    (
        {
            "model_type": "mpt",
            "n_layers": 48,
            "n_heads": 64,
            "d_model": 7168,
            "attn_config": {"attn_type": "multihead"},
        },
        (48, 64, 7168, 0, 28_672),
    ),
    (
        {
            "model_type": "dbrx",
            "n_layers": 40,
            "n_heads": 48,
            "d_model": 6144,
            "vocab_size": 100_352,
            "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"ffn_hidden_size": 10_752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        (40, 8, 6144, 100_352, 10_752),
    ),
    (
        {
            "model_type": "chatglm",
            "num_layers": 40,
            "num_attention_heads": 32,
            "multi_query_group_num": 2,
            "kv_channels": 128,
            "hidden_size": 4096,
            "ffn_hidden_size": 13_696,
            "padded_vocab_size": 151_552,
        },
        (40, 2, 4096, 151_552, 13_696),
    ),
    (
        {"model_type": "opt", "num_hidden_layers": 24, "num_attention_heads": 32, "hidden_size": 2048, "ffn_dim": 8192},
        (24, 32, 2048, 0, 8192),
    ),
    (
        {"model_type": "bloom", "n_layer": 30, "num_attention_heads": 32, "hidden_size": 4096, "vocab_size": 250_880},
        (30, 32, 4096, 250_880, 16_384),
    ),
]


def columns(config: dict[str, Any]) -> dict[str, Any]:
    return ModelConfig.model_validate(config).columns


@pytest.mark.parametrize(("config", "expected"), OLDER, ids=[config["model_type"] for config, _ in OLDER])
def test_older_names_of_fields_are_read(config: dict[str, Any], expected: tuple[int, ...]) -> None:
    found = columns(config)
    width = found["splits"].get("experts", found["splits"].get("mlp")).width
    of_model = (found[name] for name in ("layers", "key_value_heads", "hidden_size"))
    assert (*of_model, found.get("vocabulary_size", 0), width) == expected


def test_a_configuration_has_the_columns_of_a_model() -> None:
    assert columns({**LLAMA, "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}) == {
        "weight_bits": 16,
        "attention": "heads of 128",
        "head_dimension": 128,
        "hidden_size": 4096,
        "vocabulary_size": 128_256,
        "tied_embeddings": False,
        "attention_heads": 32,
        "max_position": 8192,
        "model_type": "llama",
        "splits": {
            "hidden": Split(width=4096),
            "attention": Split(heads=32, width=4096),
            "key_value": Split(heads=8, width=1024),
            "mlp": Split(width=14_336),
        },
        "layers": 32,
        "key_value_heads": 8,
        "parameters_billion": 8.03,
        "stored_gb": 16.06,
    }


@pytest.mark.parametrize("quantization", [{"quant_method": "bitsandbytes"}, {"quant_type": {"other": {}}}], ids=str)
def test_weights_that_a_configuration_does_not_call_quantized_have_no_bits(quantization: dict[str, Any]) -> None:
    found = columns({**LLAMA, "quantization_config": {"quant_method": "torchao", **quantization}})
    assert "weight_bits" not in found


@pytest.mark.parametrize(
    ("config", "billions", "stored"),
    [
        # Parameters and sizes of files by model cards and indexes of weights.
        (LLAMA, 8.03, 16.06),
        (CONFIGS["Qwen/Qwen3-235B-A22B-FP8"], 235.09, 236.4),
        (CONFIGS["deepseek-ai/DeepSeek-V3"], 671.03, 673.0),
        (CONFIGS["openai/gpt-oss-20b"], 20.91, 13.8),
        (CONFIGS["openai/gpt-oss-120b"], 116.8, 65.2),
        # "~595 GB on disk": vllm-project/recipes, Kimi-K2.5.yaml.
        (CONFIGS["moonshotai/Kimi-K2.5"], 1026.4, 595.0),
    ],
)
def test_parameters_and_files_follow_from_the_modules(config: dict[str, Any], billions: float, stored: float) -> None:
    found = columns(config)
    assert found["parameters_billion"] == pytest.approx(billions, rel=0.001)
    assert found["stored_gb"] == pytest.approx(stored, rel=0.03)


@pytest.mark.parametrize("config", [{"dtype": "float32"}, {"text_config": {"torch_dtype": "float32"}}])
def test_the_weights_of_a_part_have_its_type(config: dict[str, Any]) -> None:
    assert ModelConfig.model_validate(config).columns["weight_bits"] == 32
    assert ModelConfig.model_validate({"text_config": {}}).columns["weight_bits"] == 16


def test_latent_attention_has_the_matrices_of_the_published_model() -> None:
    """deepseek-ai/DeepSeek-V3: q_a, q_b, kv_a with the turned part of the keys, kv_b and o of a layer."""
    config = ModelConfig.model_validate(CONFIGS["deepseek-ai/DeepSeek-V3"])
    matrices = [(7168, 1536), (1536, 128 * 192), (7168, 512 + 64), (512, 128 * 256), (128 * 128, 7168)]
    assert config.modules["self_attn"] == 61 * sum(rows * columns for rows, columns in matrices)


@pytest.mark.parametrize(
    "changed", [{"model_type": "gemma3n"}, {"intermediate_size": [8192, 8192]}, {"intermediate_size": None}]
)
def test_the_size_of_an_architecture_that_nobody_has_summed_is_not_derived(changed: dict[str, Any]) -> None:
    assert "parameters_billion" not in columns({**LLAMA, **changed})
    assert ModelConfig.model_validate({**LLAMA, **changed}).modules == {}


def test_latent_attention_may_have_whole_queries() -> None:
    """deepseek-ai/DeepSeek-V2-Lite: q, kv_a with the turned part of the keys, kv_b and o of a layer."""
    config = ModelConfig.model_validate(
        {
            "model_type": "deepseek_v3",
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "hidden_size": 2048,
            "intermediate_size": 10_944,
            "vocab_size": 102_400,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
        }
    )
    matrices = [(2048, 16 * 192), (2048, 512 + 64), (512, 16 * 256), (16 * 128, 2048)]
    assert config.modules["self_attn"] == 27 * sum(rows * columns for rows, columns in matrices)


def test_a_latent_of_unknown_layers_has_no_known_cache() -> None:
    assert "cache_bytes" not in columns({"kv_lora_rank": 512})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 61 layers keep a latent of 512 and a position of 64, on every accelerator.
        ("deepseek-ai/DeepSeek-V3", {"cache_bytes": 2 * 61 * 576, "key_value_heads": 1}),
        ("openai/gpt-oss-120b", {"cache_bytes": 36_864, "window_bytes": 36_864, "window": 128}),
        # 5 of 30 layers keep all tokens, in 2 heads of 512; the others a window, in 8 of 256.
        (
            "google/gemma-4-26B-A4B-it",
            {"cache_bytes": 4 * 5 * 2 * 512, "window_bytes": 4 * 25 * 8 * 256, "window": 1024, "key_value_heads": 2},
        ),
        # 12 of 48 layers keep tokens. Two states of the others: 32 heads of 128 x 128, and 3 tokens of 8,192 channels.
        (QWEN, {"cache_bytes": 4 * 12 * 2 * 256, "state_bytes": 2 * 36 * 2 * (32 * 128 * 128 + 3 * 8192)}),
        # Every fourth layer of 48 keeps all tokens, the others a chunk.
        (
            "nvidia/Llama-4-Scout-17B-16E-Instruct-NVFP4",
            {"cache_bytes": 4 * 12 * 8 * 128, "window_bytes": 4 * 36 * 8 * 128, "window": 8192},
        ),
    ],
)
def test_the_cache_follows_from_what_each_layer_keeps(name: str, expected: dict[str, int]) -> None:
    found = columns(CONFIGS[name])
    assert {column: found.get(column) for column in expected} == expected


def test_mamba_layers_keep_a_state() -> None:
    """Nemotron 3 Nano 30B-A3B: 6 of 52 layers keep tokens, 23 a state in 32 bits, and experts nothing."""
    config = {
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        "num_hidden_layers": 52,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "mamba_num_heads": 64,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "mamba_ssm_cache_dtype": "float32",
    }
    found = columns(config)
    assert found["cache_bytes"] == 6144
    assert found["state_bytes"] == 2 * 23 * (64 * 64 * 128 * 4 + 3 * (64 * 64 + 2 * 8 * 128) * 2)


# Granite 4, Bamba and, in another form, Jamba: 128 heads of 64 with a state of 128.
MAMBA = {"mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4}
KINDS = ["mamba", "mamba", "mamba", "attention"] * 8


@pytest.mark.parametrize(
    ("changed", "attention", "state"),
    [
        ({**MAMBA, "layer_types": KINDS}, 8, 8192 * 128 + 3 * (8192 + 2 * 128)),
        ({**MAMBA, "layers_block_type": KINDS}, 8, 8192 * 128 + 3 * (8192 + 2 * 128)),
        ({**MAMBA, "mamba_d_conv": 2, "layer_types": KINDS}, 8, 8192 * 128 + (8192 + 2 * 128)),
        # "auto" is the expanded width, shared by the heads.
        (
            {**MAMBA, "mamba_d_head": "auto", "mamba_expand": 2, "attn_layer_indices": [9, 18, 27]},
            3,
            8192 * 128 + 3 * (8192 + 2 * 128),
        ),
        # Mamba 1: no heads, and no groups.
        (
            {
                "attn_layer_period": 8,
                "attn_layer_offset": 4,
                "mamba_d_state": 16,
                "mamba_d_conv": 4,
                "mamba_expand": 2,
            },
            4,
            8192 * 16 + 3 * 8192,
        ),
    ],
)
def test_the_kinds_of_layers_of_each_hybrid_model_are_distinguished(
    changed: dict[str, Any], attention: int, state: int
) -> None:
    found = columns({**LLAMA, **changed})
    assert found["full_attention_layers"] == attention
    assert found["cache_bytes"] == 4 * attention * 8 * 128
    assert found["state_bytes"] == 2 * (32 - attention) * 2 * state


@pytest.mark.parametrize(
    "changed",
    [
        {"layer_types": ["conv"] * 32},
        {"layer_types": ["full_attention"]},
        {"layer_types": ["full_attention", "sliding_attention"] * 16},
        {"attn_layer_period": 8, "attn_layer_offset": 4},
    ],
)
def test_a_cache_of_unknown_layers_is_not_known(changed: dict[str, Any]) -> None:
    assert not columns({**LLAMA, **changed}).keys() & {"layers", "key_value_heads", "cache_bytes"}


@pytest.mark.parametrize(("offset", "attending"), [(4, 2), (7, 1)])
def test_the_offset_of_an_interval_tells_which_of_its_layers_attend(offset: int, attending: int) -> None:
    mamba = {"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
    intervals = {"num_hidden_layers": 13, "attn_layer_period": 8, "attn_layer_offset": offset}
    # A key and a value of 8 heads of 128, in 2 bytes.
    assert columns({**LLAMA, **mamba, **intervals})["cache_bytes"] == attending * 2 * 8 * 128 * 2


@pytest.mark.parametrize("changed", [{"layer_types": ["full_attention"] * 32}, {}])
def test_a_cache_of_equal_layers_is_not_special(changed: dict[str, Any]) -> None:
    found = columns({**LLAMA, **changed})
    assert (found["layers"], found["key_value_heads"]) == (32, 8)
    assert "cache_bytes" not in found


@pytest.mark.parametrize(
    ("newer", "heads"), [({}, 1), ({"new_decoder_architecture": False}, 1), ({"new_decoder_architecture": True}, 8)]
)
def test_multi_query_attention_has_one_head_of_keys(newer: dict[str, bool], heads: int) -> None:
    """Falcon 7B, and Falcon 40B, whose newer architecture has groups in spite of the member."""
    config = {
        "num_attention_heads": 71,
        "num_kv_heads": 8,
        "multi_query": True,
        **newer,
        "hidden_size": 4544,
    }
    assert columns(config)["key_value_heads"] == heads


def test_sparse_attention_keeps_keys_of_its_indexer() -> None:
    """DeepSeek V3.2: a key of 128 bytes and its scale of 4, whatever the type of the cache."""
    found = columns({**CONFIGS["deepseek-ai/DeepSeek-V3"], "model_type": "deepseek_v32", "index_head_dim": 128})
    assert found["cache_bytes"] == 61 * (2 * 576 + 132)


def test_a_tied_output_layer_is_not_counted_wherever_the_configuration_declares_it() -> None:
    found = columns({"tie_word_embeddings": True, "text_config": LLAMA})
    assert found["parameters_billion"] == pytest.approx(8.03 - 128_256 * 4096 / 1e9, abs=0.001)


@pytest.mark.parametrize("tower", ["vision_config", "audio_config"])
def test_the_size_of_a_model_that_reads_more_than_text_is_not_derived(tower: str) -> None:
    assert not columns({"text_config": LLAMA, tower: {"hidden_size": 3200}}).keys() & {
        "parameters_billion",
        "stored_gb",
    }


def test_a_recorded_cache_comes_before_the_catalogs() -> None:
    recorded = RecordedModel(**columns(CONFIGS[QWEN]))
    row = recorded.row(QWEN, ModelRow(QWEN, family="", cache_bytes=1, window_bytes=1, window=1))
    assert row.context_bytes(1000) == 24_576 * 1000 + recorded.model_dump()["state_bytes"]
    plain = RecordedModel(**columns(LLAMA)).row("a/b", ModelRow("a/b", family="", cache_bytes=1, state_bytes=1))
    assert plain.context_bytes(1000) == 131_072 * 1000


def test_sliding_layers_keep_a_step_beside_their_window() -> None:
    """vLLM issue 27508: 4.54 GiB for 131,072 tokens of gpt-oss-120b, and steps of 1,024."""
    row = RecordedModel(**columns(CONFIGS["openai/gpt-oss-120b"])).row("openai/gpt-oss-120b", None)
    assert (row.context_bytes(131_072, 1024) or 0) / 2**30 == pytest.approx(4.54, abs=0.005)


def of_groups(*weights: dict[str, Any]) -> dict[str, Any]:
    groups = {f"group_{number}": {"weights": each} for number, each in enumerate(weights)}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


@pytest.mark.parametrize(
    ("quantization", "bits", "precision"),
    [
        ({"quant_method": "fp8"}, 8, "fp8"),
        ({"quant_method": "FP8"}, 8, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, 8, "fp8"),
        ({"quant_method": "mxfp8"}, 8, "mxfp8"),
        ({"quant_method": "mxfp4"}, 4, "mxfp4"),
        ({"quant_method": "nvfp4"}, 4, "nvfp4"),
        ({"quant_method": "fp4"}, 4, None),
        ({"quant_method": "modelopt_fp4"}, 4, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, None, "fp8"),
        ({"quant_method": "awq", "bits": 4}, 4, "int4"),
        ({"quant_method": "gptq", "bits": 8}, 8, "int8"),
        ({"quant_method": "awq"}, None, None),
        ({"quant_method": "eetq"}, 8, "eetq"),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3}}}, 3, "hqq"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4, "bitsandbytes"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8, "bitsandbytes"),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, 4, "torchao"),
        ({"quant_method": "torchao", "quant_type": "float8_weight_only"}, 8, "torchao"),
        (
            {
                "quant_method": "torchao",
                "quant_type": {"default": {"_type": "Int8DynamicActivationInt4WeightConfig"}},
            },
            4,
            "torchao",
        ),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, 8, "quark"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "uint4"}}}, 4, "quark"),
        ({"quant_method": "compressed-tensors"}, 16, None),
        (of_groups({"num_bits": 8, "type": "int"}), 8, "int8"),
        (of_groups({"num_bits": 8, "type": "float"}), 8, "fp8"),
        (of_groups({"num_bits": 8, "type": "float", "group_size": 32}), 8, "mxfp8"),
        (of_groups({"num_bits": 4, "type": "float", "group_size": 16}), 4, "nvfp4"),
        (of_groups({"num_bits": 4, "type": "float", "group_size": 32}), 4, "mxfp4"),
        (of_groups({"num_bits": 4, "type": "float", "group_size": 64}), 4, None),
        (of_groups({"num_bits": 8, "type": "int"}, {"num_bits": 4, "type": "int"}), 4, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("member", ["quantization_config", "compression_config"])
def test_bits_and_precision_follow_from_the_configuration_of_a_quantization(
    member: str, quantization: dict[str, Any], bits: int | None, precision: str | None
) -> None:
    found = columns({member: quantization})
    assert (found.get("weight_bits"), found.get("precision")) == (bits, precision)


@pytest.mark.parametrize(
    ("bits", "precision", "group_size", "stored"),
    [
        (4, "fp4", 128, 4.5),
        (4, "nvfp4", 128, 4.5),
        (4, "mxfp4", 128, 4.25),
        (8, "mxfp8", 128, 8.25),
        (4, "int4", 128, 4.15625),
        (4, None, 32, 4.625),
        (8, "fp8", 128, 8),
        (16, None, 32, 16),
    ],
)
def test_a_stored_weight_has_its_share_of_the_scales(
    bits: int, precision: str | None, group_size: int, stored: float
) -> None:
    assert bits_with_scales(bits, precision, group_size) == stored


# Parameters of the modules of LLAMA, and of a mixture of 64 experts whose first layer is dense.
ATTENTION, WORDS, LAYER = 32 * 2 * 4096 * 128 * 40, 128_256 * 4096, 3 * 4096 * 14_336
MIXTURE = {**LLAMA, "num_experts": 64, "moe_intermediate_size": 512, "n_shared_experts": 2, "first_k_dense_replace": 1}
EXPERT, ROUTER = 3 * 4096 * 512, 64 * 4096


@pytest.mark.parametrize(
    ("config", "quantization", "stored_bits"),
    [
        (LLAMA, {"quant_method": "fp8"}, 8 * (ATTENTION + 32 * LAYER) + 16 * 2 * WORDS),
        (
            LLAMA,
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]},
            16 * ATTENTION + 8 * 32 * LAYER + 16 * 2 * WORDS,
        ),
        (
            LLAMA,
            {"quant_method": "awq", "bits": 4, "group_size": 32},
            4.625 * (ATTENTION + 32 * LAYER) + 16 * 2 * WORDS,
        ),
        (
            LLAMA,
            {"quant_method": "awq", "bits": 4, "group_size": -1},
            4.15625 * (ATTENTION + 32 * LAYER) + 16 * 2 * WORDS,
        ),
        (
            LLAMA,
            of_groups({"num_bits": 4, "type": "int", "group_size": 64}),
            4.3125 * (ATTENTION + 32 * LAYER) + 16 * 2 * WORDS,
        ),
        (
            MIXTURE,
            {"quant_method": "fp8"},
            8 * (ATTENTION + LAYER + 31 * 66 * EXPERT) + 16 * (2 * WORDS + 31 * ROUTER),
        ),
        (
            MIXTURE,
            {"quant_method": "fp8", "ignore": ["re:.*shared_experts.*"]},
            8 * (ATTENTION + LAYER + 31 * 64 * EXPERT) + 16 * (2 * WORDS + 31 * (ROUTER + 2 * EXPERT)),
        ),
    ],
)
def test_modules_that_are_not_quantized_have_all_of_their_bits(
    config: dict[str, Any], quantization: dict[str, Any], stored_bits: float
) -> None:
    found = columns({**config, "quantization_config": quantization})
    assert found["stored_gb"] == pytest.approx(stored_bits / 8e9, abs=0.001)


@pytest.mark.parametrize(
    "model_type",
    [
        "deepseek_v3",
        "gpt_oss",
        "kimi_k2",
        "llama",
        "minimax_m2",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "qwen3_moe",
    ],
)
def test_the_parameters_of_each_architecture_of_such_modules_are_summed(model_type: str) -> None:
    assert columns({**LLAMA, "model_type": model_type})["parameters_billion"] == 8.030


WINDOWS = {"cache_bytes": 4 * 16 * 8 * 128, "window_bytes": 4 * 16 * 8 * 128, "window": 512}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"layer_types": ["sliding_attention", "full_attention"] * 16, "sliding_window": 512}, WINDOWS),
        ({"layer_types": ["chunked_attention", "attention"] * 16, "attention_chunk_size": 512}, WINDOWS),
        ({"sliding_window_pattern": 2, "sliding_window": 512}, WINDOWS),
        # Gemma 4: fewer and larger heads where a layer keeps all tokens.
        (
            {
                "layer_types": ["sliding_attention", "full_attention"] * 16,
                "sliding_window": 512,
                "num_global_key_value_heads": 2,
                "global_head_dim": 256,
            },
            {"cache_bytes": 4 * 16 * 2 * 256, "window_bytes": 4 * 16 * 8 * 128, "key_value_heads": 2},
        ),
        (
            {
                "layer_types": ["linear_attention", "full_attention"] * 16,
                "linear_num_key_heads": 2,
                "linear_num_value_heads": 4,
                "linear_key_head_dim": 64,
                "linear_value_head_dim": 128,
            },
            {"state_bytes": 2 * 16 * 2 * (4 * 64 * 128 + 3 * (2 * 2 * 64 + 4 * 128)), "window": None},
        ),
        # Nemotron-H: an MLP keeps nothing, as experts do.
        (
            {"hybrid_override_pattern": "M-*E" * 8, **MAMBA},
            {
                "cache_bytes": 4 * 8 * 8 * 128,
                "layers": 32,
                "state_bytes": 2 * 8 * 2 * (8192 * 128 + 3 * (8192 + 2 * 128)),
            },
        ),
    ],
)
def test_each_kind_of_layer_keeps_what_its_name_says(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    found = columns({**LLAMA, **changed})
    assert {column: found.get(column) for column in expected} == expected


# What config.json states of positions, and the longest context; make conformance asks vLLM about the same.
LENGTHS: list[tuple[dict[str, Any], int | None]] = [
    # Of the names, the smallest counts; Command R's model_max_length comes before all.
    ({"max_position_embeddings": 8192}, 8192),
    ({"n_positions": 1024}, 1024),
    ({"max_seq_len": 2048, "seq_length": 4096}, 2048),
    ({"max_position_embeddings": 8192, "model_max_length": 131_072}, 131_072),
    ({"max_position_embeddings": 32_768, "max_sequence_length": 4096}, 4096),
    ({}, None),
    # Rope scaling: Llama 3.1, Phi-3 and YaRN state scaled positions; linear and dynamic scaling multiply.
    (
        {
            "max_position_embeddings": 131_072,
            "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        },
        131_072,
    ),
    (
        {
            "max_position_embeddings": 131_072,
            "rope_scaling": {"type": "longrope", "factor": 32.0, "long_factor": [1.0] * 64, "short_factor": [1.0] * 64},
        },
        131_072,
    ),
    ({"max_position_embeddings": 32_768, "rope_scaling": {"type": "yarn", "factor": 4.0}}, 32_768),
    ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16_384),
    ({"max_position_embeddings": 4096, "rope_scaling": {"type": "dynamic", "factor": 2.5}}, 10_240),
    ({"max_position_embeddings": 4096, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, 4096),
    (
        {
            "model_type": "gemma3_text",
            "max_position_embeddings": 131_072,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
        131_072,
    ),
]
# The longest context in vLLM 0.30, in releases up to 0.29, and in SGLang, where they differ.
LENGTHS_OF_ENGINES: list[tuple[dict[str, Any], int, int, int]] = [
    # Before 0.30, vLLM multiplied the original positions of YaRN.
    (
        {
            "max_position_embeddings": 40_960,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768},
        },
        40_960,
        131_072,
        40_960,
    ),
    ({"max_position_embeddings": 32_768, "rope_scaling": {"type": "yarn", "factor": 4.0}}, 32_768, 131_072, 32_768),
    # DeepSeek's positions are its original ones, multiplied.
    (
        {
            "max_position_embeddings": 163_840,
            "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
        },
        163_840,
        163_840,
        163_840,
    ),
    (
        {
            "max_position_embeddings": 8192,
            "model_max_length": 131_072,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096},
        },
        131_072,
        131_072,
        131_072,
    ),
    # For SGLang, original positions say that the stated ones are scaled, and the first name counts.
    (
        {
            "max_position_embeddings": 4096,
            "rope_scaling": {"type": "linear", "factor": 4.0, "original_max_position_embeddings": 1024},
        },
        16_384,
        16_384,
        4096,
    ),
    ({"max_position_embeddings": 2048, "seq_length": 8192, "max_seq_len": 4096}, 2048, 2048, 8192),
]
# vLLM reads these parts for the model types that have them.
LENGTHS_OF_PARTS: list[tuple[dict[str, Any], int | None]] = [
    (
        {
            "max_position_embeddings": 4096,
            "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": None},
        },
        32_768,
    ),
    ({"text_config": {**LLAMA, "max_position_embeddings": 512}, "max_position_embeddings": 8192}, 512),
]


@pytest.mark.parametrize(("changed", "expected"), [*LENGTHS, *LENGTHS_OF_PARTS])
def test_the_longest_context_is_the_one_that_vllm_derives(changed: dict[str, Any], expected: int | None) -> None:
    assert columns({**LLAMA, **changed}).get("max_position") == expected


@pytest.mark.parametrize(("changed", "newest", "before", "in_sglang"), LENGTHS_OF_ENGINES)
def test_engines_that_derive_another_longest_context_have_their_own(
    changed: dict[str, Any], newest: int, before: int, in_sglang: int
) -> None:
    found = columns({**LLAMA, **changed})
    assert found["max_position"] == newest
    assert found.get("max_position_in_vllm_0_29") == (before if before != newest else None)
    assert found.get("max_position_in_sglang") == (in_sglang if in_sglang != newest else None)


@pytest.mark.parametrize(
    "wrapped",
    [
        {"text_config": LLAMA},
        {"llm_config": LLAMA},
        {"language_config": LLAMA},
        {"thinker_config": {"text_config": LLAMA}},
    ],
    ids=lambda wrapped: next(iter(wrapped)),
)
def test_the_part_that_reads_text_has_several_names(wrapped: dict[str, Any]) -> None:
    assert {name: columns(wrapped).get(name) for name in ("layers", "hidden_size")} == {
        "layers": 32,
        "hidden_size": 4096,
    }


def block(group: int | None, *, no_op: bool = False) -> dict[str, Any]:
    return {"attention": {"n_heads_in_group": group, "no_op": no_op}, "ffn": {"no_op": False}}


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        # nvidia/Llama-3_3-Nemotron-Super-49B-v1: groups of 8 heads, and layers without attention.
        ([block(8), block(None, no_op=True), block(8)], {"cache_bytes": 2 * 2 * 2 * 4 * 128, "key_value_heads": 4}),
        ([block(4), block(16)], {"cache_bytes": 2 * 2 * (8 + 2) * 128, "key_value_heads": 2}),
        # A layer whose groups are not stated: the heads of all layers count.
        ([block(8), block(None)], {"layers": 32, "key_value_heads": 32}),
    ],
)
def test_layers_that_differ_have_their_own_heads_of_keys(blocks: list[Any], expected: dict[str, int]) -> None:
    found = columns({**LLAMA, "num_key_value_heads": None, "block_configs": blocks})
    assert {name: found.get(name) for name in expected} == expected
    assert ("layers" in found) is ("layers" in expected)
