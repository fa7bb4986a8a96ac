"""Whether vLLM refuses the splits of layers that rules refuse, and only those (``make conformance``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.catalog.splits import misfits

from .builds import Question, question, refusals
from .quantization_configs import AWQ, COMPRESSED

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

DEGREES = (1, 2, 4, 8)
# T4, A100, H100 and B200.
CAPABILITIES = ((7, 5), (8, 0), (9, 0), (10, 0))
# Hidden sizes and widths of MLPs: Llama 2 7B and 13B, Llama 3 8B, Qwen2 72B, Phi-2's like, DeepSeek-V2-Lite.
DENSE = ((4096, 11_008), (5120, 13_824), (4096, 14_336), (8192, 29_568), (2560, 6912), (2048, 10_944))
# Hidden sizes and widths of experts: Qwen3 30B-A3B and 235B-A22B, DeepSeek-V2-Lite, Qwen3 Coder 480B, Qwen3-Next.
MIXTURES = ((2048, 768), (4096, 1536), (2048, 1408), (6144, 2560), (3072, 896), (2048, 512))
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
METHODS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "awq": AWQ,
    "awq, groups of 64": AWQ | {"group_size": 64},
    "gptq": GPTQ,
    "gptq, 8 bits": GPTQ | {"bits": 8},
    "fp8, blocks": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    "fp8, tensors": {"quant_method": "fp8", "activation_scheme": "static"},
    **COMPRESSED,
}
# vLLM builds these and then loads the wrong scales: it rounds the number of an accelerator's groups down (auto_gptq.py,
# AutoGPTQLinearMethod; compressed_tensors_moe_w4a4_nvfp4.py).
ROUNDED = ("gptq", "nvfp4", "mxfp4")
MOST_TOO_STRICT = 0.02


class Case(NamedTuple):
    """What vLLM is asked to build, and whether it cannot be split."""

    name: str
    question: Question
    is_misfit: bool


def dense(hidden: int, width: int) -> dict[str, Any]:
    heads = hidden // 128
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "num_hidden_layers": 1,
        "vocab_size": 32_000,
    }


def mixture(hidden: int, width: int) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "hidden_size": hidden,
        "intermediate_size": 8 * width,
        "moe_intermediate_size": width,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_hidden_layers": 1,
        "vocab_size": 32_000,
    }


def heads(attention: int, keys: int) -> dict[str, Any]:
    return dense(128 * attention, 8192) | {"num_key_value_heads": keys}


def hybrid(state: int, groups: int) -> dict[str, Any]:
    return {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "hybrid_override_pattern": "M-*-",
        "num_hidden_layers": 4,
        "mamba_num_heads": state,
        "mamba_head_dim": 64,
        "n_groups": groups,
        "ssm_state_size": 128,
        "vocab_size": 32_000,
    }


MODELS: dict[str, dict[str, Any]] = {
    **{f"dense {hidden}x{width}": dense(hidden, width) for hidden, width in DENSE},
    **{f"mixture {hidden}x{width}": mixture(hidden, width) for hidden, width in MIXTURES},
    # Llama 3.2 1B: an accelerator holds fewer outputs of keys than weights share a scale.
    "narrow keys": dense(2048, 8192) | {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64},
}
# Without quantization: heads of attention and keys (Phi-4, Falcon, Qwen2.5), and state-space groups.
OF_HEADS: dict[str, dict[str, Any]] = {
    **{
        f"{one} heads, {other} keys": heads(one, other) for one, other in ((40, 10), (71, 1), (28, 4), (24, 6), (12, 2))
    },
    **{
        f"{one} state heads, {other} groups": hybrid(one, other) for one, other in ((128, 8), (64, 1), (24, 8), (64, 2))
    },
}


def cases() -> Iterator[Case]:
    models = [(name, model, method) for name, model in MODELS.items() for method in METHODS]
    models += [(name, model, "none") for name, model in OF_HEADS.items()]
    for name, model, method in models:
        quantization = METHODS[method]
        dtype = (
            "float16" if quantization is not None and quantization["quant_method"] in ("awq", "gptq") else "bfloat16"
        )
        config = {**model, "dtype": dtype} | ({"quantization_config": quantization} if quantization else {})
        columns = ModelConfig.model_validate(config).columns
        for degree in DEGREES:
            for capability in CAPABILITIES if method != "none" else CAPABILITIES[-2:]:
                # Kernels for MXFP4 need compute capability 8.0: OPT012.
                if (method == "mxfp4" and capability < (8, 0)) or (dtype == "bfloat16" and capability < (8, 0)):
                    continue
                found = misfits(columns["splits"], degree, columns.get("quantization"), refined=capability >= (8, 9))
                title = f"{name}, {method}, {degree} of {capability}"
                yield Case(title, question(config, degree, capability), any(found))


def test_vllm_refuses_the_splits_that_are_refused_and_only_those(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*cases()]
    answers = refusals(case.question for case in asked)
    too_lax = {case.name: answers[case.question] for case in asked if case.question in answers and not case.is_misfit}
    stopped = [case for case in asked if case.is_misfit]
    too_strict = [case.name for case in stopped if case.question not in answers]
    unexplained = [name for name in too_strict if not any(f", {method}" in name for method in ROUNDED)]
    with capsys.disabled():
        sys.stdout.write(
            f"\nvLLM refuses {len(answers)} of {len(asked)} splits, of which {len(too_lax)} were not refused before; "
            f"{len(too_strict)} of {len(stopped)} refusals are for splits that it builds, {len(unexplained)} of them "
            "without a reason\n"
        )
    assert too_lax == {}
    assert len(answers) > len(asked) / 20
    assert len(unexplained) <= MOST_TOO_STRICT * len(asked), unexplained
