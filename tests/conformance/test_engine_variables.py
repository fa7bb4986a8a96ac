"""Whether vLLM starts with the variables of users exactly if rules accept them (``make conformance``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from constructs_optim.recipe import Model, Recipe
from constructs_optim.recipe.catalog import instances, model_configs
from constructs_optim.recipe.rules import check

from .builds import Question, question, refusals

pytestmark = pytest.mark.engine

COMMIT = "0" * 40
RULES = frozenset({"OPT029", "OPT274", "OPT292", "OPT293", "OPT302"})
DENSE, EXPERTS = "Qwen/Qwen3-8B", "mistralai/Mixtral-8x7B-v0.1"
T4, A10G, L40S, H100 = "ml.g4dn.xlarge", "ml.g5.xlarge", "ml.g6e.xlarge", "ml.p5.4xlarge"
A100, H200 = "ml.p4d.24xlarge", "ml.p5en.48xlarge"
NGRAM = '"method": "ngram"'
# With settings of one argument each: model, instance type, argument, and values.
ONE: list[tuple[str, str, str, tuple[str, ...]]] = [
    (DENSE, T4, "KV_CACHE_DTYPE", ("fp8", "fp8_e5m2", "int8_per_token_head")),
    (DENSE, A10G, "KV_CACHE_DTYPE", ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_per_token_head", "int8_per_token_head")),
    (DENSE, L40S, "KV_CACHE_DTYPE", ("fp8", "fp8_per_token_head")),
    ("openai/gpt-oss-20b", A10G, "KV_CACHE_DTYPE", ("fp8", "int8_per_token_head")),
    ("openai/gpt-oss-20b", L40S, "KV_CACHE_DTYPE", ("fp8",)),
    ("google/gemma-4-31B-it", A10G, "KV_CACHE_DTYPE", ("fp8", "int8_per_token_head")),
    (DENSE, H100, "QUANTIZATION", ("fp8", "FP8", "mxfp8", "awq", "modelopt", "compressed-tensors", "fp_quant", "int9")),
    ("Qwen/Qwen3-32B-AWQ", H100, "QUANTIZATION", ("awq", "auto_awq", "awq_marlin", "moe_wna16", "gptq", "fp8")),
    ("Qwen/Qwen3-4B-FP8", H100, "QUANTIZATION", ("fp8", "deepseek_v4_fp8", "fbgemm_fp8", "mxfp8", "modelopt")),
    ("nvidia/Llama-3.1-8B-Instruct-FP8", H100, "QUANTIZATION", ("modelopt", "fp8")),
    ("RedHatAI/gemma-4-E2B-it-FP8-dynamic", H100, "QUANTIZATION", ("compressed-tensors", "fp8")),
    ("Qwen/Qwen3-4B-FP8", H100, "KV_CACHE_DTYPE", ("fp8", "fp8_e5m2")),
    ("nvidia/Llama-3.1-8B-Instruct-FP8", H100, "KV_CACHE_DTYPE", ("fp8", "fp8_e5m2")),
    ("RedHatAI/gemma-4-E2B-it-FP8-dynamic", H100, "KV_CACHE_DTYPE", ("fp8", "fp8_e5m2")),
    ("Qwen/Qwen3-32B-AWQ", H100, "KV_CACHE_DTYPE", ("fp8_e5m2", "fp8_inc", "nvfp4", "fp8_ds_mla")),
    ("deepseek-ai/DeepSeek-V3.2", H200, "KV_CACHE_DTYPE", ("fp8", "fp8_e4m3", "fp8_ds_mla", "bfloat16")),
    ("deepseek-ai/DeepSeek-V3.2", H200, "ATTENTION_BACKEND", ("FLASHMLA_SPARSE", "FLASHMLA", "TRITON_MLA")),
    ("deepseek-ai/DeepSeek-V3.2", H200, "BLOCK_SIZE", ("16", "64")),
    ("google/gemma-4-31B-it", H100, "ATTENTION_BACKEND", ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN")),
    ("openai/gpt-oss-20b", H100, "ATTENTION_BACKEND", ("FLASHINFER", "FLEX_ATTENTION")),
    ("deepseek-ai/DeepSeek-V3.1", H200, "ATTENTION_BACKEND", ("CUTLASS_MLA", "FLASHINFER_MLA", "FLASHMLA")),
    (DENSE, T4, "KV_CACHE_DTYPE", ("bfloat16", "float16")),
    (DENSE, H100, "DTYPE", ("float32", "half")),
    ("Qwen/Qwen3-32B-AWQ", H100, "DTYPE", ("float32", "half", "bfloat16")),
    ("Qwen/Qwen3-4B-FP8", H100, "DTYPE", ("float", "half")),
    ("RedHatAI/gemma-4-E2B-it-FP8-dynamic", H100, "DTYPE", ("float32",)),
    (DENSE, H100, "ATTENTION_BACKEND", ("FLASH_ATTN", "flashinfer", "auto", "XFORMERS", "NO_ATTENTION")),
    (DENSE, H100, "ATTENTION_BACKEND", ("TRITON_MLA", "FLASH_ATTN_MLA")),
    (DENSE, T4, "ATTENTION_BACKEND", ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN")),
    ("openai/gpt-oss-20b", L40S, "ATTENTION_BACKEND", ("FLASH_ATTN", "TRITON_ATTN")),
    ("openai/gpt-oss-20b", H100, "ATTENTION_BACKEND", ("FLASH_ATTN",)),
    ("deepseek-ai/DeepSeek-V3.1", H200, "ATTENTION_BACKEND", ("FLASH_ATTN", "TRITON_ATTN", "TRITON_MLA")),
    ("deepseek-ai/DeepSeek-V3.1", A100, "KV_CACHE_DTYPE", ("fp8",)),
    (DENSE, H100, "BLOCK_SIZE", ("16", "48", "8", "24", "0")),
    (DENSE, T4, "BLOCK_SIZE", ("16", "8")),
    ("Qwen/Qwen3.5-27B-FP8", H100, "BLOCK_SIZE", ("32", "24")),
    (DENSE, H100, "MAX_LORA_RANK", ("8", "512", "4", "100")),
    (DENSE, H100, "MAX_NUM_SEQS", ("1024", "16384", "0")),
    (DENSE, H100, "GPU_MEMORY_UTILIZATION", ("1", "0", "1.5")),
    (DENSE, H100, "CPU_OFFLOAD_GB", ("0", "-1")),
    (DENSE, H100, "MAX_LOGPROBS", ("-1", "-2")),
    (DENSE, H100, "ENABLE_EXPERT_PARALLEL", ("true", "false")),
    (EXPERTS, H100, "ENABLE_EXPERT_PARALLEL", ("true",)),
    (EXPERTS, H100, "ENABLE_EPLB", ("true",)),
    (
        *(DENSE, H100, "SPECULATIVE_CONFIG"),
        (
            f'{{"num_speculative_tokens": 5, {NGRAM}}}',
            f'{{"num-speculative-tokens": 5, {NGRAM}}}',
            f'{{"num_speculative_token": 5, {NGRAM}}}',
            f'{{"num_speculative_tokens": 0, {NGRAM}}}',
            f'{{"num_speculative_tokens": 5, {NGRAM}, "prompt_lookup_max": 0}}',
            '{"num_speculative_tokens": 5, "method": "guess"}',
            f"{{{NGRAM}}}",
            f'{{"num_speculative_tokens": 5, {NGRAM}, "prompt_lookup_max": 2, "prompt_lookup_min": 3}}',
            f'{{"num_speculative_tokens": 5, {NGRAM}, "prompt_lookup_max": 3, "prompt_lookup_min": 3}}',
            '{"num_speculative_tokens": 5, "method": "eagle3"}',
            '["ngram"]',
        ),
    ),
    (
        *(DENSE, H100, "COMPILATION_CONFIG"),
        (
            *('{"mode": 3}', '{"level": 3}', '{"pass_config": {"fuse_norm_quant": true}}'),
            *('{"dynamic_shapes_config": {"type": "backed"}}', '{"dynamic_shapes_config": {"typ": "backed"}}'),
        ),
    ),
    (DENSE, H100, "KV_TRANSFER_CONFIG", ('{"kv_connector": "OffloadingConnector"}', "5")),
    (DENSE, H200, "DECODE_CONTEXT_PARALLEL_SIZE", ("1", "2", "3")),
    ("Qwen/Qwen3-30B-A3B", H200, "DECODE_CONTEXT_PARALLEL_SIZE", ("1", "2", "4", "3")),
    ("deepseek-ai/DeepSeek-V3.1", H200, "DECODE_CONTEXT_PARALLEL_SIZE", ("1", "2", "8", "3")),
    *((DENSE, H100, name, ('{"none_such": 1}',)) for name in ("KERNEL_CONFIG", "KV_EVENTS_CONFIG", "HF_OVERRIDES")),
]
SEVERAL: list[Mapping[str, str]] = [
    {"MAX_NUM_BATCHED_TOKENS": "128", "MAX_NUM_SEQS": "256"},
    {"MAX_NUM_BATCHED_TOKENS": "128", "MAX_NUM_SEQS": "128"},
    {"MAX_NUM_BATCHED_TOKENS": "2048", "MAX_MODEL_LEN": "4096", "NO_ENABLE_CHUNKED_PREFILL": "true"},
    {"MAX_NUM_BATCHED_TOKENS": "4096", "MAX_MODEL_LEN": "4096", "NO_ENABLE_CHUNKED_PREFILL": "true"},
    {"MAX_NUM_BATCHED_TOKENS": "2048", "NO_ENABLE_CHUNKED_PREFILL": "true"},
    {"MAX_NUM_BATCHED_TOKENS": "2048", "ENABLE_CHUNKED_PREFILL": "false"},
    {"MAX_NUM_SEQS": "3000", "MAX_MODEL_LEN": "4096", "NO_ENABLE_CHUNKED_PREFILL": "true"},
    {"LONG_PREFILL_TOKEN_THRESHOLD": "4096", "MAX_MODEL_LEN": "2048"},
    {"ENABLE_LORA": "true", "MAX_LORAS": "4", "MAX_CPU_LORAS": "2"},
    {"ENABLE_LORA": "true", "MAX_LORAS": "4", "MAX_CPU_LORAS": "4"},
    {"MAX_LORAS": "4", "MAX_CPU_LORAS": "2"},
    {"ATTENTION_BACKEND": "FLASH_ATTN", "KV_CACHE_DTYPE": "fp8"},
    {"ATTENTION_BACKEND": "FLASH_ATTN", "KV_CACHE_DTYPE": "fp8_e5m2"},
    {"ATTENTION_BACKEND": "FLEX_ATTENTION", "KV_CACHE_DTYPE": "fp8"},
    {"ATTENTION_BACKEND": "FLASHINFER", "DTYPE": "float32"},
    {"DTYPE": "float32", "QUANTIZATION": "fp8"},
    {"DTYPE": "float32", "QUANTIZATION": "fp8_per_block"},
]
# The least refusals, so that rules that refuse nothing fail here.
LEAST = 45


class Case(NamedTuple):
    """A model with variables on an instance type."""

    model: str
    host: str
    environment: Mapping[str, str]

    def rules(self) -> list[str]:
        """The rules that refuse the variables."""
        model = Model.huggingface(self.model, revision=COMMIT, allow_code=True)
        recipe = Recipe(model, [], self.host, "us-west-2", environment=self.environment)
        return sorted({each.rule for each in check(recipe)} & RULES)

    def question(self) -> Question:
        """What vLLM is asked."""
        config, instance = model_configs.fields(self.model), instances.find(self.host)
        assert config is not None
        assert instance is not None
        assert instance.compute_capability is not None
        major, minor = divmod(round(instance.compute_capability * 10), 10)
        return question(config, instance.parallel_units, (major, minor), self.environment)


def cases() -> Iterator[Case]:
    for model, host, argument, values in ONE:
        yield from (Case(model, host, {f"SM_VLLM_{argument}": value}) for value in values)
    for given in SEVERAL:
        yield Case(DENSE, H100, {f"SM_VLLM_{name}": value for name, value in given.items()})


def test_vllm_refuses_the_variables_that_rules_refuse_and_no_others() -> None:
    asked = {case.question(): case for case in cases()}
    refused = refusals(asked)
    unlike = [
        (case, case.rules(), refused.get(each, "builds"))
        for each, case in asked.items()
        if bool(case.rules()) is not (each in refused)
    ]
    assert unlike == []
    assert len(refused) >= LEAST
