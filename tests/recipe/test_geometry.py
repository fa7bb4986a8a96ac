"""What the geometry of a ``config.json`` gives: parameters, files and the KV cache, against published figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.catalog.lock import RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.catalog.models import ModelRow

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


def columns(config: dict[str, Any]) -> dict[str, Any]:
    return ModelConfig.model_validate(config).columns


def test_weights_that_a_configuration_does_not_call_quantized_have_no_bits() -> None:
    found = columns({**LLAMA, "quantization_config": {"quant_method": "bitsandbytes"}})
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


@pytest.mark.parametrize("changed", [{"layer_types": ["full_attention"] * 32}, {}])
def test_a_cache_of_equal_layers_is_not_special(changed: dict[str, Any]) -> None:
    found = columns({**LLAMA, **changed})
    assert (found["layers"], found["key_value_heads"]) == (32, 8)
    assert "cache_bytes" not in found


@pytest.mark.parametrize(("is_newer", "heads"), [(False, 1), (True, 8)])
def test_multi_query_attention_has_one_head_of_keys(is_newer: bool, heads: int) -> None:
    """Falcon 7B, and Falcon 40B, whose newer architecture has groups in spite of the member."""
    config = {
        "num_attention_heads": 71,
        "num_kv_heads": 8,
        "multi_query": True,
        "new_decoder_architecture": is_newer,
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
