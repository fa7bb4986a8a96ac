"""Writes with which settings vLLM does not run attention: ``python -m tests.conformance.attention_backends``.

The catalog's ``attention_backends.json`` has the answers of vLLM in the engines' environment, which
``make conformance`` installs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

from constructs_optim.recipe.catalog import engine_arguments, engine_models, model_configs

from .builds import question, refusals
from .weight_schemes import CAPABILITIES, LLAMA

FILE = Path(__file__).parents[2] / "constructs_optim" / "recipe" / "catalog" / "attention_backends.json"
RELEASE = engine_models.transformers().vllm
DATE = "2026-12-01"
SOURCE = (
    "Written by tests/conformance/attention_backends.py, which asks vLLM to build a small model of each kind with "
    "settings of attention. refused: the compute capabilities of the GPUs for which it does not build the model with "
    "these arguments, unless one of them is refused alone; the other arguments are left to vLLM. never: the values "
    "with which it builds it for no GPU. asked: the values that vLLM was asked about, alone, and with each backend "
    "that builds alone (of kinds that differ in the size of their heads, only the size 128)."
)
BACKEND, CACHE, TYPE, BLOCK = "attention_backend", "kv_cache_dtype", "dtype", "block_size"
LAYERS = 6
HEADS = (64, 80, 96, 128, 192, 256)
PAIRED = "heads of 128"
# TurboQuant leaves the first layers and the last ones as they are.
OF_HEADS = {f"heads of {size}": {**LLAMA, "head_dim": size, "num_hidden_layers": LAYERS} for size in HEADS}
BLOOM: Mapping[str, Any] = {
    "architectures": ["BloomForCausalLM"],
    "model_type": "bloom",
    "hidden_size": 4096,
    "n_layer": 2,
    "n_head": 32,
    "vocab_size": 32_768,
    "seq_length": 2048,
    "torch_dtype": "bfloat16",
}
GEMMA: Mapping[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "mm_tokens_per_image": 256,
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3_text",
        "head_dim": 128,
        "hidden_size": 5376,
        "intermediate_size": 21_504,
        "num_attention_heads": 32,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 2,
        "patch_size": 14,
        "vision_use_head": False,
    },
}


def first_layers(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration of fewer layers, whose weights have 16 bits."""
    cut = {
        name: first_layers(value)
        if name == "text_config"
        else value[:LAYERS]
        if name == "layer_types"
        else min(value, LAYERS)
        if name == "num_hidden_layers"
        else value
        for name, value in config.items()
        if name != "quantization_config"
    }
    return {**cut, "torch_dtype": "bfloat16"}


def of_catalog(name: str) -> dict[str, Any]:
    config = model_configs.fields(name)
    assert config is not None
    return first_layers(config)


def models() -> dict[str, Mapping[str, Any]]:
    """A model of each kind of attention."""
    return {
        **OF_HEADS,
        "heads of two sizes": of_catalog("google/gemma-4-31B-it"),
        "sinks": of_catalog("openai/gpt-oss-20b"),
        "both directions": GEMMA,
        "ALiBi": BLOOM,
        "latent": of_catalog("deepseek-ai/DeepSeek-V3.1"),
        "sparse latent": of_catalog("deepseek-ai/DeepSeek-V3.2"),
    }


def values() -> dict[str, tuple[str, ...]]:
    """The values of each argument."""
    arguments = engine_arguments.of_newest("vllm").rows
    # Kernels of other processors end the program, or are not there.
    left_out = ("auto", "CUSTOM", "AMX_", "CPU_", "ROCM_", "XPU_")
    return {
        TYPE: ("float16", "float32"),
        BLOCK: ("16", "32", "64", "128", "256"),
        **{
            name: tuple(each for each in arguments[name].choices if not each.startswith(left_out))
            for name in (BACKEND, CACHE)
        },
    }


Settings = frozenset[tuple[str, str]]
Capability = tuple[int, int]


def answers(asked: Mapping[str, Collection[Settings]]) -> dict[tuple[str, Settings], frozenset[Capability]]:
    """The capabilities for which vLLM does not build a kind of attention with settings."""
    of_kind = models()
    questions = {
        (kind, settings, capability): question(
            of_kind[kind], 1, capability, {f"SM_VLLM_{name.upper()}": value for name, value in settings}
        )
        for kind, all_settings in asked.items()
        for settings, capability in product(all_settings, CAPABILITIES)
    }
    refused = refusals(questions.values())
    found: defaultdict[tuple[str, Settings], set[Capability]] = defaultdict(set)
    for (kind, settings, capability), each in questions.items():
        if each in refused:
            found[kind, settings].add(capability)
    return {key: frozenset(capabilities) for key, capabilities in found.items()}


def rows() -> Iterator[tuple[str, dict[str, list[str]], list[dict[str, Any]]]]:
    """What vLLM never builds of each kind, and what it refuses for some GPUs, with its answers of today."""
    given = values()
    single = {frozenset({(name, value)}) for name, each in given.items() for value in each}
    alone = answers({kind: [frozenset(), *single] for kind in models()})
    never = frozenset(CAPABILITIES)

    def building(kind: str) -> list[Settings]:
        return sorted((each for each in single if alone.get((kind, each)) != never), key=sorted)

    def with_backend(kind: str) -> Iterator[Settings]:
        for one, other in combinations(building(kind), 2):
            names = {name for name, _ in one | other}
            if BACKEND in names and len(names) > 1:
                yield one | other

    together = answers({kind: [*with_backend(kind)] for kind in models() if kind not in OF_HEADS or kind == PAIRED})
    for kind in models():
        found: list[dict[str, Any]] = []
        for settings in (frozenset[tuple[str, str]](), *sorted(single, key=sorted), *_pairs(together, kind)):
            refused = {**alone, **together}.get((kind, settings), frozenset())
            parts = [frozenset[tuple[str, str]](), *({each} for each in settings if len(settings) > 1)]
            known = {each for part in parts if part != settings for each in alone.get((kind, frozenset(part)), ())}
            left = sorted(refused - known)
            if left and (len(settings) != 1 or refused != never):
                found.append({**dict(sorted(settings)), "refused": [float(f"{one}.{two}") for one, two in left]})
        unbuilt = {
            name: [value for value in given[name] if alone.get((kind, frozenset({(name, value)}))) == never]
            for name in given
        }
        yield kind, {name: values for name, values in unbuilt.items() if values}, found


def _pairs(together: Mapping[tuple[str, Settings], object], kind: str) -> list[Settings]:
    return sorted((settings for of, settings in together if of == kind), key=sorted)


def main() -> None:
    """Write the file."""
    head = {
        "date": DATE,
        "source": SOURCE,
        "release": RELEASE,
        "capabilities": [float(f"{major}.{minor}") for major, minor in CAPABILITIES],
        "asked": values(),
    }
    stated = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
    kinds = ",\n".join(
        f'  {json.dumps(kind)}: {{"never": {json.dumps(unbuilt)}, "refused": [\n'
        + ",\n".join(f"   {json.dumps(row)}" for row in found)
        + "\n  ]}"
        for kind, unbuilt, found in rows()
    )
    FILE.write_text(f'{{\n{stated} "attention": {{\n{kinds}\n }}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
