"""What the catalog says that vLLM loads, and what the newest vLLM itself says (``make conformance`` has it)."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.catalog import engine_models

from ..recipe.test_geometry import LENGTHS, LENGTHS_OF_ENGINES
from ..recipe.test_geometry import LLAMA as LLAMA_OF_LENGTHS

pytestmark = pytest.mark.engine

CHECKOUT = Path(__file__).parents[2]
PYTHON = CHECKOUT / ".venv-engine" / "bin" / "python"
# A small model's configuration, which each case changes.
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_attention_heads": 16,
    "num_hidden_layers": 4,
    "num_key_value_heads": 8,
    "vocab_size": 32_000,
    "max_position_embeddings": 4096,
    "dtype": "bfloat16",
}
METHODS = [
    "auto-round",
    "awq",
    "bitsandbytes",
    "compressed-tensors",
    "eetq",
    "fbgemm_fp8",
    "fp8",
    "gguf",
    "gptq",
    "hqq",
]
MODEL_TYPES = {
    "AcmeForCausalLM": "llama",
    "BambaForCausalLM": "bamba",
    "DebertaV2ForSequenceClassification": "deberta-v2",
    "LlamaForCausalLM": "llama",
    "MptForCausalLM": "mpt",
    "PersimmonForCausalLM": "persimmon",
    "Qwen3ForCausalLM": "qwen3",
}


def quantized(method: str) -> dict[str, Any]:
    details = {"bits": 4, "group_size": 128, "sym": True, "desc_act": False, "zero_point": True}
    return {**LLAMA, "quantization_config": {"quant_method": method, **details}}


@cache
def answer() -> dict[str, Any]:
    """What vLLM says of itself, and of the configurations."""
    cases = [{"name": method, "config": quantized(method)} for method in METHODS]
    cases += [
        {"name": name, "config": {**LLAMA, "architectures": [name], "model_type": kind}}
        for name, kind in MODEL_TYPES.items()
    ]
    lengths = [*LENGTHS, *((changed, newest) for changed, newest, *_ in LENGTHS_OF_ENGINES)]
    for number, (changed, longest) in enumerate(lengths):
        config = {**LLAMA_OF_LENGTHS, "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16", **changed}
        for name, length in (("longest", longest), ("longer", (longest or 0) + 1)):
            cases.append({"name": f"{name} {number}", "config": config, "length": length})
    program = [str(PYTHON), str(CHECKOUT / "tests" / "conformance" / "models_of_engines.py")]
    ended = subprocess.run(program, input=json.dumps(cases), capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.splitlines()[-1])


def known() -> engine_models.EngineModels:
    found = engine_models.of_release("vllm", answer()["release"])
    assert found is not None
    return found


@pytest.mark.parametrize("part", ["architectures", "plugins", "load_formats"])
def test_the_catalog_has_what_vllm_registers(part: str) -> None:
    table = getattr(known(), part)
    assert {name for name in table.rows if table.has(name)} == set(answer()[part])


def test_the_catalog_has_the_methods_of_quantization_that_vllm_has() -> None:
    table = known().quantization
    # auto-round is a name in checkpoints, which vLLM loads as inc.
    assert {name for name in table.rows if table.has(name)} - {"auto-round"} == set(answer()["quantization"])
    assert {name for name in table.rows if table.is_deprecated(name)} == set(answer()["deprecated"])


@pytest.mark.parametrize("method", METHODS)
def test_vllm_refuses_the_methods_that_the_catalog_refuses(method: str) -> None:
    table = known().quantization
    refused = method in answer()["refused"]
    assert refused == (not table.has(method) or table.is_deprecated(method)), answer()["refused"].get(method)


@pytest.mark.parametrize("architecture", MODEL_TYPES)
def test_vllm_refuses_the_architectures_that_the_catalog_refuses(architecture: str) -> None:
    refused = architecture in answer()["refused"]
    assert refused == (known().loads([architecture]) is False), answer()["refused"].get(architecture)


OF_ENGINES = [*range(len(LENGTHS), len(LENGTHS) + len(LENGTHS_OF_ENGINES))]


@pytest.mark.parametrize(
    "number", [*(number for number, (_, longest) in enumerate(LENGTHS) if longest is not None), *OF_ENGINES]
)
def test_vllm_accepts_the_longest_context_and_no_longer_one(number: int) -> None:
    refused = answer()["refused"]
    assert f"longest {number}" not in refused, refused[f"longest {number}"]
    assert "is greater than the derived max_model_len" in refused[f"longer {number}"]


@pytest.mark.parametrize("number", OF_ENGINES)
def test_sglang_derives_the_longest_context_that_the_catalog_derives(number: int) -> None:
    *_, in_sglang = LENGTHS_OF_ENGINES[number - len(LENGTHS)]
    assert answer()["contexts_in_sglang"][f"longest {number}"] == in_sglang
