"""With which settings of attention vLLM runs which models; tests/conformance/attention_backends.py asks vLLM."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe.catalog import attention_backends, instances
from constructs_optim.recipe.catalog.attention_backends import BACKEND, BLOCK, CACHE, DATA_TYPE, Misfit
from constructs_optim.recipe.catalog.model_config import ModelConfig

HOPPER, LOVELACE, TURING = 9.0, 8.9, 7.5
LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64}


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}, "heads of 128"),
        ({"model_type": "qwen3_next", "head_dim": 256}, "heads of 256"),
        ({"model_type": "gemma4", "text_config": {"head_dim": 256, "global_head_dim": 512}}, "heads of two sizes"),
        ({"model_type": "gemma4", "text_config": {"head_dim": 256, "global_head_dim": 256}}, "heads of 256"),
        ({"model_type": "gpt_oss", "head_dim": 64}, "sinks"),
        ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "head_dim": 128}}, "both directions"),
        ({"model_type": "gemma3_text", "head_dim": 128}, "heads of 128"),
        ({"model_type": "bloom", "hidden_size": 4096, "n_head": 32}, "ALiBi"),
        ({"model_type": "deepseek_v3", **LATENT}, "latent"),
        ({"model_type": "deepseek_v32", **LATENT, "index_head_dim": 128}, "sparse latent"),
        # Others.
        ({"model_type": "mimo_v2_flash", "head_dim": 192, "v_head_dim": 128}, None),
        ({"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12, "is_causal": False}, None),
        ({"model_type": "minimax_m3", "head_dim": 128, "index_head_dim": 128}, None),
        ({"model_type": "llama"}, None),
    ],
)
def test_the_kind_of_attention_follows_from_the_configuration(config: dict[str, Any], kind: str | None) -> None:
    assert ModelConfig.model_validate(config).columns.get("attention") == kind


@pytest.mark.parametrize(
    ("kind", "capability", "settings", "smallest"),
    [
        ("heads of 128", HOPPER, {}, []),
        ("heads of 128", HOPPER, {BACKEND: "FLASH_ATTN", CACHE: "fp8"}, []),
        ("heads of 128", LOVELACE, {BACKEND: "FLASH_ATTN", CACHE: "fp8"}, [{BACKEND: "FLASH_ATTN", CACHE: "fp8"}]),
        (
            "heads of 128",
            LOVELACE,
            {BACKEND: "FLASHMLA", CACHE: "fp8_inc"},
            [{BACKEND: "FLASHMLA"}, {CACHE: "fp8_inc"}],
        ),
        ("heads of 128", TURING, {BACKEND: "FLASH_ATTN", DATA_TYPE: "float32"}, [{BACKEND: "FLASH_ATTN"}]),
        ("sparse latent", HOPPER, {CACHE: "fp8_e4m3"}, [{CACHE: "fp8_e4m3"}]),
        ("sparse latent", HOPPER, {CACHE: "fp8"}, []),
        ("sparse latent", HOPPER, {BLOCK: "16"}, [{BLOCK: "16"}]),
        ("sparse latent", LOVELACE, {CACHE: "fp8"}, [{}]),
        ("heads of 7", HOPPER, {CACHE: "fp8_inc"}, []),
    ],
)
def test_the_smallest_part_of_the_settings_that_does_not_fit_is_found(
    kind: str, capability: float, settings: dict[str, str], smallest: list[dict[str, str]]
) -> None:
    found: list[Misfit] = [*attention_backends.of_vllm().misfits(kind, capability, settings)]
    assert sorted((dict(each.settings) for each in found), key=str) == sorted(smallest, key=str)
    assert all(capability in each.refused for each in found)


def test_fitting_values_have_no_misfit() -> None:
    backends = attention_backends.of_vllm()
    fitting = backends.fitting("sparse latent", HOPPER, {CACHE: "fp8_e4m3"}, CACHE)
    assert "fp8" in fitting
    assert "bfloat16" in fitting
    assert "fp8_e4m3" not in fitting


def test_vllm_was_asked_about_the_gpus_of_every_instance_type() -> None:
    asked = attention_backends.of_vllm().capabilities
    assert {row.compute_capability for row in instances.by_name().values() if row.kind == "gpu"} <= asked
