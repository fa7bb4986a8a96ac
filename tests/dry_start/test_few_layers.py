from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.dry_start.few_layers import weights_bytes, with_few_layers, with_fewer_experts

from .repositories import BERT, CONFIGURATIONS


def test_a_model_of_equal_layers_keeps_two() -> None:
    few = with_few_layers(CONFIGURATIONS["Qwen/Qwen3-8B"])
    assert few.layers == (2, 36)
    assert few.config == {**CONFIGURATIONS["Qwen/Qwen3-8B"], "num_hidden_layers": 2, "max_window_layers": 2}


def test_a_hybrid_keeps_one_layer_of_each_kind() -> None:
    few = with_few_layers(CONFIGURATIONS["nvidia/Nemotron-H-56B-Base-8K"])
    assert few.layers == (3, 118)
    assert few.config["hybrid_override_pattern"] == "M-*"


def test_dense_layers_and_those_of_experts_both_remain() -> None:
    few = with_few_layers(CONFIGURATIONS["deepseek-ai/DeepSeek-R1"])
    assert few.config["num_hidden_layers"] == 2
    assert few.config["first_k_dense_replace"] == 1


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (
            {"layer_types": ["linear", "linear", "full", "linear", "linear", "full"]},
            {"layer_types": ["linear", "full"]},
        ),
        ({"layer_types": ["full"] * 6}, {"layer_types": ["full"] * 2}),
        ({"full_attention_interval": 4}, {"num_hidden_layers": 4}),
        ({"mlp_layer_types": ["dense", *["sparse"] * 5]}, {"mlp_layer_types": ["dense", "sparse"]}),
        ({"layer_types": list("aabbaa"), "mlp_only_layers": [2]}, {"mlp_only_layers": [1], "layer_types": ["a", "b"]}),
        ({"num_kv_shared_layers": 3}, {"num_kv_shared_layers": 0}),
        # The numbers of all layers tell none apart.
        ({"moe_layers": [0, 1, 2, 3, 4, 5]}, {"num_hidden_layers": 2}),
    ],
)
def test_fields_of_layers_fit_the_layers_that_remain(given: dict[str, Any], kept: dict[str, Any]) -> None:
    few = with_few_layers({"num_hidden_layers": 6, **given})
    assert {name: few.config[name] for name in kept} == kept


def test_the_layers_of_the_text_part_are_cut_and_the_tower_stays() -> None:
    whole = CONFIGURATIONS["Qwen/Qwen3-VL-2B-Instruct"]
    few = with_few_layers(whole)
    assert few.config["text_config"]["num_hidden_layers"] == 2  # type: ignore[index]
    assert few.config["vision_config"] == whole["vision_config"]


@pytest.mark.parametrize("config", [{}, {"num_hidden_layers": "many"}, {"num_hidden_layers": -1}, {"text_config": []}])
def test_a_configuration_without_layers_stays_as_it_is(config: dict[str, Any]) -> None:
    assert with_few_layers(config) == (config, None, None)


def test_a_list_of_kinds_counts_the_layers_if_no_number_does() -> None:
    few = with_few_layers({"layers_block_type": ["mamba", "attention", "mamba", "attention"]})
    assert few.config == {"layers_block_type": ["mamba", "attention"]}


def test_experts_are_halved_down_to_what_routing_needs() -> None:
    few = with_few_layers(CONFIGURATIONS["deepseek-ai/DeepSeek-R1"])
    counts = [few.experts]
    while (fewer := with_fewer_experts(few)) is not None:
        few = fewer
        counts.append(few.experts)
    # 8 groups, of which the two best experts count.
    assert counts == [(256, 256), (128, 256), (64, 256), (32, 256), (16, 256)]
    assert few.config["n_routed_experts"] == 16


@pytest.mark.parametrize(
    ("name", "billions", "within"),
    [
        ("Qwen/Qwen3-8B", 8.19, 0.01),
        ("meta-llama/Meta-Llama-3.1-8B", 8.03, 0.01),
        ("deepseek-ai/DeepSeek-R1", 671, 0.01),
        # Not summed exactly: an upper bound.
        ("Qwen/Qwen3-VL-2B-Instruct", 2.1, 0.4),
    ],
)
def test_weights_need_two_bytes_of_the_published_size(name: str, billions: float, within: float) -> None:
    assert weights_bytes(CONFIGURATIONS[name]) / 2e9 == pytest.approx(billions, rel=within)


def test_the_weights_of_a_model_that_is_not_summed_are_not_less_than_it_has() -> None:
    # BERT base has 110 million parameters (Devlin et al., 2018).
    assert 2 * 110e6 * 0.95 <= weights_bytes(BERT) <= 2 * 110e6 * 1.5
