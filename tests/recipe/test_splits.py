"""What tensor parallelism can split of a model. tests/conformance/test_engine_splits.py asks vLLM about the same."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.catalog.quantized_modules import (
    ATTENTION,
    LATENT,
    Choice,
    Matching,
    Merged,
    Module,
    not_quantized,
    quantized,
)
from constructs_optim.recipe.catalog.splits import Layer, Misfit, Split, StoredQuantization, misfits
from constructs_optim.recipe.catalog.towers import split_towers

AWQ = StoredQuantization(method="awq", bits=4, group_size=128)
COMPRESSED = StoredQuantization(method="compressed-tensors", bits=4, group_size=128)
BLOCKS = StoredQuantization(method="compressed-tensors", bits=8, block_size=(128, 128))
FP8 = StoredQuantization(method="fp8", bits=8, block_size=(128, 128))
NVFP4 = StoredQuantization(method="modelopt_fp4", bits=4, group_size=16, schemes=("NVFP4",))


def found(
    config: dict[str, Any], degree: int, weights: StoredQuantization | None = None, **engine: bool
) -> list[Misfit]:
    parts = ModelConfig.model_validate(config).columns.get("splits", {})
    return [*misfits(parts, degree, weights, **engine)]


def llama(hidden: int, width: int, heads: int, keys: int) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
    }


def mixture(hidden: int, width: int, heads: int = 32, keys: int = 4) -> dict[str, Any]:
    return {
        **llama(hidden, 8 * width, heads, keys),
        "num_experts": 128,
        "moe_intermediate_size": width,
        "head_dim": 128,
    }


PHI_4 = llama(5120, 17_920, 40, 10)
LLAMA_2_7B = llama(4096, 11_008, 32, 32)
QWEN_2_72B = llama(8192, 29_568, 64, 8)
NEMOTRON_H = {
    **llama(4096, 21_504, 32, 8),
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
}


@pytest.mark.parametrize(
    ("config", "weights", "degrees"),
    [
        # Heads of attention, and of keys and values, of which accelerators can hold copies.
        (PHI_4, None, [1, 2, 5, 10, 20, 40]),
        (llama(4544, 18_176, 71, 1), None, [1, 71]),
        (llama(4096, 14_336, 32, 2), None, [1, 2, 4, 8, 16, 32]),
        # Groups of weights: 11008 is 86 groups of 128, 29568 is 231.
        (LLAMA_2_7B, None, [1, 2, 4, 8, 16, 32]),
        (LLAMA_2_7B, AWQ, [1, 2]),
        (LLAMA_2_7B, AWQ.model_copy(update={"group_size": 64}), [1, 2, 4]),
        (LLAMA_2_7B, COMPRESSED, [1, 2]),
        (LLAMA_2_7B, FP8, [1, 2]),
        (LLAMA_2_7B, NVFP4, [1, 2, 4, 8, 16]),
        (QWEN_2_72B, AWQ, [1]),
        (QWEN_2_72B, AWQ.model_copy(update={"group_size": 32}), [1, 2, 4]),
        (QWEN_2_72B, StoredQuantization(method="compressed-tensors", bits=8), [1, 2, 4, 8, 16, 32, 64]),
        # The inputs of a layer's first matrix are not split, and consist of groups too.
        (llama(2880, 11_520, 64, 8), COMPRESSED, []),
        # Experts: 768 is 6 blocks.
        (mixture(2048, 768), None, [1, 2, 4, 8, 16, 32]),
        (mixture(2048, 768), BLOCKS, [1, 2]),
        (mixture(2048, 768), COMPRESSED, [1, 2]),
        (mixture(2048, 768), AWQ, [1, 2, 4, 8]),
        (mixture(2048, 768), FP8, [1, 2]),
        # State-space layers.
        (NEMOTRON_H, None, [1, 2, 4, 8]),
        ({**NEMOTRON_H, "n_groups": 1}, None, [1, 2, 4, 8, 16, 32]),
        # Blocks are also of outputs, if these are split: one for each state-space head or gate, and Gemma's inputs.
        ({**NEMOTRON_H, "model_type": "nemotron_h"}, BLOCKS, [1]),
        ({**NEMOTRON_H, "model_type": "nemotron_h"}, COMPRESSED, [1, 2, 4, 8]),
        ({**llama(4096, 16_384, 32, 32), "model_type": "laguna"}, BLOCKS, [1]),
        (
            {**llama(4096, 16_384, 32, 32), "model_type": "laguna", "gating": "per-element"},
            BLOCKS,
            [1, 2, 4, 8, 16, 32],
        ),
        ({**llama(4096, 16_384, 32, 32), "no_kda_lora": True}, BLOCKS, [1]),
        ({**llama(4096, 16_384, 32, 32), "linear_attn_config": {"num_heads": 32}}, BLOCKS, []),
        ({**llama(4096, 16_384, 32, 32), "linear_attn_config": {"num_heads": 32}}, None, [1, 2, 4, 8, 16, 32]),
        ({**llama(4096, 16_384, 32, 32), "hidden_size_per_layer_input": 256, "num_hidden_layers": 35}, BLOCKS, [1, 2]),
        # Outputs of keys are in no groups; neither blocks nor groups of other methods divide the hidden size.
        ({**llama(2048, 8192, 32, 8), "head_dim": 64}, COMPRESSED, [1, 2, 4, 8, 16]),
        ({**llama(4160, 12_288, 32, 32), "head_dim": 128}, BLOCKS, [1, 2, 4, 8, 16, 32]),
    ],
    ids=lambda value: value.method if isinstance(value, StoredQuantization) else None,
)
def test_these_degrees_split_a_model_evenly(
    config: dict[str, Any], weights: StoredQuantization | None, degrees: list[int]
) -> None:
    most = config["num_attention_heads"]
    assert [degree for degree in range(1, most + 1) if not found(config, degree, weights)] == degrees


def test_an_engine_that_divides_blocks_of_experts_splits_them_further() -> None:
    model = mixture(2048, 768)
    assert [degree for degree in (1, 2, 4, 8, 16) if not found(model, degree, FP8, refined=True)] == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("name", "matching", "ignored"),
    [
        ("lm_head", "parts", ()),
        ("self_attn", "parts", ("self_attn",)),
        # Where parts of names count, experts are a part of the MLP.
        ("mlp", "parts", ("mlp", "experts", "shared_expert")),
        ("down_proj", "parts", ("mlp", "shared_expert")),
        ("mlp", "names", ()),
        ("mlp", "searched", ()),
        ("model.layers.0.self_attn", "parts", ()),
        ("model.layers.*.self_attn*", "wildcards", ("self_attn",)),
        ("model.layers.*.self_attn*", "parts", ()),
        ("*.mlp.gate", "wildcards", ()),
        ("re:.*self_attn.*", "compressed", ("self_attn",)),
        ("re:.*self_attn.o_proj", "compressed", ("self_attn",)),
        ("re:.*self_attn.kv_b_proj", "compressed", ()),
        ("re:.*shared_expert_gate$", "compressed", ()),
        ("re:.*mlp.shared_experts.*", "compressed", ("shared_expert",)),
        ("re:.*mlp.experts.*", "compressed", ("experts",)),
        ("re:.*block_sparse_moe.*", "compressed", ("experts", "shared_expert")),
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "compressed", ("mlp",)),
        ("re:model\\.layers\\.\\d+\\.mlp\\.down_proj", "compressed", ("mlp",)),
        ("re:model\\.layers\\.[0-3]\\.mlp\\.down_proj", "compressed", ()),
        ("re:.*mlp.up_proj", "compressed", ()),
        ("re:.*(linear_attn|mamba|conv).*", "compressed", ("linear_attn",)),
        (r".*\.self_attn\..*", "expressions", ("self_attn",)),
        (r"self_attn", "expressions", ()),
        (r"self_attn\.[oq]", "searched", ("self_attn",)),
        ("o_proj", "searched", ("self_attn",)),
        ("model.language_model.layers", "begins", ("self_attn", "mlp", "experts", "shared_expert", "linear_attn")),
        ("re:.*self_attn(?!x).*", "compressed", ("self_attn",)),
        ("re:^(?!.*experts).*$", "compressed", ("self_attn", "mlp", "shared_expert", "linear_attn")),
        ("re:.*(?<!o)_proj", "compressed", ("mlp", "experts", "shared_expert", "linear_attn")),
        # A merged matrix has a name of its own, which is all that GPTQ sees.
        ("re:.*qkv_proj", "compressed", ()),
        (r".*\.(o|q|k)_proj", "expressions", ("self_attn",)),
        # Expressions that are none, that take too long, or that are too long, name nothing.
        ("re:.*self_attn(", "compressed", ()),
        ("re:(?!x)(?:(?:[a-z._]|[0-9a-z])*)*[A-Z]", "compressed", ()),
        (f"re:.*self_attn.*|{'x' * 1000}", "compressed", ()),
    ],
)
def test_a_name_or_pattern_excludes_modules_in_every_layer(
    name: str, matching: Matching, ignored: tuple[str, ...]
) -> None:
    assert not_quantized((name,), matching) == ignored


def test_expressions_of_others_take_no_longer_than_the_name_is_long() -> None:
    hostile = [f"re:(a+)+{'(.*)*' * number}$" for number in range(1, 100)]
    assert not_quantized(hostile, "compressed") == ()
    assert not_quantized([f"re:(?!{number})(?:(?:[a-z.])*)*[A-Z]" for number in range(100)], "compressed") == ()


def test_numbers_of_layers_that_no_model_has_name_nothing() -> None:
    assert not_quantized([f"model.layers.{'1' * 900}.self_attn"], "parts") == ()


def test_a_part_of_a_number_names_other_layers_too() -> None:
    layers: dict[Module, range] = {"self_attn": range(20)}
    attention = quantized([Choice(None, ["layers.1"], "parts"), Choice("quantized")], layers)["self_attn"]
    assert attention.every == {None, "quantized"}
    only = quantized(
        [Choice(None, [r"layers\.1\d\..*"], "searched"), Choice("quantized")], {"self_attn": range(10, 20)}
    )
    assert only["self_attn"].every == {None}


def test_matrices_that_an_engine_merges_are_quantized_alike() -> None:
    def is_torn(pattern: str, attention: Merged | None) -> bool:
        choices = [Choice(None, [pattern], "compressed"), Choice("quantized")]
        return quantized(choices, {"self_attn": range(2)}, attention)["self_attn"].is_torn

    assert is_torn("re:.*q_proj", ATTENTION)
    assert not is_torn("re:.*qkv_proj", ATTENTION)
    assert is_torn("re:.*q_a_proj", LATENT)
    assert not is_torn("re:.*q_proj", None)


def test_autoround_has_the_same_numbers_in_all_matrices_that_are_merged() -> None:
    def is_torn(matching: Matching) -> bool:
        choices = [Choice("8 bits", [".*k_proj"], matching), Choice("4 bits")]
        return quantized(choices, {"self_attn": range(2)})["self_attn"].is_torn

    assert is_torn("searched")
    assert not is_torn("compressed")


@pytest.mark.parametrize("matching", ["names", "compressed", "searched"])
def test_experts_can_all_be_named_one_by_one(matching: Matching) -> None:
    experts = [
        f"model.layers.{layer}.mlp.experts.{expert}.{name}_proj"
        for layer in range(200)
        for expert in range(64)
        for name in ("gate", "up", "down")
    ]
    assert not_quantized(experts, matching) == ("experts",)
    assert not_quantized(experts[: len(experts) // 2], matching) == ()


def test_modules_that_are_not_quantized_have_no_groups() -> None:
    weights = COMPRESSED.model_copy(update={"ignored": ("experts", "self_attn")})
    assert found(mixture(2048, 704), 4, weights) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # Layers without a choice of experts: none, the first, some, or every other one.
        ({}, None),
        ({"first_k_dense_replace": 1}, 6144),
        ({"mlp_only_layers": [0]}, 6144),
        ({"decoder_sparse_step": 2}, 6144),
        ({"intermediate_size_mlp": 16_384}, 16_384),
        ({"num_experts": None}, 6144),
    ],
)
def test_the_width_of_dense_layers_counts_where_there_are_any(changed: dict[str, Any], expected: int | None) -> None:
    parts = ModelConfig.model_validate({**mixture(2048, 768), **changed}).columns["splits"]
    assert parts.get("mlp", Split()).width == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [({"n_shared_experts": 2}, 1536), ({"shared_expert_intermediate_size": 5632}, 5632), ({}, None)],
)
def test_shared_experts_have_a_width_of_their_own(changed: dict[str, Any], expected: int | None) -> None:
    parts = ModelConfig.model_validate({**mixture(2048, 768), **changed}).columns["splits"]
    assert parts.get("shared_experts", Split()).width == expected


WHISPER_LARGE = {"d_model": 1280, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"vision_config": {"num_heads": 12, "intermediate_size": 13_696}}, {"vision": Split(heads=12, width=13_696)}),
        ({"vision_config": {"num_attention_heads": 16}}, {"vision": Split(heads=16)}),
        ({"vision_config": {"vt_num_attention_heads": 12, "num_attention_heads": 16}}, {"vision": Split(heads=12)}),
        ({"audio_config": WHISPER_LARGE}, {"audio": Split(heads=20, width=5120)}),
        (
            {"thinker_config": {"vision_config": {"num_heads": 16}, "audio_config": WHISPER_LARGE}},
            {"vision": Split(heads=16), "audio": Split(heads=20, width=5120)},
        ),
        ({"vision_config": {}}, {}),
    ],
)
def test_a_configuration_tells_what_is_split_of_encoders(config: dict[str, Any], expected: dict[str, Split]) -> None:
    parts = ModelConfig.model_validate(config).columns.get("splits", {})
    assert {name: parts[name] for name in ("vision", "audio") if name in parts} == expected


@pytest.mark.parametrize(
    ("architecture", "split", "degrees"),
    [
        # Heads and widths; widths alone; an encoder that is copied if its heads do not fit; one that is never split.
        ("Glm4vForConditionalGeneration", Split(heads=12, width=13_696), [1, 2, 4]),
        ("Qwen2_5_VLForConditionalGeneration", Split(heads=16, width=3420), [1, 2, 4]),
        ("InternVLForConditionalGeneration", Split(heads=25, width=12_800), [1, 2, 4, 8]),
        ("Qwen3OmniMoeForConditionalGeneration", Split(heads=12, width=5124), [1, 2, 4, 8]),
        ("Qwen3OmniMoeForConditionalGeneration", Split(heads=16, width=5124), [1, 2, 4]),
        ("Gemma4ForConditionalGeneration", Split(heads=12, width=3073), [1, 2, 4, 8]),
    ],
)
def test_these_degrees_split_an_encoder_evenly(architecture: str, split: Split, degrees: list[int]) -> None:
    encoder: Layer = "audio" if "Omni" in architecture else "vision"

    def fits(degree: int) -> bool:
        parts = split_towers((architecture,), {encoder: split}, degree, whole=False)
        # The weights of encoders are in no groups.
        return not any(misfits(parts, degree, AWQ))

    assert [degree for degree in (1, 2, 4, 8) if fits(degree)] == degrees


def test_an_encoder_is_whole_on_request_where_vllm_can_do_that() -> None:
    parts: dict[Layer, Split] = {"vision": Split(heads=12), "mlp": Split(width=4096)}
    assert split_towers(("Glm4vForConditionalGeneration",), parts, 8, whole=True).keys() == {"mlp"}
    assert split_towers(("Gemma3ForConditionalGeneration",), parts, 8, whole=True).keys() == {"mlp", "vision"}


@pytest.mark.parametrize(
    ("misfit", "reason"),
    [
        (Misfit(10, "heads of keys and values"), "10 heads of keys and values cannot be spread evenly over 4 "),
        (Misfit(11_008, "the width of an MLP", 128), "would hold 2752, not a multiple of the 128 weights"),
        (Misfit(4097, "the width of an MLP"), "the width of an MLP is 4097, which 4 accelerators cannot split evenly"),
    ],
)
def test_a_misfit_says_what_cannot_be_split(misfit: Misfit, reason: str) -> None:
    assert reason in misfit.over(4)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True},
            AWQ.model_copy(update={"group_size": 64}),
        ),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, {"bits": 4, "unstated": ("zero_point",)}),
        ({"quant_method": "gptq", "bits": 4}, {"unstated": ("group_size", "desc_act", "sym")}),
        ({"quant_method": "fp8"}, {"unstated": ("activation_scheme",)}),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False, "desc_act": True},
            {"group_size": 128, "symmetric": False, "activation_order": True},
        ),
        # With one group, the order changes nothing.
        (
            {"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": True},
            {"group_size": None, "activation_order": False},
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"actorder": "group"}}}},
            {"activation_order": True},
        ),
        ({"quant_method": "fp8", "weight_block_size": [128, 64]}, {"block_size": (128, 64)}),
        (
            {
                "quant_method": "compressed-tensors",
                "ignore": ["lm_head", "re:.*self_attn.*"],
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}}
                },
            },
            {"bits": 4, "group_size": 32, "symmetric": True, "ignored": ("self_attn",)},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 8, "type": "float", "block_structure": [128, 128]}}
                },
            },
            {"bits": 8, "block_size": (128, 128)},
        ),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}, NVFP4),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, NVFP4),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, {"method": "modelopt", "bits": 8}),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "MXFP8"}}, {"method": "modelopt_mxfp8"}),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, {"method": "modelopt_mixed"}),
    ],
)
def test_a_configuration_tells_how_weights_are_quantized(
    config: dict[str, Any], expected: StoredQuantization | dict[str, Any]
) -> None:
    stored = ModelConfig.model_validate({**LLAMA_2_7B, "quantization_config": config}).columns["quantization"]
    wanted = dict(expected) if isinstance(expected, StoredQuantization) else expected
    assert {name: getattr(stored, name) for name in wanted} == wanted
